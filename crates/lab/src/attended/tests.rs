//! Tests of a host with a runner, whose machine is a thread of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
    let command = ["sh", "-c", &format!("head -c {quotes} /dev/zero | tr '\\000' '\"'")].map(str::to_owned).to_vec();
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
