//! Tests of the placement: tables of labs and rooms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::{Host, Lab, Network};

use super::*;

const GIB: u64 = 1 << 30;

fn room(cpus: u32) -> Room {
    Room { cpus: (0..cpus).collect(), memory_bytes: 16 * GIB, ..Room::default() }
}

fn pi() -> Profile {
    Profile { name: "pi".into(), cores: Some(4), core_speed: Some(0.1), memory_bytes: Some(GIB), ..Profile::default() }
}

/// `count` hosts of that profile, or of none.
fn lab(count: usize, profile: Option<Profile>) -> Lab {
    let name = profile.as_ref().map(|profile| profile.name.clone());
    let host = |index: usize| Host { name: format!("n{}", index + 1), profile: name.clone(), ..Host::default() };
    Lab { hosts: (0..count).map(host).collect(), profiles: profile.into_iter().collect(), speed: 1.0, ..Lab::default() }
}

fn refused(lab: &Lab, room: &Room) -> (String, Option<f64>) {
    match place(lab, room).unwrap_err() {
        Error::DoesNotFit { what, speed } => (what, speed),
        other => panic!("{other}"),
    }
}

#[test]
fn clients_get_the_last_cpus() {
    for (cpus, asked, clients, hosts) in [
        (1, None, vec![], vec![]),
        (2, None, vec![1], vec![0]),
        (3, None, vec![2], vec![0, 1]),
        (4, None, vec![2, 3], vec![0, 1]),
        (4, Some(1), vec![3], vec![0, 1, 2]),
        (4, Some(0), vec![], vec![]),
    ] {
        let lab = Lab { generator_cpus: asked, ..lab(2, None) };
        let placed = place(&lab, &room(cpus)).unwrap();
        assert_eq!(placed.generator_cpus, clients, "{cpus} {asked:?}");
        assert!(placed.envelopes.iter().all(|envelope| envelope.cpus == hosts), "{cpus} {asked:?}");
    }
    let (what, speed) = refused(&Lab { generator_cpus: Some(2), ..lab(1, None) }, &room(2));
    assert_eq!((what.as_str(), speed), ("lab.generator_cpus = 2 leaves the hosts none of this machine's 2 CPUs", None));
}

#[test]
fn a_host_without_a_profile_is_only_slowed() {
    for (speed, share) in [(1.0, None), (0.5, Some(0.5)), (2.0, None)] {
        let placed = place(&Lab { speed, ..lab(1, None) }, &room(2)).unwrap();
        assert_eq!(placed.envelopes, [Envelope { core_speed: share, cpus: vec![0], ..Envelope::default() }], "{speed}");
    }
}

#[test]
fn everything_but_sizes_goes_by_the_speed() {
    let profile = Profile {
        link: Link { rate_bits_per_s: Some(1e8), delay_s: Some(0.002), loss_pct: Some(1.0) },
        disk: Disk {
            size_bytes: Some(GIB),
            read_iops: Some(400.0),
            write_iops: Some(200.0),
            read_bytes_per_s: Some(2e7),
            write_bytes_per_s: Some(1e7),
        },
        ..pi()
    };
    let placed = place(&Lab { speed: 0.5, ..lab(1, Some(profile)) }, &room(2)).unwrap();
    let expected = Envelope {
        cores: Some(4),
        core_speed: Some(0.05),
        cpus: vec![0],
        memory_bytes: Some(GIB),
        link: Link { rate_bits_per_s: Some(5e7), delay_s: Some(0.004), loss_pct: Some(1.0) },
        disk: Disk {
            size_bytes: Some(GIB),
            read_iops: Some(200.0),
            write_iops: Some(100.0),
            read_bytes_per_s: Some(1e7),
            write_bytes_per_s: Some(5e6),
        },
    };
    assert_eq!(placed.envelopes, [expected]);
}

#[test]
fn the_tighter_of_profile_and_network_counts() {
    let link = |rate: f64, delay_s: Option<f64>| Link { rate_bits_per_s: Some(rate), delay_s, loss_pct: None };
    let networks = vec![
        Network { name: "first".into(), link: link(1e8, Some(0.01)) },
        Network { name: "other".into(), link: link(1e3, None) },
    ];
    let profile = Profile { link: link(1e9, Some(0.001)), ..pi() };
    let mut lab = Lab { networks, ..lab(1, Some(profile)) };
    assert_eq!(place(&lab, &room(2)).unwrap().envelopes[0].link, link(1e8, Some(0.01)), "the first without `networks`");
    lab.hosts[0].networks = vec!["other".into()];
    assert_eq!(place(&lab, &room(2)).unwrap().envelopes[0].link, link(1e3, Some(0.001)));
}

#[test]
fn four_fifths_of_the_hosts_cpus_may_be_asked_for() {
    // Two boards of 0.4 each are just 0.8 of the one CPU that hosts have here.
    assert!(place(&lab(2, Some(pi())), &room(2)).is_ok());
    for (hosts, cpus, speed) in [(3, 2, Some(0.666)), (4, 2, Some(0.5)), (4, 1, Some(0.5)), (8, 4, Some(0.5))] {
        let (what, largest) = refused(&lab(hosts, Some(pi())), &room(cpus));
        assert_eq!(largest, speed, "{hosts} on {cpus}: {what}");
        let slower = Lab { speed: speed.unwrap(), ..lab(hosts, Some(pi())) };
        assert!(place(&slower, &room(cpus)).is_ok(), "{hosts} on {cpus}");
    }
    let (what, _) = refused(&lab(4, Some(pi())), &room(2));
    assert_eq!(
        what,
        "the hosts ask for 1.6 of this machine's cores (4 × pi with 4 cores at 0.1), and 0.8 is what may be asked of the 1 CPU \
         that they have"
    );
    // Hosts without a profile take what is left.
    let mut mixed = lab(2, Some(pi()));
    mixed.hosts.push(Host { name: "free".into(), ..Host::default() });
    assert!(place(&mixed, &room(2)).is_ok());
}

#[test]
fn no_core_is_faster_than_this_machines() {
    let fast = Profile { cores: Some(1), core_speed: Some(1.5), memory_bytes: None, ..pi() };
    let (what, speed) = refused(&lab(1, Some(fast)), &room(16));
    assert_eq!((what.as_str(), speed), ("a core of pi is 1.5 times as fast as one of this machine", Some(0.666)));
    let as_is = Profile { cores: Some(1), core_speed: None, ..pi() };
    assert_eq!(place(&lab(1, Some(as_is)), &room(16)).unwrap().envelopes[0].core_speed, Some(1.0));
}

#[test]
fn shares_that_are_too_small_are_refused() {
    let (what, speed) = refused(&Lab { speed: 0.05, ..lab(1, Some(pi())) }, &room(2));
    assert!(
        what.starts_with("a core of pi would be 0.005 of a core, and less than 0.01 cannot be given out"),
        "{what}"
    );
    assert_eq!(speed, None, "a lower speed would not help");
    // So many that slowing them down until they fit makes each too small.
    let (_, speed) = refused(&lab(30, Some(Profile { memory_bytes: None, ..pi() })), &room(2));
    assert_eq!(speed, None);
}

#[test]
fn memory_is_not_promised_twice() {
    let hungry = Profile { cores: None, core_speed: None, memory_bytes: Some(6 * GIB), ..pi() };
    assert!(place(&lab(2, Some(hungry.clone())), &room(2)).is_ok());
    let (what, speed) = refused(&lab(3, Some(hungry)), &room(2));
    assert_eq!((what.as_str(), speed), ("the hosts have 18GiB of memory in all, and 16GiB is available", None));
}

#[test]
fn a_score_is_held_against_the_machines_own() {
    let measured = Profile { core_speed: None, score: Some(500.0), cores: Some(2), ..pi() };
    let lab = lab(1, Some(measured));
    assert!(needs_score(&lab));
    assert_eq!(refused(&lab, &room(4)).1, None);
    let placed = place(&lab, &Room { score: Some(2000.0), ..room(4) }).unwrap();
    assert_eq!(placed.envelopes[0].core_speed, Some(0.25));
}

#[test]
fn real_machines_are_as_they_are() {
    let mut lab = lab(2, Some(Profile { memory_bytes: Some(999 * GIB), ..pi() }));
    for host in &mut lab.hosts {
        host.ssh = Some("pi@10.0.0.11".into());
    }
    let placed = place(&lab, &room(1)).unwrap();
    assert_eq!(placed, Placement { generator_cpus: Vec::new(), envelopes: vec![Envelope::default(); 2] });
}

#[test]
fn too_slow_a_core_says_from_which_speed_on_it_is_not() {
    let (what, speed) = refused(&Lab { speed: 0.07, ..lab(1, Some(pi())) }, &room(4));
    assert!(
        what.ends_with("0.007 of a core, and less than 0.01 cannot be given out: lab.speed has to be 0.1 at least"),
        "{what}"
    );
    assert_eq!(speed, None);
    let (what, speed) =
        refused(&Lab { speed: 0.05, ..lab(60, Some(Profile { memory_bytes: None, ..pi() })) }, &room(4));
    assert!(what.ends_with("at the lab.speed that it takes the hosts do not fit"), "{what}");
    assert_eq!(speed, None);
}

#[test]
fn without_cpusets_the_clients_get_no_cpus_of_their_own_unless_asked() {
    let shared = Room { shares_cpus: true, ..room(4) };
    let placed = place(&lab(2, None), &shared).unwrap();
    assert!(placed.generator_cpus.is_empty() && placed.envelopes.iter().all(|envelope| envelope.cpus.is_empty()));
    let asked = place(&Lab { generator_cpus: Some(1), ..lab(2, None) }, &shared).unwrap();
    assert_eq!(asked.generator_cpus, [3]);
}
