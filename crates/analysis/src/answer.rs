//! The answer: the main finding in one or two plain sentences, by rules; and the findings of one
//! load, with faults or without. The sentence on whether the result may be used comes first.

mod counts;
pub mod differing;
mod side_by_side;
pub mod steadiness;
pub mod sweeps;

use experiment::plan::{Load, Plan};
use record::results::{
    Disturbance, DisturbanceKind, Fault, LoadStop, Outage, Results, Trial, Trust, Verdict, counting,
};
use text::{code, listed, numbers, stopped};

use crate::disturbances::{TOLD_HIGHER, TOLD_LOWER};
use crate::exercise_results;
use crate::trial_groups::{FigureOf, Group, counted, groups, longest, operations, outages, planned};

/// Largest number of findings in an answer, not counting sentences on why the result must not be
/// used and on missing trials.
const ANSWERED: usize = 2;

/// Returns the main findings, with numbers. A void result begins with the reason why it must not be
/// used, a partial result with the missing part.
pub fn answer(results: &Results, plan: &Plan) -> String {
    let void = (results.verdict.is == Trust::Void).then(|| unusable(&results.verdict));
    let partial = results.partial.as_ref().map(|partial| stopped(&format!("This is a partial result: {partial}")));
    opened([void, partial], results, plan)
}

/// Returns the answer for a reader who sees the verdict next to it: the verdict gives the reason
/// why the result must not be used, or the missing part.
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
        sentences.push(format!("Only {} of {cases} cases has usable trials.", code(&only.name())));
    }
    match measured.as_slice() {
        groups if !results.safe_loads.is_empty() => {
            sentences.extend(sweeps::safe_loads(&results.safe_loads));
            sentences.extend(counts::inconsistencies(groups));
        }
        // An exercise needs no load.
        [] if exercise_results::sentence(results, plan).is_some() => {}
        [] => sentences.push("Nothing was measured: no operation ended.".to_owned()),
        [group] if has_outages(group) => sentences.push(of_crash(group, plan)),
        [group] => sentences.push(of_load(group, plan)),
        groups => {
            let curves = sweeps::scaling(results);
            // Whole curves say more about speed than their ends, or than a comparison of single
            // points.
            let speed_is_told = !curves.is_empty();
            sentences.extend(curves);
            sentences.extend(side_by_side::findings(groups, speed_is_told));
            // Losses and wrong answers come second, so that they are in the answer.
            sentences.splice(1..1, counts::inconsistencies(groups));
            sentences.extend(side_by_side::recoveries(results, plan));
            sentences.extend(differing::sentence(&results.comparisons).filter(|_| !speed_is_told));
            sentences.extend(sweeps::cost_sentence(results));
        }
    }
    if let Some(stops) = stops(results) {
        sentences.insert(sentences.len().min(1), stops);
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

/// Whether a fault had an outage in a trial that counts.
fn has_outages(group: &Group) -> bool {
    group.counting().any(|trial| outages(trial).next().is_some())
}

/// Returns a sentence if loads were stopped at a violation.
fn stops(results: &Results) -> Option<String> {
    let stops: Vec<&LoadStop> = results.trials.iter().filter_map(|trial| trial.stopped.as_ref()).collect();
    match stops.as_slice() {
        [] => None,
        [only] => {
            let fault = only.after_fault.as_ref().map(|fault| format!(", after the fault {}", code(fault)));
            Some(format!(
                "The load was stopped at {}, at the first violation: key {} is not linearizable{}.",
                numbers::moment(only.at_s),
                code(&only.key),
                fault.unwrap_or_default()
            ))
        }
        several => {
            let first_s = several.iter().map(|stop| stop.at_s).fold(f64::INFINITY, f64::min);
            let last_s = several.iter().map(|stop| stop.at_s).fold(0.0, f64::max);
            Some(format!(
                "In {} of {} trials the load was stopped at the first violation, at {} to {}.",
                several.len(),
                results.trials.len(),
                numbers::moment(first_s),
                numbers::moment(last_s)
            ))
        }
    }
}

/// Returns a sentence if all agents of an open loop were stuck in operations that timed out, so
/// that nothing was sent.
fn busy_agents(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    let stuck = used.iter().filter(|trial| trial.outcomes.timeout > 0);
    let busy_s = stuck.filter_map(|trial| trial.generator.all_busy_s).fold(0.0, f64::max);
    let text = "all agents waited for answers until the timeout, so no operation started when it was due";
    (busy_s >= 1.0).then(|| format!("For {} {text}.", numbers::seconds(busy_s)))
}

/// Returns a sentence that the hosts are emulated, for readers who see only the answer.
fn emulation(results: &Results) -> Option<String> {
    let emulated = || results.trials.iter().filter_map(|trial| trial.emulated.as_ref());
    let speed = emulated().next()?.speed;
    let profiles = text::distinct(emulated().flat_map(|emulated| emulated.profiles.iter().cloned()));
    let profiles = if profiles.is_empty() { String::new() } else { format!(" ({})", listed(&profiles, "and")) };
    let is_slowed = emulated().all(|emulated| emulated.speed == speed) && (speed - 1.0).abs() > f64::EPSILON;
    let speed = if is_slowed { format!(", at {} of real speed", numbers::number(speed)) } else { String::new() };
    Some(format!("The hosts{profiles} are emulated{speed}."))
}

/// Returns the sentence that a void result must not be used, with the first reason. The verdict
/// lists all reasons.
fn unusable(verdict: &Verdict) -> String {
    // The worst reasons come first.
    match verdict.reasons.get(..verdict.decisive()).unwrap_or_default() {
        [] => "This result must not be used.".to_owned(),
        [only] => stopped(&format!("This result must not be used: {only}")),
        [first, others @ ..] => {
            let others = numbers::plural(others.len(), "more reason");
            format!("This result must not be used: {first} (and {others}).")
        }
    }
}

/// Returns the planned load of a group.
fn load_of<'a>(group: &Group, plan: &'a Plan) -> Option<&'a Load> {
    planned(plan, &group.trials.first()?.id)?.load.as_ref()
}

/// Returns the finding of one load, in one sentence.
fn of_load(group: &Group, plan: &Plan) -> String {
    let rate = group.spread(|trial| trial.throughput.operations_per_s);
    let rate = match rate {
        Some(rate) => format!("{} operations/s", rate.text(numbers::number)),
        None => "an unmeasured number of operations/s".to_owned(),
    };
    let mut text =
        format!("{}{} {rate}", repeats(group), load_of(group, plan).map_or("the load got".to_owned(), asked));
    let quantiles: [(&str, FigureOf); 2] =
        [("p50", |trial| trial.latency_us.as_ref()?.p50), ("p99", |trial| trial.latency_us.as_ref()?.p99)];
    let latency = quantiles
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", group.spread(value)?.text(numbers::micros))))
        .collect::<Vec<_>>();
    if !latency.is_empty() {
        text.push_str(&format!(" at a latency of {}", latency.join(" and ")));
    }
    for name in text::distinct(group.trials.iter().flat_map(|trial| trial.groups.keys())) {
        let rate = group.spread(|trial| trial.groups.get(name)?.throughput_per_s);
        let p99 = group.spread(|trial| trial.groups.get(name)?.latency_us.as_ref()?.p99);
        let rate = numbers::or_none(rate, |rate| format!("{} operations/s", rate.text(numbers::number)));
        let p99 = p99.map(|p99| format!(" at p99 {}", p99.text(numbers::micros))).unwrap_or_default();
        text.push_str(&format!(", {name} {rate}{p99}"));
    }
    let figures: [FigureOf; 2] =
        [|trial| counted(trial, |trial| trial.outcomes.failed), |trial| counted(trial, |trial| trial.outcomes.timeout)];
    let failed = counts::failures(group, "", figures, ["failed", "timed out"]);
    let failed = failed.unwrap_or_else(|| format!("none of {} operations failed", counts::all_calls(group)));
    let parts: Vec<String> = [text, failed].into_iter().chain(counts::of_load(group)).collect();
    text::capital(&stopped(&parts.join("; ")))
}

/// Returns the requested load as the beginning of a sentence, up to the verb: `64 agents got`.
fn asked(load: &Load) -> String {
    let agents = agents(load);
    match &load.rate {
        _ if !load.groups.is_empty() => format!("{agents} in groups got"),
        None => format!("{agents} got"),
        Some(rate) => match rate.per_s() {
            Some(per_s) => {
                let things = if rate.is_of_sessions() { "sessions" } else { "operations" };
                format!("{} {things}/s were requested, and the target answered", numbers::number(per_s))
            }
            None => "the rate followed a schedule, and the target answered".to_owned(),
        },
    }
}

/// Returns the number of agents: `64 agents`, or `up to 64 agents` if they come and go.
fn agents(load: &Load) -> String {
    let most = numbers::plural(load.agents as usize, "agent");
    if load.changes_agents() { format!("up to {most}") } else { most }
}

/// Returns `medians of 3 repeats (lowest–highest): `, or an empty text.
fn repeats(group: &Group) -> String {
    match group.counting().count() {
        0 | 1 => String::new(),
        several => format!("medians of {several} repeats (lowest–highest): "),
    }
}

/// Returns the names and victims of the faults that happened: `the fault ‹oops› on ‹n1›`. Without a
/// lab there is only one machine, which is not named.
fn fault(trial: &Trial, has_lab: bool) -> String {
    let happened: Vec<&Fault> = outages(trial).map(|(fault, _)| fault).collect();
    let names = text::distinct(happened.iter().map(|fault| code(&fault.name)));
    let victims = text::distinct(happened.iter().map(|fault| &fault.on).filter(|on| !on.is_empty()));
    let on = match victims.as_slice() {
        [one] if has_lab => format!(" on {}", code(one)),
        _ => String::new(),
    };
    match (names.as_slice(), happened.len()) {
        ([one], 1) => format!("the fault {one}{on}"),
        ([one], times) => format!("the fault {one}{on}, {times} times,"),
        (names, _) => format!("the faults {}{on}", listed(names, "and")),
    }
}

/// Returns the finding of a load with faults, in one sentence.
fn of_crash(group: &Group, plan: &Plan) -> String {
    let mut text = repeats(group);
    let before = group
        .spread(|trial| trial.throughput.before_first_fault_per_s)
        .or_else(|| group.spread(|trial| trial.throughput.operations_per_s));
    if let Some(before) = before {
        let agents = load_of(group, plan).map(|load| format!(" from {}", agents(load)));
        text.push_str(&format!("at {} operations/s{}, ", before.text(numbers::number), agents.unwrap_or_default()));
    }
    let has_lab =
        group.trials.iter().filter_map(|trial| planned(plan, &trial.id)).any(|trial| !trial.lab.hosts.is_empty());
    let parts = [Some(failures_felt(group, has_lab)), back(group), refused(group)];
    text.push_str(&parts.into_iter().flatten().chain(counts::of_load(group)).collect::<Vec<_>>().join("; "));
    text::capital(&stopped(&text))
}

fn failures_felt(group: &Group, has_lab: bool) -> String {
    let with_fault = group.counting().find(|trial| outages(trial).next().is_some());
    let name = with_fault.map(|trial| fault(trial, has_lab)).unwrap_or_default();
    let made = format!("{name} made ");
    let figures: [FigureOf; 2] = [|trial| felt(trial, Outage::refused), |trial| felt(trial, |outage| outage.timed_out)];
    let felt = counts::failures(group, &made, figures, ["fail", "time out"]);
    let all = counts::all_calls(group);
    match felt {
        Some(felt) => {
            let over = |outage: &Outage| Some(outage.last_failure_s? - outage.first_failure_s?);
            let over = group.spread(|trial| longest(trial, over)).filter(|over| over.most > 0.0);
            felt + &over.map(|over| format!(" over {}", over.text(numbers::seconds))).unwrap_or_default()
        }
        None if is_noticed(group) => format!("{made}none of {all} operations fail"),
        None => format!("no client noticed {name}, and none of {all} operations failed because of it{}", unseen(group)),
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
    let words =
        largest.map(|pct| format!(" (a drop of throughput by less than {} is not detectable)", numbers::percent(pct)));
    words.unwrap_or_default()
}

/// Returns the faults and actions that were refused.
fn refused(group: &Group) -> Option<String> {
    let faults = group.counting().flat_map(|trial| &trial.faults).filter(|fault| fault.failed.is_some());
    let actions = group.counting().flat_map(|trial| &trial.actions).filter(|action| action.failed.is_some());
    let names = faults.map(|fault| &fault.name).chain(actions.map(|action| &action.name));
    let names = text::distinct(names.map(|name| code(name)));
    (!names.is_empty()).then(|| format!("not carried out: {}", listed(&names, "and")))
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
    let known = group.spread(|trial| {
        longest(trial, |outage| outage.back_to_baseline_s).filter(|_| unknown_recovery(trial).is_none())
    });
    let recovered = match (known, gone) {
        (Some(back_s), 0) => Some(format!("throughput recovered after {}", back_s.text(numbers::seconds))),
        (None, 0) => None,
        (_, 1) if all == 1 => Some("throughput did not recover to its baseline within the trial".to_owned()),
        (_, gone) => Some(format!("throughput did not recover to its baseline in {gone} of {all} trials")),
    };
    let parts: Vec<String> = recovered.into_iter().chain(doubt(group)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the first outage of a trial for which recovery of throughput cannot be determined.
fn unknown_recovery(trial: &Trial) -> Option<&Outage> {
    outages(trial).map(|(_, outage)| outage).find(|outage| outage.cannot_tell.is_some())
}

/// Returns the sentence that recovery of throughput cannot be determined, with the figures that are
/// known instead.
fn doubt(group: &Group) -> Option<String> {
    let (found, all) = (group.counting().filter_map(unknown_recovery).collect::<Vec<_>>(), group.counting().count());
    let first = found.first()?;
    let trials = if all > 1 { format!(" in {} of {all} trials", found.len()) } else { String::new() };
    let by_signs = first.back_to_baseline_s.map(|back_s| {
        let signs = listed(&first.recovery_by, "and");
        format!(" (by {signs}, service recovered after {})", numbers::seconds(back_s))
    });
    let why = first.cannot_tell.as_deref().unwrap_or_default();
    Some(format!("whether throughput recovered is unknown{trials}: {why}{}", by_signs.unwrap_or_default()))
}

/// Returns a sentence on the slow periods of all trials used, with details of the worst, or `None`
/// if there was none.
fn slow_times(results: &Results) -> Option<String> {
    let mut slow: Vec<&Disturbance> =
        counting(&results.trials).into_iter().flat_map(|trial| &trial.disturbances).collect();
    slow.retain(|one| one.kind == DisturbanceKind::Slow);
    let worst = slow.iter().max_by(|a, b| slowness(a).total_cmp(&slowness(b)))?;
    let until = match worst.outage.back_to_baseline_s {
        Some(long_s) => format!("to {}", numbers::moment(worst.at_s + long_s)),
        None => "to the end of the load".to_owned(),
    };
    let at_worst = if slow.len() > 1 { ", at worst" } else { "" };
    let (times, from) = (numbers::times(slow.len()), numbers::moment(worst.at_s));
    Some(format!("Service was slow {times}{at_worst} from {from} {until}: {}.", slow_by(worst)))
}

/// Returns the factor by which service was slower, by throughput or latency, whichever is larger.
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
    listed(&lower.into_iter().chain(higher).collect::<Vec<_>>(), "and")
}

/// Whether the disturbance interrupted service. Wrong answers alone do not; another sentence has
/// their number.
fn broke_off(one: &Disturbance) -> bool {
    let outage = &one.outage;
    let was_felt = outage.failed > 0 || outage.wrong == 0 || outage.total_s.is_some_and(|total_s| total_s > 0.0);
    one.kind == DisturbanceKind::Outage && was_felt
}

/// Returns the disturbances in one sentence, or `None` if no trial used was disturbed.
pub fn disturbances(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    let disturbed = used.iter().filter(|trial| trial.disturbances.iter().any(broke_off)).count();
    if disturbed == 0 {
        return None;
    }
    let all = used.iter().flat_map(|trial| &trial.disturbances).filter(|one| broke_off(one));
    let found: Vec<&Outage> = all.map(|one| &one.outage).collect();
    let failed: u64 = found.iter().map(|outage| outage.refused()).sum();
    let timed_out: u64 = found.iter().map(|outage| outage.timed_out).sum();
    let wrong: u64 = found.iter().map(|outage| outage.wrong).sum();
    let mut felt = Vec::new();
    for (count, what) in [(failed, "failed"), (timed_out, "timed out"), (wrong, "gave a wrong answer")] {
        // Without any count, the sentence says that no operation failed.
        if count > 0 || (what == "failed" && timed_out + wrong == 0) {
            let noun = match (felt.is_empty(), count) {
                (false, _) => "",
                (true, 1) => " operation",
                (true, _) => " operations",
            };
            felt.push(format!("{}{noun} {what}", numbers::count_in_words(count)));
        }
    }
    let trials = if used.len() > 1 { format!(" in {disturbed} of {} trials", used.len()) } else { String::new() };
    let has_faults = used.iter().any(|trial| !trial.faults.is_empty());
    let cause = if has_faults { "no fault explains it" } else { "no planned event explains it" };
    let (times, felt) = (numbers::times(found.len()), listed(&felt, "and"));
    Some(format!("Service was interrupted {times}{trials}, and {cause}: {felt}."))
}

#[cfg(test)]
mod tests {
    use record::results::Outcomes;

    use super::*;
    use crate::synthetic;

    #[test]
    fn a_single_usable_variant_is_named() {
        let outcomes = Outcomes { ok: 100, ..Outcomes::default() };
        let names = ["all", "one"].map(str::to_owned);
        let trials = names.clone().map(|name| Trial { variant: Some(name), outcomes, ..Trial::default() });
        let plan = Plan { variants: names.to_vec(), ..synthetic::plan() };
        let mut results = Results { trials: trials.to_vec(), ..Results::default() };
        assert!(!answer(&results, &plan).contains("cases has"));
        results.trials[0].verdict.is = Trust::Void;
        assert!(answer(&results, &plan).starts_with("Only `one` of 2 cases has usable trials. "));
    }

    #[test]
    fn a_stop_at_a_violation_is_the_second_finding() {
        let stop = |at_s| LoadStop { at_s, key: "s/k".to_owned(), after_fault: Some("lost".to_owned()) };
        let trial = |at_s| Trial {
            outcomes: Outcomes { ok: 100, ..Outcomes::default() },
            stopped: Some(stop(at_s)),
            ..Trial::default()
        };
        let told = |trials: Vec<Trial>| answer(&Results { trials, ..Results::default() }, &synthetic::plan());
        let one = "The load was stopped at 12.3 s, at the first violation: key `s/k` is not linearizable, after the \
                   fault `lost`.";
        assert!(told(vec![trial(12.3)]).ends_with(one), "{}", told(vec![trial(12.3)]));
        let two = "In 2 of 2 trials the load was stopped at the first violation, at 3.5 s to 12.3 s.";
        assert!(told(vec![trial(12.3), trial(3.5)]).ends_with(two), "{}", told(vec![trial(12.3), trial(3.5)]));
    }

    /// The answer about one trial with a fault and its outages.
    fn after_a_fault(outages: &[Outage]) -> String {
        let trials = outages.iter().map(|outage| Trial {
            outcomes: Outcomes { ok: 100, ..Outcomes::default() },
            faults: vec![Fault { name: "oops".into(), outage: Some(outage.clone()), ..Fault::default() }],
            ..Trial::default()
        });
        let trials = trials.collect();
        answer(&Results { trials, ..Results::default() }, &synthetic::plan())
    }

    #[test]
    fn an_unknown_recovery_is_not_claimed() {
        let known = Outage {
            baseline_per_s: Some(100.0),
            back_to_baseline_s: Some(1.5),
            recovered: Some(true),
            failed: 2,
            ..Outage::default()
        };
        let unknown = Outage {
            recovered: None,
            cannot_tell: Some("the baseline varies by ±40 %".into()),
            recovery_by: vec!["failures".into(), "gaps".into()],
            ..known.clone()
        };
        let never = Outage { back_to_baseline_s: None, recovered: Some(false), ..known.clone() };
        let text = after_a_fault(std::slice::from_ref(&known));
        assert!(text.ends_with("throughput recovered after 1.5 s."), "{text}");
        let whether = "whether throughput recovered is unknown: the baseline varies by ±40 % (by failures and gaps, service \
                       recovered after 1.5 s)";
        let text = after_a_fault(std::slice::from_ref(&unknown));
        assert!(text.ends_with(&format!("; {whether}.")) && !text.contains("throughput recovered after"), "{text}");
        let text = after_a_fault(&[known, unknown.clone()]);
        assert!(
            text.contains(
                "throughput recovered after 1.5 s; whether throughput recovered is unknown in 1 of 2 trials: "
            ),
            "{text}"
        );
        let text = after_a_fault(&[never]);
        assert!(text.ends_with("throughput did not recover to its baseline within the trial."), "{text}");
        let nothing = Outage { failed: 0, back_to_baseline_s: Some(0.0), ..unknown };
        let text = after_a_fault(&[nothing]);
        assert!(!text.contains("no client noticed") && text.contains("is unknown"), "{text}");
    }
}
