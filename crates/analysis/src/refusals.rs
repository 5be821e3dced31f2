//! Quantiles that a requirement, a claim or a search asks for and that too few operations support: which, and how many it would
//! take. It must not decide what follows.

use experiment::plan::Plan;
use record::results::Trial;

use crate::claims;
use crate::metrics::metric;
use crate::stats::quantiles::{named, samples_for};

/// A sentence for each quantile that the plan wants of this trial and that it cannot give.
pub(crate) fn asked_in_vain(plan: &Plan, trial: &Trial) -> Vec<String> {
    let required = plan.requirements.iter().map(|gate| (&gate.metric, &gate.filter));
    let claimed = plan.claims.iter().map(|claim| (&claim.metric, &claim.filter));
    let searched = plan.find.iter().flat_map(|find| &find.limits).map(|limit| (&limit.metric, &limit.filter));
    let mut refused: Vec<String> = Vec::new();
    for (metric, filter) in required.chain(claimed).chain(searched) {
        if claims::matches(filter, trial) {
            refused.extend(refusal(trial, metric));
        }
    }
    refused.sort();
    refused.dedup();
    refused
}

/// Why a metric has no value in this trial, if that is for want of operations. Of a function over trials, its arguments are
/// looked at.
pub(crate) fn refusal(trial: &Trial, asked: &str) -> Option<String> {
    let arguments = claims::call(asked).map_or_else(|| vec![asked], |(_, arguments)| arguments);
    arguments.into_iter().find_map(|path| {
        let (of, name) = path.rsplit_once('.')?;
        let needed = samples_for(named(name)?);
        let counts = metric(trial, &format!("{of}.count"));
        let fewest = counts.into_iter().min_by(f64::total_cmp)?;
        let is_refused = fewest < needed as f64 && metric(trial, path).is_empty();
        is_refused.then(|| format!("`{of}.{name}` cannot be told from {fewest:.0} operations: it takes {needed}"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use experiment::plan::{Claim, Range, Requirement};
    use record::results::{Operation, Quantiles};
    use serde_json::json;

    use super::*;
    use crate::made_up;

    fn trial(count: u64, p99: Option<f64>) -> Trial {
        let latency_us = Some(Quantiles { count, p99, ..Quantiles::default() });
        let save = Operation { latency_us, ..Operation::default() };
        Trial { latency_us, operations: [("save".to_owned(), save)].into(), ..Trial::default() }
    }

    #[test]
    fn a_quantile_of_too_few_says_how_many_there_were_and_how_many_it_takes() {
        let few = trial(298, None);
        assert_eq!(
            refusal(&few, "latency_us.p99").unwrap(),
            "`latency_us.p99` cannot be told from 298 operations: it takes 299"
        );
        let of_one = refusal(&few, "operations.save.latency_us.p999").unwrap();
        assert!(of_one.contains("`operations.save.latency_us.p999`") && of_one.contains("2995"), "{of_one}");
        assert!(refusal(&few, "ratio(latency_us.p99, a, b)").is_some());
    }

    #[test]
    fn what_is_there_or_was_not_measured_at_all_is_not_refused() {
        assert_eq!(refusal(&trial(299, Some(1.0)), "latency_us.p99"), None);
        assert_eq!(refusal(&trial(0, None), "latency_us.max"), None);
        assert_eq!(refusal(&trial(298, None), "throughput.operations_per_s"), None);
        assert_eq!(refusal(&Trial::default(), "latency_us.p99"), None, "nothing succeeded: that is another matter");
        assert_eq!(refusal(&trial(298, None), "failed_pct"), None);
    }

    #[test]
    fn requirements_claims_and_limits_ask_each_once_and_only_of_their_trials() {
        let gate = |metric: &str, filter: &[(&str, &str)]| Requirement {
            metric: metric.to_owned(),
            range: Range::default(),
            filter: filter.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<BTreeMap<_, _>>(),
        };
        let mut plan = made_up::plan();
        plan.requirements = vec![gate("latency_us.p99", &[]), gate("latency_us.p999", &[("variant", "other")])];
        plan.claims = vec![Claim {
            says: String::new(),
            source: String::new(),
            metric: "latency_us.p99".to_owned(),
            range: Range::default(),
            filter: BTreeMap::new(),
        }];
        let limits = vec![gate("operations.save.latency_us.p99", &[])];
        plan.find = Some(made_up::find(limits));
        let asked = asked_in_vain(&plan, &trial(10, None));
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked.iter().all(|text| text.contains("p99`")));
    }
}
