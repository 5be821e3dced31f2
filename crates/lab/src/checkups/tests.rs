//! Tests of the judgements, on recorded machines that are not this one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use super::*;
use crate::doctor::{Erlang, Links, Noise, Spread};
use crate::fixture::{Scratch, machine};

/// What was measured of a machine on which nothing disturbs.
fn calm() -> Measured {
    Measured {
        is_root: Some(true),
        cpus: Some(8),
        noise: Some(Noise { others_pct: 0.5, busiest: Vec::new(), steal_pct: Some(0.0) }),
        timer_resolution_ns: Some(1),
        late_us: Some(Spread { p50: 60.0, max: 200.0 }),
        is_synchronised: Some(true),
        time_keeper: Some("chronyd".to_owned()),
        folder: "runs".to_owned(),
        free_bytes: Some(100 << 30),
        file_system: Some("ext4".to_owned()),
        sync_us: Some(Spread { p50: 80.0, max: 900.0 }),
        links: Some(Links { has_tc: true, rate: true, delay: true }),
        erlang: Some(Erlang {
            release: 25,
            version: "25.2.3".to_owned(),
            schedulers_online: 8,
            processes: 262_144,
            ports: 65_536,
        }),
    }
}

fn looks(tree: &Scratch, measured: &Measured, asked: Option<&Asked>) -> Vec<(&'static str, Finding)> {
    let root = Root::at(tree);
    let patient = Patient { root: &root, measured, asked };
    KINDS.iter().map(|kind| (kind.name, (kind.look)(&patient))).collect()
}

fn of<'a>(looks: &'a [(&'static str, Finding)], name: &str) -> &'a Finding {
    &looks.iter().find(|(one, _)| *one == name).unwrap().1
}

fn names(looks: &[(&'static str, Finding)], state: State) -> BTreeSet<&'static str> {
    looks.iter().filter(|(_, finding)| finding.state == state).map(|(name, _)| *name).collect()
}

#[test]
fn a_good_machine_is_good_throughout() {
    let tree = machine("good");
    let asked = Asked { agents: 1000, services: 1, at_once: 100, target: "echo".to_owned(), ..Asked::default() };
    let looks = looks(&tree, &calm(), Some(&asked));
    for (name, finding) in &looks {
        assert_eq!(finding.state, State::Good, "{name}: {finding:?}");
        assert!(finding.fixes.is_empty() && finding.remedy.is_none(), "{name}: {finding:?}");
    }
}

#[test]
fn a_bad_machine_has_a_remedy_for_everything() {
    let tree = machine("bad");
    let measured = Measured {
        is_root: Some(false),
        cpus: Some(1),
        noise: Some(Noise { others_pct: 40.0, busiest: vec![("rustc".to_owned(), 38.0)], steal_pct: Some(3.0) }),
        late_us: Some(Spread { p50: 3000.0, max: 9000.0 }),
        is_synchronised: Some(false),
        time_keeper: None,
        free_bytes: Some(100 << 20),
        file_system: Some("tmpfs".to_owned()),
        links: Some(Links { has_tc: true, rate: false, delay: false }),
        erlang: Some(Erlang { release: 19, processes: 1024, ports: 1024, ..Erlang::default() }),
        ..calm()
    };
    let asked = Asked {
        agents: 5000,
        services: 1,
        at_once: 5000,
        refused: Some(("it needs root".to_owned(), "run it as root".to_owned())),
        missing: vec!["build it".to_owned()],
        is_remote: true,
        ..Asked::default()
    };
    let looks = looks(&tree, &measured, Some(&asked));
    let good = names(&looks, State::Good);
    assert_eq!(good, BTreeSet::from(["Erlang: schedulers", "root", "shared hardware"]), "{looks:?}");
    assert!(names(&looks, State::Unknown).is_empty(), "{looks:?}");
    for (name, finding) in looks.iter().filter(|(_, finding)| finding.state > State::Good) {
        assert!(finding.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()), "{name}: {finding:?}");
    }
    let strangers = of(&looks, "CPU used by others");
    assert_eq!(strangers.found, "40 % of the machine in the last second: rustc 38 %");
    assert_eq!(of(&looks, "quota on ourselves").state, State::Bad);
    let governor = of(&looks, "frequency governor");
    assert_eq!((governor.found.as_str(), governor.fixes.len()), ("ondemand, performance, powersave", 2));
    let command = "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor";
    assert_eq!(commands(&governor.fixes), [command]);
    let ports = &of(&looks, "local ports").fixes;
    assert_eq!(commands(ports), ["sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\""]);
    assert_eq!(ports[0].from, "50000 51000");
    let pages = &of(&looks, "transparent huge pages").fixes;
    assert_eq!((pages[0].from.as_str(), pages[0].to.as_str()), ("always", "madvise"));
}

#[test]
fn a_container_is_told_what_bounds_it() {
    let tree = machine("container");
    let measured = Measured { is_root: Some(false), links: None, erlang: None, ..calm() };
    let looks = looks(&tree, &measured, None);
    assert_eq!(
        of(&looks, "quota on ourselves").found,
        "this container may use 0.5 cores, and is stopped when they are used up"
    );
    assert_eq!(of(&looks, "memory available").found, "512MiB of 512MiB that this container may use");
    assert_eq!(of(&looks, "shared hardware").state, State::Notice);
    assert_eq!(of(&looks, "frequency governor").found, "not told in here: the host decides");
    assert_eq!(of(&looks, "emulated links").found, "needs root to be tried");
    assert_eq!(of(&looks, "socket buffers").state, State::Unknown);
    assert_eq!(of(&looks, "Erlang: ports").found, "Erlang is not installed");
}

#[test]
fn an_old_kernel_is_no_reason_to_guess() {
    let tree = machine("old");
    let looks = looks(&tree, &Measured::default(), None);
    for name in ["turbo", "memory available", "TCP buffers", "mitigations", "timers", "CPUs", "stolen CPU", "free disk"]
    {
        assert_eq!(of(&looks, name).state, State::Unknown, "{name}");
    }
    assert_eq!(of(&looks, "control groups").found, "version 1: no controller for cpuset, memory, disks");
    assert_eq!(of(&looks, "quota on ourselves").found, "none");
    assert_eq!(of(&looks, "swap").state, State::Good);
    assert_eq!(of(&looks, "virtual hosts").state, State::Notice);
}

#[test]
fn nothing_at_all_is_unknown_and_never_bad() {
    let tree = Scratch::new();
    for (name, finding) in looks(&tree, &Measured::default(), None) {
        assert_ne!(finding.state, State::Bad, "{name}: {finding:?}");
        assert!(finding.fixes.is_empty(), "{name}: {finding:?}");
    }
}

#[test]
fn what_an_experiment_needs_decides() {
    let tree = machine("old");
    let state = |agents: u64, name: &str| {
        let asked = Asked { agents, services: 1, at_once: agents, ..Asked::default() };
        of(&looks(&tree, &calm(), Some(&asked)), name).state
    };
    assert_eq!(
        (state(100, "open files"), state(2000, "open files"), state(5000, "open files")),
        (State::Good, State::Notice, State::Bad)
    );
    assert_eq!((state(28_233, "local ports"), state(28_234, "local ports")), (State::Good, State::Bad));
    assert_eq!((state(128, "accept queue"), state(129, "accept queue")), (State::Good, State::Bad));
    assert_eq!((state(64_512, "Erlang: ports"), state(64_513, "Erlang: ports")), (State::Good, State::Bad));
    let looks_at = |asked: Asked| of(&looks(&tree, &calm(), Some(&asked)), "local ports").state;
    let many = || Asked { agents: 70_000, services: 1, ..Asked::default() };
    assert_eq!(looks_at(Asked { is_on_loopback: true, ..many() }), State::Good);
    assert_eq!(
        (looks_at(Asked { sources: 2, ..many() }), looks_at(Asked { sources: 3, ..many() })),
        (State::Bad, State::Good)
    );
    // So many cannot be helped by a wider range.
    let asked = Asked { agents: 70_000, services: 1, ..Asked::default() };
    let looks = looks(&tree, &calm(), Some(&asked));
    assert!(of(&looks, "local ports").fixes.is_empty());
}

#[test]
fn a_virtual_lab_has_networks_of_its_own() {
    let tree = machine("bad");
    let looks_with = |agents: u64| {
        let asked = Asked { agents, services: 1, at_once: agents, is_virtual: true, ..Asked::default() };
        looks(&tree, &calm(), Some(&asked))
    };
    for name in ["local ports", "reuse of ports", "accept queue", "half-open queue"] {
        assert_eq!(of(&looks_with(2000), name), &Finding::good(OF_LAB), "{name}");
    }
    let ports = of(&looks_with(28_233), "local ports").clone();
    assert!(ports.state == State::Bad && ports.fixes.is_empty(), "{ports:?}");
}

#[test]
fn thresholds_are_those_of_the_verdict() {
    let tree = machine("good");
    let state = |others_pct: f64, steal_pct: f64| {
        let noise = Noise { others_pct, busiest: Vec::new(), steal_pct: Some(steal_pct) };
        let looks = looks(&tree, &Measured { noise: Some(noise), ..calm() }, None);
        (of(&looks, "CPU used by others").state, of(&looks, "stolen CPU").state)
    };
    assert_eq!(state(9.9, 1.9), (State::Notice, State::Good));
    assert_eq!(state(10.0, 2.0), (State::Bad, State::Bad));
}

#[test]
fn all_six_tunings_of_the_article_are_there() {
    let numbers: BTreeSet<u8> = KINDS.iter().filter_map(|kind| kind.article).map(|tuning| tuning.number).collect();
    assert_eq!(numbers, (1..=6).collect());
}

#[test]
fn names_are_one_of_a_kind_and_fit_their_column() {
    let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), KINDS.len());
    assert!(names.iter().all(|name| name.len() <= 23), "{names:?}");
}

#[test]
fn a_choice_is_read_out_of_its_brackets() {
    assert_eq!(chosen("always [madvise] never\n"), "madvise");
    assert_eq!(chosen("4096\t131072\t6291456\n"), "4096 131072 6291456");
    assert_eq!(chosen("\n"), "");
}
