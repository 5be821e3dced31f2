//! Rules about the machine: its clock, its disk, and other processes on it.

use record::events::What;

use super::{Evaluation, RuleInput};

/// Largest number of other processes that the finding names.
const NAMED: usize = 3;

/// Smallest CPU use of a process that the finding names, percent of the machine.
const NAMED_PCT: f64 = 1.0;

/// Smallest share of the CPU that the kernel's clock ticks can show, percent.
const SMALLEST_PCT: f64 = 0.1;

pub(super) fn clock_jump(facts: &RuleInput<'_>) -> Evaluation {
    let jump_s = facts.trial.generator.clock_jump_s?;
    Some((jump_s, format!("this machine's calendar clock jumped by {jump_s:.1} s during the trial")))
}

/// An emulated core runs at full speed until its quota of a period is used up, so a shorter job is
/// not slowed at all.
pub(super) fn coarse_cores(facts: &RuleInput<'_>) -> Evaluation {
    let period_us = facts.trial.emulated.as_ref()?.granularity_s? * 1e6;
    let median_us = facts.trial.latency_us.as_ref()?.p50?;
    let (period_ms, median_ms) = (period_us / 1e3, median_us / 1e3);
    let what = format!(
        "the median latency, {median_ms:.1} ms, is below the {period_ms:.0} ms period of the emulated cores: a job that \
         short runs at the full speed of this machine"
    );
    Some((period_us / median_us, what))
}

pub(super) fn full_disk(facts: &RuleInput<'_>) -> Evaluation {
    let texts = facts.evidence.events.iter().filter_map(|event| match &event.what {
        What::Notice { text } => Some(text),
        What::Ended { reason, .. } => reason.as_ref(),
        _ => None,
    });
    let notice = texts.into_iter().find(|text| {
        let text = text.to_lowercase();
        text.contains("no space left") || text.contains("disk is full") || text.contains("disk full")
    })?;
    Some((1.0, format!("the disk of the run folder was full, so records are missing: {notice}")))
}

pub(super) fn steal(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.machine.steal_pct?;
    Some((pct, format!("the hypervisor took {pct:.1} % of the CPU")))
}

pub(super) fn strangers(facts: &RuleInput<'_>) -> Evaluation {
    let machine = &facts.trial.machine;
    let pct = machine.strangers_cpu_pct?;
    let named = machine.other_processes.iter().filter(|process| process.cpu_pct >= NAMED_PCT).take(NAMED);
    let mut named: Vec<String> =
        named.map(|process| format!("{} (pid {}) {:.0} %", process.name, process.pid, process.cpu_pct)).collect();
    let short_lived = machine.short_lived_cpu_pct.filter(|pct| *pct >= NAMED_PCT);
    named.extend(short_lived.map(|pct| format!("short-lived processes {pct:.0} %")));
    let busiest = if named.is_empty() { String::new() } else { format!("; the busiest: {}", named.join(", ")) };
    Some((pct, format!("other processes used {pct:.0} % of the CPU{busiest}")))
}

pub(super) fn client_programs(facts: &RuleInput<'_>) -> Evaluation {
    let machine = &facts.trial.machine;
    let (programs_pct, target_pct) = machine.programs_cpu_pct.zip(machine.target_cpu_pct)?;
    let what = format!(
        "the clients' own programs used {programs_pct:.0} % of this machine's CPU, and the target {target_pct:.0} %: the programs were \
         measured more than the target"
    );
    Some((programs_pct / target_pct.max(SMALLEST_PCT), what))
}
