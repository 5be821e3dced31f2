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
mod tests {
    use serde_json::json;

    use super::super::run_verdict;
    use super::*;

    /// A run of these trials: agents and verdict of each.
    fn run(judged: &[(u32, Trust)]) -> Trust {
        let mut trials = Vec::new();
        let mut findings = Vec::new();
        for (index, &(agents, is)) in judged.iter().enumerate() {
            let mut trial = Trial { id: format!("{:03}", index + 1), ..Trial::default() };
            trial.point.insert("load.agents".to_owned(), json!(agents));
            trial.verdict.is = is;
            let found = Finding { rule: "steal", trust: is, reason: "the hypervisor took 20 %".to_owned() };
            findings.push((trial.id.clone(), if is == Trust::Valid { Vec::new() } else { vec![found] }));
            trials.push(trial);
        }
        run_verdict(&of_used(&trials, findings)).is
    }

    const SOUND: (u32, Trust) = (1, Trust::Valid);
    const VOID: (u32, Trust) = (1, Trust::Void);

    #[test]
    fn a_void_repeat_among_three_sound_ones_makes_a_run_suspect_only() {
        assert_eq!(run(&[SOUND, SOUND, VOID, SOUND]), Trust::Suspect);
        assert_eq!(run(&[SOUND, (1, Trust::Suspect), VOID, SOUND]), Trust::Suspect);
        assert_eq!(run(&[SOUND; 4]), Trust::Valid);
    }

    #[test]
    fn a_void_repeat_that_too_few_stand_in_for_makes_a_run_void() {
        assert_eq!(run(&[VOID]), Trust::Void);
        assert_eq!(run(&[SOUND, SOUND, VOID]), Trust::Void);
        assert_eq!(run(&[SOUND, SOUND, SOUND, VOID, VOID]), Trust::Void);
        assert_eq!(run(&[SOUND, SOUND, SOUND, (2, Trust::Void)]), Trust::Void, "they are of another point");
    }

    #[test]
    fn the_reason_says_that_the_trial_is_left_out_and_nothing_else_of_it() {
        let mut trials: Vec<Trial> = (1..=4).map(|id| Trial { id: format!("{id:03}"), ..Trial::default() }).collect();
        trials[1].verdict.is = Trust::Void;
        let found = |rule, trust| Finding { rule, trust, reason: format!("{rule} is high") };
        let findings = vec![("002".to_owned(), vec![found("steal", Trust::Void), found("strangers", Trust::Suspect)])];
        let run = run_verdict(&of_used(&trials, findings));
        assert_eq!(run.is, Trust::Suspect);
        assert_eq!(run.reasons.len(), 1, "{:?}", run.reasons);
        assert!(run.reasons[0].contains("steal is high; this trial is left out of all figures"), "{:?}", run.reasons);
    }
}
