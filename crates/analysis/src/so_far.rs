//! A trial that is still running: its figures so far, and the findings that the rest of it cannot
//! change.

use experiment::plan::{self, Plan};
use record::folder::TrialFolder;
use record::results::Trial;

use crate::Error;
use crate::evidence::Evidence;
use crate::latency_series::LatencySeries;
use crate::trial::judged;
use crate::verdict::{self, RuleFinding, RunContext};

/// Rules whose findings the rest of the trial cannot change, because they count events. The other
/// rules judge the whole trial.
const FINAL: [&str; 12] = [
    "alarming_log",
    "clock_jump",
    "failed_connects",
    "failed_fault",
    "failed_handshakes",
    "full_disk",
    "generator_lost",
    "lost_host",
    "lost_process",
    "lost_switch",
    "restarted_target",
    "versions_changed",
];

/// Returns a trial's results as far as its records go, and its latency for charts. Until the trial
/// ends, its verdict has only findings that the rest of it cannot change.
///
/// # Errors
/// If a record cannot be read, or is damaged elsewhere than at its end.
pub fn trial_so_far(plan: &Plan, planned: &plan::Trial, folder: &TrialFolder) -> Result<(Trial, LatencySeries), Error> {
    let mut evidence = Evidence::read(planned, folder)?;
    let of_run = RunContext { plan: Some(plan), ..RunContext::default() };
    let (mut trial, findings) = judged(planned, folder, &mut evidence, of_run)?;
    if trial.ended.is_none() {
        let findings: Vec<RuleFinding> = findings.into_iter().filter(|finding| FINAL.contains(&finding.rule)).collect();
        trial.verdict = verdict::verdict(&findings);
        let open = trial.faults.iter_mut().filter_map(|fault| fault.outage.as_mut());
        for outage in open.filter(|outage| outage.recovered == Some(false)) {
            outage.recovered = None;
            outage.cannot_tell = Some("the trial is still running".to_owned());
        }
    }
    Ok((trial, evidence.latency_series()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::folder::RunFolder;
    use record::results::Trust;

    use super::*;

    #[test]
    fn a_running_trial_is_not_judged_as_incomplete() {
        let golden = RunFolder::at(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/golden/2026-11-20T10-31-05-a-name-server-crashes"),
        );
        let plan = crate::run::plan_of(&golden).unwrap();
        let path = fixture::TestDir::new();
        let running = RunFolder::at(&path).create_trial("001").unwrap();
        for file in ["load.hlog", "outcomes.csv", "attempts.csv", "samples.csv", "generator.csv", "events.jsonl"] {
            let text = std::fs::read_to_string(golden.trial("001").path().join(file)).unwrap();
            let lines = text.lines().count();
            let started: Vec<&str> = text.lines().take(lines / 3).collect();
            std::fs::write(running.path().join(file), started.join("\n")).unwrap();
        }
        let planned = &plan.trials[0];
        let cut = crate::trial(planned, &running).unwrap();
        let (so_far, latency) = trial_so_far(&plan, planned, &running).unwrap();
        assert!(cut.ended.is_none() && cut.verdict.is > Trust::Valid, "{:?}", cut.verdict);
        assert_eq!(so_far.verdict.reasons, Vec::<String>::new());
        assert!(so_far.outcomes.ok > 0 && !latency.seconds.is_empty());
    }

    #[test]
    fn final_rules_exist() {
        for name in FINAL {
            assert!(verdict::RULES.iter().any(|rule| rule.name == name), "{name}");
        }
    }
}
