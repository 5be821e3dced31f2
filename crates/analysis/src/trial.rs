//! One trial: its records, put together into its results. Each number is worked out in a room of its own; here they only meet.

use experiment::plan;
use record::folder::TrialFolder;
use record::results::{Throughput, Trial, WithWarmup};

use crate::audit::consistency;
use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::operations::{Totals, attempt_results, failed_pct, operations};
use crate::stats::effective_samples::sure;
use crate::stats::timeline::Timeline;
use crate::verdict::{self, Finding};
use crate::{Error, cost, emulation, faults, generator, hosts, said};

/// How sure throughput is, is told from bins of this length, seconds.
const BIN_S: f64 = 0.1;

/// The results of a trial, as far as its records go.
///
/// # Errors
/// If a record cannot be read, or is broken elsewhere than at its end.
pub fn trial(planned: &plan::Trial, folder: &TrialFolder) -> Result<Trial, Error> {
    let mut evidence = Evidence::read(planned, folder)?;
    judged(planned, folder, &mut evidence, verdict::OfRun::default()).map(|(trial, _)| trial)
}

/// The results of a trial, and the findings that its verdict was made of.
///
/// # Errors
/// If the log of latencies cannot be read, or is broken elsewhere than at its end.
pub(crate) fn judged(
    planned: &plan::Trial,
    folder: &TrialFolder,
    evidence: &mut Evidence,
    run: verdict::OfRun<'_>,
) -> Result<(Trial, Vec<Finding>), Error> {
    let timeline = Timeline::refined(&evidence.slots, &evidence.fine_slots);
    let (window, steady) = planned
        .load
        .as_ref()
        .zip(timeline.as_ref())
        .and_then(|(load, timeline)| LoadWindow::of(load, evidence, timeline))
        .unzip();
    evidence.read_samples(folder, window.as_ref())?;
    evidence.read_log(planned, folder, window.as_ref().map_or(0.0, LoadWindow::latency_from_s))?;
    let mut trial = measured(planned, evidence, timeline.as_ref(), window.as_ref());
    trial.steady = steady;
    trial.emulated = emulation::emulated(&planned.lab, &trial);
    cost::charge(&mut trial, &planned.lab, &evidence.sampled, window.as_ref());
    let findings = verdict::findings(&verdict::Facts {
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
    let all = Totals::of_all(evidence.load.totals.values());
    let outcomes = all.outcomes();
    let after_warmup = Totals::of_all(evidence.load.measured().values());
    let measured_s = window.filter(|window| window.length_s() > 0.0).map(|window| (window.from_s, window.until_s));
    let cycles = generator::cycles(&evidence.generator);
    let consistency = consistency(planned, evidence, &outcomes, cycles);
    let happened = faults::happened(planned, evidence, timeline, window);
    let busy_agents = planned
        .load
        .as_ref()
        .filter(|load| load.rate.is_none() && load.think_s == 0.0)
        .filter(|_| outcomes.failed + outcomes.timeout == 0)
        .map(|load| load.agents);
    Trial {
        id: planned.id.clone(),
        variant: planned.variant.clone(),
        point: planned.point.clone(),
        surviving: planned.surviving.clone(),
        repeat: planned.repeat,
        ended: evidence.ending().map(|(how, _)| how),
        measured_s: measured_s.map(|(from_s, until_s)| [from_s, until_s]),
        throughput: throughput(evidence, timeline, window, measured_s),
        with_warmup: with_warmup(evidence, timeline, window, &all),
        failed_pct: failed_pct(&outcomes),
        outcomes,
        cycles,
        wrong_per_1000_cycles: consistency
            .wrong
            .zip(consistency.cycles)
            .and_then(|(wrong, cycles)| per_1000(wrong, cycles)),
        attempts: evidence.attempts.iter().map(|row| row.count).sum(),
        attempt_results: attempt_results(&evidence.attempts),
        latency_us: after_warmup.latency_us(),
        service_us: after_warmup.service_us(),
        by_outcome: all.by_outcome(),
        operations: operations(&evidence.load, &evidence.attempts, measured_s),
        faults: happened.faults,
        disturbances: happened.disturbances,
        said: said::said(&evidence.events),
        consistency,
        machine: hosts::machine(&evidence.events, &evidence.sampled),
        hosts: hosts::hosts(&evidence.events, &evidence.sampled),
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
    let rate = |(from_s, until_s)| timeline.and_then(|timeline| timeline.ok_per_s(from_s, until_s));
    let bins = measured_s.zip(timeline).map(|((from_s, until_s), timeline)| timeline.ok_rates(from_s, until_s, BIN_S));
    let sure = bins.as_deref().and_then(sure);
    Throughput {
        operations_per_s: measured_s.and_then(rate),
        operations_per_s_ci95: sure.and_then(|sure| sure.ci95),
        effective_samples: sure.map(|sure| sure.effective_samples),
        cycles_per_s: measured_s.and_then(|measured_s| generator::cycles_per_s(&evidence.generator, measured_s)),
        before_first_fault_per_s: window
            .filter(|window| window.first_fault_s.is_some())
            .and_then(LoadWindow::calm)
            .and_then(rate),
    }
}

/// The figures of the whole load, from its start to the last new operation.
fn with_warmup(
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
    all: &Totals,
) -> WithWarmup {
    let whole_s = window.map(|window| (0.0, window.until_s));
    WithWarmup {
        operations_per_s: whole_s
            .zip(timeline)
            .and_then(|((from_s, until_s), timeline)| timeline.ok_per_s(from_s, until_s)),
        cycles_per_s: whole_s.and_then(|whole_s| generator::cycles_per_s(&evidence.generator, whole_s)),
        latency_us: all.latency_us(),
        service_us: all.service_us(),
    }
}

fn per_1000(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 1_000.0 * part as f64 / of as f64)
}
