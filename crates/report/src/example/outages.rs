//! What goes wrong in the examples: a fault, a disturbance, how outages are distributed. It must not read anything.

use std::collections::BTreeMap;

use record::results::{Disturbance, Fault, Outage, OutageDistribution, Spread, Trial};
use serde_json::Value;

/// Gives a trial a fault at 15 s: 99 calls failed over 12 ms, back after 120 ms, 4,211 keys checked.
pub fn crash(trial: &mut Trial) {
    trial.faults = vec![Fault {
        name: "oops".to_owned(),
        kind: "call".to_owned(),
        on: "local.server".to_owned(),
        number: 1,
        at_s: 15.002,
        label: "call".to_owned(),
        colour: "#d95f02".to_owned(),
        outage: Some(Outage {
            baseline_per_s: Some(63_900.0),
            baseline_spread_per_s: Some(1_240.0),
            failed: 99,
            wrong: 0,
            first_failure_s: Some(0.002),
            last_failure_s: Some(0.014),
            first_ok_s: Some(0.009),
            total_s: Some(0.005),
            partial_s: Some(0.008),
            back_to_baseline_s: Some(0.12),
            lost_operations: Some(6_120.0),
            memory_released_bytes: Some(5_120_000),
            ..Outage::default()
        }),
        ..Fault::default()
    }];
    trial.throughput.before_first_fault_per_s = Some(63_400.0);
    trial.outcomes.failed = 99;
    trial.failed_pct = Some(0.0054);
    trial.attempts += 99;
    trial.attempt_results.insert("connection closed".to_owned(), 93);
    trial.attempt_results.insert("connect refused".to_owned(), 6);
    trial.consistency.checked = Some(4_211);
    trial.consistency.lost_writes = Some(0);
}

/// What no fault explains: 40 calls failed over 1.2 s at 22.5 s.
pub fn disturbance() -> Disturbance {
    Disturbance {
        at_s: 22.5,
        outage: Outage {
            baseline_per_s: Some(63_900.0),
            failed: 40,
            total_s: Some(0.0),
            partial_s: Some(0.4),
            back_to_baseline_s: Some(1.2),
            lost_operations: Some(412.0),
            ..Outage::default()
        },
    }
}

/// A fault of the variant over so many occurrences.
pub fn distribution(variant: Option<&str>, point: &BTreeMap<String, Value>, count: u64) -> OutageDistribution {
    let spread = Spread {
        count,
        min: Some(0.05),
        p50: Some(0.12),
        p50_ci95: Some([0.08, 0.2]),
        p90: None,
        p99: None,
        max: Some(0.4),
    };
    OutageDistribution {
        fault: "oops".to_owned(),
        variant: variant.map(str::to_owned),
        point: point.clone(),
        count,
        never_back: 0,
        figures: BTreeMap::from([("back_to_baseline_s".to_owned(), spread)]),
    }
}
