//! A host over ssh by hand, where there is one: `PLIMSOLL_TEST_SSH` names it, `PLIMSOLL_TEST_PROGRAM` the program that goes
//! there. Whole runs, with machines of their own, are among the tests of the binary.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;

use super::*;
use crate::fixture::{Bench, folder_trial, until};
use crate::hosts::{Ended, Start, of};
use crate::runner::{Order, Program};

#[test]
#[ignore = "needs a machine that ssh reaches"]
fn by_hand() {
    let Ok(destination) = std::env::var("PLIMSOLL_TEST_SSH") else { return };
    let program = std::env::var("PLIMSOLL_TEST_PROGRAM").unwrap();
    let bench = Bench::new();
    let mut trial = folder_trial();
    let host = |name: &str| plan::Host { name: name.to_owned(), ssh: Some(destination.clone()), ..Default::default() };
    trial.lab.hosts = vec![host("n1"), host("n2")];
    let build = Build { plimsoll: program.into(), folder: None, ..bench.build(&trial, None) };
    let begun = Instant::now();
    let (hosts, _) = of(&build, &AtomicBool::new(false)).unwrap();
    println!("two hosts within {:?}; {:?}", begun.elapsed(), hosts[0].figures());

    let target = bench.folder.join("target");
    fs::create_dir_all(target.join("bin")).unwrap();
    fs::write(target.join("bin/says"), "what was sent").unwrap();
    let there = hosts[0].bring(&target).unwrap();
    assert_eq!(hosts[0].bring(&target).unwrap(), there);
    let program = |words: &[&str]| Program {
        role: "test".to_owned(),
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        folder: Some(there.clone()),
        ..Program::default()
    };
    let ran = hosts[0].run(&program(&["cat", "bin/says", "-"]), " and heard", Duration::from_secs(10)).unwrap();
    assert_eq!((ran.ended, ran.output.as_str()), (Ended::Exit(0), "what was sent and heard"));

    let start = Start {
        role: "server".to_owned(),
        program: "sh".into(),
        arguments: vec!["-c".into(), "echo begun; sleep 1000".into()],
        environment: Vec::new(),
        folder: Some(hosts[0].folder("data").unwrap()),
        log: bench.folder.join("log"),
        ears: Default::default(),
    };
    let mut process = hosts[0].start(&start).unwrap();
    until("it writes", || fs::read_to_string(&start.log).is_ok_and(|log| log == "begun\n"));
    let session = hosts[0].session().unwrap();
    let sampled = session.ask(Order::Sample, Duration::from_secs(5)).unwrap();
    println!("{sampled:?}");
    process.signal_group(Signal::TERM);
    assert_eq!(process.wait(Duration::from_secs(10)), Some(Ended::Signal(15)));
    let folder = hosts[0].plimsoll();
    let begun = Instant::now();
    drop((process, session, hosts));
    println!("let go within {:?}; {} was there", begun.elapsed(), folder.display());
    // Where "there" is this machine's own disk.
    assert!(!Path::new(&folder).exists());
}
