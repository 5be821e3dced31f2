//! A host with a runner: whatever the lab wants of it is asked of the runner, and what has to be done from outside is done by
//! whoever made the host. It must not know which kind that is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use record::events::HostFigures;

use crate::Error;
use crate::hosts::{Host, Output, Process, Start};
use crate::runner::session::Session;
use crate::runner::{Control, Order, Program};

/// For a host to undo everything at its end.
const END_PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// What holds a runner: a virtual host, or a real machine behind ssh.
pub(crate) trait Machine: Send {
    /// Name of the host's kind.
    fn kind(&self) -> &'static str;

    /// The address that its members listen on.
    fn address(&self) -> &str;

    /// Every address of it.
    fn addresses(&self) -> Vec<String> {
        vec![self.address().to_owned()]
    }

    /// Where this program is on it.
    fn plimsoll(&self) -> PathBuf;

    /// Makes the target's folder available; where it is on it.
    fn bring(&self, session: &Session, target: &Path) -> Result<PathBuf, Error>;

    /// Starts it, and its runner.
    fn boot(&mut self) -> Result<Arc<Session>, Error>;

    /// Ends it at once, as if its power failed.
    fn crash(&mut self) -> Result<(), Error>;

    /// What is known of it from outside.
    fn figures(&self) -> HostFigures;

    /// Removes what is left of it, after the session was closed.
    fn close(&mut self);
}

/// A host with a runner.
pub(crate) struct Attended {
    name: String,
    session: Arc<Session>,
    machine: Box<dyn Machine>,
    figures: HostFigures,
}

impl Attended {
    /// Starts the machine. If it cannot be started, nothing is left of it.
    pub fn raise(name: &str, mut machine: Box<dyn Machine>) -> Result<Self, Error> {
        let session = machine.boot().inspect_err(|_| machine.close())?;
        // What the runner cannot say is not known; a runner that is gone is noticed soon enough.
        let inside = session.figures().unwrap_or_default();
        let figures = both(machine.figures(), inside);
        Ok(Self { name: name.to_owned(), session, machine, figures })
    }

    /// Measures it for a profile.
    pub fn measure(&self) -> Result<String, Error> {
        self.session.measure_machine()
    }
}

/// What is known from outside, and for the rest what is known inside.
fn both(outside: HostFigures, inside: HostFigures) -> HostFigures {
    HostFigures {
        address: outside.address.or(inside.address),
        cores: outside.cores.or(inside.cores),
        core_speed: outside.core_speed.or(inside.core_speed),
        quota_period_s: outside.quota_period_s.or(inside.quota_period_s),
        cpus: outside.cpus.or(inside.cpus),
        memory_bytes: outside.memory_bytes.or(inside.memory_bytes),
        link_bits_per_s: outside.link_bits_per_s.or(inside.link_bits_per_s),
        storage_read_per_s: outside.storage_read_per_s.or(inside.storage_read_per_s),
        storage_write_per_s: outside.storage_write_per_s.or(inside.storage_write_per_s),
        storage_sync_us: outside.storage_sync_us.or(inside.storage_sync_us),
        storage_unmeasured: outside.storage_unmeasured.or(inside.storage_unmeasured),
    }
}

impl Host for Attended {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.machine.kind()
    }

    fn figures(&self) -> HostFigures {
        self.figures.clone()
    }

    fn address(&self) -> &str {
        self.machine.address()
    }

    fn addresses(&self) -> Vec<String> {
        self.machine.addresses()
    }

    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        self.session.ports(count)
    }

    fn check_port(&self, port: u16) -> Result<(), Error> {
        self.session.ask(Order::CheckPort { port }, PATIENCE).map(drop)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.session.make_folder(name)
    }

    fn remove_folder(&self, name: &str) {
        // What cannot be removed now goes with the host.
        let _ = self.session.remove_folder(name);
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Process>, Error> {
        self.session.start(start)
    }

    fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        self.machine.bring(&self.session, target)
    }

    fn plimsoll(&self) -> PathBuf {
        self.machine.plimsoll()
    }

    fn run(&self, program: &Program, input: &str, within: Duration) -> Result<Output, Error> {
        self.session.run(program, input, within)
    }

    fn measure_storage(&self, within: Duration) -> Result<HostFigures, Error> {
        self.session.measure_storage(within)
    }

    fn impose(&self, key: &str, control: &Control) -> Result<(), Error> {
        self.session.impose(key, control)
    }

    fn lift(&self, key: &str) -> Result<(), Error> {
        self.session.lift(key)
    }

    fn crash(&mut self) -> Result<(), Error> {
        self.session.expect_end("its power was cut");
        self.machine.crash()?;
        // At once, and not only when the pipe has been read to its end.
        self.session.give_up("its power was cut");
        Ok(())
    }

    fn boot(&mut self) -> Result<(), Error> {
        self.session.give_up("it was started again");
        self.session = self.machine.boot()?;
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.session.is_open()
    }

    fn session(&self) -> Option<Arc<Session>> {
        Some(Arc::clone(&self.session))
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if self.session.is_open() {
            self.session.close(END_PATIENCE);
        }
        self.machine.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread::JoinHandle;

    use super::*;
    use crate::fixture::{Scratch, is_alive, until};
    use crate::hosts::Ended;
    use crate::runner::{Setup, VERSION, beside};

    const LONG: Duration = Duration::from_secs(30);

    /// What happened to the machine, in order.
    type Story = Arc<Mutex<Vec<&'static str>>>;

    struct Thread {
        setup: Setup,
        serving: Option<JoinHandle<u8>>,
        story: Story,
        /// A crash takes its runner's input away.
        power: Option<std::io::PipeWriter>,
    }

    impl Machine for Thread {
        fn kind(&self) -> &'static str {
            "thread"
        }

        fn address(&self) -> &str {
            "127.0.0.1"
        }

        fn plimsoll(&self) -> PathBuf {
            PathBuf::from("plimsoll")
        }

        fn bring(&self, session: &Session, target: &Path) -> Result<PathBuf, Error> {
            let there = session.make_folder("target")?;
            std::fs::write(there.join("here"), target.as_os_str().as_encoded_bytes()).unwrap();
            Ok(there)
        }

        fn boot(&mut self) -> Result<Arc<Session>, Error> {
            self.story.lock().unwrap().push("boot");
            // Other than one whose power fails, this runner ends in good order, and would take what the next one starts with it.
            if let Some(serving) = self.serving.take() {
                assert_eq!(serving.join().unwrap(), 0);
            }
            let (input, to) = std::io::pipe().unwrap();
            let (from, output) = std::io::pipe().unwrap();
            self.power = Some(to.try_clone().unwrap());
            self.serving = Some(beside(input, output));
            Session::open(Box::new(to), Box::new(from), &self.setup, LONG, &Default::default())
        }

        fn crash(&mut self) -> Result<(), Error> {
            self.story.lock().unwrap().push("crash");
            self.power = None;
            Ok(())
        }

        fn figures(&self) -> HostFigures {
            HostFigures { address: Some("127.0.0.1".to_owned()), cores: Some(77), ..HostFigures::default() }
        }

        fn close(&mut self) {
            self.story.lock().unwrap().push("close");
            self.power = None;
            assert_eq!(self.serving.take().unwrap().join().unwrap(), 0);
        }
    }

    fn raise() -> (Result<Attended, Error>, Scratch, Story) {
        let (folder, story) = (Scratch::new(), Story::default());
        let setup = Setup {
            version: VERSION.to_owned(),
            host: "n1".to_owned(),
            run: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            folder: folder.join("host"),
            ..Setup::default()
        };
        let machine = Thread { setup, serving: None, story: Arc::clone(&story), power: None };
        (Attended::raise("n1", Box::new(machine)), folder, story)
    }

    fn sleeper(folder: &Scratch) -> Start {
        Start {
            role: "server".to_owned(),
            program: "sleep".into(),
            arguments: vec!["60".into()],
            environment: Vec::new(),
            folder: None,
            log: folder.join("log"),
            ears: Default::default(),
        }
    }

    #[test]
    fn what_is_wanted_of_it_is_done_inside() {
        let (host, folder, story) = raise();
        let host = host.unwrap();
        assert_eq!((host.name(), host.kind(), host.is_up()), ("n1", "thread", true));
        let figures = host.figures();
        assert_eq!(figures.cores, Some(77), "what is known from outside counts");
        assert!(figures.memory_bytes.is_some(), "what is known inside is added");
        assert_eq!(host.folder("data").unwrap(), folder.join("host/data"));
        assert_eq!(std::fs::read_to_string(host.bring(Path::new("/x")).unwrap().join("here")).unwrap(), "/x");
        // Another test may be quicker with one of them.
        until("a port is free", || host.check_port(host.free_ports(1).unwrap()[0]).is_ok());
        let command = ["sh", "-c", "cat"].map(str::to_owned).to_vec();
        let output = host.run(&Program { command, ..Program::default() }, "hello", LONG).unwrap();
        assert_eq!((output.ended, output.output.as_str()), (Ended::Exit(0), "hello"));
        let process = host.start(&sleeper(&folder)).unwrap();
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(host);
        assert!(!is_alive(pid));
        assert_eq!(*story.lock().unwrap(), ["boot", "close"]);
    }

    #[test]
    fn as_much_comes_out_as_is_asked_for() {
        let (host, _folder, _story) = raise();
        let host = host.unwrap();
        // Each quote is two characters on its way here: with the audit's bound, a line of more than 64 MiB.
        let quotes = 40_000_000;
        let command =
            ["sh", "-c", &format!("head -c {quotes} /dev/zero | tr '\\000' '\"'")].map(str::to_owned).to_vec();
        let run = |keeps_bytes| {
            host.run(&Program { command: command.clone(), keeps_bytes, ..Program::default() }, "", LONG).unwrap()
        };
        let whole = run(Some(crate::hooks::AUDIT_BYTES)).output;
        assert!(whole.len() == quotes && whole.bytes().all(|byte| byte == b'"'), "{}", whole.len());
        assert!(run(None).output.ends_with(&format!("\n[{} bytes left out]\n", quotes - (8 << 20))));
    }

    #[test]
    fn it_crashes_and_comes_back_with_its_data() {
        let (host, folder, story) = raise();
        let mut host = host.unwrap();
        let data = host.folder("data").unwrap();
        std::fs::write(data.join("x"), "kept").unwrap();
        let mut process = host.start(&sleeper(&folder)).unwrap();
        host.crash().unwrap();
        assert!(!host.is_up());
        assert_eq!(process.ended(), Some(Ended::Signal(9)));
        assert!(host.start(&sleeper(&folder)).is_err());
        host.boot().unwrap();
        assert!(host.is_up());
        assert_eq!(std::fs::read_to_string(data.join("x")).unwrap(), "kept");
        let mut again = host.start(&sleeper(&folder)).unwrap();
        assert_eq!(again.ended(), None);
        drop((process, again));
        drop(host);
        assert_eq!(*story.lock().unwrap(), ["boot", "crash", "boot", "close"]);
    }

    #[test]
    fn of_one_that_cannot_be_started_nothing_is_left() {
        let story = Story::default();
        struct Dead(Story);
        impl Machine for Dead {
            fn kind(&self) -> &'static str {
                "dead"
            }
            fn address(&self) -> &str {
                ""
            }
            fn plimsoll(&self) -> PathBuf {
                PathBuf::new()
            }
            fn bring(&self, _: &Session, _: &Path) -> Result<PathBuf, Error> {
                Err(Error::NotAHost)
            }
            fn boot(&mut self) -> Result<Arc<Session>, Error> {
                Err(Error::Host { host: "n1".to_owned(), reason: "no power".to_owned() })
            }
            fn crash(&mut self) -> Result<(), Error> {
                Ok(())
            }
            fn figures(&self) -> HostFigures {
                HostFigures::default()
            }
            fn close(&mut self) {
                self.0.lock().unwrap().push("close");
            }
        }
        let error = Attended::raise("n1", Box::new(Dead(Arc::clone(&story)))).err().unwrap();
        assert_eq!(error.to_string(), "host n1: no power");
        assert_eq!(*story.lock().unwrap(), ["close"]);
    }
}
