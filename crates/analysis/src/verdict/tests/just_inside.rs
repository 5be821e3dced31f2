//! What is just inside of every threshold: none of it is held against a trial.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::events::{By, History, Outcome};

use super::*;

const JUST_INSIDE: &[Spoil] = &[
    |case| case.trial.generator.cpu_pct = Some(89.9),
    |case| case.late(999.0),
    |case| case.stall(5.0, 49_000.0),
    |case| case.stall(1.5, 900_000.0),
    |case| case.stall(22.0, 900_000.0),
    |case| {
        // It was busy for all that time: more work than time, which is not standing still.
        case.planned.load.as_mut().unwrap().think_s = 0.01;
        case.stall(5.0, 950_000.0);
        case.evidence.generator[0].cpu_pct = 99.0;
    },
    |case| case.trial.said = vec![said(false)],
    |case| case.trial.generator.clock_jump_s = Some(0.099),
    |case| case.trial.generator.preempted_pct = Some(4.9),
    |case| case.trial.generator.throttled_pct = Some(0.09),
    |case| case.trial.generator.run_delay_pct = Some(60.0),
    |case| case.asks("latency_us.max", 10),
    |case| {
        case.asks("latency_us.p999", 2_995);
        case.trial.latency_us.as_mut().unwrap().p999 = Some(1.0);
    },
    |case| case.replaced(0.0, 1),
    |case| case.replaced(5.0, 0),
    |case| {
        case.window.first_fault_s = Some(10.0);
        case.replaced(11.0, 1);
    },
    |case| case.programs("1", "1"),
    |case| {
        case.window.until_s = 200.0;
        case.stall(9.0, 60_000.0);
        let outage = Some(Outage { baseline_per_s: Some(1.0), back_to_baseline_s: Some(0.1), ..Outage::default() });
        case.trial.faults.push(Fault { at_s: 10.2, outage, ..Fault::default() });
    },
    |case| case.trial.generator.littles_law_error_pct = Some(4.9),
    |case| case.trial.generator.dropped = Some(4),
    |case| case.trial.emulated = Some(granular(0.001)),
    |case| case.event(What::HostDown { host: "n1".into(), expected: true }),
    |case| case.trial.machine.steal_pct = Some(1.9),
    |case| case.trial.machine.strangers_cpu_pct = Some(9.9),
    |case| case.window.until_s = 7.0,
    |case| case.window.steady = None,
    |case| case.event(down(true)),
    |case| {
        case.event(What::Audit { keys: 1, unread: 0 });
        case.evidence.history = vec![line(By::Load, "write"), line(By::Audit, "read")];
    },
    |case| {
        // The members told what they hold, and nobody had to be asked key by key.
        case.event(What::Audit { keys: 1, unread: 0 });
        case.event(What::Replicas { rounds: 2, settled: true });
        case.evidence.history = vec![line(By::Load, "write")];
        case.evidence.replicas = vec![Replica { member: "n1".into(), holds: Ok(Table::new()) }];
    },
    // The last row is due when the load is over.
    |case| case.loses = |evidence| evidence.generator.truncate(19),
    |case| case.loses = |evidence| evidence.machine_sampled_at_s.truncate(19),
    // The machine stood still, or one row is lost.
    |case| case.loses = |evidence| drop(evidence.machine_sampled_at_s.drain(8..12)),
    |case| {
        // Without a load nobody makes one.
        case.planned.load = None;
        case.trial.outcomes = Outcomes::default();
        case.evidence.slots.clear();
        case.loses =
            |evidence| *evidence = Evidence { events: std::mem::take(&mut evidence.events), ..Evidence::default() };
    },
    |case| case.trial.consistency.replicas_settled = Some(true),
    |case| {
        // Whom a fault took down and nobody was to bring back, nobody misses.
        case.silent("n1");
        case.event(down(true));
    },
    |case| {
        // Late by 40 ms where an operation takes half a second.
        case.trial.latency_us = Some(Quantiles { p50: Some(500_000.0), ..Quantiles::default() });
        case.late(40_000.0);
    },
    |case| {
        case.evidence.slots[0] = few(100);
        case.trial.outcomes.ok = 100;
    },
    |case| {
        // Agents cannot connect while the target is down: that is what the fault is for.
        case.window.first_fault_s = Some(10.0);
        case.evidence.generator.push(unconnected(11.0));
    },
];

fn line(by: By, effect: &str) -> History {
    History {
        at_s: 9.0,
        by,
        agent: None,
        effect: effect.to_owned(),
        space: String::new(),
        key: "k".to_owned(),
        value: None,
        outcome: Outcome::Ok,
        applied: Some(true),
    }
}

#[test]
fn what_is_just_inside_is_not_held_against_it() {
    for (number, spoil) in JUST_INSIDE.iter().enumerate() {
        assert_eq!(Case::spoiled(spoil), [], "case {number}");
    }
}
