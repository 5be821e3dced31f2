//! One trial: combines its records into its results. Other modules compute most figures; this
//! module computes the log lines of the target's processes, and the figures of emulated hosts
//! rescaled to the modelled machines.

use experiment::plan::{self, Lab};
use record::events::{Event, FailureExample, What};
use record::folder::TrialFolder;
use record::results::{Emulated, QuantileMoments, Quantiles, Said, SharedStart, Steady, Throughput, Trial, WithWarmup};

use crate::audit::consistency;
use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::operations::{OperationTotals, agents_without_cycle, attempt_results, failed_pct, operations, share_pct};
use crate::stats::baseline::SHORTEST_BASELINE_S;
use crate::stats::effective_samples::effective_samples;
use crate::stats::quantiles::{asked_percentiles, largest};
use crate::stats::sectioning::{SHORTEST_S, mean_ci95};
use crate::stats::timeline::Timeline;
use crate::verdict::{self, RuleFinding};
use crate::{
    Error, arrivals, checks, cost, delays, exercise_results, faults, fleet, generator, host_usage, late_starts,
    load_groups, members, units,
};

/// Bin length for the confidence interval of throughput, seconds.
const BIN_S: f64 = 0.1;

/// Returns the results of a trial, as far as its records go.
///
/// # Errors
/// If a record cannot be read, or is damaged elsewhere than at its end.
pub fn trial(planned: &plan::Trial, folder: &TrialFolder) -> Result<Trial, Error> {
    let mut evidence = Evidence::read(planned, folder)?;
    judged(planned, folder, &mut evidence, verdict::RunContext::default()).map(|(trial, _)| trial)
}

/// Returns the results of a trial, and the findings behind its verdict.
///
/// # Errors
/// If the latency log cannot be read, or is damaged elsewhere than at its end.
pub(crate) fn judged(
    planned: &plan::Trial,
    folder: &TrialFolder,
    evidence: &mut Evidence,
    run: verdict::RunContext<'_>,
) -> Result<(Trial, Vec<RuleFinding>), Error> {
    let timeline = Timeline::refined(&evidence.slots, &evidence.fine_slots);
    let timeline = timeline.map(|timeline| timeline.with_clock_error(evidence.clock_error_s()));
    let (window, steady) = planned
        .load
        .as_ref()
        .zip(timeline.as_ref())
        .and_then(|(load, timeline)| LoadWindow::of(load, evidence, timeline))
        .unzip();
    evidence.read_samples(folder, window.as_ref())?;
    evidence.read_metrics(planned, folder, window.as_ref())?;
    evidence.read_programs(planned, folder, window.as_ref())?;
    let logged_s = window.as_ref().map_or([0.0; 2], |window| [window.latency_from_s(), window.until_s]);
    let of_plan = run.plan.into_iter().flat_map(plan::Plan::metrics).filter_map(|metric| metric.measured());
    let asked = asked_percentiles(of_plan.chain(run.metrics));
    evidence.read_log(planned, folder, logged_s, asked)?;
    let mut trial = measured(planned, evidence, timeline.as_ref(), window.as_ref());
    if let Some(load) = &planned.load {
        load_groups::add(&mut trial, load, evidence);
    }
    let is_open = planned.load.as_ref().is_some_and(plan::Load::is_open);
    // If no operation ended there is no measured part, and waiting for the feed may be the reason.
    let fed_s = window.as_ref().map(|window| (window.from_s, window.until_s));
    let fed_s = fed_s.or(planned.load.as_ref().map(|load| (0.0, load.time_s)));
    trial.generator.all_busy_s = is_open.then(|| generator::all_busy_s(&evidence.generator));
    trial.generator.feed = fed_s.and_then(|fed_s| generator::feed_figures(&evidence.generator, fed_s, is_open));
    let measured_s = trial.measured_s.map(|[from_s, until_s]| (from_s, until_s));
    trial.generator.fleet = generator::fleet_figures(&evidence.fleet);
    units::add(&mut trial, planned.load.as_ref(), &evidence.units, measured_s);
    arrivals::add(&mut trial, &evidence.messages, measured_s);
    trial.arrival.pushed_messages = generator::pushed_messages(&evidence.generator);
    let from_s = window.as_ref().map(LoadWindow::latency_from_s);
    checks::add(&mut trial, planned.load.as_ref(), &evidence.checks, from_s);
    if let Some(window) = &window {
        members::add(&mut trial, planned, folder, evidence, window)?;
    }
    if let (Some(fleet), Some(window)) = (&planned.fleet, &window) {
        trial.generator.each = fleet::each(fleet, is_open, &evidence.generator, window);
    }
    trial.throughput.operations_per_s_ci95 = with_bias(trial.throughput.operations_per_s_ci95, steady.as_ref());
    trial.steady = steady;
    let latency_us = window.as_ref().zip(trial.latency_us.as_ref());
    trial.latency_moments = latency_us.map(|(window, latency_us)| moments(evidence, window, latency_us));
    late_starts::add(&mut trial, planned, evidence);
    trial.generator.lateness_effect_pct = trial
        .latency_us
        .as_ref()
        .zip(trial.punctual_latency_us.as_ref())
        .map(|(all, punctual)| generator::lateness_effect_pct(all, punctual));
    trial.delay = planned.load.as_ref().and_then(|load| {
        let threads = evidence.generator.iter().map(|row| row.thread + 1).max().unwrap_or(0);
        let due = is_open.then(|| generator::due_and_ended(&evidence.generator)).flatten();
        delays::delay_effect(load, &trial, &evidence.load, &evidence.sampled, threads, due)
    });
    trial.emulated = emulated(&planned.lab, &trial);
    cost::charge(&mut trial, &planned.lab, &evidence.sampled, window.as_ref());
    let findings = verdict::findings(&verdict::RuleInput {
        planned,
        evidence,
        window: window.as_ref(),
        timeline: timeline.as_ref(),
        trial: &trial,
        run,
    });
    trial.generator.limit = verdict::limit(&findings, &trial);
    trial.verdict = verdict::verdict(&findings);
    Ok((trial, findings))
}

fn measured(
    planned: &plan::Trial,
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
) -> Trial {
    let all = OperationTotals::of_all(evidence.load.totals.values());
    let asked = &evidence.load.asked;
    let outcomes = all.outcomes();
    let after_warmup = OperationTotals::of_all(evidence.load.measured().values());
    let measured_s = window.filter(|window| window.length_s() > 0.0).map(|window| (window.from_s, window.until_s));
    let cycles = generator::cycles(&evidence.generator);
    let consistency = consistency(planned, evidence, &outcomes, cycles);
    let happened = faults::happened(planned, evidence, timeline, window);
    let busy_agents = planned
        .load
        .as_ref()
        .filter(|load| !load.is_paced() && !load.changes_agents())
        .filter(|_| outcomes.failed + outcomes.timeout == 0)
        .map(|load| load.agents);
    Trial {
        id: planned.id.clone(),
        variant: planned.variant.clone(),
        point: planned.point.clone(),
        surviving: planned.surviving.clone(),
        repeat: planned.repeat,
        shared_start: evidence.events.iter().find_map(|event| match &event.what {
            What::StartShared { of, reset } => Some(SharedStart { of: of.clone(), reset: *reset }),
            _ => None,
        }),
        ended: evidence.ending().map(|(how, _)| how),
        stopped: evidence.stopped(),
        measured_s: measured_s.map(|(from_s, until_s)| [from_s, until_s]),
        throughput: throughput(evidence, timeline, window, measured_s),
        with_warmup: with_warmup(evidence, timeline, window, &all),
        failed_pct: failed_pct(&outcomes),
        timeout_pct: share_pct(outcomes.timeout, &outcomes),
        wrong_pct: share_pct(outcomes.wrong, &outcomes),
        outcomes,
        cycles,
        agents_without_cycle: agents_without_cycle(evidence.agent_cycles.as_deref(), f64::NEG_INFINITY),
        agents_without_measured_cycle: measured_s
            .and_then(|(from_s, _)| agents_without_cycle(evidence.agent_cycles.as_deref(), from_s)),
        wrong_per_1000_cycles: consistency
            .wrong
            .zip(consistency.cycles)
            .and_then(|(wrong, cycles)| per_1000(wrong, cycles)),
        attempts: evidence.attempts.iter().map(|row| row.count).sum(),
        attempt_results: attempt_results(&evidence.attempts),
        examples: examples(&evidence.events),
        latency_us: after_warmup.latency_us(asked),
        latency_of_all_us: after_warmup.of_all_us(asked),
        punctual_latency_us: OperationTotals::punctual_of(evidence.load.measured().values(), asked),
        latency_intervals_us: evidence.load.batches.intervals_us(),
        service_us: after_warmup.service_us(asked),
        arrival: after_warmup.arrival(asked),
        by_outcome: all.by_outcome(asked),
        operations: operations(&evidence.load, &evidence.attempts, measured_s),
        faults: happened.faults,
        actions: faults::actions(&evidence.events, &planned.faults),
        steps: exercise_results::played(&evidence.events),
        disturbances: happened.disturbances,
        said: said(&evidence.events),
        consistency,
        machine: host_usage::machine(&evidence.events, &evidence.sampled),
        hosts: evidence.programs.with(host_usage::hosts(&evidence.events, &evidence.sampled)),
        metrics: evidence.metrics.clone(),
        generator: generator::generator(evidence, window, all.unfinished_s(), busy_agents),
        ..Trial::default()
    }
}

fn throughput(
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
    measured_s: Option<(f64, f64)>,
) -> Throughput {
    let operations_per_s =
        measured_s.and(window).zip(timeline).and_then(|(window, timeline)| window.ok_per_s(timeline, window.from_s));
    let bins = measured_s.zip(timeline).map(|((from_s, until_s), timeline)| timeline.ok_rates(from_s, until_s, BIN_S));
    let is_long = measured_s.is_some_and(|(from_s, until_s)| until_s - from_s >= SHORTEST_S - 1e-6);
    let of_bins = bins.as_deref().filter(|_| is_long).and_then(mean_ci95);
    // An interval that includes 0 says nothing about the throughput.
    let ci95 = of_bins.filter(|[low, _]| *low > 0.0 || operations_per_s == Some(0.0));
    let without = match of_bins {
        Some(_) => "the rate changes so much that its interval would include 0",
        None if is_long => "fewer than ten bins of 100 ms",
        None => "less than 10 s were measured",
    };
    Throughput {
        operations_per_s,
        // The interval comes from whole bins, but the rate also covers a last partial bin. The
        // interval is widened to include the rate.
        operations_per_s_ci95: ci95.map(|[low, high]| {
            let per_s = operations_per_s.unwrap_or(low);
            [low.min(per_s), high.max(per_s)]
        }),
        without_ci95: operations_per_s.filter(|_| ci95.is_none()).map(|_| without.to_owned()),
        effective_samples: bins.as_deref().and_then(effective_samples),
        cycles_per_s: measured_s.and_then(|measured_s| generator::cycles_per_s(&evidence.generator, measured_s)),
        received_bytes_per_s: measured_s
            .and_then(|measured_s| generator::received_bytes_per_s(&evidence.generator, measured_s)),
        before_first_fault_per_s: window
            .filter(|window| window.first_fault_s.is_some())
            .and_then(LoadWindow::calm)
            .filter(|(from_s, until_s)| until_s - from_s >= SHORTEST_BASELINE_S)
            .and_then(|(from_s, until_s)| timeline?.ok_per_s(from_s, until_s)),
        ..Throughput::default()
    }
}

/// Returns, for each quantile, the number of separate moments with latencies of at least its value.
/// A burst of slow operations counts as one moment.
fn moments(evidence: &Evidence, window: &LoadWindow, latency_us: &Quantiles) -> QuantileMoments {
    let within_s = [window.latency_from_s(), window.until_s];
    let Quantiles { p50, p75, p90, p95, p99, p999, .. } = *latency_us;
    let [p50, p75, p90, p95, p99, p999] =
        [p50, p75, p90, p95, p99, p999].map(|us| evidence.load.latency.moments(us? * 1e3, within_s));
    QuantileMoments { p50, p75, p90, p95, p99, p999 }
}

/// Returns the interval of the mean. Its upper end is raised by the bias of a warm-up that the
/// measured part may still contain.
fn with_bias(ci95: Option<[f64; 2]>, steady: Option<&Steady>) -> Option<[f64; 2]> {
    let bias_pct = steady
        .and_then(|steady| largest([steady.remaining_bias_pct, steady.tolerated_bias_pct].into_iter().flatten()))
        .unwrap_or(0.0);
    ci95.map(|[low, high]| [low, high + (low + high) / 2.0 * bias_pct / 100.0])
}

/// Returns the figures of the whole load, from its start to the last new operation.
fn with_warmup(
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
    all: &OperationTotals,
) -> WithWarmup {
    let whole_s = window.map(|window| (0.0, window.until_s));
    WithWarmup {
        operations_per_s: window.zip(timeline).and_then(|(window, timeline)| window.ok_per_s(timeline, 0.0)),
        cycles_per_s: whole_s.and_then(|whole_s| generator::cycles_per_s(&evidence.generator, whole_s)),
        latency_us: all.latency_us(&evidence.load.asked),
        service_us: all.service_us(&evidence.load.asked),
    }
}

fn per_1000(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 1_000.0 * part as f64 / of as f64)
}

/// Returns the figures of a trial, rescaled by `lab.speed`, or `None` if its hosts are real.
pub(crate) fn emulated(lab: &Lab, trial: &Trial) -> Option<Emulated> {
    if lab.hosts.is_empty() || !lab.is_emulated() {
        return None;
    }
    let mut profiles: Vec<String> = lab.hosts.iter().filter_map(|host| host.profile.clone()).collect();
    let mut seen = std::collections::BTreeSet::new();
    profiles.retain(|name| seen.insert(name.clone()));
    let periods = trial.hosts.iter().filter_map(|host| host.figures.as_ref()?.quota_period_s);
    Some(Emulated {
        speed: lab.speed,
        profiles,
        throughput: faster(&trial.throughput, lab.speed),
        latency_us: trial.latency_us.clone().map(|latency_us| shorter(latency_us, lab.speed)),
        granularity_s: periods.reduce(f64::max),
    })
}

fn faster(throughput: &Throughput, speed: f64) -> Throughput {
    let mut scaled = throughput.clone();
    let rates = [
        &mut scaled.operations_per_s,
        &mut scaled.cycles_per_s,
        &mut scaled.before_first_fault_per_s,
        &mut scaled.received_bytes_per_s,
        &mut scaled.units_per_s,
        &mut scaled.median_units_per_s,
    ];
    rates
        .into_iter()
        .flatten()
        .chain(scaled.operations_per_s_ci95.iter_mut().flatten())
        .for_each(|per_s| *per_s /= speed);
    scaled
}

fn shorter(mut times_us: Quantiles, speed: f64) -> Quantiles {
    let Quantiles { p50, p75, p90, p95, p99, p999, max, mean, count: _, others } = &mut times_us;
    let times = [p50, p75, p90, p95, p99, p999, max, mean].into_iter().chain(others.values_mut());
    times.flatten().for_each(|time_us| *time_us *= speed);
    times_us
}

/// Returns the recorded examples of failures, one of each kind. `MOST` limits them, because a file
/// may have any number.
fn examples(events: &[Event]) -> Vec<FailureExample> {
    const MOST: usize = 32;
    let examples = events.iter().filter_map(|event| match &event.what {
        What::Example { is } => Some(is.clone()),
        _ => None,
    });
    examples.take(MOST).collect()
}

/// Returns each log line of the target once per process and text, in the order in which they first
/// appeared.
pub(crate) fn said(events: &[Event]) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for event in events {
        let What::Log { host, process, line, text, alarming, left_out } = &event.what else { continue };
        let count = (*left_out).max(1);
        // Early versions did not record `text`.
        let mut own = all.iter_mut().filter(|said| said.host == *host && said.role == *process);
        match own.find(|said| said.text == *text && (!text.is_empty() || said.line == *line)) {
            Some(said) => said.count += count,
            None => all.push(Said {
                at_s: event.at_s,
                host: host.clone(),
                role: process.clone(),
                text: text.clone(),
                line: line.clone(),
                count,
                alarming: *alarming,
            }),
        }
    }
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all
}

#[cfg(test)]
mod tests {
    use experiment::plan::Host;
    use record::events::HostFigures;
    use record::results;
    use record::rows::OutcomeSlot;

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

    /// Returns the throughput of a load in slots with these numbers of `ok` operations.
    fn found(slot_s: f64, ok: impl IntoIterator<Item = u32>, window: LoadWindow) -> Throughput {
        let slots = (0..).map(f64::from).zip(ok);
        let slots = slots.map(|(number, ok)| OutcomeSlot { at_s: number * slot_s, slot_s, ok, ..Default::default() });
        let evidence = Evidence { slots: slots.collect(), ..Evidence::default() };
        let timeline = Timeline::of(&evidence.slots).unwrap();
        throughput(&evidence, Some(&timeline), Some(&window), Some((window.from_s, window.until_s)))
    }

    fn window(from_s: f64, until_s: f64) -> LoadWindow {
        LoadWindow { from_s, until_s, first_fault_s: None, steady: None, is_over: false }
    }

    #[test]
    fn throughput_before_a_fault_needs_enough_time() {
        for (fault_s, expected) in [(12.0, Some(1_000.0)), (10.0, None), (10.003, None), (10.4, None)] {
            let window = LoadWindow { first_fault_s: Some(fault_s), ..window(10.0, 20.0) };
            let found = found(0.01, [10; 2_000], window);
            assert_eq!(found.before_first_fault_per_s.map(f64::round), expected, "{fault_s}");
        }
    }

    #[test]
    fn the_interval_includes_warm_up_bias() {
        for (tolerated_bias_pct, remaining_bias_pct, high) in
            [(None, None, 1_010.0), (Some(0.5), None, 1_015.0), (Some(0.5), Some(4.0), 1_050.0)]
        {
            let steady = Steady { tolerated_bias_pct, remaining_bias_pct, ..Steady::default() };
            assert_eq!(with_bias(Some([990.0, 1_010.0]), Some(&steady)), Some([990.0, high]));
        }
        assert_eq!(with_bias(None, None), None);
    }

    #[test]
    fn a_rate_under_ten_seconds_has_no_interval() {
        let [ten, less] =
            [10.0, 9.9].map(|until_s| found(0.01, (0..2_000).map(|number| 10 + number % 2), window(0.0, until_s)));
        assert!(ten.operations_per_s_ci95.is_some() && ten.without_ci95.is_none());
        assert_eq!(
            (less.operations_per_s_ci95, less.without_ci95.as_deref()),
            (None, Some("less than 10 s were measured"))
        );
    }

    #[test]
    fn an_interval_that_includes_zero_is_dropped() {
        // The clients come late, one after another.
        let found = found(0.1, (0..120).map(|number| number * number / 100), window(0.0, 12.0));
        assert_eq!(found.operations_per_s_ci95, None);
        assert!(found.without_ci95.is_some_and(|why| why.contains("include 0")));
    }

    #[test]
    fn real_hosts_are_not_emulated() {
        assert_eq!(emulated(&Lab::default(), &trial()), None, "this machine");
        assert_eq!(emulated(&lab(1.0, None), &trial()), None, "virtual, but as they are");
        let mut real = lab(1.0, Some("raspberry-pi-2"));
        real.hosts.iter_mut().for_each(|host| host.ssh = Some("pi@10.0.0.11".into()));
        assert_eq!(emulated(&real, &trial()), None, "a profile of a real machine only says what it costs");
    }

    #[test]
    fn half_speed_doubles_emulated_throughput() {
        let emulated = emulated(&lab(0.5, Some("raspberry-pi-2")), &trial()).unwrap();
        assert_eq!(emulated.throughput.operations_per_s, Some(200.0));
        let latency_us = emulated.latency_us.unwrap();
        assert_eq!((latency_us.p50, latency_us.p99, latency_us.count), (Some(2_000.0), None, 7));
        assert_eq!(emulated.profiles, ["raspberry-pi-2"]);
        assert_eq!(emulated.granularity_s, Some(0.01));
    }

    fn log(at_s: f64, host: &str, line: &str, text: &str, left_out: u64) -> Event {
        let (host, process, line, text) = (host.to_owned(), "member".to_owned(), line.to_owned(), text.to_owned());
        let alarming = text == "split";
        Event { at_s, what: What::Log { host, process, line, text, alarming, left_out } }
    }

    #[test]
    fn log_lines_are_counted_by_host_and_text() {
        let events = [
            log(2.0, "n2", "split: n1", "split", 0),
            log(-1.0, "n1", "it waits", "waits", 0),
            log(3.0, "n2", "split: n3", "split", 0),
            Event { at_s: 4.0, what: What::Notice { text: "split".into() } },
            log(5.0, "n1", "split: n2", "split", 0),
            log(9.0, "n2", "split: n4", "split", 480),
        ];
        let lines = said(&events);
        let told: Vec<_> =
            lines.iter().map(|said| (said.at_s, &*said.host, &*said.line, said.count, said.alarming)).collect();
        let expected = [
            (-1.0, "n1", "it waits", 1, false),
            (2.0, "n2", "split: n1", 482, true),
            (5.0, "n1", "split: n2", 1, true),
        ];
        assert_eq!(told, expected);
        assert_eq!(said(&[]), []);
    }
}
