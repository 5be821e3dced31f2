//! Runner side of the protocol: reads orders line by line, carries out each order on its own
//! thread, and undoes everything at the end of input.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::profile::Disk;
use linux::account::{Account, AccountProblem, let_pass};
use linux::{ProcessGroup, RunTag, pipe_inode, procfs};
use record::events::HostFigures;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, wait};

use super::{
    HOST_MARK, LINE_BYTES, MARK, NumberedOrder, Order, OrderRefusal, OrderReply, ProgramSpec, RunnerMessage, Setup,
    TierMount, VERSION, machine,
};
use crate::control_groups::Groups;
use crate::controls::Controls;
use crate::load_average::{self, Sampler};
use crate::machine::MachineBenchmark;
use crate::messages::PIECE_BYTES;
use crate::orders::{FOLDER_PREFIX, ORDER_BYTES};
use crate::ports::{self, PortError};
use crate::probes::memory_bytes;
use crate::process_tree::Member;
use crate::program_run::{self, ProgramEnd};
use crate::program_signals;
use crate::shim;
use crate::stoppable_thread::StoppableThread;
use crate::wiring::wire;

/// Runs a host's runner on this program's standard input and output, and returns the exit code.
/// Input is not buffered, because another process may continue to read it and must find every byte.
/// `inside` is true for the program that a first runner starts within the host that it made.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "standard output is the connection to the lab")]
pub fn serve_standard_streams(inside: bool) -> u8 {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let output = io::stdout().as_fd().try_clone_to_owned();
    match (input, output) {
        (Ok(input), Ok(output)) => serve(inside, input.into(), output.into()),
        // The process has too many open files.
        _ => 1,
    }
}

/// Runs a host's runner on any input and output.
#[must_use]
pub fn serve(inside: bool, mut input: File, output: File) -> u8 {
    if inside && rustix::process::getpid().is_init() {
        return be_init().unwrap_or(1);
    }
    let writer = MessageWriter::new(Box::new(output));
    // Read byte by byte: another process may read the bytes after this line.
    let setup = match setup(&mut input) {
        Ok(setup) => setup,
        Err(reason) => return failed(&writer, reason),
    };
    if setup.isolation.is_some() && !inside && setup.version == VERSION {
        let kept = input.try_clone().map_err(|error| error.to_string()).and_then(|input| shim::keep(&setup, input));
        match kept {
            Ok(Some(code)) => return u8::try_from(code).unwrap_or(1),
            // The host is made, and this process is its runner.
            Ok(None) => {}
            Err(reason) => return failed(&writer, reason),
        }
    }
    serve_on(&setup, BufReader::new(input), writer)
}

fn failed(writer: &MessageWriter, reason: String) -> u8 {
    writer.say(&RunnerMessage::Failed { reason });
    1
}

fn setup(input: &mut impl Read) -> Result<Setup, String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && line.len() as u64 <= ORDER_BYTES {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot read the setup of the host: {error}")),
        }
    }
    serde_json::from_slice(&line).map_err(|error| match version_of(&line) {
        Some(version) if version != VERSION => other_version(&version),
        _ => format!("invalid setup of the host: {error}"),
    })
}

/// Returns the version in a setup that cannot be parsed, because another version may use another
/// format.
fn version_of(line: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<serde_json::Value>(line).ok()?.get("version")?.as_str()?.to_owned())
}

fn other_version(asked: &str) -> String {
    format!("its runner has version {VERSION}, but version {asked} was requested")
}

/// Serves one session to its end. `input` starts after the setup.
fn serve_on(setup: &Setup, mut input: impl BufRead, writer: Arc<MessageWriter>) -> u8 {
    if setup.version != VERSION {
        return failed(&writer, other_version(&setup.version));
    }
    let runner = match Runner::begin(setup, Arc::clone(&writer)) {
        Ok(runner) => Arc::new(runner),
        Err(reason) => return failed(&writer, reason),
    };
    let ending = listen(&runner, &mut input, &writer);
    runner.end();
    match ending {
        SessionEnd::Asked(number) => writer.done(number),
        SessionEnd::Silent => {}
        SessionEnd::Nonsense => return 1,
    }
    0
}

/// Reason for the end of a session.
enum SessionEnd {
    /// This order asked for the end.
    Asked(u64),
    /// Input ended.
    Silent,
    /// The peer sent a line that this program does not understand.
    Nonsense,
}

fn listen(runner: &Arc<Runner>, input: &mut impl BufRead, writer: &MessageWriter) -> SessionEnd {
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(ORDER_BYTES).read_until(b'\n', &mut line) {
            // A line without its end was cut off together with the session.
            Ok(_) if !line.ends_with(b"\n") => return SessionEnd::Silent,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return SessionEnd::Silent,
        }
        match serde_json::from_slice(&line) {
            Ok(NumberedOrder { number, order: Order::End }) => return SessionEnd::Asked(number),
            Ok(request) => Runner::take(runner, request),
            Err(error) => match number_of(&line) {
                Some(number) => writer.refused(number, OrderRefusal::system("read an order", &error)),
                None => return SessionEnd::Nonsense,
            },
        }
    }
}

/// Returns the sequence number of an order that cannot be parsed, so that the order can be refused.
fn number_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(line).ok()?.get("number")?.as_u64()
}

impl OrderRefusal {
    /// Makes the refusal for a failed system call.
    pub fn system(doing: impl Into<String>, error: &impl ToString) -> Self {
        Self::System { doing: doing.into(), error: error.to_string() }
    }
}

// Execution of orders. Each order, except signals, runs on its own thread, so that no order waits
// for another.

pub struct Runner {
    setup: Setup,
    writer: Arc<MessageWriter>,
    dirs: HostDirs,
    groups: Arc<Groups>,
    controls: Controls,
    sampler: Mutex<Sampler>,
    /// Thread that maintains the host's load average. `None` if the host uses the machine's.
    _load_average: Option<StoppableThread>,
    processes: Arc<Processes>,
}

impl Runner {
    /// Makes the host's folders and control groups, and sends the ready message.
    pub fn begin(setup: &Setup, writer: Arc<MessageWriter>) -> Result<Self, String> {
        let dirs = HostDirs::make(setup)?;
        setup.isolation.iter().flat_map(|isolation| &isolation.tiers).try_for_each(make_tier_folders)?;
        let (groups, mut notices) = match Groups::make(setup) {
            Ok((groups, notices)) => (Arc::new(groups), notices),
            Err(reason) => {
                dirs.end();
                return Err(reason);
            }
        };
        let load_average = load_average::keep_for(setup).unwrap_or_else(|error| {
            notices.push(format!("the host shows the machine's load average: {error}"));
            None
        });
        let ready = RunnerMessage::Ready {
            version: VERSION.to_owned(),
            // A virtual host numbers processes differently from the machine.
            pid: if setup.isolation.is_some() { 0 } else { std::process::id() },
            folder: dirs.folder().to_path_buf(),
            notices,
        };
        writer.say(&ready);
        Ok(Self {
            setup: setup.clone(),
            controls: Controls::new(
                &Setup { folder: dirs.folder().to_path_buf(), ..setup.clone() },
                Arc::clone(&groups),
            ),
            sampler: Mutex::new(Sampler::new(setup, Arc::clone(&groups))),
            _load_average: load_average,
            processes: Arc::new(Processes::new(Arc::clone(&writer))),
            groups,
            dirs,
            writer,
        })
    }

    /// Carries out an order. The reply is sent on completion.
    pub fn take(this: &Arc<Self>, request: NumberedOrder) {
        if let Order::Signal { .. } = request.order {
            return this.carry_out(request);
        }
        let number = request.number;
        let runner = Arc::clone(this);
        let thread = std::thread::Builder::new().name("order".to_owned()).spawn(move || runner.carry_out(request));
        if let Err(error) = thread {
            this.writer.refused(number, OrderRefusal::system("start a thread", &error));
        }
    }

    fn carry_out(&self, NumberedOrder { number, order }: NumberedOrder) {
        if let Order::Start(program) = order {
            // `start` replies itself, so that the reply precedes any output of the process.
            return self.start(number, program);
        }
        match self.perform(number, order) {
            Ok(answer) => self.writer.answer(number, answer),
            Err(why) => self.writer.refused(number, why),
        }
    }

    fn start(&self, number: u64, program: ProgramSpec) {
        let program = self.marked(program);
        if let Err(why) = self.processes.start(number, &program, &self.groups.join_files()) {
            self.writer.refused(number, why);
        }
    }

    fn perform(&self, number: u64, order: Order) -> Result<OrderReply, OrderRefusal> {
        match order {
            Order::Wire(wiring) => wire(&wiring, &self.setup.envelope).map(|()| OrderReply::Nothing),
            Order::Signal { process, signal, group } => self.processes.signal(process, signal, group),
            Order::SignalProgram { process, program, signal } => {
                self.processes.signal_program(process, &program, signal)
            }
            Order::Run { program, input, within_s } => {
                let (program, groups) = (self.marked(program), self.groups.join_files());
                self.processes.run(number, &program, input, within_s, &groups)
            }
            Order::Ports { count } => {
                let found = ports::free_at(Ipv4Addr::UNSPECIFIED, count);
                found.map(|ports| OrderReply::Ports { ports }).map_err(refusal)
            }
            Order::CheckPort { port } => {
                ports::check_at(Ipv4Addr::UNSPECIFIED, port).map(|()| OrderReply::Nothing).map_err(refusal)
            }
            Order::Own { path, user } => own(&path, &user).map(|()| OrderReply::Nothing),
            Order::Folder { name } => self.dirs.make_folder(&name).map(|path| OrderReply::Folder { path }),
            Order::RemoveFolder { name } => self.dirs.remove_folder(&name).map(|()| OrderReply::Nothing),
            Order::Sample => {
                let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
                let (rows, programs) = sampler.sample(&self.processes.members(&self.setup.host));
                Ok(OrderReply::Samples { rows, programs })
            }
            Order::Inject { key, control } => self.controls.inject(&key, &control).map(|()| OrderReply::Nothing),
            Order::Heal { key } => self.controls.heal(&key).map(|()| OrderReply::Nothing),
            Order::MeasureStorage { for_s, tier } => {
                let groups = self.groups.disk_join_files();
                let envelope = &self.setup.envelope;
                let measure = match self.tier(tier.as_deref())? {
                    None => MachineBenchmark {
                        folder: self.dirs.folder(),
                        groups: &groups,
                        is_throttled: envelope.disk.is_throttled(),
                        is_memory: false,
                    },
                    Some(tier) => MachineBenchmark {
                        folder: &tier.at,
                        groups: &groups,
                        is_throttled: envelope.tiers.get(&tier.name).is_some_and(Disk::is_throttled),
                        is_memory: tier.memory_bytes.is_some(),
                    },
                };
                Ok(OrderReply::Figures { figures: Box::new(measure.take(for_s)) })
            }
            Order::Figures => Ok(OrderReply::Figures { figures: Box::new(self.figures()) }),
            Order::MeasureMachine => {
                let measured = machine::measure_in(self.dirs.folder());
                measured.map(|text| OrderReply::Text { text }).map_err(|reason| OrderRefusal::Cannot { reason })
            }
            // The session loop handles `End`, and `start` handles `Start`.
            Order::End | Order::Start(_) => Ok(OrderReply::Nothing),
        }
    }

    /// Returns the storage tier with this name.
    fn tier(&self, name: Option<&str>) -> Result<Option<&TierMount>, OrderRefusal> {
        let Some(name) = name else { return Ok(None) };
        let mut tiers = self.setup.isolation.iter().flat_map(|isolation| &isolation.tiers);
        let unknown = || OrderRefusal::Cannot { reason: format!("this host has no tier `{name}`") };
        tiers.find(|tier| tier.name == name).map(Some).ok_or_else(unknown)
    }

    /// Adds the environment variables by which a run's processes are found.
    fn marked(&self, mut program: ProgramSpec) -> ProgramSpec {
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

    /// Undoes everything. Resumes frozen processes first, because a frozen process does not end.
    pub fn end(&self) {
        self.processes.close();
        self.controls.heal_all();
        let variables = vec![format!("{MARK}={}", self.setup.run), format!("{HOST_MARK}={}", self.setup.host)];
        // A process that survives SIGKILL waits for the kernel. The lab looks for such processes
        // too.
        let _ = RunTag { variables, groups: self.processes.groups() }.end(false);
        // Groups that remain are removed with the groups of the run.
        let _ = self.groups.remove();
        self.dirs.end();
    }
}

fn refusal(error: PortError) -> OrderRefusal {
    match error {
        PortError::Taken { port, .. } => OrderRefusal::PortTaken { port },
        PortError::System { doing, error } => OrderRefusal::system(doing, &error),
    }
}

fn machines_memory() -> Option<u64> {
    memory_bytes(&procfs::text(Path::new("/proc/meminfo"))?, "MemTotal:")
}

// Processes of a host. They start in the host's groups, and their output and ends are reported in
// the order in which they occur.

/// Maximum bytes of a process's output per message.
const CHUNK_BYTES: usize = 16 << 10;
/// Longest time limit of a program. It keeps the deadline within the range of the clock.
const YEAR_S: f64 = 31_536_000.0;
/// Poll interval for the end of a process, if the kernel provides no pidfd.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Processes that orders have started.
pub struct Processes {
    writer: Arc<MessageWriter>,
    table: Mutex<ProcessTable>,
}

#[derive(Default)]
struct ProcessTable {
    /// Whether no more processes may start.
    closed: bool,
    by_number: BTreeMap<u64, Arc<ProcessEntry>>,
}

pub struct ProcessEntry {
    role: String,
    /// Programs in the process tree that have their own samples.
    programs: Vec<String>,
    pub pid: u32,
    group: ProcessGroup,
    /// Marks in the process's environment. Empty if the caller set none.
    marks: Vec<String>,
    /// `None` after the process has been waited for, because its id may then belong to another
    /// process.
    child: Mutex<Option<Child>>,
}

impl Processes {
    pub fn new(writer: Arc<MessageWriter>) -> Self {
        Self { writer, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, ProcessTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process under its order's sequence number and reports the start. Later messages
    /// report its output and its end.
    pub fn start(&self, number: u64, program: &ProgramSpec, groups: &[PathBuf]) -> Result<(), OrderRefusal> {
        let (pipe, output) = io::pipe().map_err(|error| OrderRefusal::system("make a pipe", &error))?;
        let pipes = pipe_inode(&pipe).into_iter().collect();
        let copy = output.try_clone().map_err(|error| OrderRefusal::system("copy a pipe", &error))?;
        let user = program.user.as_deref().map(account).transpose()?.flatten();
        let mut command = command(program)?;
        command.stdin(Stdio::null()).stdout(copy).stderr(output);
        let child = linux::spawn_as(command, groups, user.as_ref()).map_err(|error| not_started(program, &error))?;
        let entry = self.enter(number, program, &program.role, child, pipes)?;
        self.writer.say(&RunnerMessage::Done { number, answer: OrderReply::Started(entry.group.clone()) });
        let (writer, followed) = (Arc::clone(&self.writer), Arc::clone(&entry));
        let thread = std::thread::Builder::new().name("follower".to_owned());
        let follower = thread.spawn(move || ProcessFollower { number, entry: &followed, pipe, writer: &writer }.run());
        if follower.is_err() {
            // The start has been reported, so the end must follow.
            entry.kill();
            self.writer.say(&RunnerMessage::Ended { process: number, how: entry.wait() });
        }
        Ok(())
    }

    /// Runs a program to its end.
    fn run(
        &self,
        number: u64,
        program: &ProgramSpec,
        input: String,
        within_s: f64,
        groups: &[PathBuf],
    ) -> Result<OrderReply, OrderRefusal> {
        let within = Duration::from_secs_f64(within_s.clamp(0.0, YEAR_S));
        // No role: the program is not part of the target.
        let ran = program_run::run(program, input, within, groups, |child, pipes| {
            self.enter(number, program, "", child, pipes)
        });
        self.forget(number);
        ran.map(|ProgramEnd { how, output, errors }| OrderReply::Ran { how, output, errors })
    }

    /// Registers a process that writes to these pipes, so that it is ended with the others.
    pub fn enter(
        &self,
        number: u64,
        program: &ProgramSpec,
        role: &str,
        child: Child,
        pipes: Vec<u64>,
    ) -> Result<Arc<ProcessEntry>, OrderRefusal> {
        let entry = Arc::new(ProcessEntry::of(program, role, child, pipes));
        let mut table = self.table();
        if table.closed {
            drop(table);
            entry.kill();
            entry.wait();
            return Err(OrderRefusal::Cannot { reason: "the host is being shut down".to_owned() });
        }
        table.by_number.insert(number, Arc::clone(&entry));
        Ok(entry)
    }

    pub fn signal(&self, process: u64, signal: i32, group: bool) -> Result<OrderReply, OrderRefusal> {
        let (entry, signal) = self.to_signal(process, signal)?;
        entry.signal(signal, group);
        Ok(OrderReply::Nothing)
    }

    /// Signals every process of a program in a process's tree.
    pub fn signal_program(&self, process: u64, program: &str, signal: i32) -> Result<OrderReply, OrderRefusal> {
        let (entry, signal) = self.to_signal(process, signal)?;
        let signalled = program_signals::signal_program(entry.pid, program, signal);
        signalled.map(|pids| OrderReply::Processes { pids }).map_err(|reason| OrderRefusal::Cannot { reason })
    }

    fn to_signal(&self, process: u64, signal: i32) -> Result<(Arc<ProcessEntry>, Signal), OrderRefusal> {
        let known = self.table().by_number.get(&process).cloned();
        let entry =
            known.ok_or_else(|| OrderRefusal::system(format!("signal process {process}"), &"it does not exist"))?;
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| OrderRefusal::system(format!("send signal {signal}"), &"no such signal"))?;
        Ok((entry, signal))
    }

    /// Returns the running processes that have a role.
    pub fn members(&self, host: &str) -> Vec<Member> {
        let entries: Vec<Arc<ProcessEntry>> = self.table().by_number.values().cloned().collect();
        let running = entries.iter().filter(|entry| !entry.role.is_empty() && entry.child().is_some());
        let member = |entry: &Arc<ProcessEntry>| Member {
            host: host.to_owned(),
            role: entry.role.clone(),
            pid: entry.pid,
            programs: entry.programs.clone(),
        };
        running.map(member).collect()
    }

    /// Refuses further starts.
    pub fn close(&self) {
        self.table().closed = true;
    }

    /// Returns the process group of each process.
    pub fn groups(&self) -> Vec<ProcessGroup> {
        self.table().by_number.values().map(|entry| entry.group.clone()).collect()
    }

    /// Forgets a process whose whole group has ended.
    pub fn forget(&self, number: u64) {
        self.table().by_number.remove(&number);
    }
}

impl ProcessEntry {
    /// Makes the entry of a child that writes to these pipes.
    pub fn of(program: &ProgramSpec, role: &str, child: Child, pipes: Vec<u64>) -> Self {
        let pid = child.id();
        let group = ProcessGroup::of(pid, pipes);
        let marks = program.environment.get(MARK).map(|run| format!("{MARK}={run}")).into_iter().collect();
        let (role, programs, child) = (role.to_owned(), program.programs.clone(), Mutex::new(Some(child)));
        Self { role, programs, pid, group, marks, child }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal, group: bool) {
        let child = self.child();
        if child.is_some() {
            let Some(pid) = linux::pid(self.pid) else { return };
            // The id cannot be reused before the process has been waited for.
            let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        } else if group {
            // The id may belong to another process by now.
            for stat in self.group.members(&self.marks) {
                linux::signal(&stat, signal);
            }
        }
    }

    /// Kills the process and its group.
    pub fn kill(&self) {
        self.signal(Signal::KILL, true);
    }

    /// Returns how the process ended, or `None` while it runs.
    pub fn ended(&self) -> Option<i32> {
        let mut child = self.child();
        let status = child.as_mut()?.try_wait().ok().flatten()?;
        *child = None;
        Some(how(status))
    }

    /// Waits for the end of a killed process.
    pub fn wait(&self) -> i32 {
        let status = self.child().take().and_then(|mut child| child.wait().ok());
        status.map_or(-Signal::KILL.as_raw(), how)
    }

    /// Returns a pidfd of the process, or `None` if the kernel provides none.
    pub fn handle(&self) -> Option<OwnedFd> {
        pidfd_open(linux::pid(self.pid)?, PidfdFlags::empty()).ok()
    }
}

/// Returns the command: program, arguments, environment and folder.
pub fn command(program: &ProgramSpec) -> Result<Command, OrderRefusal> {
    let [name, arguments @ ..] = program.command.as_slice() else {
        return Err(OrderRefusal::system(format!("start `{}`", program.role), &"no program is given"));
    };
    let mut command = Command::new(name);
    command.args(arguments).envs(&program.environment);
    if let Some(folder) = &program.folder {
        if !folder.is_dir() {
            return Err(OrderRefusal::system(
                format!("start `{name}` in {}", folder.display()),
                &"the folder does not exist",
            ));
        }
        command.current_dir(folder);
    }
    Ok(command)
}

/// Returns the account to switch to, or `None` if it is the current one.
fn account(name: &str) -> Result<Option<Account>, OrderRefusal> {
    Account::to_become(name).map_err(|problem| match problem {
        AccountProblem::Unknown => OrderRefusal::NoUser { user: name.to_owned() },
        AccountProblem::NotRoot => OrderRefusal::Cannot {
            reason: format!(
                "only root may run a program as the user `{name}`: connect as root, as in ssh = [\"root@10.0.0.11\"]"
            ),
        },
    })
}

/// Gives a folder to a user and makes the folder reachable for that user.
fn own(path: &Path, user: &str) -> Result<(), OrderRefusal> {
    let Some(account) = account(user)? else { return Ok(()) };
    let given = account.own(path).and_then(|()| let_pass(path, FOLDER_PREFIX));
    given.map_err(|error| OrderRefusal::system(format!("give {} to the user `{user}`", path.display()), &error))
}

/// Makes the missing folders of a tier: all folders for a new host, and those in memory after a
/// reboot.
fn make_tier_folders(tier: &TierMount) -> Result<(), String> {
    for folder in &tier.folders {
        let path = tier.at.join(&folder.name);
        if path.is_dir() {
            continue;
        }
        fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        if let Some(user) = &folder.user {
            own(&path, user).map_err(|why| why.in_words())?;
        }
    }
    Ok(())
}

/// Returns the refusal for a program that could not be started.
pub fn not_started(program: &ProgramSpec, error: &io::Error) -> OrderRefusal {
    let name = program.command.first().cloned().unwrap_or_default();
    if error.kind() == ErrorKind::NotFound {
        return OrderRefusal::NoProgram { program: name };
    }
    OrderRefusal::system(format!("start `{name}` for `{}`", program.role), error)
}

/// Returns the exit code, or the negated signal number.
pub fn how(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

/// Waits until the process has ended (first result) or its output can be read (second result).
fn await_either(handle: Option<&OwnedFd>, pipe: Option<BorrowedFd<'_>>) -> (bool, bool) {
    let mut waited: Vec<PollFd<'_>> = Vec::with_capacity(2);
    waited.extend(handle.map(|handle| PollFd::new(handle, PollFlags::IN)));
    waited.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
    let within = handle.is_none().then_some(&GLANCE);
    if poll(&mut waited, within).is_err() {
        return (false, false);
    }
    let mut ready = waited.iter().map(|one| !one.revents().is_empty());
    let ended = handle.is_none() || ready.next() == Some(true);
    (ended, pipe.is_some() && ready.next() == Some(true))
}

/// Reports the output of a process, and its end.
struct ProcessFollower<'a> {
    number: u64,
    entry: &'a ProcessEntry,
    pipe: PipeReader,
    writer: &'a MessageWriter,
}

impl ProcessFollower<'_> {
    fn run(mut self) {
        let handle = self.entry.handle();
        let (mut is_open, mut runs) = (true, true);
        while is_open || runs {
            let waited = if runs {
                await_either(handle.as_ref(), is_open.then(|| self.pipe.as_fd()))
            } else {
                // Children of the process may still write.
                (false, true)
            };
            if runs && waited.0 && self.end(&mut is_open) {
                runs = false;
            } else if waited.1 {
                is_open = self.pass_on(CHUNK_BYTES);
            }
        }
    }

    /// Checks whether the process has ended. If so, reports the output so far, then the end. Does
    /// not wait for output of other processes.
    fn end(&mut self, is_open: &mut bool) -> bool {
        let Some(how) = self.entry.ended() else { return false };
        let mut left = usize::try_from(ioctl_fionread(&self.pipe).unwrap_or(0)).unwrap_or(usize::MAX);
        while left > 0 && *is_open {
            let piece = left.min(CHUNK_BYTES);
            *is_open = self.pass_on(piece);
            left -= piece;
        }
        self.writer.say(&RunnerMessage::Ended { process: self.number, how });
        true
    }

    /// Passes on available output, up to `count` bytes. Returns false at the end of all output.
    fn pass_on(&mut self, count: usize) -> bool {
        let mut buffer = [0; CHUNK_BYTES];
        match self.pipe.read(&mut buffer[..count]) {
            Ok(0) => false,
            Ok(count) => {
                self.say(&buffer[..count]);
                true
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }

    fn say(&self, bytes: &[u8]) {
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let rest = bytes[text.len()..].to_vec();
        self.writer.say(&RunnerMessage::Wrote { process: self.number, text: text.to_owned(), bytes: rest });
    }
}

// Private folders of the host.

pub struct HostDirs {
    folder: PathBuf,
    /// Whether the folder is removed with the host.
    is_temporary: bool,
}

impl HostDirs {
    /// Uses the folder that the setup names, or makes a temporary one. An existing folder holds the
    /// data of the same host from before its restart.
    pub fn make(setup: &Setup) -> Result<Self, String> {
        if setup.is_here {
            return Ok(Self { folder: setup.folder.clone(), is_temporary: false });
        }
        if !setup.folder.as_os_str().is_empty() {
            let folder = setup.folder.clone();
            fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            return Ok(Self { folder, is_temporary: false });
        }
        // The name contains the host, because two hosts of a run may share a machine.
        let folder = std::env::temp_dir().join(format!("plimsoll-run-{}.{}", setup.run, setup.host));
        let made = DirBuilder::new().mode(0o700).create(&folder).or_else(|error| {
            let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
            let there = error.kind() == ErrorKind::AlreadyExists;
            // Any user may write to the parent folder, so another user may have made this folder.
            if there && folder.symlink_metadata().is_ok_and(is_ours) { Ok(()) } else { Err(error) }
        });
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder, is_temporary: true })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes an empty folder with this name.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, OrderRefusal> {
        let path = self.named(name)?;
        let made = remove(&path).and_then(|()| fs::create_dir_all(&path));
        made.map_err(|error| OrderRefusal::system(format!("make {}", path.display()), &error))?;
        Ok(path)
    }

    pub fn remove_folder(&self, name: &str) -> Result<(), OrderRefusal> {
        let path = self.named(name)?;
        remove(&path).map_err(|error| OrderRefusal::system(format!("remove {}", path.display()), &error))
    }

    fn named(&self, name: &str) -> Result<PathBuf, OrderRefusal> {
        let mut parts = Path::new(name).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(_)), None) => Ok(self.folder.join(name)),
            _ => Err(OrderRefusal::system(format!("use the folder `{name}`"), &"this is not the name of a folder")),
        }
    }

    /// Removes the temporary folder.
    pub fn end(&self) {
        if self.is_temporary {
            let _ = remove(&self.folder);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

// Output of the runner. Threads take turns, so that each line stays whole.

/// Writer of messages to standard output.
pub struct MessageWriter {
    /// `None` after a write has failed.
    output: Mutex<Option<Box<dyn Write + Send>>>,
}

impl MessageWriter {
    pub fn new(output: Box<dyn Write + Send>) -> Arc<Self> {
        Arc::new(Self { output: Mutex::new(Some(output)) })
    }

    /// Writes a message as one line. A write error is ignored: the end of input ends the session.
    pub fn say(&self, said: &RunnerMessage) {
        let Ok(mut line) = serde_json::to_vec(said) else { return };
        line.push(b'\n');
        if line.len() > LINE_BYTES {
            // The receiver would treat a longer line as an error.
            if let RunnerMessage::Done { number, .. } | RunnerMessage::Refused { number, .. } = said {
                self.refused(*number, OrderRefusal::system("answer", &"the answer is too long"));
            }
            return;
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = output.as_mut().map(|output| output.write_all(&line).and_then(|()| output.flush()));
        if matches!(heard, Some(Err(_))) {
            *output = None;
        }
    }

    pub fn done(&self, number: u64) {
        self.say(&RunnerMessage::Done { number, answer: OrderReply::Nothing });
    }

    /// Sends the result of an order. Splits the output of a program, so that each message fits into
    /// a line.
    pub fn answer(&self, number: u64, answer: OrderReply) {
        let OrderReply::Ran { how, output, errors } = answer else {
            return self.say(&RunnerMessage::Done { number, answer });
        };
        let rest = |text: String, to_errors| {
            let mut text = text.as_str();
            while text.len() > PIECE_BYTES / 2 {
                let end = (0..=PIECE_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                let (piece, more) = text.split_at(end);
                self.say(&RunnerMessage::Printed { number, to_errors, text: piece.to_owned() });
                text = more;
            }
            text.to_owned()
        };
        let (output, errors) = (rest(output, false), rest(errors, true));
        self.say(&RunnerMessage::Done { number, answer: OrderReply::Ran { how, output, errors } });
    }

    pub fn refused(&self, number: u64, why: OrderRefusal) {
        self.say(&RunnerMessage::Refused { number, why });
    }
}

// First process of a virtual host. Like an init, it starts the runner and waits for orphaned
// processes. It is separate from the runner, because a process that waits for all children would
// take exits that other threads wait for.

/// Runs until the runner has ended, and returns its exit code. The kernel ends all other processes
/// of the host together with this one.
fn be_init() -> io::Result<u8> {
    let mut command = Command::new(ourselves());
    command.arg0("plimsoll").args(["runner", "--inside"]);
    let runner = command.spawn()?.id();
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == runner => {
                return Ok(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns this program's path if it is visible inside the host, so that process lists show it.
fn ourselves() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| Path::new("/proc/self/exe").to_path_buf())
}

#[cfg(test)]
mod tests;
