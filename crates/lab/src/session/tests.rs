//! Tests of the lab's side of a session, with a runner on a thread of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use experiment::manifest::LogTexts;
use fixture::{TestDir, is_alive};
use runner::Injection;

use super::*;
use crate::fakes::setup_in;
use crate::host_process::ProcessExit;
use crate::process_log::LogWatcher;

const LONG: Duration = Duration::from_secs(30);

/// A session with its own runner.
struct Host {
    session: Arc<RunnerSession>,
    folder: TestDir,
    serving: Option<JoinHandle<u8>>,
}

fn host() -> Host {
    let folder = TestDir::new();
    let (session, serving) = RunnerSession::on_thread(&setup_in(&folder), &Default::default()).unwrap();
    Host { session, folder, serving: Some(serving) }
}

impl Host {
    fn start(&self, role: &str, script: &str) -> HostProcess {
        let start = Start {
            role: role.to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("MINE".into(), "yes".into())],
            folder: Some(self.folder.to_path_buf()),
            log: self.log(role),
            ..Start::default()
        };
        self.session.start(&start).unwrap()
    }

    fn log(&self, role: &str) -> PathBuf {
        self.folder.join(format!("logs/n1.{role}.log"))
    }

    fn text(&self, role: &str) -> String {
        std::fs::read_to_string(self.log(role)).unwrap()
    }
}

/// Starts a fake runner that replies to each line with the result of `says`.
fn fake(mut says: impl FnMut(usize, &str) -> Option<String> + Send + 'static) -> Result<Arc<RunnerSession>, Error> {
    let (input, to) = io::pipe().unwrap();
    let (from, mut output) = io::pipe().unwrap();
    let hear = move || {
        for (number, line) in BufReader::new(input).lines().enumerate() {
            let Some(answer) = says(number, &line.unwrap()) else { return };
            output.write_all(answer.as_bytes()).unwrap();
        }
    };
    Builder::new().spawn(hear).unwrap();
    RunnerSession::open(Box::new(to), Box::new(from), &setup_in(&TestDir::new()), LONG, &Default::default())
}

const READY: &str =
    "{\"said\":\"ready\",\"version\":\"x\",\"pid\":7,\"folder\":\"/x\",\"notices\":[\"no controller\"]}\n";

#[test]
fn a_process_gets_its_environment_and_the_marks_and_its_log() {
    let host = host();
    let process = host.start("server", "echo $MINE; echo $PLIMSOLL_RUN.$PLIMSOLL_RUN_HOST >&2; cat; pwd; exit 3");
    assert_eq!(process.wait(LONG), Some(ProcessExit::Exit(3)));
    let run = host.folder.file_name().unwrap().to_str().unwrap();
    let here = host.folder.canonicalize().unwrap().display().to_string();
    assert_eq!(process.last_lines(), ["yes", &format!("{run}.n1"), &here]);
    drop(process);
    assert_eq!(host.text("server").lines().count(), 3);
}

#[test]
fn exit_codes_and_signals_are_distinguished() {
    let host = host();
    let killed = host.start("a", "kill -SEGV $$");
    assert_eq!(killed.wait(LONG), Some(ProcessExit::Signal(11)));
    let process = host.start("b", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    assert!(is_alive(process.pid()) && process.ended().is_none());
    fixture::until("it is ready", || process.last_lines() == ["ready"]);
    process.signal(Signal::TERM);
    assert_eq!(process.wait(LONG), Some(ProcessExit::Exit(5)));
    assert_eq!(process.wait(LONG), Some(ProcessExit::Exit(5)), "also when asked again");
}

#[test]
fn a_group_is_signalled_after_its_leader_ended() {
    let host = host();
    let process = host.start("server", "sleep 60 & echo $!");
    assert_eq!(process.wait(LONG), Some(ProcessExit::Exit(0)));
    let child: u32 = process.last_lines()[0].parse().unwrap();
    assert!(is_alive(child));
    process.signal(Signal::KILL);
    assert!(is_alive(child), "it alone was meant, and it is gone");
    process.signal_group(Signal::KILL);
    fixture::until("the child is gone", || !is_alive(child));
}

#[test]
fn a_dropped_process_is_ended() {
    let host = host();
    let process = host.start("server", "sleep 60 & wait");
    let pid = process.pid();
    drop(process);
    assert!(!is_alive(pid));
}

#[test]
fn programs_get_input_and_missing_ones_are_named() {
    let host = host();
    let mut program =
        ProgramSpec { role: "audit".to_owned(), command: vec!["sh".to_owned()], ..ProgramSpec::default() };
    program.command.extend(["-c", "tr a-z A-Z; echo oh >&2; exit 4"].map(str::to_owned));
    let output = host.session.run(&program, &"hello ".repeat(50_000), LONG).unwrap();
    assert_eq!((output.ended, output.errors.as_str()), (ProcessExit::Exit(4), "oh\n"));
    assert_eq!(output.output, "HELLO ".repeat(50_000));
    program.command = vec!["no-such-program".to_owned()];
    let error = host.session.run(&program, "", LONG).unwrap_err();
    assert_eq!(error.to_string(), "`no-such-program`, which `audit` runs, is not on this machine");
    program.command = vec!["true".to_owned()];
    program.folder = Some(PathBuf::from("/no/such/folder"));
    let error = host.session.run(&program, "", LONG).unwrap_err();
    assert_eq!(error.to_string(), "cannot start `true` in /no/such/folder on n1: the folder does not exist");
}

#[test]
fn folders_start_empty_and_stay_inside() {
    let host = host();
    let folder = host.session.make_folder("server").unwrap();
    assert_eq!(folder, host.folder.join("host/server"));
    std::fs::write(folder.join("x"), "x").unwrap();
    assert_eq!(host.session.make_folder("server").unwrap(), folder);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    host.session.remove_folder("server").unwrap();
    assert!(!folder.exists());
    for outside in ["..", "/tmp", "a/../..", "", "."] {
        assert!(host.session.make_folder(outside).is_err(), "{outside}");
        assert!(host.session.remove_folder(outside).is_err(), "{outside}");
    }
}

#[test]
fn a_taken_port_is_reported() {
    let host = host();
    let ports = host.session.ports(3).unwrap();
    assert_eq!(ports.len(), 3);
    // Another test may take one of the ports first.
    let is_free = || host.session.ask(Order::CheckPort { port: host.session.ports(1).unwrap()[0] }, LONG).is_ok();
    fixture::until("a port is free", is_free);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = host.session.ask(Order::CheckPort { port }, LONG).unwrap_err();
    assert!(matches!(error, Error::PortTaken { port: taken, holder: None } if taken == port), "{error}");
}

#[test]
fn orders_are_answered_while_processes_write_much() {
    let host = host();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo \"line $i of a process that has much to say\"; done";
    let mut writers = [host.start("a", script), host.start("b", script)];
    let mut asked = 0;
    while writers.iter_mut().any(|writer| writer.ended().is_none()) {
        host.session.figures().unwrap();
        asked += 1;
    }
    assert!(asked > 0);
    for (writer, role) in writers.iter_mut().zip(["a", "b"]) {
        assert_eq!(writer.ended(), Some(ProcessExit::Exit(0)));
        assert_eq!(host.text(role).lines().count(), 20_000, "{role}");
        assert_eq!(writer.last_lines()[19], "line 20000 of a process that has much to say");
    }
}

#[test]
fn a_closed_session_has_ended_its_processes() {
    let mut host = host();
    let process = host.start("server", "trap '' TERM; while :; do sleep 1; done");
    let pid = process.pid();
    assert!(host.session.close(LONG));
    assert!(!is_alive(pid));
    assert!(process.ended().is_some());
    assert!(!host.session.is_open());
    let error = host.session.figures().unwrap_err();
    assert_eq!(error.to_string(), "host n1 no longer answers: the host was shut down");
    assert_eq!(host.serving.take().unwrap().join().unwrap(), 0);
}

#[test]
fn a_closed_input_ends_all_processes() {
    let host = host();
    let start = Start {
        role: "server".to_owned(),
        program: "sleep".into(),
        arguments: vec!["60".into()],
        log: host.log("server"),
        ..Start::default()
    };
    let pid = host.session.start(&start).map(|process| (process.pid(), std::mem::forget(process))).unwrap().0;
    // The process forgotten above holds the session, so the runner's input is closed by hand.
    host.session.out().lines = None;
    fixture::until("it is gone", || !is_alive(pid));
}

#[test]
fn a_runner_that_refuses_is_quoted() {
    let error = fake(|_, _| Some("{\"said\":\"failed\",\"reason\":\"no namespaces here\"}\n".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "host n1: no namespaces here");
    let setup = Setup { version: "0.0.1".to_owned(), ..setup_in(&TestDir::new()) };
    let error = RunnerSession::on_thread(&setup, &Default::default()).unwrap_err();
    assert!(error.to_string().contains("version 0.0.1 was requested"), "{error}");
}

#[test]
fn greetings_are_skipped_and_a_silent_end_is_reported() {
    let session = fake(|_, _| Some(format!("Welcome to n1!\n{READY}"))).unwrap();
    assert_eq!(session.notices(), ["no controller"]);
    let error = fake(|number, _| (number == 0).then(|| "sh: plimsoll: not found\n".to_owned()).filter(|_| false));
    assert_eq!(error.unwrap_err().to_string(), "host n1: its runner ended without any output");
}

#[test]
fn a_runner_that_dies_during_an_order_is_lost() {
    let session = fake(|number, _| (number == 0).then(|| READY.to_owned())).unwrap();
    let error = session.ask(Order::Sample, LONG).unwrap_err();
    assert_eq!(error.to_string(), "host n1 no longer answers: its runner is gone");
    assert!(!session.is_open());
    assert!(matches!(session.ask(Order::Sample, LONG), Err(Error::HostLost { .. })));
}

#[test]
fn processes_of_a_dead_runner_are_dead() {
    let session = fake(|number, _| match number {
        0 => Some(READY.to_owned()),
        1 => Some(
            "{\"said\":\"done\",\"number\":1,\"answer\":{\"is\":\"started\",\"pid\":99,\"started_ticks\":1}}\n\
             {\"said\":\"wrote\",\"process\":1,\"text\":\"last words\"}\n"
                .to_owned(),
        ),
        _ => None,
    });
    let (session, folder) = (session.unwrap(), TestDir::new());
    let log = LogTexts { notable: vec!["last".to_owned()], alarming: Vec::new() };
    let log_watcher = LogWatcher::of(&log);
    let start = Start {
        role: "server".to_owned(),
        program: "x".into(),
        arguments: Vec::new(),
        log: folder.join("log"),
        log_watcher: log_watcher.clone(),
        ..Start::default()
    };
    let process = session.start(&start).unwrap();
    assert_eq!((process.pid(), process.ended()), (99, None));
    assert!(session.ask(Order::Sample, LONG).is_err());
    assert_eq!(process.wait(LONG), Some(ProcessExit::Signal(9)));
    assert_eq!(process.last_lines(), ["last words"]);
    assert_eq!(log_watcher.take()[0].line, "last words");
    assert_eq!(std::fs::read_to_string(folder.join("log")).unwrap(), "last words");
}

#[test]
fn an_invalid_message_ends_the_session() {
    let session = fake(|number, _| Some(if number == 0 { READY.to_owned() } else { "what?\n".to_owned() })).unwrap();
    let error = session.ask(Order::Sample, LONG).unwrap_err();
    assert_eq!(
        error.to_string(),
        "host n1 no longer answers: its runner sent an invalid message: what? (not a message)"
    );
}

#[test]
fn a_missing_sample_times_out_and_keeps_the_session() {
    let session = fake(|number, _| Some(if number == 0 { READY.to_owned() } else { String::new() })).unwrap();
    let error = session.ask(Order::Sample, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.to_string(), "host n1 no longer answers: no answer within 0.05 s");
    assert!(session.is_open(), "it may only be slow");
}

#[test]
fn a_refused_injection_is_a_fault_error() {
    let session = fake(|number, _| {
        Some(match number {
            0 => READY.to_owned(),
            _ => "{\"said\":\"refused\",\"number\":1,\"why\":{\"why\":\"cannot\",\"reason\":\"no netem here\"}}\n"
                .to_owned(),
        })
    });
    let error = session.unwrap().inject("x", &Injection::Freeze).unwrap_err();
    assert!(matches!(&error, Error::Fault(reason) if reason == "no netem here"), "{error}");
}

#[test]
fn a_session_that_missed_a_deadline_is_closed() {
    let session = fake(|number, _| Some(if number == 0 { READY.to_owned() } else { String::new() })).unwrap();
    let late = session.ask(Order::CheckPort { port: 1 }, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(&late, Error::HostLost { .. }), "{late}");
    assert!(!session.is_open());
    // Another wait would take ten times as long as this test may run.
    for order in [Order::Figures, Order::Heal { key: "x".to_owned() }, Order::Sample] {
        let again = session.ask(order, LONG * 60).unwrap_err();
        assert_eq!(again.to_string(), "host n1 no longer answers: no answer within 0.05 s");
    }
}

#[test]
fn an_immediate_end_aborts_waiting_orders() {
    let (input, to) = io::pipe().unwrap();
    let (from, mut output) = io::pipe().unwrap();
    output.write_all(READY.as_bytes()).unwrap();
    let at_once = Arc::new(AtomicBool::new(false));
    let session =
        RunnerSession::open(Box::new(to), Box::new(from), &setup_in(&TestDir::new()), LONG, &at_once).unwrap();
    let asked = std::thread::scope(|scope| {
        let asks = scope.spawn(|| session.ask(Order::Figures, LONG * 60));
        at_once.store(true, Ordering::SeqCst);
        asks.join().unwrap()
    });
    assert_eq!(asked.unwrap_err().to_string(), "host n1 no longer answers: the run was ended at once");
    assert!(!session.is_open());
    drop((input, output));
}

/// Starts a fake runner that answers the first order with endless text. Returns the error.
fn floods(text: String) -> Error {
    let (input, to) = io::pipe().unwrap();
    let (from, mut output) = io::pipe().unwrap();
    let speak = move || {
        let mut heard = BufReader::new(input).lines();
        heard.next();
        output.write_all(READY.as_bytes()).unwrap();
        heard.next();
        while output.write_all(text.as_bytes()).is_ok() {}
    };
    Builder::new().spawn(speak).unwrap();
    let session =
        RunnerSession::open(Box::new(to), Box::new(from), &setup_in(&TestDir::new()), LONG, &Default::default())
            .unwrap();
    session.run(&ProgramSpec { keeps_bytes: Some(1 << 20), ..ProgramSpec::default() }, "", LONG).unwrap_err()
}

#[test]
fn a_flood_of_messages_ends_the_session() {
    for (text, why) in [
        ("x", "a line is longer than 1 MiB"),
        (READY, "more than 10000 unsolicited messages"),
        ("{\"said\":\"done\",\"number\":77,\"answer\":{\"is\":\"nothing\"}}\n", "unsolicited messages"),
        ("{\"said\":\"printed\",\"number\":1,\"to_errors\":true,\"text\":\"xxxxxxxx\"}\n", "output than requested"),
    ] {
        // The pieces fill the pipe quickly.
        let error = floods(text.repeat((64 << 10) / text.len())).to_string();
        assert!(error.starts_with("host n1 no longer answers: its runner ") && error.contains(why), "{error}");
    }
}

#[test]
fn program_output_is_reassembled_and_errors_escaped() {
    let host = host();
    let script = "head -c 400000 /dev/zero | tr '\\000' '\\001'; printf '\\033[2Jbad\\n' >&2";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let output = host.session.run(&ProgramSpec { command, ..ProgramSpec::default() }, "", LONG).unwrap();
    assert_eq!(output.output, "\u{1}".repeat(400_000));
    assert_eq!(output.errors, "\\u{1b}[2Jbad\n");
}

#[test]
fn binary_output_is_kept_within_the_limit() {
    let host = host();
    let script = "head -c 3000000 /dev/zero | tr '\\000' '\\377'";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let program = ProgramSpec { command, keeps_bytes: Some(1 << 20), ..ProgramSpec::default() };
    let output = host.session.run(&program, "", LONG).unwrap().output;
    assert!(output.ends_with("left out]\n") && output.len() < (1 << 20) + 100, "{}", output.len());
}
