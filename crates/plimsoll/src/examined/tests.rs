//! Tests of what a terminal shows, on the machines that the lab's tests have recorded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use lab::doctor::{Asked, Erlang, Links, Measured, Noise, Spread, examine};

use super::*;

/// A recorded machine as files, gone when dropped.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plimsoll-examined-{}-{name}", std::process::id()));
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../lab/tests/machines/{name}.txt"));
        for file in fs::read_to_string(recorded).unwrap().split("\n== ").skip(1) {
            let (path, content) = file.split_once('\n').unwrap_or((file, ""));
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn calm() -> Measured {
    Measured {
        is_root: Some(true),
        cpus: Some(8),
        noise: Some(Noise { others_pct: 0.4, busiest: Vec::new(), steal_pct: Some(0.0) }),
        timer_resolution_ns: Some(1),
        late_us: Some(Spread { p50: 58.0, max: 210.0 }),
        is_synchronised: Some(true),
        time_keeper: Some("chronyd".to_owned()),
        folder: "runs".to_owned(),
        free_bytes: Some(100 << 30),
        file_system: Some("ext4".to_owned()),
        sync_us: Some(Spread { p50: 80.0, max: 910.0 }),
        links: Some(Links { has_tc: true, rate: true, delay: true }),
        erlang: None,
    }
}

fn shown(name: &str, measured: &Measured, asked: Option<&Asked>, with_article: bool) -> String {
    let machine = Machine::new(name);
    let text = words(&examine(&machine.0, measured, asked), with_article);
    for line in text.lines() {
        let is_command = ["echo ", "sysctl "].iter().any(|program| line.trim_start().starts_with(program));
        assert!(line.chars().count() <= WIDTH || is_command, "{line}");
        assert_eq!(line, line.trim_end());
    }
    text
}

#[test]
fn a_good_machine() {
    let erlang =
        Erlang { release: 25, version: "25.2.3".to_owned(), schedulers_online: 8, processes: 262_144, ports: 65_536 };
    let measured = Measured { erlang: Some(erlang), ..calm() };
    insta::assert_snapshot!(shown("good", &measured, None, true));
}

#[test]
fn a_bad_machine_and_an_experiment_that_asks_for_much() {
    let measured = Measured {
        is_root: Some(false),
        cpus: Some(1),
        noise: Some(Noise { others_pct: 40.0, busiest: vec![("rustc".to_owned(), 38.0)], steal_pct: Some(3.0) }),
        late_us: Some(Spread { p50: 3000.0, max: 9000.0 }),
        is_synchronised: Some(false),
        time_keeper: None,
        free_bytes: Some(100 << 20),
        file_system: Some("tmpfs".to_owned()),
        links: None,
        ..calm()
    };
    let asked = Asked {
        agents: 5000,
        services: 1,
        sources: 1,
        is_on_loopback: false,
        at_once: 500,
        lab: "3 hosts".to_owned(),
        refused: Some(("a lab of virtual hosts needs root".to_owned(), "run it as root".to_owned())),
        target: "vsns".to_owned(),
        missing: vec!["install the packages erlang-base erlang-mnesia".to_owned()],
        is_virtual: false,
        is_remote: false,
        is_articles: true,
    };
    insta::assert_snapshot!(shown("bad", &measured, Some(&asked), false));
}

#[test]
fn a_container_without_rights() {
    let measured =
        Measured { is_root: Some(false), links: None, is_synchronised: Some(true), time_keeper: None, ..calm() };
    insta::assert_snapshot!(shown("container", &measured, None, false));
}

#[test]
fn an_old_kernel() {
    let measured = Measured { folder: "runs".to_owned(), ..Measured::default() };
    insta::assert_snapshot!(shown("old", &measured, None, false));
}

#[test]
fn lines_break_between_words() {
    assert_eq!(wrapped("-> one two three", 9), ["-> one", "   two", "   three"]);
    assert_eq!(wrapped("one two", 7), ["one two"]);
    assert!(wrapped("", 7).is_empty());
}
