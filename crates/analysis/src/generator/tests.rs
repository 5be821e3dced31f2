//! Checks of the generator's figures against seconds whose answers are known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::events::{Ending, Event, What};
use record::rows::Sample;

use super::*;

/// Two threads with five agents each, always busy, with operations of a tenth of a second.
fn seconds(count: u32) -> Vec<GeneratorSecond> {
    let row = |second: u32, thread| GeneratorSecond {
        at_s: f64::from(second),
        interval_s: 1.0,
        thread,
        cpu_pct: f64::from(second + 10 * thread),
        agents: 5,
        in_flight_mean: 5.0,
        operations: 50,
        latency_sum_s: 5.0,
        cycles: 10,
        ..GeneratorSecond::default()
    };
    (1..=count).flat_map(|second| [row(second, 0), row(second, 1)]).collect()
}

fn evidence(generator: Vec<GeneratorSecond>) -> Evidence {
    let ended = Event { at_s: 99.0, what: What::Ended { how: Ending::Done, reason: None } };
    Evidence { generator, events: vec![ended], ..Evidence::default() }
}

const WINDOW: LoadWindow = LoadWindow { from_s: 0.0, until_s: 20.0, first_fault_s: None, steady: None };

#[test]
fn nobody_watched() {
    assert_eq!(generator(&Evidence::default(), None, 0.0, None), Generator::default());
}

#[test]
fn the_busiest_thread_counts_and_the_drain_does_not() {
    let mut rows = seconds(20);
    rows.push(GeneratorSecond { at_s: 22.0, interval_s: 1.0, cpu_pct: 100.0, ..GeneratorSecond::default() });
    rows.push(GeneratorSecond { at_s: 20.0, interval_s: 0.01, cpu_pct: 100.0, ..GeneratorSecond::default() });
    let health = generator(&evidence(rows), Some(&WINDOW), 0.0, None);
    assert_eq!(health.cpu_pct, Some(29.0), "95th percentile of 11..=30");
    assert_eq!(health.late_us_p99, None, "no timer fired");
    assert_eq!((health.connect_failures, health.dropped), (Some(0), Some(0)));
}

#[test]
fn books_that_balance_have_no_error() {
    let health = generator(&evidence(seconds(20)), Some(&WINDOW), 0.0, Some(10));
    assert_eq!(health.littles_law_error_pct, Some(0.0));
}

#[test]
fn a_second_that_forgets_latencies_shows() {
    let mut rows = seconds(20);
    rows[0].latency_sum_s = 0.0;
    rows[1].latency_sum_s = 0.0;
    let health = generator(&evidence(rows.clone()), Some(&WINDOW), 0.0, Some(10));
    assert_eq!(health.littles_law_error_pct, Some(5.0));
    let health = generator(&evidence(rows), Some(&WINDOW), 10.0, Some(10));
    assert_eq!(health.littles_law_error_pct, Some(0.0), "they are unfinished");
}

#[test]
fn agents_that_rest_show_in_a_closed_loop() {
    let mut rows = seconds(20);
    for row in &mut rows {
        row.in_flight_mean = 4.0;
        row.latency_sum_s = 4.0;
    }
    let error = |rows: &[GeneratorSecond], agents| {
        generator(&evidence(rows.to_vec()), Some(&WINDOW), 0.0, agents).littles_law_error_pct.unwrap()
    };
    assert!((error(&rows, Some(10)) - 20.0).abs() < 1e-9);
    assert_eq!(error(&rows, None), 0.0, "with pauses, or in an open loop, agents may rest");
    rows[3].connect_failures = 1;
    assert_eq!(error(&rows, Some(10)), 0.0, "who cannot connect rests");
}

#[test]
fn a_trial_that_was_cut_off_is_not_blamed_for_what_was_open() {
    let mut rows = seconds(20);
    rows.last_mut().unwrap().latency_sum_s = 4.5;
    let cut = Evidence { generator: rows, ..Evidence::default() };
    assert_eq!(generator(&cut, Some(&WINDOW), 0.0, Some(10)).littles_law_error_pct, Some(0.0));
}

#[test]
fn cycles_are_counted_by_the_part_of_a_second() {
    let rows = seconds(20);
    assert_eq!(cycles_per_s(&rows, (2.0, 10.0)), Some(20.0));
    assert_eq!(cycles_per_s(&rows, (2.5, 3.0)), Some(20.0));
    assert_eq!(cycles_per_s(&rows, (2.0, 2.0)), None);
    assert_eq!(cycles_per_s(&[], (2.0, 3.0)), None);
    let counted: u64 = rows.iter().map(|row| row.cycles).sum();
    let before = rows.iter().map(|row| GeneratorSecond { at_s: row.at_s - 1_000.0, ..row.clone() });
    assert_eq!(cycles(&rows.iter().cloned().chain(before).collect::<Vec<_>>()), Some(counted));
    assert_eq!(cycles(&[]), None);
}

fn sample(at_s: f64, process: &str, busy_pct: f64) -> Sample {
    Sample {
        at_s,
        host: "local".into(),
        process: process.into(),
        cpu_user_pct: Some(busy_pct),
        cpu_system_pct: Some(0.0),
        ..Sample::default()
    }
}

/// The engine's threads wait for so much of each second; the machine, strangers there, and the generator use so much of it.
fn waiting(run_delay_pct: f64, machine_pct: f64, strangers_pct: f64, own_pct: f64) -> Evidence {
    waiting_with(run_delay_pct, machine_pct, strangers_pct, own_pct, |row| row)
}

/// The same with more in each of the machine's and the generator's samples.
fn waiting_with(
    run_delay_pct: f64,
    machine_pct: f64,
    strangers_pct: f64,
    own_pct: f64,
    own: impl Fn(Sample) -> Sample,
) -> Evidence {
    let mut rows = seconds(20);
    rows.iter_mut().for_each(|row| row.run_delay_pct = Some(run_delay_pct));
    let mut evidence = evidence(rows);
    for at_s in (1..=20).map(f64::from) {
        let machine = sample(at_s, "", machine_pct);
        evidence.sampled.add(&own(Sample { cpu_strangers_pct: Some(strangers_pct), ..machine }));
        evidence.sampled.add(&own(sample(at_s, "generator", own_pct)));
    }
    evidence
}

fn preempted(evidence: &Evidence) -> Option<f64> {
    generator(evidence, Some(&WINDOW), 0.0, None).preempted_pct
}

#[test]
fn waiting_for_the_target_is_not_waiting_for_strangers() {
    assert_eq!(preempted(&waiting(30.0, 80.0, 0.0, 40.0)), Some(0.0));
    assert_eq!(preempted(&waiting(30.0, 80.0, 4.0, 40.0)), Some(3.0), "a tenth of what else ran");
    assert_eq!(preempted(&waiting(30.0, 80.0, 40.0, 40.0)), Some(30.0), "all of it");
    assert_eq!(preempted(&waiting(30.0, 40.0, 3.0, 40.0)), Some(0.0), "nothing else ran: rounding");
    assert_eq!(preempted(&evidence(seconds(20))), None, "the kernel does not say");
}

/// Without a lab the machine is a host as any other, and may be called `n1`.
#[test]
fn the_generators_machine_is_the_host_in_its_own_rows() {
    let called = |row: Sample| Sample { host: "n1".into(), ..row };
    assert_eq!(preempted(&waiting_with(30.0, 80.0, 4.0, 40.0, called)), Some(3.0));
    let elsewhere = |row: Sample| match row.process.as_str() {
        "generator" => row,
        _ => Sample { host: "n1".into(), ..row },
    };
    assert_eq!(preempted(&waiting_with(30.0, 80.0, 4.0, 40.0, elsewhere)), None, "another host's strangers");
}

#[test]
fn on_cpus_of_its_own_every_other_is_a_stranger() {
    let with_strangers = |strangers_pct: f64| {
        waiting_with(40.0, 90.0, 1.0, 10.0, |row| match row.process.as_str() {
            "generator" => Sample { cpu_strangers_pct: Some(strangers_pct), ..row },
            _ => row,
        })
    };
    assert_eq!(preempted(&with_strangers(45.0)), Some(40.0));
    assert_eq!(preempted(&with_strangers(3.0)), Some(6.0), "of two threads one may have met all that ran there");
}

#[test]
fn the_thread_that_waits_most_counts() {
    let mut evidence = waiting(10.0, 50.0, 0.0, 10.0);
    evidence.generator.iter_mut().filter(|row| row.thread == 1).for_each(|row| row.run_delay_pct = Some(20.0));
    assert_eq!(generator(&evidence, Some(&WINDOW), 0.0, None).run_delay_pct, Some(20.0));
}

#[test]
fn a_quota_and_a_set_clock_are_seen() {
    let evidence = waiting(0.0, 50.0, 0.0, 10.0);
    let healthy = generator(&evidence, Some(&WINDOW), 0.0, None);
    assert_eq!((healthy.throttled_pct, healthy.clock_jump_s), (None, None));
    let evidence = waiting_with(0.0, 50.0, 0.0, 10.0, |row| match row.process.as_str() {
        "generator" => Sample { cpu_throttled_pct: Some(if row.at_s <= 10.0 { 8.0 } else { 0.0 }), ..row },
        // It drifts, which is no jump, and at half-time it is set back by an hour.
        _ => {
            let back_s = if row.at_s <= 10.0 { 0.0 } else { 3600.0 };
            Sample { calendar_ahead_s: Some(row.at_s * 1e-5 - back_s), ..row }
        }
    });
    let spoiled = generator(&evidence, Some(&WINDOW), 0.0, None);
    assert_eq!(spoiled.throttled_pct, Some(4.0));
    assert!((spoiled.clock_jump_s.unwrap() - 3600.0).abs() < 0.01);
}
