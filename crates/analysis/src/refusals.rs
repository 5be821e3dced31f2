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
mod tests;
