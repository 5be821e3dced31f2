//! Tests of what a process on this machine inherits, and of its log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write as _;

use super::*;
use crate::fixture::Bench;

fn start(bench: &Bench, script: &str) -> Box<dyn Process> {
    let start = Start {
        role: "server".to_owned(),
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("MINE".into(), "yes".into())],
        folder: Some(bench.folder.to_path_buf()),
        log: bench.folder.join("logs/n1.server.log"),
        ears: Default::default(),
    };
    make("n1", bench.registry.ledger()).start(&start).unwrap()
}

fn lines_of(script: &str) -> Vec<String> {
    let bench = Bench::new();
    let mut process = start(&bench, script);
    assert_eq!(process.wait(Duration::from_secs(20)), Some(Ended::Exit(0)));
    process.last_lines()
}

#[test]
fn a_process_gets_its_environment_and_the_mark_and_nothing_to_read() {
    let bench = Bench::new();
    let mut process = start(&bench, "echo $MINE; echo $PLIMSOLL_RUN >&2; cat; pwd");
    process.wait(Duration::from_secs(20));
    let lines = process.last_lines();
    let folder = bench.folder.canonicalize().unwrap().display().to_string();
    assert_eq!(lines, ["yes", bench.registry.id(), &folder]);
    drop(process);
    assert_eq!(bench.log("server").lines().count(), 3);
}

#[test]
fn no_open_file_is_inherited() {
    // 0, 1, 2 and the one with which `ls` reads the folder.
    assert_eq!(lines_of("ls /proc/self/fd"), ["0", "1", "2", "3"]);
}

#[test]
fn it_leads_a_process_group() {
    let lines = lines_of("echo $$; cut -d' ' -f5 /proc/$$/stat");
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn ends_are_told_apart() {
    let bench = Bench::new();
    let ended = |script: &str| start(&bench, script).wait(Duration::from_secs(20)).unwrap().to_string();
    assert_eq!(ended("exit 3"), "exit 3");
    assert_eq!(ended("kill -SEGV $$"), "signal 11");
}

#[test]
fn a_long_log_keeps_its_beginning_and_its_end() {
    let bench = Bench::new();
    let path = bench.folder.join("log");
    let (reader, mut writer) = io::pipe().unwrap();
    let log = Log::begin(reader, &path, &Default::default()).unwrap();
    let line = format!("{}\n", "x".repeat(1023));
    writer.write_all(b"the beginning\n").unwrap();
    for _ in 0..20 << 10 {
        writer.write_all(line.as_bytes()).unwrap();
    }
    writer.write_all(b"the end").unwrap();
    drop(writer);
    assert_eq!(log.last_lines(true).last().unwrap(), "the end");
    drop(log);
    let kept = fs::read(&path).unwrap();
    assert!(kept.starts_with(b"the beginning\n") && kept.ends_with(b"\nthe end"));
    let text = String::from_utf8(kept).unwrap();
    let left_out = (20 << 20) + 14 + 7 - (16 << 20) - (256 << 10);
    assert!(text.contains(&format!("\n[{left_out} bytes left out]\n")));
}

#[test]
fn quoted_lines_are_few_short_and_harmless() {
    let lines = lines_of(
        "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; done; printf 'a\\033[2Jb\\tc\\n'; head -c 2000 /dev/zero | tr '\\0' y",
    );
    assert_eq!(lines.len(), 20);
    assert_eq!(lines[18], "a\\u{1b}[2Jb c");
    assert_eq!(lines[19], "y".repeat(500));
}

#[test]
fn folders_are_empty_each_time() {
    let bench = Bench::new();
    let host = make("n1", bench.registry.ledger());
    let folder = host.folder("server").unwrap();
    fs::write(folder.join("x"), "x").unwrap();
    assert_eq!(host.folder("server").unwrap(), folder);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    host.remove_folder("server");
    assert!(!folder.exists());
}
