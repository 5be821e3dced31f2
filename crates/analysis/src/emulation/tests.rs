//! Checks of the rescaling: what is half as fast took twice as long.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Host;
use record::events::HostFigures;
use record::results;

use super::*;

fn lab(speed: f64, profile: Option<&str>) -> Lab {
    let host = Host { name: "n1".into(), profile: profile.map(str::to_owned), ..Host::default() };
    Lab { hosts: vec![host.clone(), host], speed, ..Lab::default() }
}

fn trial() -> Trial {
    Trial {
        throughput: Throughput { operations_per_s: Some(100.0), ..Throughput::default() },
        latency_us: Some(Quantiles { p50: Some(4_000.0), count: 7, ..Quantiles::default() }),
        hosts: vec![results::Host {
            figures: Some(HostFigures { quota_period_s: Some(0.01), ..HostFigures::default() }),
            ..results::Host::default()
        }],
        ..Trial::default()
    }
}

#[test]
fn real_hosts_are_not_emulated() {
    assert_eq!(emulated(&Lab { speed: 1.0, ..Lab::default() }, &trial()), None, "this machine");
    assert_eq!(emulated(&lab(1.0, None), &trial()), None, "virtual, but as they are");
    let mut real = lab(1.0, Some("raspberry-pi-2"));
    real.hosts.iter_mut().for_each(|host| host.ssh = Some("pi@10.0.0.11".into()));
    assert_eq!(emulated(&real, &trial()), None, "a profile of a real machine only says what it costs");
}

#[test]
fn at_half_speed_twice_as_much_would_be_done_in_half_the_time() {
    let emulated = emulated(&lab(0.5, Some("raspberry-pi-2")), &trial()).unwrap();
    assert_eq!(emulated.throughput.operations_per_s, Some(200.0));
    let latency_us = emulated.latency_us.unwrap();
    assert_eq!((latency_us.p50, latency_us.p99, latency_us.count), (Some(2_000.0), None, 7));
    assert_eq!(emulated.profiles, ["raspberry-pi-2"]);
    assert_eq!(emulated.granularity_s, Some(0.01));
}
