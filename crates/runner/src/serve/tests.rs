//! Tests of the runner's replies to lines of input, including invalid ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::thread::JoinHandle;

use fixture::{TestDir, in_pid_namespace, is_alive, stays_alive, stranger, until};

use super::*;
use crate::{OrderReply, ProgramSpec};

/// A runner on a thread of this process, and both ends of its pipes.
struct ServedRunner {
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    serving: Option<JoinHandle<u8>>,
    folder: TestDir,
}

impl ServedRunner {
    fn begin(setup: impl FnOnce(&mut Setup)) -> Self {
        let folder = TestDir::new();
        let mut told = Setup {
            version: VERSION.to_owned(),
            host: "n1".to_owned(),
            run: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            folder: folder.to_path_buf(),
            ..Setup::default()
        };
        setup(&mut told);
        let (input, to) = io::pipe().unwrap();
        let (from, output) = io::pipe().unwrap();
        let serve = move || serve_on(&told, BufReader::new(input), MessageWriter::new(Box::new(output)));
        let serving = std::thread::Builder::new().spawn(serve).unwrap();
        Self { to: Some(to), from: BufReader::new(from), serving: Some(serving), folder }
    }

    fn tell(&mut self, number: u64, order: Order) {
        let line = serde_json::to_string(&NumberedOrder { number, order }).unwrap();
        writeln!(self.to.as_ref().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> RunnerMessage {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn start(&mut self, number: u64, script: &str) -> u32 {
        self.tell(number, Order::Start(sh(script)));
        match self.hear() {
            RunnerMessage::Done { answer: OrderReply::Started(group), .. } => group.pid,
            other => panic!("{other:?}"),
        }
    }

    fn wrote_until_end(&mut self) -> (String, i32) {
        let mut all = String::new();
        loop {
            match self.hear() {
                RunnerMessage::Wrote { text, .. } => all.push_str(&text),
                RunnerMessage::Ended { how, .. } => return (all, how),
                other => panic!("{other:?}"),
            }
        }
    }

    fn hang_up(&mut self) -> u8 {
        self.to = None;
        self.serving.take().unwrap().join().unwrap()
    }
}

fn sh(script: &str) -> ProgramSpec {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    ProgramSpec { role: "server".to_owned(), command, ..ProgramSpec::default() }
}

#[test]
fn the_first_message_is_ready() {
    let mut runner = ServedRunner::begin(|_| {});
    let RunnerMessage::Ready { version, pid, folder, .. } = runner.hear() else { panic!("not ready") };
    assert_eq!((version.as_str(), pid), (VERSION, std::process::id()));
    assert_eq!(folder, runner.folder.to_path_buf());
    assert_eq!(runner.hang_up(), 0);
}

#[test]
fn another_version_is_refused() {
    let mut runner = ServedRunner::begin(|setup| setup.version = "0.0.1".to_owned());
    let RunnerMessage::Failed { reason } = runner.hear() else { panic!("not refused") };
    assert!(reason.contains("0.0.1") && reason.contains(VERSION), "{reason}");
    assert_eq!(runner.hang_up(), 1);
}

#[test]
fn reading_the_setup_consumes_only_its_line() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    let told = Setup { host: "n7".to_owned(), ..Setup::default() };
    writer.write_all(format!("{}\nmore", serde_json::to_string(&told).unwrap()).as_bytes()).unwrap();
    drop(writer);
    assert_eq!(setup(&mut reader).unwrap(), told);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "more");
    assert!(setup(&mut &b"hello\n"[..]).is_err());
    let later = setup(&mut &b"{\"version\": \"9\", \"hosts\": []}\n"[..]).unwrap_err();
    assert!(later.ends_with("version 9 was requested"), "{later}");
}

#[test]
fn output_precedes_the_end_except_a_childs() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let late = runner.folder.join("late");
    let go = late.display();
    runner.start(1, &format!("(while [ ! -e {go} ]; do sleep 0.01; done; echo late) & printf 'gr\\303\\274n'; exit 3"));
    assert_eq!(runner.wrote_until_end(), ("grün".to_owned(), 3));
    fs::write(&late, "").unwrap();
    assert_eq!(runner.hear(), RunnerMessage::Wrote { process: 1, text: "late\n".to_owned(), bytes: Vec::new() });
}

#[test]
fn output_that_is_not_utf_8_is_unchanged() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    runner.start(1, "printf 'gr\\374n \\303'; sleep 0.1; printf '\\274'");
    let mut all = Vec::new();
    while let RunnerMessage::Wrote { text, bytes, .. } = runner.hear() {
        all.extend([text.into_bytes(), bytes].concat());
    }
    assert_eq!(all, b"gr\xfcn \xc3\xbc");
}

/// Regression test: the runner replaced the address by the host's name.
#[test]
fn a_hook_gets_its_hosts_address() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let environment = [("PLIMSOLL_HOST".to_owned(), "10.83.0.2".to_owned())].into();
    let program = ProgramSpec { environment, ..sh("echo $PLIMSOLL_HOST $PLIMSOLL_RUN_HOST") };
    runner.tell(1, Order::Run { program, input: String::new(), within_s: 60.0 });
    let RunnerMessage::Done { answer: OrderReply::Ran { output, .. }, .. } = runner.hear() else { panic!("not run") };
    assert_eq!(output, "10.83.0.2 n1\n");
}

#[test]
fn an_unknown_order_is_refused() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    writeln!(runner.to.as_ref().unwrap(), r#"{{"number": 7, "do": "dance"}}"#).unwrap();
    let RunnerMessage::Refused { number: 7, why: OrderRefusal::System { error, .. } } = runner.hear() else {
        panic!("not refused")
    };
    assert!(error.contains("dance"), "{error}");
    let pid = runner.start(8, "exec sleep 60");
    writeln!(runner.to.as_ref().unwrap(), "hello?").unwrap();
    assert_eq!(runner.serving.take().unwrap().join().unwrap(), 1);
    assert!(!is_alive(pid), "and everything is ended");
}

#[test]
fn the_end_of_input_ends_all_processes() {
    let mut runner = ServedRunner::begin(|setup| setup.folder = Default::default());
    let RunnerMessage::Ready { folder, .. } = runner.hear() else { panic!("not ready") };
    assert!(folder.is_dir());
    let plain = runner.start(1, "exec sleep 60");
    // Outside its group and without a parent: only the marks identify it.
    runner.start(2, "setsid sh -c 'echo $$; exec sleep 60' & exit 0");
    let (text, _) = runner.wrote_or_later();
    let hidden: u32 = text.trim().parse().unwrap();
    assert!(is_alive(plain) && is_alive(hidden));
    assert_eq!(runner.hang_up(), 0);
    assert!(!is_alive(plain) && !is_alive(hidden) && !folder.exists());
}

impl ServedRunner {
    /// Returns the output up to the end of a line, and the end of the process, in either order.
    fn wrote_or_later(&mut self) -> (String, Option<i32>) {
        let (mut all, mut end) = (String::new(), None);
        while !all.ends_with('\n') || end.is_none() {
            match self.hear() {
                RunnerMessage::Wrote { text, .. } => all.push_str(&text),
                RunnerMessage::Ended { how, .. } => end = Some(how),
                other => panic!("{other:?}"),
            }
        }
        (all, end)
    }
}

#[test]
fn another_host_of_the_run_on_the_same_machine_is_left_alone() {
    let mut one = ServedRunner::begin(|_| {});
    let run = one.folder.file_name().unwrap().to_str().unwrap().to_owned();
    let mut two = ServedRunner::begin(|setup| {
        setup.run = run;
        setup.host = "n2".to_owned();
    });
    one.hear();
    two.hear();
    let (first, second) = (one.start(1, "exec sleep 60"), two.start(1, "exec sleep 60"));
    assert_eq!(one.hang_up(), 0);
    assert!(!is_alive(first) && is_alive(second));
    assert_eq!(two.hang_up(), 0);
    assert!(!is_alive(second));
}

#[test]
fn the_end_is_confirmed_after_everything_is_undone() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let pid = runner.start(1, "trap '' TERM; exec sleep 60");
    runner.tell(2, Order::End);
    loop {
        match runner.hear() {
            RunnerMessage::Ended { process: 1, how } => assert_eq!(how, -9),
            RunnerMessage::Done { number: 2, answer: OrderReply::Nothing } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(!is_alive(pid));
    assert_eq!(runner.serving.take().unwrap().join().unwrap(), 0);
}

#[test]
fn a_slow_order_does_not_delay_others() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let waits = runner.folder.join("go");
    let program = sh(&format!("while [ ! -e {} ]; do sleep 0.01; done", waits.display()));
    runner.tell(1, Order::Run { program, input: String::new(), within_s: 60.0 });
    runner.tell(2, Order::Sample);
    assert!(matches!(runner.hear(), RunnerMessage::Done { number: 2, .. }));
    fs::write(&waits, "").unwrap();
    assert!(matches!(runner.hear(), RunnerMessage::Done { number: 1, answer: OrderReply::Ran { how: 0, .. } }));
}

#[test]
fn a_slow_program_is_killed_with_its_children() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let program = sh("sleep 60 & echo $!; wait");
    runner.tell(1, Order::Run { program, input: String::new(), within_s: 0.5 });
    let RunnerMessage::Done { answer: OrderReply::Ran { how, output, errors }, .. } = runner.hear() else {
        panic!("not run")
    };
    assert_eq!(how, -9);
    assert!(errors.contains("it did not end within 0.5 s"), "{errors}");
    until("the child of the killed one is gone", || !is_alive(output.trim().parse().unwrap()));
}

#[test]
fn a_process_joins_its_groups_before_exec() {
    let folder = TestDir::new();
    let groups = [folder.write("procs", ""), folder.write("tasks", "")];
    let mut command = Command::new("cat");
    command.args(&groups).stdout(Stdio::piped());
    let child = linux::spawn_in(command, &groups).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"00");
    let missing = linux::spawn_in(Command::new("true"), &[folder.join("none")]);
    assert_ne!(missing.unwrap_err().kind(), ErrorKind::NotFound, "it is not the program that is missing");
}

#[test]
fn a_reused_process_group_gets_no_signal() {
    in_pid_namespace("serve::tests::process_group_reused");
}

/// Test helper that runs in its own pid namespace.
#[test]
#[ignore = "started by another test"]
fn process_group_reused() {
    let mut runner = ServedRunner::begin(|_| {});
    runner.hear();
    let pid = runner.start(1, "true");
    let ended = runner.hear();
    assert!(matches!(ended, RunnerMessage::Ended { process: 1, how: 0 }), "{ended:?}");
    let bystander = stranger(pid);
    runner.tell(2, Order::Signal { process: 1, signal: 9, group: true });
    runner.hear();
    assert!(stays_alive(bystander), "a signal to an old group reached a new one");
    drop(runner);
    assert!(stays_alive(bystander), "the end of the runner killed what had only got the number");
}
