//! Tests of hosts that come and go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::hosts::{Lab, story};
use crate::fixture::{Bench, Lines, manifest, server};
use crate::{Ground, Site};

use super::*;

#[test]
fn a_host_that_is_lost_takes_its_processes_with_it_and_the_rest_goes_on() {
    let bench = Bench::new();
    let lab = Lab::new(&bench, &["", ""]);
    let mut site = lab.up(&manifest(vec![server("server")])).unwrap();
    site.poll();
    lab.strings[1].is_lost.store(true, Ordering::SeqCst);
    let told = story(&site.poll());
    assert_eq!((told[0].as_str(), told[2].as_str(), told.len()), ("!n2", "-n2.server", 3));
    assert!(told[1].starts_with("host n2 was lost without a fault: its runner ended"), "{}", told[1]);
    assert_eq!(site.members().len(), 1);
    assert!(site.poll().is_empty());
    lab.strings[1].is_lost.store(false, Ordering::SeqCst);
    assert_eq!(story(&site.poll()), ["+n2"]);
    site.stop().unwrap();
    assert_eq!(story(&site.poll()), ["-n1.server", "-n1", "-n2"]);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_host_that_a_fault_takes_down_is_expected_to_be() {
    let bench = Bench::new();
    let mut site = Lab::new(&bench, &["", ""]).up(&manifest(vec![server("server")])).unwrap();
    site.poll();
    site.hosts[0].crash().unwrap();
    site.host_down(0, true);
    assert_eq!(story(&site.poll()), ["-n1", "-n1.server"]);
    site.hosts[0].boot().unwrap();
    site.host_up(0);
    let post = site.post_of("n1", None).unwrap();
    site.start_again(post).unwrap();
    assert_eq!(story(&site.poll()), ["+n1", "+n1.server"]);
}

#[test]
fn what_a_host_got_is_told_with_its_storage_where_that_was_measured() {
    let bench = Bench::new();
    let lab = Lab::new(&bench, &["", ""]);
    let manifest = manifest(vec![server("server")]);
    let build = Build { measures_storage: true, ..bench.build(&lab.trial, Some(&manifest)) };
    let stop = AtomicBool::new(false);
    let mut site = Site::up_on(lab.hosts(), Ground::default(), &build, Arc::new(Lines), &stop).unwrap();
    let observed = site.poll();
    let told: Vec<_> = observed
        .iter()
        .filter_map(|observed| match &observed.what {
            What::HostUp { kind, profile, is, .. } => Some((kind.as_str(), profile.as_deref(), is)),
            _ => None,
        })
        .collect();
    assert_eq!((told[0].0, told[0].1, told[0].2.cores), ("fake", Some("slow"), Some(4)));
    assert_eq!((told[0].2.storage_sync_us, &told[0].2.storage_unmeasured), (Some(600.0), &None));
    assert_eq!(told[1].2.storage_unmeasured.as_deref(), Some("host n2: no room"));
}
