//! Carries out orders: each on a thread of its own, but for signals, so that none waits for another. It must not know how
//! orders arrive.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use record::events::HostFigures;

use super::processes::Processes;
use super::programs;
use super::room::Room;
use super::voice::Voice;
use crate::linux::procfs;
use crate::probes::memory_bytes;
use crate::registry::MARK;
use crate::remains::Marks;
use crate::runner::controls::Controls;
use crate::runner::groups::Groups;
use crate::runner::load_average::LoadAverage;
use crate::runner::sampler::Sampler;
use crate::runner::storage::Measure;
use crate::runner::{Answer, HOST_MARK, Order, Program, Refusal, Request, Said, Setup, VERSION};
use crate::runner::{machine, wire};
use crate::{Error, ports};

/// A host's runner.
pub struct Runner {
    setup: Setup,
    voice: Arc<Voice>,
    room: Room,
    groups: Arc<Groups>,
    controls: Controls,
    sampler: Mutex<Sampler>,
    /// Kept while the host is there.
    _load_average: Option<LoadAverage>,
    processes: Arc<Processes>,
}

impl Runner {
    /// Makes what the host needs and says that it is ready.
    pub fn begin(setup: &Setup, voice: Arc<Voice>) -> Result<Self, String> {
        let room = Room::make(setup)?;
        let (groups, mut notices) = match Groups::make(setup) {
            Ok((groups, notices)) => (Arc::new(groups), notices),
            Err(reason) => {
                room.end();
                return Err(reason);
            }
        };
        let load_average = LoadAverage::of_host(setup).unwrap_or_else(|error| {
            notices.push(format!("its load average is that of the machine: {error}"));
            None
        });
        let ready = Said::Ready {
            version: VERSION.to_owned(),
            // In a host of its own it counts otherwise than the machine does.
            pid: if setup.isolation.is_some() { 0 } else { std::process::id() },
            folder: room.folder().to_path_buf(),
            notices,
        };
        voice.say(&ready);
        Ok(Self {
            setup: setup.clone(),
            controls: Controls::new(
                &Setup { folder: room.folder().to_path_buf(), ..setup.clone() },
                Arc::clone(&groups),
            ),
            sampler: Mutex::new(Sampler::new(setup, Arc::clone(&groups))),
            _load_average: load_average,
            processes: Arc::new(Processes::new(Arc::clone(&voice))),
            groups,
            room,
            voice,
        })
    }

    /// Has an order carried out; its answer is said when it comes.
    pub fn take(this: &Arc<Self>, request: Request) {
        if let Order::Signal { .. } = request.order {
            return this.carry_out(request);
        }
        let number = request.number;
        let runner = Arc::clone(this);
        let thread = std::thread::Builder::new().name("order".to_owned()).spawn(move || runner.carry_out(request));
        if let Err(error) = thread {
            this.voice.refused(number, Refusal::system("start a thread", &error));
        }
    }

    fn carry_out(&self, Request { number, order }: Request) {
        if let Order::Start(program) = order {
            // Says itself that it started, before the process can say anything.
            return self.start(number, program);
        }
        match self.perform(number, order) {
            Ok(answer) => self.voice.answer(number, answer),
            Err(why) => self.voice.refused(number, why),
        }
    }

    fn start(&self, number: u64, program: Program) {
        let program = self.marked(program);
        if let Err(why) = self.processes.start(number, &program, &self.groups.join_files()) {
            self.voice.refused(number, why);
        }
    }

    fn perform(&self, number: u64, order: Order) -> Result<Answer, Refusal> {
        match order {
            Order::Wire(wiring) => wire::wire(&wiring, &self.setup.envelope).map(|()| Answer::Nothing),
            Order::Signal { process, signal, group } => self.processes.signal(process, signal, group),
            Order::Run { program, input, within_s } => {
                let (program, groups) = (self.marked(program), self.groups.join_files());
                programs::run(&self.processes, number, &program, input, within_s, &groups)
            }
            Order::Ports { count } => {
                let found = ports::free_at(Ipv4Addr::UNSPECIFIED, count);
                found.map(|ports| Answer::Ports { ports }).map_err(refusal)
            }
            Order::CheckPort { port } => {
                ports::check_at(Ipv4Addr::UNSPECIFIED, port).map(|()| Answer::Nothing).map_err(refusal)
            }
            Order::Folder { name } => self.room.make_folder(&name).map(|path| Answer::Folder { path }),
            Order::RemoveFolder { name } => self.room.remove_folder(&name).map(|()| Answer::Nothing),
            Order::Sample => {
                let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Answer::Samples { rows: sampler.sample(&self.processes.members(&self.setup.host)) })
            }
            Order::Impose { key, control } => self.controls.impose(&key, &control).map(|()| Answer::Nothing),
            Order::Lift { key } => self.controls.lift(&key).map(|()| Answer::Nothing),
            Order::MeasureStorage { for_s } => {
                let measure = Measure {
                    folder: self.room.folder(),
                    groups: &self.groups.disk_join_files(),
                    is_throttled: self.setup.envelope.disk.is_throttled(),
                };
                Ok(Answer::Figures { figures: Box::new(measure.take(for_s)) })
            }
            Order::Figures => Ok(Answer::Figures { figures: Box::new(self.figures()) }),
            Order::MeasureMachine => {
                let measured = machine::measure_in(self.room.folder());
                measured.map(|text| Answer::Text { text }).map_err(|reason| Refusal::Cannot { reason })
            }
            // Both are somebody else's: whoever listens, and `start`.
            Order::End | Order::Start(_) => Ok(Answer::Nothing),
        }
    }

    /// With the marks by which its processes are found.
    fn marked(&self, mut program: Program) -> Program {
        program.environment.insert(MARK.to_owned(), self.setup.run.clone());
        program.environment.insert(HOST_MARK.to_owned(), self.setup.host.clone());
        program
    }

    fn figures(&self) -> HostFigures {
        let envelope = &self.setup.envelope;
        let cores = std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok());
        HostFigures {
            cores: envelope.cores.or(cores),
            core_speed: envelope.core_speed,
            quota_period_s: self.groups.quota_period_s(),
            memory_bytes: envelope.memory_bytes.or_else(machines_memory),
            link_bits_per_s: envelope.link.rate_bits_per_s,
            ..HostFigures::default()
        }
    }

    /// Undoes everything. What stands still is let go first: it could not be ended.
    pub fn end(&self) {
        self.processes.close();
        self.controls.lift_all();
        let variables = vec![format!("{MARK}={}", self.setup.run), format!("{HOST_MARK}={}", self.setup.host)];
        // What even this does not end waits for the kernel; the lab looks for it, too.
        let _ = Marks { variables, groups: self.processes.groups() }.end(false);
        // What is left is removed with the groups of the run.
        let _ = self.groups.remove();
        self.room.end();
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::PortTaken { port, .. } => Refusal::PortTaken { port },
        Error::System { doing, error } => Refusal::system(doing, &error),
        other => Refusal::Cannot { reason: other.to_string() },
    }
}

fn machines_memory() -> Option<u64> {
    memory_bytes(&procfs::text(Path::new("/proc/meminfo"))?, "MemTotal:")
}
