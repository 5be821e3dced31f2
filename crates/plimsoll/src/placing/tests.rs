//! Words of the placement; whole pages are played by the end-to-end tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::profile::{Disk, Link};

use super::*;

#[test]
fn cpus_are_run_together() {
    assert_eq!(cpus(&[3]), "CPU 3");
    assert_eq!(cpus(&[0, 1, 2, 6, 8, 9]), "CPUs 0–2, 6, 8–9");
}

#[test]
fn what_a_host_gets_is_said_and_what_is_free_is_not() {
    let (lab, host) = (Lab::default(), Host::default());
    let envelope = Envelope {
        cores: Some(4),
        core_speed: Some(0.1 * 0.5),
        cpus: vec![0, 1],
        memory_bytes: Some(1 << 30),
        link: Link { rate_bits_per_s: Some(5e7), delay_s: Some(0.002), loss_pct: None },
        disk: Disk { write_iops: Some(100.0), ..Disk::default() },
    };
    assert_eq!(gets(&lab, &host, &envelope), "4 × 0.05 core, 1GiB, 50mbit, 2ms delay, disk 100 writes/s, CPUs 0–1");
    assert_eq!(gets(&lab, &host, &Envelope::default()), "all the CPU it gets");
    let real = Host { name: "n1".into(), ssh: Some("pi@10.0.0.11".into()), ..Host::default() };
    assert_eq!(row(&lab, &real, &envelope)[3], "at pi@10.0.0.11, as it is");
}

#[test]
fn hosts_that_differ_in_their_names_only_share_a_line() {
    let row = |name: &str, gets: &str| [name.to_owned(), String::new(), String::new(), gets.to_owned()];
    let rows = [row("a", "x"), row("b", "x"), row("c", "y"), row("d", "x"), row("e", "x"), row("f", "x")];
    let names: Vec<String> = grouped(rows.into_iter()).into_iter().map(|[name, ..]| name).collect();
    assert_eq!(names, ["a, b", "c", "d … f (3 hosts)"]);
}
