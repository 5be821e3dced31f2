//! Checks of each rule below, at and above its thresholds, and of the combined verdict.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use Trust::{Suspect, Void};
use record::events::{By, Ending, Event, HistoryEntry, HostFigures, Outcome, Phase, ProcessShare, Versions, What};
use record::replicas::{Replica, ReplicaContents};
use record::results::{
    DelayEffect, Disturbance, DisturbanceKind, Emulated, Fault, FeedFigures, FleetFigures, Generator, GeneratorFigures,
    LoadStop, Machine, OperatorAction, Outage, Outcomes, Quantiles, Said,
};
use record::rows::{Attempts, GeneratorSecond, OutcomeSlot, Sample};
use serde_json::json;

use super::{run_verdict, *};
use crate::synthetic;

mod by_figure;

/// A trial without any finding, to be spoiled.
struct Case {
    planned: plan::Trial,
    evidence: Evidence,
    window: LoadWindow,
    trial: Trial,
    plan: Option<Plan>,
    earlier: EarlierVersions,
    is_over: bool,
    /// Removes records after they are complete.
    loses: Loss,
}

impl Case {
    fn good() -> Self {
        let slot = OutcomeSlot { at_s: 3.0, slot_s: 0.001, ok: 5_000, ..OutcomeSlot::default() };
        let ended = Event { at_s: 21.0, what: What::Ended { how: Ending::Done, reason: None } };
        let trial = Trial {
            outcomes: Outcomes { ok: 5_000, ..Outcomes::default() },
            latency_us: Some(Quantiles { p50: Some(2_000.0), ..Quantiles::default() }),
            generator: Generator { connect_failures: Some(0), dropped: Some(0), ..Generator::default() },
            ..Trial::default()
        };
        Self {
            planned: synthetic::trial(synthetic::load(10, 20.0)),
            evidence: Evidence { slots: vec![slot], events: vec![ended], ..Evidence::default() },
            window: LoadWindow { from_s: 2.0, until_s: 20.0, first_fault_s: None, steady: Some(true), is_over: false },
            trial,
            plan: None,
            earlier: EarlierVersions::default(),
            is_over: false,
            loses: |_| {},
        }
    }

    /// Adds the records of a load of 20 s with the outcomes of the slots. The rows of the generator
    /// belong to another thread than those of the cases.
    fn complete(&mut self) {
        for at_s in (1..=20_u8).map(f64::from) {
            let ended = self.evidence.slots.iter().filter(|slot| slot.at_s.floor() == at_s - 1.0);
            let operations = ended.map(|slot| u64::from(slot.ok + slot.failed)).sum();
            let row = GeneratorSecond { at_s, interval_s: 1.0, thread: 9, operations, ..GeneratorSecond::default() };
            let row = GeneratorSecond { due: Some(operations), ..row };
            self.evidence.generator.push(row);
            self.evidence.machine_sampled_at_s.push(at_s);
        }
        for slot in self.evidence.slots.clone() {
            for (result, outcome, count) in [("ok", "ok", slot.ok), ("status 503", "failed", slot.failed)] {
                let (at_s, operation, count) = (slot.at_s.floor() + 1.0, "get".to_owned(), u64::from(count));
                self.evidence.attempts.push(Attempts { at_s, operation, result: result.to_owned(), count });
                let mut histogram = hdrhistogram::Histogram::<u64>::new(2).unwrap();
                histogram.record_n(2_000_000, count).unwrap();
                let (tag, start_s, length_s) = (format!("get/{outcome}/latency"), slot.at_s.floor(), 1.0);
                let interval = record::hlog::Interval { tag, start_s, length_s, histogram };
                self.evidence.load.add(&record::hlog::Counted::from(&interval));
            }
        }
        self.evidence.generator.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let outcomes = self.trial.outcomes;
        let get = record::results::Operation { outcomes, ..Default::default() };
        self.trial.operations = BTreeMap::from([("get".to_owned(), get)]);
    }

    fn spoiled(spoil: impl FnOnce(&mut Self)) -> Vec<RuleFinding> {
        let mut case = Self::good();
        spoil(&mut case);
        case.complete();
        (case.loses)(&mut case.evidence);
        let timeline = Timeline::of(&case.evidence.slots);
        findings(&RuleInput {
            planned: &case.planned,
            evidence: &case.evidence,
            window: Some(&case.window),
            timeline: timeline.as_ref(),
            trial: &case.trial,
            run: RunContext {
                plan: case.plan.as_ref(),
                earlier: Some(&case.earlier),
                is_over: case.is_over,
                ..RunContext::default()
            },
        })
    }

    /// Adds a fault that is planned at 10 s for 2 s, with the times at which it began and was
    /// healed.
    fn crash(&mut self, at_s: f64, healed_s: Option<f64>) {
        self.planned.faults = vec![plan::Fault { for_s: Some(2.0), ..synthetic::fault("crash", 10.0) }];
        self.trial.faults = vec![Fault { name: "crash".into(), number: 1, at_s, healed_s, ..Fault::default() }];
    }

    /// Adds three failed connects, and attempts with this result.
    fn refused_by(&mut self, result: &str, count: u64) {
        self.evidence.generator.push(unconnected(2.0));
        self.evidence.attempts.push(Attempts { at_s: 2.0, result: result.to_owned(), count, ..Attempts::default() });
    }

    fn out_of_ports(&mut self, count: u64) {
        let result = "connect: no local port left".to_owned();
        self.evidence.attempts.push(Attempts { at_s: 9.0, result, count, ..Attempts::default() });
    }

    fn event(&mut self, what: What) {
        self.evidence.events.insert(0, Event { at_s: 9.0, what });
    }

    /// Adds a member that does not report its records, beside one that does.
    fn silent(&mut self, member: &str) {
        let answers = [("n9", Ok(ReplicaContents::new())), (member, Err("hook `audit` failed: exit 7".to_owned()))];
        let replicas = answers.map(|(member, holds)| Replica { member: member.to_owned(), holds });
        self.evidence.replicas = replicas.to_vec();
    }

    /// Adds generators with these clock errors, microseconds.
    fn apart(&mut self, began_within_us: Option<f64>, clock_error_us: f64) {
        let clock_error_us = Some(clock_error_us);
        self.trial.generator.fleet = Some(FleetFigures { generators: 2, began_within_us, clock_error_us });
    }

    /// Adds a delay by others, with this effect.
    fn delayed(&mut self, make: impl FnOnce(&mut DelayEffect)) {
        let mut delay = DelayEffect { generator_pct: Some(3.0), target_pct: Some(2.0), ..DelayEffect::default() };
        make(&mut delay);
        self.trial.delay = Some(delay);
    }

    /// Adds operations that are programs, with this CPU use of programs and target.
    fn runs_programs(&mut self, programs_pct: f64, target_pct: f64) {
        let machine = &mut self.trial.machine;
        (machine.programs_cpu_pct, machine.target_cpu_pct) = (Some(programs_pct), Some(target_pct));
    }

    /// Adds three generators with this number of operations each; `make` changes the second.
    fn fleet(&mut self, operations: u64, make: impl FnOnce(&mut GeneratorFigures)) {
        let generators = (1..=3).map(|number| GeneratorFigures {
            name: format!("g{number}"),
            operations,
            operations_per_s: Some(100.0),
            latency_us_mean: Some(5_000.0),
            late_us_p99: Some(1_000.0),
            ..GeneratorFigures::default()
        });
        self.trial.generator.each = generators.collect();
        make(&mut self.trial.generator.each[1]);
        if self.trial.generator.each[1].carried_pct.is_some() {
            for one in &mut self.trial.generator.each {
                one.carried_pct = one.carried_pct.or(Some(100.0));
            }
        }
    }

    /// Makes operations this late, in a load that waits for timers.
    fn late(&mut self, late_us: f64) {
        self.planned.load.as_mut().unwrap().think_s = 0.01;
        self.trial.generator.late_us_p99 = Some(late_us);
    }

    /// Sets the CPU use of a balancer and of a member, each with four cores, and of the balancer's
    /// busiest thread.
    fn busy(&mut self, [balancer, member]: [f64; 2], thread_pct: Option<f64>) {
        let hosts = [("proxy", balancer, thread_pct), ("n1", member, None)];
        let hosts = hosts.map(|(name, pct, busiest_thread_pct)| record::results::Host {
            name: name.to_owned(),
            figures: Some(HostFigures { cores: Some(4), ..HostFigures::default() }),
            cpu_pct: Some(pct),
            target_cpu_pct: Some(pct),
            busiest_thread_pct,
            ..Default::default()
        });
        self.planned.lab.balancers = vec!["proxy".to_owned()];
        self.trial.hosts = hosts.to_vec();
    }

    /// Leaves the generator without CPU time, and sets the CPU use of the target's busiest thread.
    fn generator_and_target_at_their_limits(&mut self, target_pct: f64) {
        self.trial.generator.cpu_pct = Some(100.0);
        self.trial.hosts = vec![record::results::Host { busiest_thread_pct: Some(target_pct), ..Default::default() }];
    }

    /// Makes agents wait for a record of a feed for this part of their time.
    fn waits_for_feed(&mut self, wait_pct: f64) {
        let feed =
            FeedFigures { wait_pct: Some(wait_pct), read_pct: Some(97.0), bytes_per_s: Some(2e6), records_per_s: None };
        self.trial.generator.feed = Some(feed);
    }

    /// Adds a second that ends at `at_s`, in which the generator did not run for this time.
    fn stall(&mut self, at_s: f64, late_us: f64) {
        self.evidence.generator.push(GeneratorSecond {
            at_s,
            interval_s: 1.0,
            late_us_max: Some(late_us),
            ..GeneratorSecond::default()
        });
    }

    /// Adds a requirement with this metric, and sets the trial's number of operations.
    fn asks(&mut self, metric: &str, count: u64) {
        let mut plan = synthetic::plan();
        plan.requirements.push(plan::Requirement {
            metric: metric.into(),
            range: plan::MetricRange::default(),
            filter: BTreeMap::new(),
        });
        self.plan = Some(plan);
        self.trial.latency_us = Some(Quantiles { count, ..self.trial.latency_us.clone().unwrap() });
    }

    /// Adds a second that ends at `at_s`, in which this number of the target's processes was
    /// replaced.
    fn replaced(&mut self, at_s: f64, count: u64) {
        let row = Sample { at_s, host: "n1".into(), process: "server".into(), ..Sample::default() };
        self.evidence.sampled.add(&Sample { processes_replaced: Some(count), ..row });
    }

    /// Adds an earlier trial with one program, and sets another program for this one.
    fn programs(&mut self, then: &str, now: &str) {
        let before = Evidence { events: vec![played_with(then)], ..Evidence::default() };
        self.earlier.add(&plan::Trial { id: "000".into(), ..self.planned.clone() }, &before);
        self.evidence.events.insert(0, played_with(now));
    }

    fn ended(&mut self, how: Ending, reason: &str) {
        self.evidence.events = vec![Event { at_s: 9.0, what: What::Ended { how, reason: Some(reason.to_owned()) } }];
    }
}

fn slow(long_s: f64) -> Disturbance {
    let outage = Outage { degraded_s: Some(long_s), ..Outage::default() };
    Disturbance { kind: DisturbanceKind::Slow, outage, ..Disturbance::default() }
}

fn granular(period_s: f64) -> Emulated {
    Emulated { speed: 1.0, granularity_s: Some(period_s), ..Emulated::default() }
}

#[test]
fn a_saturated_balancer_is_the_limit() {
    let found = Case::spoiled(|case| case.busy([93.0, 41.0], None));
    let reason = "the balancer proxy used 93 % of its CPU, and no other host more than 41 %: the balancer, not the members, may have \
                  limited the load";
    assert_eq!(found.iter().map(|finding| finding.reason.as_str()).collect::<Vec<_>>(), [reason]);
    assert_eq!(limit(&found, &Case::good().trial), "balancer");
    let quiet: [Spoil; 5] = [
        |case| case.busy([89.9, 41.0], None),
        |case| case.busy([99.0, 90.0], None),
        // Two threads share the work: the other one has time left.
        |case| case.busy([40.0, 30.0], Some(95.0)),
        |case| {
            case.busy([93.0, 41.0], None);
            case.planned.lab.balancers.clear();
        },
        |case| {
            case.busy([93.0, 41.0], None);
            case.trial.hosts.truncate(1);
        },
    ];
    for spoil in quiet {
        assert_eq!(Case::spoiled(spoil), []);
    }
}

#[test]
fn a_slow_feed_is_limited_by_disk_or_unpacking() {
    let disk = "40 % of the agents' time was waiting for the load's own feed: its disk delivered 2 MB/s, and the reader waited for it 97 % \
                of the time";
    for (read_pct, limited_by, words) in [(97.0, "disk", disk), (20.0, "cpu", "busy unpacking")] {
        let mut case = Case::good();
        case.waits_for_feed(40.0);
        case.trial.generator.feed.as_mut().unwrap().read_pct = Some(read_pct);
        let found = Case::spoiled(|spoiled| spoiled.trial = case.trial.clone());
        assert_eq!(limit(&found, &case.trial), limited_by);
        assert!(found[0].reason.contains(words), "{}", found[0].reason);
    }
    assert_eq!(Case::spoiled(|case| case.waits_for_feed(0.9)), []);
}

#[test]
fn the_rule_table_is_sorted_and_complete() {
    assert!(RULES.windows(2).all(|pair| pair[0].name < pair[1].name));
    for rule in RULES {
        let texts = [rule.looks_at, rule.why, rule.remedy];
        assert!(texts.iter().all(|text| text.len() > 10 && !text.contains("  ")), "{}", rule.name);
        assert!(rule.why.ends_with(['.', ')']) && !rule.remedy.ends_with('.'), "{}", rule.name);
    }
}

#[test]
fn a_good_trial_has_no_findings() {
    let findings = Case::spoiled(|_| {});
    assert_eq!(findings, []);
    let found = verdict(&findings);
    assert!(found.figures.iter().all(|one| one.is == Trust::Valid && one.reasons.is_empty()));
    assert_eq!(Verdict { figures: Vec::new(), ..found }, Verdict::default());
    assert_eq!(limit(&findings, &Case::good().trial), "none");
    assert_eq!(limit(&[], &Trial::default()), "", "nobody watched");
}

type Spoil = fn(&mut Case);

type Loss = fn(&mut Evidence);

/// Cases for each rule, with the resulting trust.
const SPOILT: &[(&str, Trust, Spoil)] = &[
    ("alarming_log", Suspect, |case| case.trial.said = vec![said(true)]),
    ("clock_jump", Suspect, |case| case.trial.generator.clock_jump_s = Some(0.1)),
    ("coarse_cores", Suspect, |case| case.trial.emulated = Some(granular(0.01))),
    ("cut_off", Suspect, |case| case.evidence.events.clear()),
    ("cut_off", Suspect, |case| case.ended(Ending::Interrupted, "SIGINT")),
    ("cut_off", Suspect, |case| case.ended(Ending::Failed, "the target did not become ready")),
    ("delayed", Suspect, |case| case.delayed(|delay| delay.throughput_pct = 5.0)),
    ("delayed", Suspect, |case| case.delayed(|delay| delay.p99_pct = Some(49.0))),
    ("delayed", Trust::Valid, |case| case.delayed(|delay| delay.p90_pct = Some(49.0))),
    ("delayed", Void, |case| case.delayed(|delay| delay.p50_pct = Some(50.0))),
    ("delayed", Trust::Valid, |case| case.delayed(|delay| delay.p999_pct = Some(90.0))),
    ("dropped_starts", Suspect, |case| case.trial.generator.dropped = Some(6)),
    ("dropped_starts", Void, |case| case.trial.generator.dropped = Some(500)),
    ("dropped_starts", Suspect, |case| {
        // A dropped session has three operations.
        let load = case.planned.load.as_mut().unwrap();
        load.rate = Some(plan::Rate::Sessions { sessions: Box::new(plan::Rate::Constant(100.0)) });
        load.steps = vec![plan::Step::default(); 3];
        case.trial.generator.dropped = Some(4);
    }),
    ("failed_connects", Suspect, |case| case.evidence.generator.push(unconnected(2.0))),
    ("failed_fault", Void, |case| {
        case.trial.faults.push(Fault { failed: Some("no such process".into()), ..Fault::default() });
    }),
    ("fault_duration", Suspect, |case| case.crash(10.0, Some(11.7))),
    ("fault_duration", Suspect, |case| case.crash(10.0, Some(12.3))),
    ("fault_duration", Void, |case| case.crash(10.0, Some(10.08))),
    ("failed_fault", Void, |case| {
        case.trial.actions.push(OperatorAction { failed: Some("exit 1".into()), ..OperatorAction::default() });
    }),
    ("failed_handshakes", Suspect, |case| case.refused_by("tls: bad certificate", 3)),
    ("few_operations", Suspect, |case| {
        case.evidence.slots[0] = few(99);
        case.trial.outcomes.ok = 99;
    }),
    ("full_disk", Void, |case| case.event(What::Notice { text: "No space left on device".into() })),
    ("generator_cpu", Suspect, |case| case.trial.generator.cpu_pct = Some(90.0)),
    ("generator_cpu", Suspect, |case| case.trial.generator.cpu_pct = Some(100.0)),
    ("generator_cpu", Suspect, |case| case.generator_and_target_at_their_limits(95.0)),
    ("generator_cpu", Void, |case| {
        case.generator_and_target_at_their_limits(94.0);
        case.asks("throughput.operations_per_s", 5_000);
    }),
    ("generator_cpu", Suspect, |case| {
        case.generator_and_target_at_their_limits(95.0);
        case.asks("throughput.operations_per_s", 5_000);
    }),
    ("generator_cpu", Void, |case| {
        case.generator_and_target_at_their_limits(100.0);
        case.planned.load.as_mut().unwrap().think_s = 0.01;
    }),
    ("generator_lateness", Suspect, |case| case.trial.generator.lateness_effect_pct = Some(5.0)),
    ("generator_lateness", Void, |case| case.trial.generator.lateness_effect_pct = Some(50.0)),
    ("generator_lateness", Suspect, |case| case.late(1_000.0)),
    ("generator_lateness", Suspect, |case| case.late(49_000.0)),
    ("generator_lateness", Void, |case| case.late(50_000.0)),
    ("generator_lost", Void, |case| {
        case.event(What::GeneratorLost { generator: "g2".into(), heard_s: 2.1, reason: "its stream ended".into() });
    }),
    ("generator_stall", Suspect, |case| case.stall(5.0, 50_000.0)),
    ("generator_stall", Void, |case| case.stall(5.0, 950_000.0)),
    // Timers that were due before the end fire after it.
    ("generator_stall", Void, |case| case.stall(21.0, 2_000_000.0)),
    ("generator_stall", Void, |case| {
        case.planned.load.as_mut().unwrap().think_s = 0.01;
        case.stall(5.0, 950_000.0);
    }),
    ("generator_throttled", Suspect, |case| case.trial.generator.throttled_pct = Some(0.1)),
    ("generator_throttled", Void, |case| case.trial.generator.throttled_pct = Some(5.0)),
    ("generators_apart", Suspect, |case| case.apart(Some(10_000.0), 9_000.0)),
    ("generators_apart", Suspect, |case| case.apart(None, 99_000.0)),
    ("generators_apart", Void, |case| case.apart(Some(2_000.0), 100_000.0)),
    ("generators_uneven", Suspect, |case| case.fleet(1_000, |uneven| uneven.operations_per_s = Some(75.0))),
    ("generators_uneven", Suspect, |case| case.fleet(1_000, |uneven| uneven.carried_pct = Some(74.0))),
    ("generators_uneven", Suspect, |case| case.fleet(1, |uneven| uneven.latency_us_mean = Some(6_500.0))),
    ("generators_uneven", Suspect, |case| case.fleet(1, |uneven| uneven.late_us_p99 = Some(2_300.0))),
    ("littles_law", Suspect, |case| case.trial.generator.littles_law_error_pct = Some(5.0)),
    ("littles_law", Void, |case| case.trial.generator.littles_law_error_pct = Some(20.0)),
    ("late_fault", Suspect, |case| case.crash(10.3, Some(12.3))),
    ("late_fault", Suspect, |case| case.crash(17.9, Some(19.9))),
    ("late_fault", Suspect, |case| {
        case.crash(11.0, None);
        case.planned.faults[0].for_s = None;
    }),
    ("local_limits", Suspect, |case| case.out_of_ports(2)),
    ("local_limits", Void, |case| case.out_of_ports(5_000)),
    ("lost_host", Void, |case| case.event(What::HostDown { host: "n1".into(), expected: false })),
    ("lost_process", Suspect, |case| case.event(down(false))),
    ("lost_switch", Void, |case| case.event(What::SwitchLost { reason: "its runner ended".into() })),
    ("missing_fault", Void, |case| case.planned.faults.push(synthetic::fault("oops", 10.0))),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.generator.clear()),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.generator.truncate(12)),
    ("missing_records", Void, |case| case.loses = |evidence| drop(evidence.generator.drain(10..12))),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.machine_sampled_at_s.clear()),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.machine_sampled_at_s.truncate(10)),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.attempts.clear()),
    ("missing_records", Void, |case| case.loses = |evidence| evidence.absent = vec!["samples.csv"]),
    ("missing_records", Void, |case| case.event(What::Replicas { rounds: 2, settled: true })),
    ("no_baseline", Suspect, |case| {
        case.trial.faults.push(Fault { outage: Some(Outage::default()), ..Fault::default() });
    }),
    ("no_steady_state", Suspect, |case| case.window.steady = Some(false)),
    ("no_steady_state", Suspect, |case| case.trial.disturbances = vec![slow(0.1 * case.window.length_s())]),
    ("quantile_refused", Suspect, |case| case.asks("latency_us.p999", 2_994)),
    ("quantile_refused", Suspect, |case| case.asks("ratio(latency_us.p99, a, b)", 298)),
    ("records_disagree", Void, |case| case.trial.outcomes.failed = 1),
    ("records_disagree", Void, |case| case.trial.outcomes.ok -= 1),
    ("records_disagree", Void, |case| case.loses = |evidence| evidence.attempts[0].count -= 1),
    ("records_disagree", Void, |case| case.loses = |evidence| evidence.generator[3].operations += 1),
    ("records_disagree", Void, |case| case.loses = |evidence| evidence.slots[0].ok -= 1),
    // Operations that were still open at the end are in no other record.
    ("records_disagree", Void, |case| case.loses = |evidence| evidence.generator[3].due = Some(5_001)),
    ("records_disagree", Void, |case| case.event(What::Audit { keys: 9, unread: 0, skipped: 0 })),
    ("refused_connects", Suspect, |case| case.refused_by("answer: wrongpass", 3)),
    ("refused_connects", Suspect, |case| case.refused_by("proxy: 407", 3)),
    ("restarted_target", Suspect, |case| case.replaced(5.0, 1)),
    ("saturated_balancer", Suspect, |case| case.busy([90.0, 89.9], None)),
    ("saturated_balancer", Suspect, |case| case.busy([25.0, 40.0], Some(95.0))),
    ("short_measurement", Suspect, |case| case.window.until_s = 6.9),
    ("slow_feed", Suspect, |case| case.waits_for_feed(1.0)),
    ("slow_feed", Void, |case| case.waits_for_feed(5.0)),
    ("stall_in_outage", Suspect, |case| {
        case.window.until_s = 200.0;
        case.stall(11.0, 60_000.0);
        let outage = Some(Outage { baseline_per_s: Some(1.0), back_to_baseline_s: Some(0.1), ..Outage::default() });
        case.trial.faults.push(Fault { at_s: 10.2, outage, ..Fault::default() });
    }),
    ("steal", Trust::Valid, |case| case.trial.machine = Machine { steal_pct: Some(2.0), ..Machine::default() }),
    ("client_programs", Suspect, |case| case.runs_programs(85.0, 12.0)),
    ("client_programs", Suspect, |case| case.runs_programs(50.0, 0.0)),
    ("strangers", Trust::Valid, |case| case.trial.machine.strangers_cpu_pct = Some(90.0)),
    ("strangers", Suspect, |case| {
        case.trial.machine.strangers_cpu_pct = Some(10.0);
        case.asks("hosts.n1.cpu_pct", 5_000);
    }),
    ("torn_records", Suspect, |case| case.evidence.torn = vec!["samples.csv"]),
    ("unaudited_member", Suspect, |case| case.silent("n2")),
    ("unhealed_fault", Suspect, |case| case.event(What::Notice { text: "fault `x` could not be healed: no".into() })),
    ("unread_keys", Suspect, |case| case.event(What::Audit { keys: 0, unread: 1, skipped: 0 })),
    ("unsettled_replicas", Suspect, |case| case.trial.consistency.replicas_settled = Some(false)),
    ("versions_changed", Suspect, |case| case.programs("1", "2")),
];

#[test]
fn each_rule_has_a_case_that_triggers_it() {
    for (rule, trust, spoil) in SPOILT {
        let found = Case::spoiled(spoil);
        assert_eq!(rules_of(&found), [(*rule, *trust)], "{found:?}");
        assert!(found[0].reason.len() > 10);
    }
    let tried: Vec<_> = SPOILT.iter().map(|(rule, ..)| *rule).chain(["late_failures", "no_success"]).collect();
    assert!(RULES.iter().all(|rule| tried.contains(&rule.name)), "a rule without a test");
}

/// Returns the reason of the first finding.
fn reason(spoil: impl FnOnce(&mut Case)) -> String {
    Case::spoiled(spoil).remove(0).reason
}

/// Returns the rules that speak against a trial, with their trust.
fn rules_of(found: &[RuleFinding]) -> Vec<(&str, Trust)> {
    found.iter().map(|finding| (finding.rule, finding.trust)).collect()
}

#[test]
fn log_lines_of_the_target_are_quoted() {
    assert_eq!(
        reason(|case| case.trial.said = vec![said(false), said(true)]),
        "n2 logged at 12.3 s: \"{inconsistent_database, running_partitioned_network, 'n1@10.83.0.1'}\", and 2 more such lines"
    );
    assert!(reason(|case| case.event(down(false))).ends_with("(exit 1); it wrote last: \"down\""));
}

#[test]
fn a_trial_without_success_is_void_or_suspect() {
    let [alone, repeated, beside_another] = [&[10][..], &[10, 10], &[10, 20]].map(|rates| {
        Case::spoiled(|case| {
            case.evidence.slots[0] = OutcomeSlot { failed: 5_000, ok: 0, ..case.evidence.slots[0] };
            case.trial.outcomes = Outcomes { failed: 5_000, ..Outcomes::default() };
            let trials = rates.iter().map(|rate| plan::Trial {
                point: BTreeMap::from([("load.rate".to_owned(), json!(rate))]),
                ..case.planned.clone()
            });
            let plan = Plan { trials: trials.collect(), ..Plan::default() };
            case.planned = plan.trials[0].clone();
            case.plan = Some(plan);
        })
    });
    assert_eq!((rules_of(&alone), rules_of(&repeated)), (vec![("no_success", Void)], vec![("no_success", Void)]));
    assert_eq!(rules_of(&beside_another), [("no_success", Suspect)]);
    let (trial, mut all) = (Trial::default(), [("001".to_owned(), beside_another)]);
    let worked = Trial { outcomes: Outcomes { ok: 1, ..Outcomes::default() }, ..Trial::default() };
    without_success(&[trial.clone(), worked], &mut all);
    assert_eq!(rules_of(&all[0].1), [("no_success", Suspect)]);
    without_success(&[trial], &mut all);
    assert_eq!(rules_of(&all[0].1), [("no_success", Void)], "the other point did not work either");
}

#[test]
fn a_stall_reason_distinguishes_cpu_waits() {
    for (run_delay_pct, words) in [
        (Some(1.0), "it was not waiting for a CPU, so it or the whole machine was stopped"),
        (Some(60.0), "it was waiting for a CPU"),
        (None, "it was stopped, or waited"),
    ] {
        let found = Case::spoiled(|case| {
            // Stopped at 3.0 s for two seconds: the seconds that ended in this time share the CPU
            // time of the thread.
            case.stall(6.0, 2_000_000.0);
            for at_s in [4.0, 5.0] {
                case.evidence.generator.push(GeneratorSecond { at_s, interval_s: 1.0, ..GeneratorSecond::default() });
            }
            case.evidence.generator.iter_mut().for_each(|row| row.run_delay_pct = run_delay_pct);
        });
        assert_eq!(rules_of(&found), [("generator_stall", Void)]);
        let reason = &found[0].reason;
        assert!(reason.contains(words) && reason.contains("2000 ms at worst, near 6 s"), "{reason}");
    }
}

#[test]
fn equally_late_generators_are_even() {
    let [even, uneven] = [126_900.0, 80_000.0].map(|others_us| {
        Case::spoiled(|case| {
            case.fleet(1, |uneven| uneven.late_us_p99 = Some(132_100.0));
            for other in [0, 2] {
                case.trial.generator.each[other].late_us_p99 = Some(others_us);
            }
        })
    });
    assert_eq!(even, [], "a difference of 5 ms, with 127 ms on each");
    assert_eq!(uneven[0].rule, "generators_uneven");
}

#[test]
fn simultaneous_thread_stalls_count_once() {
    let reason = reason(|case| {
        case.stall(5.0, 450_000.0);
        case.stall(5.0, 440_000.0);
        case.evidence.generator[1].thread = 1;
    });
    assert!(reason.contains("2.5 % of the time (450 ms"), "{reason}");
}

#[test]
fn a_reason_comes_with_a_remedy() {
    let is = verdict(&Case::spoiled(|case| case.trial.generator.throttled_pct = Some(2.0)));
    let remedy = rules().iter().find(|rule| rule.name == "generator_throttled").unwrap().remedy;
    assert_eq!((is.rules, is.remedies), (vec!["generator_throttled".to_owned()], vec![remedy.to_owned()]));
    assert!(is.reasons[0].contains("for 2.0 % of the time"), "{:?}", is.reasons);
}

#[test]
fn other_processes_are_listed_busiest_first() {
    let many = [("rustc", 12, 30.4), ("sh", 4, 12.0), ("ld", 5, 1.9), ("cc", 6, 1.5)];
    for (shares, short_lived_cpu_pct, busiest) in [
        (&many[..], None, "; the busiest: rustc (pid 12) 30 %, sh (pid 4) 12 %, ld (pid 5) 2 %"),
        (&[("cargo", 12, 5.0)], Some(38.6), "; the busiest: cargo (pid 12) 5 %, short-lived processes 39 %"),
        // Many that use little each.
        (&[("a", 1, 0.9)], None, ""),
        (&[], None, ""),
    ] {
        let reason = reason(|case| {
            let shares =
                shares.iter().map(|&(name, pid, cpu_pct)| ProcessShare { name: name.to_owned(), pid, cpu_pct });
            case.trial.machine.strangers_cpu_pct = Some(45.2);
            case.trial.machine.other_processes = shares.collect();
            case.trial.machine.short_lived_cpu_pct = short_lived_cpu_pct;
        });
        assert_eq!(reason, format!("other processes used 45 % of the CPU{busiest}"));
    }
}

#[test]
fn an_unidentified_target_has_no_other_processes() {
    let found = Case::spoiled(|case| {
        case.trial.machine.not_judged = Some("the socket belongs to user 0".to_owned());
        case.trial.machine.strangers_cpu_pct = None;
        case.event(What::CpuShares {
            target_processes: Vec::new(),
            other_processes: Vec::new(),
            not_judged: case.trial.machine.not_judged.clone(),
            short_lived_cpu_pct: None,
            programs_cpu_pct: None,
            target_cpu_pct: None,
        });
    });
    assert_eq!(found, []);
}

fn against(rule: &'static str, trust: Trust, reason: &str) -> RuleFinding {
    RuleFinding::against_all(rule, trust, reason.to_owned())
}

#[test]
fn the_worst_reason_comes_first_with_its_trial() {
    let single = verdict(&[against("steal", Suspect, "a"), against("strangers", Void, "b")]);
    assert_eq!((single.is, single.reasons), (Void, vec!["b".to_owned(), "a".to_owned()]));
    let trials = [
        ("001".to_owned(), vec![against("steal", Suspect, "2 %")]),
        ("002".to_owned(), Vec::new()),
        ("003".to_owned(), vec![against("steal", Void, "12 %"), against("torn_records", Suspect, "t")]),
    ];
    let run = run_verdict(&trials);
    assert_eq!(run.is, Void);
    assert_eq!(run.reasons, ["trial 003: 12 %", "trial 001: 2 %", "trial 003: t"], "001 is not void");
    assert_eq!(run_verdict(&trials[..1]).reasons, ["2 %"]);
    assert_eq!(run_verdict(&[]).is, Trust::Valid);
}

#[test]
fn the_limit_names_the_generators_bottleneck() {
    let mut trial = Case::good().trial;
    trial.generator.cpu_pct = Some(99.0);
    let found = Case::spoiled(|case| case.trial.generator.cpu_pct = Some(99.0));
    assert_eq!(limit(&found, &trial), "cpu");
    let found = Case::spoiled(|case| case.evidence.generator.push(unconnected(2.0)));
    assert_eq!(limit(&found, &trial), "connections");
}

#[test]
fn a_generator_stall_outranks_a_busy_machine() {
    let findings = [against("delayed", Suspect, ""), against("generator_stall", Void, "")];
    assert_eq!(limit(&findings, &Case::good().trial), "lateness");
    assert_eq!(limit(&findings[..1], &Case::good().trial), "cpu");
}

#[test]
fn failed_handshakes_and_failed_connects_are_distinguished() {
    let certificate = "3 TLS handshakes failed without a fault: the target was reached, but its certificate";
    let wants = "refused the handshake (certificate required); it may require a client certificate";
    for (result, count, words) in [
        ("tls: bad certificate", 3, &[certificate][..]),
        ("tls: handshake failed", 3, &["it speaks no TLS"]),
        // Attempts that shared the connection were refused with it.
        ("tls: closed in the handshake", 48, &["3 TLS handshakes"]),
        ("tls: refused by the target: certificate required", 3, &[wants]),
        ("tls: refused by the target: protocol version", 1, &["2 connects failed", "1 TLS handshakes"]),
        // After the handshake there is a connection, and only connects are reported.
        ("tls: broken", 3, &["3 connects failed"]),
    ] {
        let found = Case::spoiled(|case| case.refused_by(result, count));
        assert_eq!(found.len(), words.len(), "{found:?}");
        assert!(found.iter().zip(words).all(|(finding, words)| finding.reason.contains(words)), "{found:?}");
    }
    let found = Case::spoiled(|case| case.refused_by("tls: bad certificate", 3));
    assert_eq!(limit(&found, &Case::good().trial), "connections");
}

fn played_with(program: &str) -> Event {
    let versions = Versions { program: Some(program.to_owned()), ..Versions::default() };
    Event { at_s: -1.0, what: What::Versions { is: versions } }
}

fn said(alarming: bool) -> Said {
    let line = "  {inconsistent_database, running_partitioned_network, 'n1@10.83.0.1'}".to_owned();
    Said { at_s: 12.345, host: "n2".into(), role: "member".into(), line, count: 3, alarming, ..Said::default() }
}

fn few(ok: u32) -> OutcomeSlot {
    OutcomeSlot { at_s: 3.0, slot_s: 0.001, ok, ..OutcomeSlot::default() }
}

fn unconnected(at_s: f64) -> GeneratorSecond {
    GeneratorSecond { at_s, connect_failures: 3, ..GeneratorSecond::default() }
}

fn down(expected: bool) -> What {
    let last_lines = vec!["it goes".to_owned(), "down".to_owned()];
    What::ProcessDown { host: "n1".into(), process: "server".into(), how: "exit 1".into(), expected, last_lines }
}

#[test]
fn missing_records_are_reported_with_their_seconds() {
    let cases: [(Loss, &str); 6] = [
        (|evidence| evidence.generator.truncate(12), "generator.csv lacks 8 s of 20 s"),
        (|evidence| evidence.machine_sampled_at_s.clear(), "samples.csv lacks 20 s of 20 s"),
        (|evidence| evidence.attempts.clear(), "attempts.csv lacks 1 s of 20 s"),
        (|evidence| evidence.absent.push("load.hlog"), "load.hlog is missing: 20 s of 20 s"),
        (
            |evidence| evidence.attempts[0].count = 4_000,
            "load.hlog has 5000 operations `get` that were ok, but attempts.csv has 4000: one of them is incomplete",
        ),
        (
            |evidence| evidence.generator[3].operations = 7,
            "load.hlog has 5000 operations, but generator.csv has 7: one of them is incomplete",
        ),
    ];
    for (loses, expected) in cases {
        assert_eq!(reason(|case| case.loses = loses), expected);
    }
}

#[test]
fn lost_evidence_never_makes_a_verdict_better() {
    let before = verdict(&Case::spoiled(|case| case.late(50_000.0))).is;
    // An empty generator.csv, as the analysis reads it.
    let after = Case::spoiled(|case| {
        case.loses = |evidence| evidence.generator.clear();
        case.trial.generator = Generator::default();
    });
    assert!(before == Void && verdict(&after).is >= before, "{after:?}");
}

#[test]
fn a_cut_off_trial_may_lack_only_its_last_seconds() {
    let cases: [(Loss, &[&str]); 7] = [
        (|_| {}, &["cut_off"]),
        (|evidence| evidence.generator.truncate(18), &["cut_off"]),
        // Nothing says that there was more.
        (|evidence| evidence.generator.truncate(3), &["cut_off"]),
        (|evidence| drop(evidence.generator.drain(3..9)), &["cut_off", "missing_records"]),
        (|evidence| evidence.attempts.clear(), &["cut_off", "missing_records"]),
        (|evidence| evidence.load = Default::default(), &["cut_off", "missing_records"]),
        (|evidence| evidence.slots[0].ok -= 1, &["cut_off", "records_disagree"]),
    ];
    for (number, (loses, rules)) in cases.into_iter().enumerate() {
        let found = Case::spoiled(|case| {
            case.evidence.events.clear();
            case.loses = loses;
        });
        assert_eq!(found.iter().map(|finding| finding.rule).collect::<Vec<_>>(), rules, "case {number}");
    }
}

#[test]
fn an_unended_trial_of_a_finished_run_is_void() {
    let found = Case::spoiled(|case| {
        case.evidence.events.clear();
        case.is_over = true;
    });
    assert!(found.iter().any(|finding| finding.rule == "missing_records" && finding.trust == Void), "{found:?}");
    assert_eq!(verdict(&found).reasons[0], "events.jsonl has no final event, although the run ended");
}

#[test]
fn a_nan_figure_is_never_within_a_threshold() {
    let found = Case::spoiled(|case| case.trial.generator.littles_law_error_pct = Some(f64::NAN));
    assert_eq!(verdict(&found).is, Void);
}

const JUST_INSIDE: &[Spoil] = &[
    |case| case.trial.generator.cpu_pct = Some(89.9),
    |case| case.late(999.0),
    |case| {
        // The worst second was late, but the figures hardly changed.
        case.late(30_000.0);
        case.trial.generator.lateness_effect_pct = Some(4.9);
    },
    // The target has served before, so its refusals are its failure.
    |case| case.evidence.generator.push(unconnected(5.0)),
    |case| case.stall(5.0, 49_000.0),
    |case| case.stall(1.5, 900_000.0),
    |case| case.stall(22.0, 900_000.0),
    |case| {
        // The thread was busy all the time: too much work, which is no stall.
        case.planned.load.as_mut().unwrap().think_s = 0.01;
        case.stall(5.0, 950_000.0);
        case.evidence.generator[0].cpu_pct = 99.0;
    },
    |case| case.trial.said = vec![said(false)],
    |case| {
        // The load was stopped at a violation, before the fault or in it.
        case.planned.faults.push(synthetic::fault("oops", 10.0));
        case.trial.stopped = Some(LoadStop { at_s: 9.0, ..LoadStop::default() });
    },
    |case| {
        case.crash(10.0, Some(11.7));
        case.trial.stopped = Some(LoadStop { at_s: 11.7, ..LoadStop::default() });
    },
    |case| case.crash(10.04, Some(12.08)),
    |case| case.crash(10.0, None),
    |case| case.trial.generator.clock_jump_s = Some(0.099),
    |case| {
        case.delayed(|delay| (delay.throughput_pct, delay.p50_pct, delay.p99_pct) = (4.9, Some(4.9), Some(4.9)));
    },
    |case| case.trial.generator.preempted_pct = Some(60.0),
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
    |case| case.runs_programs(30.0, 31.0),
    // The target is on another machine, or the programs are the target.
    |case| case.trial.machine.programs_cpu_pct = Some(90.0),
    |case| case.window.until_s = 7.0,
    |case| case.window.steady = None,
    |case| case.trial.disturbances = vec![slow(0.09 * case.window.length_s())],
    |case| case.event(down(true)),
    |case| {
        case.event(What::Audit { keys: 1, unread: 0, skipped: 0 });
        case.evidence.history = vec![line(By::Load, "write"), line(By::Audit, "read")];
    },
    |case| {
        // The members reported their records, so no key had to be read back.
        case.event(What::Audit { keys: 1, unread: 0, skipped: 0 });
        case.event(What::Replicas { rounds: 2, settled: true });
        case.evidence.history = vec![line(By::Load, "write")];
        case.evidence.replicas = vec![Replica { member: "n1".into(), holds: Ok(ReplicaContents::new()) }];
    },
    // The last row is due when the load is over.
    |case| case.loses = |evidence| evidence.generator.truncate(19),
    |case| case.loses = |evidence| evidence.machine_sampled_at_s.truncate(19),
    // The machine stalled, or one row is lost.
    |case| case.loses = |evidence| drop(evidence.machine_sampled_at_s.drain(8..12)),
    |case| {
        // A trial without a load has no outcomes.
        case.planned.load = None;
        case.trial.outcomes = Outcomes::default();
        case.evidence.slots.clear();
        case.loses =
            |evidence| *evidence = Evidence { events: std::mem::take(&mut evidence.events), ..Evidence::default() };
    },
    |case| case.trial.consistency.replicas_settled = Some(true),
    |case| {
        // A member that a fault took down, and that the plan does not restart, is not missed.
        case.silent("n1");
        case.event(down(true));
    },
    |case| {
        // Late by 40 ms if an operation takes half a second.
        case.trial.latency_us = Some(Quantiles { p50: Some(500_000.0), ..Quantiles::default() });
        case.late(40_000.0);
    },
    |case| {
        case.evidence.slots[0] = few(100);
        case.trial.outcomes.ok = 100;
    },
    |case| {
        // Agents cannot connect while the target is down, as the fault intends.
        case.window.first_fault_s = Some(10.0);
        case.evidence.generator.push(unconnected(11.0));
    },
];

fn line(by: By, effect: &str) -> HistoryEntry {
    HistoryEntry {
        at_s: 9.0,
        by,
        effect: effect.to_owned(),
        key: "k".to_owned(),
        outcome: Outcome::Ok,
        applied: Some(true),
        ..HistoryEntry::default()
    }
}

#[test]
fn values_just_inside_a_threshold_give_no_finding() {
    for (number, spoil) in JUST_INSIDE.iter().enumerate() {
        assert_eq!(Case::spoiled(spoil), [], "case {number}");
    }
}

#[test]
fn silent_members_are_reported_unless_a_fault_stopped_them() {
    let up = What::HostUp { host: "n1".into(), kind: "netns".into(), profile: None, is: HostFigures::default() };
    let [taken_down, lost] = [true, false].map(|expected| What::HostDown { host: "n1".into(), expected });
    let stopping = What::Phase { phase: Phase::Stopping };
    for (story, is_missed, why) in [
        (&[][..], true, "nothing took it down"),
        (&[up.clone(), taken_down.clone(), down(true)], false, "a fault stopped it"),
        (&[taken_down.clone(), down(true), up], true, "it was to serve again"),
        (&[lost, down(true)], true, "nobody meant it to go"),
        (&[stopping, taken_down, down(true)], true, "that was the end of the trial"),
    ] {
        let found = Case::spoiled(|case| {
            case.silent("n1");
            story.iter().rev().for_each(|what| case.event(what.clone()));
        });
        assert_eq!(found.iter().any(|finding| finding.rule == "unaudited_member"), is_missed, "{why}");
    }
}

/// Returns the verdict of a run of these trials: agents and verdict of each.
fn run(judged: &[(u32, Trust)]) -> Trust {
    let mut trials = Vec::new();
    let mut findings = Vec::new();
    for (index, &(agents, is)) in judged.iter().enumerate() {
        let mut trial = Trial { id: format!("{:03}", index + 1), ..Trial::default() };
        trial.point.insert("load.agents".to_owned(), json!(agents));
        trial.verdict.is = is;
        let found = against("steal", is, "the hypervisor took 20 %");
        findings.push((trial.id.clone(), if is == Trust::Valid { Vec::new() } else { vec![found] }));
        trials.push(trial);
    }
    run_verdict(&of_used(&trials, findings)).is
}

const SOUND: (u32, Trust) = (1, Trust::Valid);
const VOID: (u32, Trust) = (1, Void);

#[test]
fn one_void_repeat_in_four_makes_a_run_suspect() {
    assert_eq!(run(&[SOUND, SOUND, VOID, SOUND]), Suspect);
    assert_eq!(run(&[SOUND, (1, Suspect), VOID, SOUND]), Suspect);
    assert_eq!(run(&[SOUND; 4]), Trust::Valid);
}

#[test]
fn too_few_sound_repeats_make_a_run_void() {
    assert_eq!(run(&[VOID]), Void);
    assert_eq!(run(&[SOUND, SOUND, VOID]), Void);
    assert_eq!(run(&[SOUND, SOUND, SOUND, VOID, VOID]), Void);
    assert_eq!(run(&[SOUND, SOUND, SOUND, (2, Void)]), Void, "they are of another point");
}

#[test]
fn the_only_reason_says_the_trial_is_left_out() {
    let mut trials: Vec<Trial> = (1..=4).map(|id| Trial { id: format!("{id:03}"), ..Trial::default() }).collect();
    trials[1].verdict.is = Void;
    let found = vec![against("steal", Void, "steal is high"), against("strangers", Suspect, "others are busy")];
    let findings = vec![("002".to_owned(), found)];
    let run = run_verdict(&of_used(&trials, findings));
    assert_eq!(run.is, Suspect);
    assert_eq!(run.reasons.len(), 1, "{:?}", run.reasons);
    assert!(run.reasons[0].contains("steal is high; this trial is left out of all figures"), "{:?}", run.reasons);
}
