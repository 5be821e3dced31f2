//! Checks of figures: which way is better, what can be 0, and what a trial of several outages has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::results::{Fault, Outage, Throughput};

use super::*;

#[test]
fn paths_say_which_way_is_better() {
    for (path, more_is_better, can_be_zero) in [
        ("throughput.operations_per_s", true, false),
        ("throughput.before_first_fault_per_s", true, false),
        ("operations.save.throughput_per_s", true, false),
        ("latency_us.p99", false, false),
        ("service_us.p50", false, false),
        ("failed_pct", false, true),
        ("outcomes.ok", true, true),
        ("outcomes.timeout", false, true),
        ("consistency.lost_writes", false, true),
        ("faults.outage.failed", false, true),
        ("faults.oops.outage.lost_operations", false, true),
        ("faults.outage.back_to_baseline_s", false, false),
        ("hosts.rss_max_bytes", false, false),
        ("hosts.cpu_pct", false, false),
        ("machine.steal_pct", false, true),
        ("cost.joules_per_cycle", false, false),
    ] {
        let figure = Figure::of(path);
        assert_eq!((figure.more_is_better, figure.can_be_zero), (more_is_better, can_be_zero), "{path}");
    }
}

#[test]
fn what_is_usual_exists() {
    let paths = crate::metric_paths();
    for path in USUAL {
        assert!(paths.iter().any(|known| known == path), "{path}");
    }
}

#[test]
fn a_service_that_never_came_back_has_no_worst_time() {
    let fault = |name: &str, back_to_baseline_s| Fault {
        name: name.into(),
        outage: Some(Outage { back_to_baseline_s, failed: 5, ..Outage::default() }),
        ..Fault::default()
    };
    let trial = |second| Trial { faults: vec![fault("oops", Some(1.5)), fault("kill", second)], ..Trial::default() };
    let back = Figure::of("faults.outage.back_to_baseline_s");
    assert_eq!(back.value(&trial(Some(0.5))), Some(1.5));
    assert_eq!(back.value(&trial(None)), None);
    assert_eq!(Figure::of("faults.oops.outage.back_to_baseline_s").value(&trial(None)), Some(1.5));
    assert_eq!(Figure::of("faults.kill.outage.back_to_baseline_s").value(&trial(None)), None);
    assert_eq!(Figure::of("faults.outage.failed").value(&trial(None)), Some(5.0));
    assert_eq!(back.value(&Trial::default()), None);
}

#[test]
fn cycles_are_compared_where_they_tell_more() {
    let trial = |per_s: f64, cycles| Trial {
        throughput: Throughput { operations_per_s: Some(per_s), cycles_per_s: Some(cycles), ..Throughput::default() },
        ..Trial::default()
    };
    let has = |trials: &[Trial]| usual(trials.iter()).iter().any(|figure| figure.path == CYCLES);
    assert!(!has(&[trial(100.0, 25.0), trial(200.0, 50.1)]));
    assert!(has(&[trial(100.0, 25.0), trial(200.0, 40.0)]));
    assert!(!has(&[]));
}
