//! Tests of what is written about a machine; no figure is asserted that a busy machine would change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::profile::{self, Profile};
use experiment::source::Source;
use record::environment::{Cpu, Disk};

use super::*;
use crate::fixture::Scratch;

fn found() -> Found {
    Found {
        cores: 4,
        alone: 20_000.4,
        together: Some(70_000.0),
        link_mbit_per_s: Some(1000),
        disk: HostFigures {
            storage_read_per_s: Some(8000.2),
            storage_write_per_s: Some(900.0),
            storage_sync_us: Some(1100.0),
            ..HostFigures::default()
        },
        by: "fio",
        machine: Environment {
            hostname: Some("pi".into()),
            cpu: Cpu { model: Some("A \"quoted\" processor".into()), ..Cpu::default() },
            memory_bytes: Some(1 << 30),
            disk: Disk { device: Some("/dev/sda1".into()), file_system: Some("ext4".into()), ..Disk::default() },
            ..Environment::default()
        },
    }
}

fn read(text: &str) -> Profile {
    let source = Source { name: "measured.toml".into(), text: text.into() };
    profile::parse("measured", &source).unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(false)))
}

#[test]
fn what_was_found_is_a_profile() {
    let profile = read(&written(&found()));
    assert_eq!((profile.cores, profile.core_speed, profile.score), (Some(4), None, Some(20_000.0)));
    assert_eq!((profile.memory_bytes, profile.link.rate_bits_per_s), (Some(1 << 30), Some(1e9)));
    assert_eq!((profile.disk.read_iops, profile.disk.write_iops), (Some(8000.0), Some(900.0)));
    assert!(profile.source.contains("3.50 times") && profile.source.contains("fio"), "{}", profile.source);
    assert_eq!((profile.idle_watts, profile.price), (None, None), "nobody measured that");
}

#[test]
fn what_was_not_found_is_left_to_be_filled_in() {
    let disk = HostFigures { storage_unmeasured: Some("full\nof lines".into()), ..HostFigures::default() };
    let text =
        written(&Found { together: None, link_mbit_per_s: None, disk, machine: Environment::default(), ..found() });
    let profile = read(&text);
    assert!(profile.link.is_unlimited() && !profile.disk.is_throttled() && profile.memory_bytes.is_none());
    assert!(text.contains("# rate = ") && text.contains("not measured: full\n"), "{text}");
}

#[test]
fn the_fastest_device_counts() {
    let folder = Scratch::new();
    for (name, speed, device) in
        [("eth0", "100", true), ("eth1", "1000", true), ("br0", "10000", false), ("wlan0", "-1", true)]
    {
        folder.write(&format!("{name}/speed"), speed);
        if device {
            folder.write(&format!("{name}/device/vendor"), "");
        }
    }
    assert_eq!(fastest_link(&folder), Some(1000));
    assert_eq!(fastest_link(&folder.join("none")), None);
}

#[test]
fn cores_and_disks_are_measured() {
    assert!(score() > 0.0);
    assert!(cpu::score_of_all(2).unwrap() > 0.0);
    let folder = Scratch::new();
    let figures = disk::measure(&folder);
    assert!(figures.storage_write_per_s.is_some() || figures.storage_unmeasured.is_some());
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "nothing is left");
}
