//! Run folders with random damage. Readers of a damaged folder end, name the problem, and never
//! give a trial a better verdict because evidence is lost.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test waits for others, and says what it has tried"
)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use record::folder::RunFolder;
use record::results::Trust;

use crate::lab_traces;
use crate::sandbox::{Sandbox, json, root};

/// Number of corruptions, unless `PLIMSOLL_TEST_CORRUPTIONS` is set.
const CORRUPTIONS: u64 = 60;
/// Number of corruptions that are read by a separate process. After these, every tenth is; the rest
/// are read by the same code in this process.
const BY_PROCESS: u64 = 40;
/// Time limit of a reader, after which it counts as hung. It is long because the machine may be
/// busy.
const PATIENCE: Duration = Duration::from_secs(120);

const LAB: &str = "[lab]\nhosts = 2\nmeasure_storage = false\n";
const RUN: &str = r#"
title = "to be damaged"
asks  = "Does every reader end?"
[target]
use = "echo"
[load]
agents  = 8
time    = "6s"
timeout = "300ms"
think   = "5ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[[fault]]
name = "pause"
kind = "pause"
on   = "n1"
at   = "2s"
for  = "500ms"
"#;

/// Files of a run folder that are read again.
const RECORDS: [&str; 13] = [
    "plan.json",
    "environment.json",
    "ending.json",
    "analysis.json",
    "experiment.toml",
    "trials/001/load.hlog",
    "trials/001/outcomes.csv",
    "trials/001/agents.csv",
    "trials/001/attempts.csv",
    "trials/001/samples.csv",
    "trials/001/generator.csv",
    "trials/001/events.jsonl",
    "trials/001/history.jsonl",
];

/// Files without which a finished trial cannot be valid.
const EVIDENCE: [&str; 6] =
    ["load.hlog", "outcomes.csv", "attempts.csv", "samples.csv", "generator.csv", "events.jsonl"];

/// Numbers that no clock shows and no counter reaches.
const NUMBERS: [&str; 12] = [
    "4294967296",
    "1e15",
    "-1e15",
    "inf",
    "-inf",
    "NaN",
    "18446744073709551615",
    "-1",
    "1e308",
    "0",
    "999999999999999999999999999999",
    "0.000000001",
];

/// Kinds of damage to a record.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Damage {
    BitFlips,
    Cut,
    Doubled,
    Swapped,
    Deleted,
    Emptied,
    Number,
    Another,
    Fifo,
}

const DAMAGES: [Damage; 9] = [
    Damage::BitFlips,
    Damage::Cut,
    Damage::Doubled,
    Damage::Swapped,
    Damage::Deleted,
    Damage::Emptied,
    Damage::Number,
    Damage::Another,
    Damage::Fifo,
];

impl Damage {
    /// Whether the damage removes evidence without replacing it.
    fn removes(self) -> bool {
        matches!(self, Self::Cut | Self::Deleted | Self::Emptied)
    }

    fn inflict(self, folder: &Path, file: &str, random: &mut fastrand::Rng) {
        let path = folder.join(file);
        let mut bytes = fs::read(&path).unwrap_or_default();
        match self {
            Self::Deleted => return fs::remove_file(&path).unwrap(),
            Self::Fifo => {
                fs::remove_file(&path).unwrap();
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
                return;
            }
            Self::Emptied => bytes.clear(),
            Self::Cut => bytes.truncate(random.usize(..=bytes.len() / 2)),
            Self::BitFlips => {
                for _ in 0..random.u32(1..=8) {
                    if let Some(byte) = random.choice(&mut bytes[..]) {
                        *byte ^= 1 << random.u32(..8);
                    }
                }
            }
            Self::Doubled | Self::Swapped => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                if lines.is_empty() {
                    return;
                }
                let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
                if self == Self::Swapped {
                    lines.swap(one, other)
                } else {
                    lines.insert(other, lines[one])
                }
                bytes = lines.concat();
            }
            Self::Number => bytes = with_number(&bytes, random),
            Self::Another => bytes = fs::read(folder.join(RECORDS[random.usize(..RECORDS.len())])).unwrap_or_default(),
        }
        fs::write(&path, bytes).unwrap();
    }
}

/// Replaces a random number in a text.
fn with_number(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    let starts: Vec<usize> =
        (0..bytes.len()).filter(|at| is_digit(&bytes[*at]) && (*at == 0 || !is_digit(&bytes[*at - 1]))).collect();
    let Some(&start) = random.choice(&starts) else { return bytes.to_vec() };
    let end = bytes[start..].iter().position(|byte| !is_digit(byte)).map_or(bytes.len(), |length| start + length);
    [&bytes[..start], NUMBERS[random.usize(..NUMBERS.len())].as_bytes(), &bytes[end..]].concat()
}

/// Result of a reader.
#[derive(Debug)]
enum Reading {
    /// The reader read the folder, and perhaps reached a verdict.
    Read(Option<Trust>),
    /// The reader named the problem.
    Named(String),
    Panicked(String),
    Hung,
    /// Another result: an undocumented exit code, or an error without a text.
    Odd(String),
}

/// Reads a damaged folder in a separate process.
fn by_process(sandbox: &Sandbox, command: &str, intact: &Path, damaged: &Path) -> Reading {
    let page = damaged.with_file_name("contents.html");
    let (intact, path, page) = (intact.to_str().unwrap(), damaged.to_str().unwrap(), page.to_str().unwrap());
    let words = match command {
        "compare" => vec!["compare", intact, path, "--accept"],
        "contents" => vec!["contents", path, "--out", page],
        command => vec![command, path],
    };
    // Output goes to files, so that no reader of a pipe is needed.
    let said = ["stdout", "stderr"].map(|name| sandbox.path().join(name));
    let to = |index: usize| Stdio::from(fs::File::create(&said[index]).unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(&words)
        .current_dir(root())
        .env("XDG_RUNTIME_DIR", sandbox.path().join("registry"))
        .env("TMPDIR", sandbox.path().join("scratch"))
        .stdin(Stdio::null())
        .stdout(to(0))
        .stderr(to(1))
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                return Reading::Hung;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let errors = String::from_utf8_lossy(&fs::read(&said[1]).unwrap()).into_owned();
    match status.code() {
        _ if errors.contains("panicked at") => Reading::Panicked(errors),
        Some(101) | None => Reading::Panicked(format!("{status}: {errors}")),
        Some(0) if command == "analyze" => match RunFolder::at(damaged).read_results() {
            Ok(Some(results)) => Reading::Read(Some(results.verdict.is)),
            other => Reading::Odd(format!("exit 0 and no results: {other:?}")),
        },
        // A comparison or list may be void or violated, but it has been read.
        Some(0 | 5 | 6) => Reading::Read(None),
        Some(1 | 2) if errors.starts_with("plimsoll: ") => Reading::Named(errors),
        _ => Reading::Odd(format!("{status}: {errors}")),
    }
}

/// Does the same as `analyze`, `compare` and `history`, in this process.
fn in_process(command: &str, intact: &Path, damaged: &Path) -> Reading {
    let (command, intact, damaged) = (command.to_owned(), intact.to_path_buf(), damaged.to_path_buf());
    let (sender, came) = channel();
    std::thread::spawn(move || {
        let read = catch_unwind(AssertUnwindSafe(|| read(&command, &intact, &damaged)));
        let _ = sender.send(match read {
            Ok(Ok(verdict)) => Reading::Read(verdict),
            Ok(Err(said)) if said.is_empty() => Reading::Odd("an error without words".to_owned()),
            Ok(Err(said)) => Reading::Named(said),
            Err(_) => Reading::Panicked("in this process, see above".to_owned()),
        });
    });
    match came.recv_timeout(PATIENCE) {
        Ok(came) => came,
        Err(RecvTimeoutError::Timeout) => Reading::Hung,
        Err(RecvTimeoutError::Disconnected) => Reading::Panicked("its thread is gone".to_owned()),
    }
}

fn read(command: &str, intact: &Path, damaged: &Path) -> Result<Option<Trust>, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    match command {
        "compare" => {
            let compared = analysis::compare(&[intact, damaged], &analysis::CompareOptions::default());
            compared.map(|compared| drop(report::compared::text(&compared, false))).map_err(|error| words(&error))?;
            Ok(None)
        }
        "history" => {
            let course = analysis::history(&[damaged], &[], false).map_err(|error| words(&error))?;
            drop(report::words::course(&course, false));
            Ok(None)
        }
        _ => {
            let folder = RunFolder::at(damaged);
            let run = analysis::analyze_to_draw(&folder).map_err(|error| words(&error))?;
            let plan = record::checked_file::read_json(&folder.plan()).map_err(|error| words(&error))?;
            let plan = plan.ok_or("no plan")?;
            let results = &run.results;
            let input = report::read(&folder, &run, &plan).map_err(|error| words(&error))?;
            report::page(&input).map_err(|error| words(&error))?;
            drop(report::words::summary(results, &plan, false));
            Ok(Some(results.verdict.is))
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}

/// Plays a run of one trial to its end.
fn recorded(sandbox: &Sandbox) -> PathBuf {
    let turn = lab_traces::turn();
    let file = sandbox.file("damaged.toml", format!("{RUN}{}", if turn.is_some() { LAB } else { "" }));
    let trial = &sandbox.run(&[&file]).exits(0).json()["trials"][0];
    assert_eq!(trial["ended"], "done", "{trial:#}");
    let rules = trial["verdict"]["rules"].to_string();
    assert!(!rules.contains("missing_records") && !rules.contains("records_disagree"), "nothing is lost yet: {rules}");
    sandbox.run_folder()
}

/// Results of all corruptions.
#[derive(Default)]
struct Counts {
    panics: u64,
    hangs: u64,
    named: u64,
    read: u64,
    /// Descriptions of wrong results.
    wrong: Vec<String>,
}

impl Counts {
    fn count(&mut self, what: &str, came: Reading, at_least: Option<Trust>) {
        let wrong = match came {
            Reading::Read(Some(verdict)) if at_least.is_some_and(|at_least| verdict < at_least) => {
                self.read += 1;
                Some(format!("is {verdict:?}, and with all evidence it is at least {at_least:?}"))
            }
            Reading::Read(_) => {
                self.read += 1;
                None
            }
            Reading::Named(_) => {
                self.named += 1;
                None
            }
            Reading::Panicked(said) => {
                self.panics += 1;
                Some(format!("panicked: {said}"))
            }
            Reading::Hung => {
                self.hangs += 1;
                Some("hung".to_owned())
            }
            Reading::Odd(said) => Some(said),
        };
        self.wrong.extend(wrong.map(|wrong| format!("{what}: {wrong}")));
    }
}

#[test]
fn damaged_records_never_break_readers_or_improve_verdicts() {
    let number = std::env::var("PLIMSOLL_TEST_CORRUPTIONS").ok().and_then(|text| text.parse().ok());
    let number = number.unwrap_or(CORRUPTIONS);
    let sandbox = Sandbox::new();
    let intact = recorded(&sandbox);
    let verdict = RunFolder::at(&intact).read_results().unwrap().unwrap().verdict.is;
    let mut random = fastrand::Rng::with_seed(number);
    let mut counts = Counts::default();
    for index in 0..number {
        // Records take turns; the damage and the reader are drawn at random.
        let (file, damage) = (RECORDS[index as usize % RECORDS.len()], DAMAGES[random.usize(..DAMAGES.len())]);
        let command = ["analyze", "analyze", "show", "compare", "history", "contents"][random.usize(..6)];
        let damaged = sandbox.path().join("damaged");
        copy(&intact, &damaged);
        damage.inflict(&damaged, file, &mut random);
        let is_process = index < BY_PROCESS || index % 10 == 0;
        let came = match is_process {
            true => by_process(&sandbox, command, &intact, &damaged),
            false => in_process(command, &intact, &damaged),
        };
        let is_evidence = EVIDENCE.iter().any(|name| file.ends_with(name));
        let at_least = match damage.removes() {
            true if is_evidence => Some(Trust::Void),
            true => Some(verdict),
            false => None,
        };
        counts.count(&format!("corruption {index}: {damage:?} {file}, {command}"), came, at_least);
        fs::remove_dir_all(&damaged).unwrap();
    }
    let Counts { panics, hangs, named, read, wrong } = counts;
    // `make siege` reads this line.
    println!("campaign: corruptions={number} panics={panics} hangs={hangs} named_errors={named} read={read}");
    assert_eq!(wrong, [""; 0], "seed {number}");
}

/// A folder of a later version. Every reader refuses it, instead of reading it as if it were of
/// this version.
#[test]
fn a_later_format_is_refused_by_every_reader() {
    let sandbox = Sandbox::new();
    let golden = root().join("crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes");
    let (intact, later) = (sandbox.path().join("intact"), sandbox.path().join("later"));
    copy(&golden, &intact);
    fs::write(intact.join("report.html"), "<!doctype html>").unwrap();
    let (intact_name, name) = (intact.to_str().unwrap(), later.to_str().unwrap());
    let readers: [&[&str]; 5] =
        [&["analyze", name], &["show", name], &["compare", intact_name, name], &["history", name], &["contents", name]];
    for (file, readers) in
        [("analysis.json", &readers[..]), ("plan.json", &readers[..3]), ("environment.json", &readers[2..4])]
    {
        copy(&intact, &later);
        let mut content = json(&later.join(file));
        content["format"] = 99.into();
        fs::write(later.join(file), content.to_string()).unwrap();
        for words in readers {
            sandbox.play(words).exits(2).says(&[file, "later version of Plimsoll", "format 99"]);
        }
        fs::remove_dir_all(&later).unwrap();
    }
}

#[test]
fn a_fifo_in_place_of_a_record_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let golden = root().join("crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes");
    for file in ["plan.json", "analysis.json", "trials/001/events.jsonl", "trials/001/load.hlog"] {
        let damaged = sandbox.path().join("damaged");
        copy(&golden, &damaged);
        Damage::Fifo.inflict(&damaged, file, &mut fastrand::Rng::with_seed(1));
        match by_process(&sandbox, "analyze", &golden, &damaged) {
            Reading::Named(said) => assert!(said.contains("a FIFO") && said.contains(file), "{said}"),
            other => panic!("{file}: {other:?}"),
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
}
