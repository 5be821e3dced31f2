//! The answer: the finding in a few plain sentences, by rule. Whether it may be used comes first.

use experiment::plan::Plan;
use record::results::{Emulated, Results, Trust};

use super::{cost, crash, differing, disturbed, plain_load, recovery, safe_load, scaling, side_by_side, stopped};
use crate::facts::{self, Group, groups, operations};
use crate::numbers;

/// The finding, with numbers. A void result begins with why it must not be used, a partial one with what is missing.
#[must_use]
pub fn answer(results: &Results, plan: &Plan) -> String {
    let mut sentences = Vec::new();
    if results.verdict.is == Trust::Void {
        sentences.push(unusable(&results.verdict.reasons));
    }
    if let Some(partial) = &results.partial {
        sentences.push(stopped(&format!("This is a partial result: {partial}")));
    }
    sentences.extend(findings(results, plan));
    sentences.join(" ")
}

/// The answer for whoever reads the verdict in the same breath: why the result must not be used, or what is missing, stands there.
#[must_use]
pub(super) fn beside_the_verdict(results: &Results, plan: &Plan) -> String {
    let mut sentences = Vec::new();
    if results.verdict.is == Trust::Void {
        sentences.push(match results.verdict.reasons.len() {
            0 => unusable(&[]),
            1 => "This result must not be used, for the reason below.".to_owned(),
            some => format!("This result must not be used, for {some} reasons below."),
        });
    }
    sentences.extend(results.partial.is_some().then(|| "This is a partial result.".to_owned()));
    sentences.extend(findings(results, plan));
    sentences.join(" ")
}

/// What was found, whatever it is worth.
fn findings(results: &Results, plan: &Plan) -> Vec<String> {
    let mut sentences = Vec::new();
    let groups = groups(results, plan);
    let measured: Vec<Group> = groups.into_iter().filter(|group| group.usable().any(|t| operations(t) > 0)).collect();
    match measured.as_slice() {
        groups if !results.safe_loads.is_empty() => {
            sentences.extend(safe_load::findings(&results.safe_loads));
            sentences.extend(side_by_side::inconsistencies(groups));
        }
        [] => sentences.push("Nothing was measured: no operation ended.".to_owned()),
        [group] if group.usable().any(|trial| facts::outages(trial).next().is_some()) => {
            sentences.push(crash::finding(group, plan));
        }
        [group] => sentences.push(plain_load::finding(group, plan)),
        groups => {
            let curves = scaling::findings(results);
            // Whole curves say more of speed than their ends, or than one point held against another.
            let speed_is_told = !curves.is_empty();
            sentences.extend(curves);
            sentences.extend(side_by_side::findings(groups, speed_is_told));
            sentences.extend(recovery::findings(results, plan));
            sentences.extend(differing::sentence(&results.comparisons).filter(|_| !speed_is_told));
            sentences.extend(cost::sentence(results));
        }
    }
    sentences.extend(disturbed::sentence(results));
    sentences.extend(emulation(results));
    sentences
}

/// That the hosts are modelled, for whoever reads nothing but the answer.
fn emulation(results: &Results) -> Option<String> {
    let emulated: Vec<&Emulated> = results.trials.iter().filter_map(|trial| trial.emulated.as_ref()).collect();
    let first = emulated.first()?;
    let mut profiles: Vec<String> = Vec::new();
    for profile in emulated.iter().flat_map(|emulated| &emulated.profiles) {
        if !profiles.contains(profile) {
            profiles.push(profile.clone());
        }
    }
    let hosts =
        if profiles.is_empty() { "The hosts".to_owned() } else { format!("The hosts ({})", super::listed(&profiles)) };
    let slowed =
        emulated.iter().all(|emulated| emulated.speed == first.speed) && (first.speed - 1.0).abs() > f64::EPSILON;
    let speed = if slowed { format!(", at {} of real speed", numbers::number(first.speed)) } else { String::new() };
    Some(format!("{hosts} are emulated{speed}."))
}

/// That a void result must not be used, with the first reason; all of them stand beside the verdict.
fn unusable(reasons: &[String]) -> String {
    match reasons {
        [] => "This result must not be used.".to_owned(),
        [only] => stopped(&format!("This result must not be used: {only}")),
        [first, others @ ..] => format!(
            "This result must not be used: {first} (and {} more {}).",
            others.len(),
            if others.len() == 1 { "reason" } else { "reasons" }
        ),
    }
}
