//! Checks of which quantiles are refused, and that what is refused elsewhere in the results is named here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
