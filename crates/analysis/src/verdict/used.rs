//! Which findings count for the run: those against trials that its answer uses. It must not judge a trial anew.

use record::results::{Trial, Trust};

use super::Finding;

/// Sound repeats that it takes to do without a void one.
const STAND_IN: usize = 3;

/// The findings that count for the run. No figure uses a void trial; where three sound repeats of the same point stand in for each void
/// one, the answer does without it, and the run is not void for it. It stays suspect: what spoiled one repeat may have touched others.
pub(crate) fn of_used(trials: &[Trial], findings: Vec<(String, Vec<Finding>)>) -> Vec<(String, Vec<Finding>)> {
    let stood_in_for = |trial: &Trial| {
        let repeats = || trials.iter().filter(|other| other.variant == trial.variant && other.point == trial.point);
        let void = repeats().filter(|other| other.verdict.is == Trust::Void).count();
        let sound = repeats().count() - void;
        trial.verdict.is == Trust::Void && sound >= STAND_IN * void
    };
    let weakened = |finding: Finding| Finding {
        trust: Trust::Suspect,
        reason: format!("{}; this trial is left out of all figures", finding.reason),
        ..finding
    };
    let mut counted = Vec::with_capacity(findings.len());
    for (id, found) in findings {
        let left_out = trials.iter().any(|trial| trial.id == id && stood_in_for(trial));
        counted.push(match left_out {
            true => (id, found.into_iter().filter(|one| one.trust == Trust::Void).map(weakened).collect()),
            false => (id, found),
        });
    }
    counted
}

#[cfg(test)]
mod tests;
