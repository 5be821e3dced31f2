//! The answer: the main finding in one or two plain sentences, by rules; and the findings of one
//! load, with faults or without. The sentence on whether the result may be used comes first.

pub mod differing;
mod side_by_side;
pub mod steadiness;
pub mod sweeps;

use experiment::plan::Plan;
use record::results::{
    Consistency, Disturbance, DisturbanceKind, Emulated, Fault, Outage, Results, Trial, Trust, Verdict, counting,
};
use text::{code, numbers, stopped};

use crate::disturbances::{TOLD_HIGHER, TOLD_LOWER};
use crate::exercise_results;
use crate::trial_groups::{FigureOf, Group, MedianRange, counted, groups, longest, operations, outages, planned};

/// Most findings in an answer. The sentences on why a result must not be used and on missing trials
/// do not count.
const ANSWERED: usize = 2;

/// Returns the finding, with numbers. A void result begins with the reason why it must not be used,
/// a partial result with the missing part.
#[must_use]
pub fn answer(results: &Results, plan: &Plan) -> String {
    let void = (results.verdict.is == Trust::Void).then(|| unusable(&results.verdict));
    let partial = results.partial.as_ref().map(|partial| stopped(&format!("This is a partial result: {partial}")));
    opened([void, partial], results, plan)
}

/// Returns the answer for a reader who sees the verdict next to it: the verdict gives the reason
/// why the result must not be used, or the missing part.
#[must_use]
pub fn beside_the_verdict(results: &Results, plan: &Plan) -> String {
    let void = (results.verdict.is == Trust::Void).then(|| match results.verdict.decisive() {
        0 => unusable(&Verdict::default()),
        1 => "This result must not be used, for the reason below.".to_owned(),
        some => format!("This result must not be used, for {some} reasons below."),
    });
    let partial = results.partial.is_some().then(|| "This is a partial result.".to_owned());
    opened([void, partial], results, plan)
}

/// Returns the findings beyond those in the answer, each in one sentence.
#[must_use]
pub fn further(results: &Results, plan: &Plan) -> Vec<String> {
    findings(results, plan).into_iter().skip(ANSWERED).collect()
}

fn opened(openings: [Option<String>; 2], results: &Results, plan: &Plan) -> String {
    let found = findings(results, plan).into_iter().take(ANSWERED);
    openings.into_iter().flatten().chain(found).collect::<Vec<_>>().join(" ")
}

/// Returns all findings, whether the result is valid or not.
fn findings(results: &Results, plan: &Plan) -> Vec<String> {
    let mut sentences = Vec::new();
    let groups = groups(results, plan);
    let cases = groups.len();
    let measured: Vec<Group> = groups.into_iter().filter(|group| group.counting().any(|t| operations(t) > 0)).collect();
    if let ([only], true) = (measured.as_slice(), cases > 1 && results.safe_loads.is_empty()) {
        sentences.push(format!("Of {cases} cases only {} has trials that count.", code(&only.name())));
    }
    match measured.as_slice() {
        groups if !results.safe_loads.is_empty() => {
            sentences.extend(sweeps::safe_loads(&results.safe_loads));
            sentences.extend(side_by_side::inconsistencies(groups));
        }
        // An exercise needs no load.
        [] if exercise_results::sentence(results, plan).is_some() => {}
        [] => sentences.push("Nothing was measured: no operation ended.".to_owned()),
        [group] if group.counting().any(|trial| outages(trial).next().is_some()) => {
            sentences.push(of_crash(group, plan));
        }
        [group] => sentences.push(of_load(group, plan)),
        groups => {
            let curves = sweeps::scaling(results);
            // Whole curves say more about speed than their ends, or than a comparison of single
            // points.
            let speed_is_told = !curves.is_empty();
            sentences.extend(curves);
            let (inconsistent, others) = side_by_side::findings(groups, speed_is_told);
            sentences.extend(others);
            // Losses and wrong answers come second, so that they are in the answer.
            sentences.splice(1..1, inconsistent);
            sentences.extend(side_by_side::recoveries(results, plan));
            sentences.extend(differing::sentence(&results.comparisons).filter(|_| !speed_is_told));
            sentences.extend(sweeps::cost_sentence(results));
        }
    }
    sentences.extend(sweeps::demanded_hosts(&results.demanded_hosts));
    sentences.extend(exercise_results::sentence(results, plan));
    sentences.extend(disturbances(results));
    sentences.extend(slow_times(results));
    sentences.extend(steadiness::sentence(results));
    sentences.extend(busy_agents(results));
    sentences.extend(emulation(results));
    sentences
}

/// Returns a sentence if all agents of an open loop were stuck in operations that timed out, so
/// that nothing was sent.
fn busy_agents(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    let stuck = used.iter().filter(|trial| trial.outcomes.timeout > 0);
    let busy_s = stuck.filter_map(|trial| trial.generator.all_busy_s).fold(0.0, f64::max);
    let text = "all agents waited for answers, up to the timeout, and no operation started when it was due";
    (busy_s >= 1.0).then(|| format!("For {} {text}.", numbers::seconds(busy_s)))
}

/// Returns a sentence that the hosts are emulated, for readers of the answer alone.
fn emulation(results: &Results) -> Option<String> {
    let emulated: Vec<&Emulated> = results.trials.iter().filter_map(|trial| trial.emulated.as_ref()).collect();
    let first = emulated.first()?;
    let mut profiles: Vec<String> = Vec::new();
    for profile in emulated.iter().flat_map(|emulated| &emulated.profiles) {
        if !profiles.contains(profile) {
            profiles.push(profile.clone());
        }
    }
    let hosts = if profiles.is_empty() {
        "The hosts".to_owned()
    } else {
        format!("The hosts ({})", text::listed(&profiles, "and"))
    };
    let slowed =
        emulated.iter().all(|emulated| emulated.speed == first.speed) && (first.speed - 1.0).abs() > f64::EPSILON;
    let speed = if slowed { format!(", at {} of real speed", numbers::number(first.speed)) } else { String::new() };
    Some(format!("{hosts} are emulated{speed}."))
}

/// Returns the sentence that a void result must not be used, with the first reason. The verdict
/// lists all reasons.
fn unusable(verdict: &Verdict) -> String {
    // The worst reasons come first.
    match verdict.reasons.get(..verdict.decisive()).unwrap_or_default() {
        [] => "This result must not be used.".to_owned(),
        [only] => stopped(&format!("This result must not be used: {only}")),
        [first, others @ ..] => format!(
            "This result must not be used: {first} (and {} more {}).",
            others.len(),
            if others.len() == 1 { "reason" } else { "reasons" }
        ),
    }
}

/// Returns the finding of one load, in one sentence.
fn of_load(group: &Group, plan: &Plan) -> String {
    let mut text = repeats(group);
    let rate = group.spread(|trial| trial.throughput.operations_per_s);
    let load = group.trials.first().and_then(|trial| planned(plan, &trial.id)).and_then(|trial| trial.load.as_ref());
    let who = match load.map(|load| (load.agents, &load.rate)) {
        Some((agents, _)) if load.is_some_and(|load| !load.groups.is_empty()) => {
            format!("{} agents in groups got", numbers::count(u64::from(agents)))
        }
        Some((_, Some(asked))) => match asked.per_s() {
            Some(per_s) => format!("asked for {} calls/s, the target answered", numbers::number(per_s)),
            None => "asked for calls on a schedule, the target answered".to_owned(),
        },
        Some((1, None)) => "1 agent got".to_owned(),
        Some((agents, None)) => format!("{} agents got", numbers::count(u64::from(agents))),
        None => "the load got".to_owned(),
    };
    text.push_str(&match rate {
        Some(rate) => format!("{who} {} calls/s", rate.text(numbers::number)),
        None => format!("{who} answers at a rate that was not measured"),
    });
    let quantiles: [(&str, FigureOf); 2] =
        [("p50", |trial| trial.latency_us.as_ref()?.p50), ("p99", |trial| trial.latency_us.as_ref()?.p99)];
    let latency: Vec<String> = quantiles
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", group.spread(value)?.text(numbers::micros))))
        .collect();
    if !latency.is_empty() {
        text.push_str(&format!(" at a latency of {}", latency.join(" and ")));
    }
    let names = text::distinct(group.trials.iter().flat_map(|trial| trial.groups.keys()));
    for name in names {
        let rate = group.spread(|trial| trial.groups.get(name)?.throughput_per_s);
        let p99 = group.spread(|trial| trial.groups.get(name)?.latency_us.as_ref()?.p99);
        let rate = numbers::or_none(rate, |rate| format!("{} calls/s", rate.text(numbers::number)));
        let p99 = p99.map_or_else(String::new, |p99| format!(" at p99 {}", p99.text(numbers::micros)));
        text.push_str(&format!(", {name} {rate}{p99}"));
    }
    text.push_str(&format!("; {}", failures(group)));
    if let Some(lost) = losses(group) {
        text.push_str(&format!("; {lost}"));
    }
    text::capital(&stopped(&text))
}

/// Returns `medians of 3 repeats (lowest–highest): `, or an empty text.
pub fn repeats(group: &Group) -> String {
    match group.counting().count() {
        0 | 1 => String::new(),
        several => format!("medians of {several} repeats (lowest–highest): "),
    }
}

/// Returns `none of 11.2 million calls failed`, or the number that failed.
fn failures(group: &Group) -> String {
    let failed = group.spread(|trial| counted(trial, |trial| trial.outcomes.failed));
    let timed_out = group.spread(|trial| counted(trial, |trial| trial.outcomes.timeout));
    let all = group.spread(|trial| counted(trial, operations));
    let all = all.map_or_else(|| numbers::NONE.to_owned(), |all| all.text(numbers::median_count_in_words));
    match [failed, timed_out].map(above_none) {
        [Some(failed), None] => format!("{failed} of {all} calls failed"),
        [Some(failed), Some(timed_out)] => format!("{failed} of {all} calls failed and {timed_out} timed out"),
        [None, Some(timed_out)] => format!("{timed_out} of {all} calls timed out"),
        [None, None] => format!("none of {all} calls failed"),
    }
}

/// Returns a count in words, unless it is 0 everywhere.
fn above_none(count: Option<MedianRange>) -> Option<String> {
    count.filter(|count| count.most > 0.0).map(|count| count.text(numbers::median_count_in_words))
}

/// Returns the results of the consistency checks, if there were any.
fn losses(group: &Group) -> Option<String> {
    let mut parts = Vec::new();
    let wrong = group.spread(|trial| trial.consistency.wrong.map(|count| count as f64));
    if let Some(wrong) = wrong.filter(|wrong| wrong.most > 0.0) {
        parts.push(format!("{} answers were wrong", wrong.text(numbers::median_count_in_words)));
    }
    let lost = group.spread(|trial| trial.consistency.lost_writes.map(|count| count as f64));
    match (lost, checked_keys(group)) {
        (Some(lost), Some((checked, all))) if lost.most > 0.0 => {
            let lost = lost.text(numbers::median_count_in_words);
            let which = if all.is_some() { " that were checked" } else { "" };
            parts.push(format!("{lost} of {checked} acknowledged writes{which} were lost"));
        }
        (Some(_), Some((checked, all))) => {
            let of_all = all.map_or_else(String::new, |all| format!(" of {all}"));
            parts.push(format!("no acknowledged write was lost ({checked}{of_all} checked)"));
        }
        _ => {}
    }
    let diverged = group.spread(|trial| trial.consistency.diverged_keys.map(|count| count as f64));
    if let Some(diverged) = diverged.filter(|diverged| diverged.most > 0.0) {
        parts.push(format!("members differed on {} keys in the end", diverged.text(numbers::median_count_in_words)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the number of checked keys with an acknowledged write, and the number of all such keys
/// if not all were checked.
fn checked_keys(group: &Group) -> Option<(String, Option<String>)> {
    let of = |value: fn(&Consistency) -> Option<u64>| {
        let spread = group.spread(|trial| value(&trial.consistency).map(|count| count as f64));
        spread.map(|spread| spread.text(numbers::median_count_in_words))
    };
    // Results of earlier versions count all keys together.
    let checked = of(|found| found.acknowledged_checked.or(found.checked))?;
    let all = of(|found| found.acknowledged).filter(|all| *all != checked);
    Some((checked, all))
}

/// Returns the names and victims of the faults that happened: `the fault ‹oops› on ‹n1›`. Without a
/// lab there is only one machine, which is not named.
fn fault(trial: &Trial, has_lab: bool) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut victims: Vec<String> = Vec::new();
    let happened: Vec<&Fault> = trial.faults.iter().filter(|fault| fault.outage.is_some()).collect();
    for fault in &happened {
        let (name, on) = (code(&fault.name), code(&fault.on));
        if !names.contains(&name) {
            names.push(name);
        }
        if !fault.on.is_empty() && !victims.contains(&on) {
            victims.push(on);
        }
    }
    let on = match victims.as_slice() {
        [one] if has_lab => format!(" on {one}"),
        _ => String::new(),
    };
    match (names.as_slice(), happened.len()) {
        ([one], 1) => format!("the fault {one}{on}"),
        ([one], times) => format!("the fault {one}{on}, {times} times,"),
        (names, _) => format!("the faults {}{on}", text::listed(names, "and")),
    }
}

/// Returns the finding of a load with faults, in one sentence.
fn of_crash(group: &Group, plan: &Plan) -> String {
    let mut text = repeats(group);
    let before = group
        .spread(|trial| trial.throughput.before_first_fault_per_s)
        .or_else(|| group.spread(|trial| trial.throughput.operations_per_s));
    if let Some(before) = before {
        let agents =
            group.trials.first().and_then(|trial| planned(plan, &trial.id)?.load.as_ref()).map(|load| load.agents);
        let from = match agents {
            Some(1) => " from 1 agent".to_owned(),
            Some(agents) => format!(" from {} agents", numbers::count(u64::from(agents))),
            None => String::new(),
        };
        text.push_str(&format!("at {} calls/s{from}, ", before.text(numbers::number)));
    }
    let has_lab =
        group.trials.iter().filter_map(|trial| planned(plan, &trial.id)).any(|trial| !trial.lab.hosts.is_empty());
    let parts = [Some(failures_felt(group, has_lab)), back(group), refused(group), losses(group)];
    text.push_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    text::capital(&stopped(&text))
}

fn failures_felt(group: &Group, has_lab: bool) -> String {
    let with_fault = group.counting().find(|trial| outages(trial).next().is_some());
    let name = with_fault.map(|trial| fault(trial, has_lab)).unwrap_or_default();
    let failed = group.spread(|trial| felt(trial, Outage::refused));
    let timed_out = group.spread(|trial| felt(trial, |outage| outage.timed_out));
    let all = group
        .spread(|trial| counted(trial, operations))
        .map(|all| all.text(numbers::median_count_in_words))
        .unwrap_or_default();
    let over = group.spread(|trial| longest(trial, |outage| Some(outage.last_failure_s? - outage.first_failure_s?)));
    let over = over.filter(|over| over.most > 0.0);
    let over = over.map_or_else(String::new, |over| format!(" over {}", over.text(numbers::seconds)));
    match [failed, timed_out].map(above_none) {
        [Some(failed), None] => format!("{name} made {failed} of {all} calls fail{over}"),
        [Some(failed), Some(timed_out)] => {
            format!("{name} made {failed} of {all} calls fail and {timed_out} time out{over}")
        }
        [None, Some(timed_out)] => format!("{name} made {timed_out} of {all} calls time out{over}"),
        [None, None] if !is_noticed(group) => {
            format!("no client noticed {name}, and none of {all} calls failed by it{}", unseen(group))
        }
        [None, None] => format!("{name} made none of {all} calls fail"),
    }
}

fn is_noticed(group: &Group) -> bool {
    group
        .counting()
        .flat_map(outages)
        .any(|(_, outage)| outage.baseline_per_s.is_none() || outage.cannot_tell.is_some() || outage.is_noticed())
}

/// Returns the largest drop of throughput that the usual variation of the load would hide.
fn unseen(group: &Group) -> String {
    let drop = |outage: &Outage| Some(100.0 * (1.0 - outage.bound_per_s? / outage.baseline_per_s?));
    let largest = group.spread(|trial| longest(trial, drop)).map(|drop| drop.most).filter(|pct| *pct > 0.0);
    let words = |pct| format!(" (a drop of throughput by less than {} cannot be told)", numbers::percent(pct));
    largest.map_or_else(String::new, words)
}

/// Returns the faults and actions that were refused.
fn refused(group: &Group) -> Option<String> {
    let faults = group.counting().flat_map(|trial| &trial.faults).filter(|fault| fault.failed.is_some());
    let actions = group.counting().flat_map(|trial| &trial.actions).filter(|action| action.failed.is_some());
    let names = faults.map(|fault| &fault.name).chain(actions.map(|action| &action.name));
    let names = text::distinct(names).into_iter().map(|name| code(name)).collect::<Vec<_>>();
    (!names.is_empty()).then(|| format!("refused: {}", text::listed(&names, "and")))
}

/// Returns a count summed over the faults of a trial.
fn felt(trial: &Trial, count: fn(&Outage) -> u64) -> Option<f64> {
    outages(trial).map(|(_, outage)| count(outage) as f64).reduce(|a, b| a + b)
}

fn back(group: &Group) -> Option<String> {
    if !is_noticed(group) {
        return None;
    }
    let all = group.counting().count();
    let gone = group.counting().filter(|trial| outages(trial).any(|(_, outage)| outage.is_never_back())).count();
    let is_told = |trial: &Trial| outages(trial).all(|(_, outage)| outage.cannot_tell.is_none());
    let spread = group.spread(|trial| longest(trial, |outage| outage.back_to_baseline_s).filter(|_| is_told(trial)));
    let recovered = match (spread, gone) {
        (Some(spread), 0) => Some(format!("throughput recovered after {}", spread.text(numbers::seconds))),
        (None, 0) => None,
        (_, 1) if all == 1 => Some("throughput did not come back to its baseline within the trial".to_owned()),
        (_, gone) => Some(format!("throughput did not come back to its baseline in {gone} of {all} trials")),
    };
    let parts: Vec<String> = [recovered, untold(group)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the sentence that recovery of throughput cannot be determined, with the figures that are
/// known instead.
fn untold(group: &Group) -> Option<String> {
    let untold =
        |trial: &Trial| outages(trial).map(|(_, outage)| outage).find(|one| one.cannot_tell.is_some()).cloned();
    let (found, all) = (group.counting().filter_map(untold).collect::<Vec<_>>(), group.counting().count());
    let first = found.first()?;
    let trials = if all > 1 { format!("in {} of {all} trials ", found.len()) } else { String::new() };
    let by_signs = first.back_to_baseline_s.map(|back_s| {
        let signs = text::listed(&first.recovery_by, "and");
        format!(" (by {signs}, service recovered after {})", numbers::seconds(back_s))
    });
    let why = first.cannot_tell.clone().unwrap_or_default();
    Some(format!("{trials}it cannot be told whether throughput recovered: {why}{}", by_signs.unwrap_or_default()))
}

/// Returns the slowest time of all trials used, in one sentence, or `None` if there was none.
fn slow_times(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    let slow = || {
        let all = used.iter().flat_map(|trial| &trial.disturbances);
        all.filter(|one| one.kind == DisturbanceKind::Slow)
    };
    let worst = slow().max_by(|a, b| slowness(a).total_cmp(&slowness(b)))?;
    let until = match worst.outage.back_to_baseline_s {
        Some(long_s) => format!("to {}", numbers::moment(worst.at_s + long_s)),
        None => "to the end of the load".to_owned(),
    };
    let times = match slow().count() {
        1 => "once".to_owned(),
        2 => "twice, at worst".to_owned(),
        several => format!("{} times, at worst", numbers::count(several as u64)),
    };
    let from = numbers::moment(worst.at_s);
    Some(format!("Service was slow {times} from {from} {until}: {}.", slow_by(worst)))
}

/// Returns how slow a time was, by throughput or latency, whichever shows more.
fn slowness(one: &Disturbance) -> f64 {
    let by_throughput = one.throughput_ratio.map_or(1.0, |ratio| 1.0 / ratio.max(1e-9));
    by_throughput.max(one.latency_ratio.unwrap_or(1.0))
}

/// Returns `throughput was 48 % lower and the median latency 1.9 times as high`.
pub fn slow_by(one: &Disturbance) -> String {
    let lower = one.throughput_ratio.filter(|ratio| *ratio < TOLD_LOWER);
    let lower = lower.map(|ratio| format!("throughput was {:.0} % lower", 100.0 * (1.0 - ratio)));
    let quantile = match one.latency_quantile {
        Some(quantile) if quantile > 0.5 => format!("p{:.0}", 100.0 * quantile),
        _ => "median".to_owned(),
    };
    let higher = one.latency_ratio.filter(|ratio| *ratio > TOLD_HIGHER);
    let higher = higher.map(|ratio| format!("the {quantile} latency was {ratio:.1} times as high"));
    text::listed(&lower.into_iter().chain(higher).collect::<Vec<_>>(), "and")
}

/// Returns the disturbances in one sentence, or `None` if no trial used was disturbed.
pub fn disturbances(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    // Wrong answers alone are no outage; another sentence has their number.
    let broke_off = |one: &&Disturbance| {
        one.kind == DisturbanceKind::Outage
            && (one.outage.failed > 0
                || one.outage.total_s.is_some_and(|total_s| total_s > 0.0)
                || one.outage.wrong == 0)
    };
    let disturbed = used.iter().filter(|trial| trial.disturbances.iter().any(|one| broke_off(&one))).count();
    if disturbed == 0 {
        return None;
    }
    let found = || used.iter().flat_map(|trial| &trial.disturbances).filter(broke_off);
    let times = match found().count() {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        several => format!("{} times", numbers::count(several as u64)),
    };
    let sum = |count: fn(&Outage) -> u64| found().map(|one| count(&one.outage)).sum::<u64>();
    let (failed, wrong) = (sum(Outage::refused), sum(|outage| outage.wrong));
    let timed_out = sum(|outage| outage.timed_out);
    let mut felt = Vec::new();
    if failed > 0 || wrong + timed_out == 0 {
        felt.push(format!("{} {} failed", numbers::count_in_words(failed), if failed == 1 { "call" } else { "calls" }));
    }
    if timed_out > 0 {
        felt.push(format!("{} timed out", numbers::count_in_words(timed_out)));
    }
    if wrong > 0 {
        felt.push(format!("{} were wrong", numbers::count_in_words(wrong)));
    }
    let trials = if used.len() > 1 { format!(" in {disturbed} of {} trials", used.len()) } else { String::new() };
    let cause = if used.iter().any(|trial| !trial.faults.is_empty()) {
        "no fault explains"
    } else {
        "nothing planned explains"
    };
    Some(format!("Service broke off {times}{trials} in a way that {cause}: {}.", text::listed(&felt, "and")))
}

#[cfg(test)]
mod tests {
    use record::results::{Outcomes, Verdict};

    use super::*;
    use crate::synthetic;

    #[test]
    fn a_single_usable_variant_is_named() {
        let trial = |variant: &str, is: Trust| Trial {
            variant: Some(variant.to_owned()),
            outcomes: Outcomes { ok: 100, ..Outcomes::default() },
            verdict: Verdict { is, ..Verdict::default() },
            ..Trial::default()
        };
        let plan = Plan { variants: vec!["all".into(), "one".into()], ..synthetic::plan() };
        let answer_of = |all: Trust| {
            let trials = vec![trial("all", all), trial("one", Trust::Valid)];
            answer(&Results { trials, ..Results::default() }, &plan)
        };
        assert!(answer_of(Trust::Void).starts_with("Of 2 cases only `one` has trials that count. "));
        assert!(!answer_of(Trust::Valid).contains("cases only"));
    }

    /// The answer about one trial with a fault and its outages.
    fn after_a_fault(outages: &[Outage]) -> String {
        let trial = |outage: &Outage| Trial {
            outcomes: Outcomes { ok: 100, ..Outcomes::default() },
            faults: vec![Fault { name: "oops".into(), outage: Some(outage.clone()), ..Fault::default() }],
            ..Trial::default()
        };
        let trials = outages.iter().map(trial).collect();
        answer(&Results { trials, ..Results::default() }, &synthetic::plan())
    }

    #[test]
    fn an_unknown_recovery_is_not_claimed() {
        let told = Outage {
            baseline_per_s: Some(100.0),
            back_to_baseline_s: Some(1.5),
            recovered: Some(true),
            failed: 2,
            ..Outage::default()
        };
        let untold = Outage {
            recovered: None,
            cannot_tell: Some("the baseline varies by ±40 %".into()),
            recovery_by: vec!["failures".into(), "gaps".into()],
            ..told.clone()
        };
        let never = Outage { back_to_baseline_s: None, recovered: Some(false), ..told.clone() };
        let text = after_a_fault(std::slice::from_ref(&told));
        assert!(text.ends_with("throughput recovered after 1.5 s."), "{text}");
        let whether = "it cannot be told whether throughput recovered: the baseline varies by ±40 % (by failures and gaps, service \
                       recovered after 1.5 s)";
        let text = after_a_fault(std::slice::from_ref(&untold));
        assert!(text.ends_with(&format!("; {whether}.")) && !text.contains("throughput recovered after"), "{text}");
        let text = after_a_fault(&[told, untold.clone()]);
        assert!(text.contains("throughput recovered after 1.5 s; in 1 of 2 trials it cannot be told"), "{text}");
        let text = after_a_fault(&[never]);
        assert!(text.ends_with("throughput did not come back to its baseline within the trial."), "{text}");
        let nothing = Outage { failed: 0, back_to_baseline_s: Some(0.0), ..untold };
        let text = after_a_fault(&[nothing]);
        assert!(!text.contains("no client noticed") && text.contains("it cannot be told"), "{text}");
    }
}
