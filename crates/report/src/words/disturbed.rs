//! That something other than the faults broke service off. Words that belong to the answer, because a reader of nothing else would
//! hold all failures for the faults'.

use record::results::{Disturbance, Outage, Results, Trial, Trust};

use crate::numbers;

/// In one sentence; `None` if nothing was disturbed in any trial that is used.
pub fn sentence(results: &Results) -> Option<String> {
    let all_void = results.trials.iter().all(|trial| trial.verdict.is == Trust::Void);
    let used: Vec<&Trial> = results.trials.iter().filter(|trial| all_void || trial.verdict.is != Trust::Void).collect();
    // Wrong answers alone break nothing off; how many there were is said elsewhere.
    let broke_off = |one: &&Disturbance| {
        one.outage.failed > 0 || one.outage.total_s.is_some_and(|total_s| total_s > 0.0) || one.outage.wrong == 0
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
    let (failed, wrong) = (sum(|outage| outage.failed), sum(|outage| outage.wrong));
    let mut felt = Vec::new();
    if failed > 0 || wrong == 0 {
        felt.push(format!("{} {} failed", numbers::count_in_words(failed), if failed == 1 { "call" } else { "calls" }));
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
    Some(format!("Service broke off {times}{trials} in a way that {cause}: {}.", super::listed(&felt)))
}
