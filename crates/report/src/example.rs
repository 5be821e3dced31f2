//! Example runs for tests: plans, results and records of the relevant shapes.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use analysis::LatencySecond;
use experiment::plan::{self, Load, Plan, Target, TargetKind};
use record::environment::Environment;
use record::events::{Ending, Event, What};
use record::results::{
    Claim, Comparison, Consistency, ConsistencyProof, CostWithWarmup, DemandedHosts, Disturbance, Fault, FieldCheck,
    Generator, Holds, Host, Operation, OperationChecks, Outage, OutageDistribution, Outcomes, PointCost,
    ProvingOperation, Quantiles, Requirement, Results, Spread, Throughput, Trial, Trust, Verdict, WithWarmup,
};
use record::rows::{GeneratorSecond, OutcomeSlot, Sample};
use serde_json::{Value, json};

use crate::series::TrialSeries;

/// Returns a plan of these variants, swept paths and repeats; 200 agents for 30 s.
pub fn plan(variants: &[&str], swept: &[(&str, &[&str])], repeats: u32) -> Plan {
    let mut points: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new()];
    for (path, values) in swept {
        let mut with = Vec::new();
        for point in &points {
            for value in *values {
                let value = ((*path).to_owned(), json!(value));
                with.push(point.clone().into_iter().chain([value]).collect());
            }
        }
        points = with;
    }
    let names: Vec<Option<String>> =
        if variants.is_empty() { vec![None] } else { variants.iter().map(|name| Some((*name).to_owned())).collect() };
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        for variant in &names {
            for point in &points {
                let id = format!("{:03}", trials.len() + 1);
                trials.push(trial_plan(id, variant.clone(), point.clone(), repeat));
            }
        }
    }
    Plan {
        format: plan::FORMAT,
        title: "A name server crashes at full load".to_owned(),
        asks: "How many calls fail, for how long, and are any names lost?".to_owned(),
        variants: variants.iter().map(|name| (*name).to_owned()).collect(),
        swept: swept.iter().map(|(path, _)| (*path).to_owned()).collect(),
        trials,
        ..Plan::default()
    }
}

fn trial_plan(id: String, variant: Option<String>, point: BTreeMap<String, Value>, repeat: u32) -> plan::Trial {
    plan::Trial {
        id,
        variant,
        point,
        repeat,
        seed: 1,
        target: Target {
            kind: TargetKind::Folder { name: "vsns".to_owned(), with: BTreeMap::new() },
            protocol: "vsns".to_owned(),
            ..Default::default()
        },
        load: Some(load()),
        ..plan::Trial::default()
    }
}

fn load() -> Load {
    Load { agents: 200, ramp_s: 3.0, time_s: 30.0, ..Load::default() }
}

/// Returns a plain load of one trial, and its results.
pub fn plain() -> (Plan, Results) {
    let plan = plan(&[], &[], 1);
    let results = results(&plan);
    (plan, results)
}

/// Returns a load with a fault, as in [`crash`], and its results.
pub fn one_crash() -> (Plan, Results) {
    let (plan, mut results) = plain();
    crash(&mut results.trials[0]);
    (plan, results)
}

/// Returns results of a plain load for every trial of a plan: 63,412 operations/s, no failure.
pub fn results(plan: &Plan) -> Results {
    Results {
        format: 1,
        title: plan.title.clone(),
        asks: plan.asks.clone(),
        planned_trials: plan.trials.len() as u32,
        trials: plan.trials.iter().map(trial).collect(),
        ..Results::default()
    }
}

fn trial(planned: &plan::Trial) -> Trial {
    let latency = quantiles(1.0);
    Trial {
        id: planned.id.clone(),
        variant: planned.variant.clone(),
        point: planned.point.clone(),
        repeat: planned.repeat,
        ended: Some(Ending::Done),
        measured_s: Some([4.0, 30.0]),
        throughput: Throughput {
            operations_per_s: Some(63_412.0),
            cycles_per_s: Some(15_300.0),
            before_first_fault_per_s: None,
            ..Throughput::default()
        },
        with_warmup: WithWarmup {
            operations_per_s: Some(61_200.0),
            cycles_per_s: Some(14_800.0),
            latency_us: Some(quantiles(1.0)),
            service_us: Some(quantiles(0.95)),
        },
        outcomes: Outcomes { ok: 1_834_567, unfinished: 3, ..Outcomes::default() },
        failed_pct: Some(0.0),
        attempts: 1_834_567,
        attempt_results: BTreeMap::from([("ok".to_owned(), 1_834_567)]),
        latency_us: Some(latency),
        service_us: Some(quantiles(0.95)),
        operations: ["load", "remove", "save"].map(|name| (name.to_owned(), operation())).into_iter().collect(),
        consistency: Consistency { wrong: Some(0), linearizable: "not checked".to_owned(), ..Consistency::default() },
        machine: record::results::Machine {
            iowait_pct: Some(0.31),
            steal_pct: Some(1.2),
            strangers_cpu_pct: Some(0.8),
            ..record::results::Machine::default()
        },
        hosts: vec![host()],
        generator: Generator {
            cpu_pct: Some(61.2),
            late_us_p99: Some(84.0),
            littles_law_error_pct: Some(0.21),
            connect_failures: Some(0),
            dropped: Some(0),
            limit: "none".to_owned(),
            ..Generator::default()
        },
        ..Trial::default()
    }
}

/// Returns checks of a register that answered a read with an overwritten value.
pub fn violated() -> Consistency {
    let operation = |agent: u32, did: &str, start_s: f64, end_s: Option<f64>| ProvingOperation {
        agent: Some(agent),
        did: did.to_owned(),
        start_s,
        end_s,
    };
    let operations = vec![
        operation(7, "wrote \"7-1\"", 14.912_301, Some(14.912_904)),
        operation(3, "replaced \"7-1\" by \"3-1\"", 14.990_117, Some(14.990_777)),
        operation(12, "read \"3-1\"", 14.990_502, Some(14.991_004)),
        operation(7, "wrote \"7-2\"", 14.990_6, None),
        operation(3, "read \"7-1\"", 16.204_331, Some(16.204_902)),
    ];
    let proof = ConsistencyProof {
        guarantee: "linearizable".to_owned(),
        key: "s/k-7".to_owned(),
        explanation:
            "operation 1 ended with \"7-1\" before operation 2 on \"3-1\" started, and operation 3 ended with \"3-1\" \
                      before operation 5 on \"7-1\" started: neither value can come first"
                .to_owned(),
        operations: operations.clone(),
        left_out: 0,
    };
    let own = ConsistencyProof {
        guarantee: "read your writes".to_owned(),
        explanation: "operation 2 returned \"7-1\", but operation 1 of the same client had written the newer \"3-1\""
            .to_owned(),
        operations: [1, 4].map(|place| operations[place].clone()).to_vec(),
        ..proof.clone()
    };
    Consistency {
        linearizable: "no".to_owned(),
        linearizable_checked: Some(40),
        not_linearizable: Some(1),
        not_read_your_writes: Some(1),
        not_monotonic_reads: Some(0),
        proofs: vec![proof, own],
        ..Consistency::default()
    }
}

fn operation() -> Operation {
    Operation {
        group: None,
        throughput_per_s: Some(21_137.0),
        outcomes: Outcomes { ok: 611_522, ..Outcomes::default() },
        attempts: 611_522,
        latency_us: Some(quantiles(1.0)),
        service_us: Some(quantiles(0.95)),
        by_outcome: BTreeMap::new(),
        ..Operation::default()
    }
}

fn host() -> Host {
    Host {
        name: "local".to_owned(),
        cpu_pct: Some(97.4),
        target_cpu_pct: Some(52.1),
        run_delay_pct: Some(140.0),
        load1_max: Some(3.91),
        load5_max: Some(1.72),
        load15_max: Some(0.85),
        io_wait_threads: Some(0),
        rss_max_bytes: Some(71_300_000),
        disk_write_bytes: Some(14_500_000),
        net_bytes: Some(1_120_000_000),
        ..Host::default()
    }
}

/// Returns latencies of about 3 ms, multiplied by `factor`.
pub fn quantiles(factor: f64) -> Quantiles {
    Quantiles {
        p50: Some(2_710.0 * factor),
        p75: Some(3_240.0 * factor),
        p90: Some(4_020.0 * factor),
        p95: Some(4_900.0 * factor),
        p99: Some(6_870.0 * factor),
        p999: Some(11_300.0 * factor),
        max: Some(48_200.0 * factor),
        mean: Some(2_950.0 * factor),
        count: 1_834_567,
        ..Quantiles::default()
    }
}

/// Returns the checks of an operation `login`, of whose 1,000 answers 12 lack a token.
pub fn failed_checks() -> BTreeMap<String, OperationChecks> {
    let field = |field: &str, failed| (field.to_owned(), FieldCheck { failed, failed_pct: Some(failed as f64 / 10.0) });
    let expectations = [field("body", 12), field("status", 0), field("header.x-token", 1)].into();
    let login = OperationChecks { answers: 1_000, failed: 12, failed_pct: Some(1.2), expectations };
    [("login".to_owned(), login)].into()
}

/// Returns the machine of the examples.
pub fn environment() -> Environment {
    let mut environment = Environment {
        plimsoll: Some("0.1.0".to_owned()),
        targets: BTreeMap::from([("vsns".to_owned(), "1.0.0, Erlang/OTP 25".to_owned())]),
        os: Some("Debian GNU/Linux 12".to_owned()),
        kernel: Some("6.1.0-18-amd64".to_owned()),
        memory_bytes: Some(8_232_345_600),
        virtualisation: Some("kvm".to_owned()),
        cgroup_version: Some(2),
        root: Some(false),
        ..Environment::default()
    };
    environment.cpu.model = Some("Intel(R) Xeon(R) Processor @ 2.60GHz".to_owned());
    environment.cpu.cores = Some(2);
    environment.limits.open_files = Some(65_536);
    environment.limits.ephemeral_ports = Some([32_768, 60_999]);
    environment
}

/// Returns the plan of a run folder.
pub fn plan_of(folder: &record::folder::RunFolder) -> Plan {
    record::checked_file::read_json(&folder.plan()).unwrap().unwrap()
}

/// Returns six policies, three kinds of state and two repeats. Policies that retry hide the crash,
/// `process` loses writes, one trial is void and one requirement is violated.
pub fn policies() -> (Plan, Results) {
    let variants = ["fail fast", "wait", "three tries", "hub fails fast", "hub waits", "hub tries"];
    let mut plan = plan(&variants, &[("target.with.state", &["process", "ets", "mnesia"])], 2);
    plan.title = "What a crash costs".to_owned();
    plan.asks = "Which policy hides the crash from callers, and what does each cost in latency?".to_owned();
    let mut results = results(&plan);
    for (index, trial) in results.trials.iter_mut().enumerate() {
        crash(trial);
        let policy = index % 18 / 3;
        let slower = 1.0 + 0.2 * policy as f64 + 0.03 * (index % 5) as f64;
        trial.throughput.operations_per_s = Some(63_400.0 / slower);
        trial.latency_us = Some(quantiles(slower));
        let failed = [99, 0, 0, 412, 0, 7][policy] * (1 + index as u64 / 18);
        trial.outcomes.failed = failed;
        let outage = trial.faults[0].outage.as_mut().unwrap();
        outage.failed = failed;
        outage.back_to_baseline_s = Some(0.05 * slower);
        let process = trial.point["target.with.state"] == "process";
        trial.consistency.lost_writes = Some(if process { 1_980 + index as u64 } else { 0 });
        trial.attempts += [0, 140, 150, 0, 0, 0][policy];
    }
    results.trials[4].verdict = Verdict {
        is: Trust::Void,
        reasons: vec!["The generator was at the end of its core (98 %): it measured itself.".to_owned()],
        ..Verdict::default()
    };
    results.trials[5].faults[0].outage.as_mut().unwrap().back_to_baseline_s = None;
    results.verdict = Verdict {
        is: Trust::Suspect,
        reasons: vec!["1 of 36 trials is void and was left out.".to_owned()],
        ..Verdict::default()
    };
    judged(&mut plan, &mut results);
    results.comparisons = vec![comparison("three tries", 0.69, true), comparison("hub waits", 0.98, false)];
    (plan, results)
}

/// Returns a comparison of a variant's throughput with that of the first variant, at one point.
fn comparison(name: &str, ratio: f64, significant: bool) -> Comparison {
    Comparison {
        over: "variant".to_owned(),
        a: "fail fast".to_owned(),
        b: name.to_owned(),
        at: BTreeMap::from([("target.with.state".to_owned(), json!("ets"))]),
        metric: "throughput.operations_per_s".to_owned(),
        a_value: Some(63_400.0),
        b_value: Some(63_400.0 * ratio),
        ratio: Some(ratio),
        ci95: Some([ratio * 0.97, ratio * 1.03]),
        p: Some(if significant { 0.000_1 } else { 0.3 }),
        p_adjusted: Some(if significant { 0.000_2 } else { 0.3 }),
        significant,
        detectable_pct: Some(7.6),
        pairs: 2,
        trials: [2, 2],
        better: significant.then(|| "fail fast".to_owned()),
        ..Comparison::default()
    }
}

/// Adds claims of every kind and a violated requirement.
fn judged(plan: &mut Plan, results: &mut Results) {
    let says = [
        (
            "bounded retries combine service and fault tolerance: callers see no failure",
            Holds::Yes,
            Some(0.0),
            Some(0.0),
        ),
        ("failing at once shows the service's errors in full", Holds::NotShown, Some(99.0), Some(1.0)),
        ("clients are affected for about 10 s", Holds::No, Some(0.05), None),
        ("a disk that breaks goes unnoticed", Holds::NotMeasured, None, None),
    ];
    for (says, holds, value, at_least) in says {
        let metric = if value == Some(0.05) { "faults.oops.outage.back_to_baseline_s" } else { "outcomes.failed" };
        let (says, source) = (says.to_owned(), "vsns-complex-and-crash, closing thoughts".to_owned());
        let range = value.filter(|value| *value > 1.0).map(|value| [0.0, value * 2.0]);
        results.claims.push(Claim {
            says: says.clone(),
            source: source.clone(),
            metric: metric.to_owned(),
            value,
            range,
            note: String::new(),
            holds,
            on_void: false,
            ..Claim::default()
        });
        plan.claims.push(plan::Claim {
            says,
            source,
            metric: metric.into(),
            range: plan::MetricRange {
                at_least: at_least.or(Some(5.0)),
                at_most: Some(20.0),
                ..plan::MetricRange::default()
            },
            filter: BTreeMap::from([("variant".to_owned(), json!("three tries"))]),
            on_void: false,
        });
    }
    let metric = "faults.oops.outage.back_to_baseline_s".to_owned();
    let range = plan::MetricRange { below: Some(0.08), ..plan::MetricRange::default() };
    plan.requirements.push(plan::Requirement { metric: metric.as_str().into(), range, filter: BTreeMap::new() });
    let asked = "below 0.08".to_owned();
    results.requirements.push(Requirement { metric, asked, value: Some(0.1), holds: false, ..Requirement::default() });
}

/// Adds a fault at 15 s: 99 operations failed over 12 ms, service was back after 120 ms, 4,211 keys
/// were checked.
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

/// Returns a disturbance without a fault: 40 operations failed over 1.2 s at 22.5 s.
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
        ..Disturbance::default()
    }
}

/// Returns the distribution of a variant's fault over `count` occurrences.
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
        members: BTreeMap::new(),
    }
}

/// Returns the demand of two variants, only one of which has a price.
pub fn demanded_hosts() -> Vec<DemandedHosts> {
    let hosts = [("sata", 525.0, 39, Some(1_950.0)), ("fast", 1_050.0, 20, None)];
    hosts
        .map(|(variant, per_host, hosts, price)| DemandedHosts {
            variant: variant.to_owned(),
            at: [("load.agents".to_owned(), json!(8))].into(),
            metric: "throughput.operations_per_s".to_owned(),
            at_least: 20_000.0,
            measured_hosts: 2,
            per_host: Some(per_host),
            per_host_ci95: [Some(0.9 * per_host), Some(1.1 * per_host)],
            hosts: Some(hosts),
            hosts_ci95: [Some(hosts - 3), Some(hosts + 3)],
            price,
            currency: price.map(|_| "EUR".to_owned()),
        })
        .to_vec()
}

/// Returns the costs of two variants at two loads each. The second load is the peak of both.
pub fn costs() -> Vec<PointCost> {
    let costs = [
        ("pi2c", 4, 30.0, 15.0, 1.25e-6),
        ("pi2c", 32, 96.0, 18.0, 1.25e-6),
        ("devx", 4, 98.0, 41.7, 5.3e-6),
        ("devx", 32, 100.0, 41.7, 5.3e-6),
    ];
    costs.map(cost).to_vec()
}

fn cost((variant, agents, cycles_per_s, watts, price_per_s): (&str, u32, f64, f64, f64)) -> PointCost {
    let (joules, price) = (watts / cycles_per_s, price_per_s / cycles_per_s * 1e6);
    PointCost {
        variant: variant.to_owned(),
        point: [("load.agents".to_owned(), json!(agents))].into(),
        cycles_per_s: Some(cycles_per_s),
        watts: Some(watts),
        joules_per_cycle: Some(joules),
        joules_per_cycle_ci95: Some([0.9 * joules, 1.1 * joules]),
        price_per_million_cycles: Some(price),
        currency: Some("EUR".to_owned()),
        with_warmup: CostWithWarmup {
            watts: Some(watts),
            joules_per_cycle: Some(1.2 * joules),
            price_per_million_cycles: Some(1.2 * price),
        },
        trials: 3,
        at_peak: agents == 32,
        cheapest: agents == 32,
        ..Default::default()
    }
}

const SLOT_S: f64 = 0.001;

/// Returns records of `seconds` seconds for a trial with its faults.
pub fn series(trial: &Trial, seconds: u32) -> TrialSeries {
    let mut noise = Xorshift(trial.id.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)));
    let fault_s = trial.faults.first().map(|fault| fault.at_s);
    TrialSeries {
        trial: trial.id.clone(),
        outcomes: outcomes(seconds, fault_s, &mut noise),
        latency: latency(seconds, fault_s, &mut noise),
        samples: samples(seconds, fault_s, &mut noise),
        distribution: (1..200_u32).map(|step| (f64::from(step) * 40.0, u64::from(200 - step) * 25)).collect(),
        generator: generator(seconds, &mut noise),
        events: events(trial),
        ..TrialSeries::default()
    }
}

/// Pseudorandom numbers that are the same in every run: xorshift64, Marsaglia 2003.
struct Xorshift(u64);

impl Xorshift {
    /// Returns the next number, from -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    }

    fn around(&mut self, value: f64, share: f64) -> f64 {
        value * (1.0 + share * self.next())
    }
}

fn outcomes(seconds: u32, fault_s: Option<f64>, noise: &mut Xorshift) -> Vec<OutcomeSlot> {
    let mut slots = Vec::new();
    for index in 0..seconds * 1_000 {
        let at_s = f64::from(index) * SLOT_S;
        let after = fault_s.map(|fault_s| at_s - fault_s).filter(|after| *after >= 0.0);
        let share = match after {
            Some(after) if after < 0.002 => 1.0,
            Some(after) if after < 0.009 => 0.0,
            Some(after) if after < 0.12 => 0.3 + 0.7 * (after / 0.12),
            _ => (0.15 + at_s / 3.0).min(1.0),
        };
        let failed = matches!(after, Some(after) if (0.002..0.015).contains(&after));
        slots.push(OutcomeSlot {
            at_s,
            slot_s: SLOT_S,
            ok: noise.around(64.0 * share, 0.2).round() as u32,
            failed: if failed { 8 } else { 0 },
            timeout: 0,
            wrong: u32::from(matches!(after, Some(after) if (0.03..0.04).contains(&after))),
        });
    }
    slots.retain(|slot| slot.ok + slot.failed + slot.timeout + slot.wrong > 0);
    slots
}

fn latency(seconds: u32, fault_s: Option<f64>, noise: &mut Xorshift) -> Vec<LatencySecond> {
    let seconds = (0..seconds).map(|second| {
        let at_s = f64::from(second);
        let hit = fault_s.is_some_and(|fault_s| (at_s..at_s + 1.0).contains(&fault_s));
        LatencySecond {
            at_s,
            length_s: 1.0,
            count: 50_000,
            p50_us: Some(noise.around(2_700.0, 0.05)),
            p90_us: Some(noise.around(4_000.0, 0.06)),
            p95_us: Some(noise.around(5_000.0, 0.08)),
            p99_us: Some(noise.around(if hit { 21_000.0 } else { 6_900.0 }, 0.15)),
            max_us: Some(noise.around(if hit { 160_000.0 } else { 15_000.0 }, 0.4)),
        }
    });
    seconds.collect()
}

fn samples(seconds: u32, fault_s: Option<f64>, noise: &mut Xorshift) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut rss = 40e6;
    // Seconds 20 to 22 are missing: a gap.
    for second in (1..=seconds).filter(|second| !matches!(second, 20..=22)) {
        let at_s = f64::from(second);
        rss += 0.9e6;
        if fault_s.is_some_and(|fault_s| (at_s - 1.0..at_s).contains(&fault_s)) {
            rss -= 9e6;
        }
        let local = Sample { at_s, host: "local".to_owned(), ..Sample::default() };
        samples.push(Sample {
            cpu_user_pct: Some(noise.around(58.0, 0.05)),
            cpu_system_pct: Some(noise.around(36.0, 0.05)),
            cpu_iowait_pct: Some(noise.around(0.6, 1.0)),
            cpu_steal_pct: Some(noise.around(1.5, 1.0)),
            cpu_strangers_pct: Some(noise.around(1.0, 1.0)),
            load1: Some(4.0 * (1.0 - (-at_s / 60.0).exp()) + 0.4),
            load5: Some(4.0 * (1.0 - (-at_s / 300.0).exp()) + 0.5),
            load15: Some(4.0 * (1.0 - (-at_s / 900.0).exp()) + 0.6),
            io_wait_threads: Some(u64::from(second % 9 == 0)),
            memory_used_bytes: Some((1.4e9 + rss) as u64),
            disk_read_bytes: Some(0),
            disk_write_bytes: Some(noise.around(480_000.0, 0.5) as u64),
            net_rx_bytes: Some(noise.around(14.6e6, 0.03) as u64),
            net_tx_bytes: Some(noise.around(14.5e6, 0.03) as u64),
            psi_cpu_some_pct: Some(noise.around(82.0, 0.06)),
            psi_io_some_pct: Some(noise.around(0.5, 1.0)),
            psi_memory_some_pct: Some(0.0),
            ..local.clone()
        });
        for (process, user, system, rss) in [("server", 37.0, 15.0, rss), ("generator", 19.0, 20.0, 21e6)] {
            samples.push(Sample {
                process: process.to_owned(),
                cpu_user_pct: Some(noise.around(user, 0.05)),
                cpu_system_pct: Some(noise.around(system, 0.05)),
                rss_bytes: Some(rss as u64),
                ..local.clone()
            });
        }
    }
    samples
}

fn generator(seconds: u32, noise: &mut Xorshift) -> Vec<GeneratorSecond> {
    let seconds = (1..=seconds).map(|second| GeneratorSecond {
        at_s: f64::from(second),
        interval_s: 1.0,
        thread: 0,
        cpu_pct: noise.around(60.0, 0.06),
        late_us_p99: Some(noise.around(60.0, 0.4)),
        late_us_max: Some(noise.around(210.0, 0.8)),
        agents: (200 * second / 3).min(200),
        in_flight_mean: noise.around(f64::from((199 * second / 3).min(199)), 0.004),
        operations: 63_400,
        latency_sum_s: 199.0,
        cycles: 15_300,
        ..GeneratorSecond::default()
    });
    seconds.collect()
}

fn events(trial: &Trial) -> Vec<Event> {
    let (host, process) = ("local".to_owned(), "server".to_owned());
    let mut events = vec![
        (-3.0, What::Clock { unix_s: 1_795_170_665.0 }),
        (-2.0, What::ProcessUp { host: host.clone(), process: process.clone(), pid: 4_711 }),
    ];
    for fault in &trial.faults {
        let (name, on) = (fault.name.clone(), fault.on.clone());
        events.push((fault.at_s, What::FaultBegun { fault: name, number: fault.number, kind: fault.kind.clone(), on }));
        let wrote = What::Log {
            host: host.clone(),
            process: process.clone(),
            line: "=SUPERVISOR REPORT==== child <name_server> terminated: kernel_oops".to_owned(),
            text: "SUPERVISOR REPORT".to_owned(),
            alarming: false,
            left_out: 0,
        };
        events.push((fault.at_s + 0.003, wrote));
    }
    events.into_iter().map(|(at_s, what)| Event { at_s, what }).collect()
}
