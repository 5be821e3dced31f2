//! Tests of what is said of several variants' outages.

use std::collections::BTreeMap;

use record::results::OutageDistribution;
use serde_json::json;

use crate::example;
use crate::words::answer;
use crate::words::wrong::tests::modes;

#[test]
fn each_modes_outages_are_said_apart() {
    let (plan, mut results) = modes();
    let point = |rate: &str| BTreeMap::from([("lab.port.distribution.rate".to_owned(), json!(rate))]);
    results.outages = vec![
        example::distribution(Some("sync_dirty"), &point("1gbit"), 10),
        OutageDistribution { never_back: 2, ..example::distribution(Some("async_dirty"), &point("1gbit"), 12) },
    ];
    let said = answer(&results, &plan);
    let words = "How long until service was as before `oops`: with `sync_dirty, 1gbit` 120 ms at the median (95 % interval 80–200 ms) and \
                 400 ms at worst, of 10; with `async_dirty, 1gbit` 120 ms at the median (95 % interval 80–200 ms) and 2 times longer \
                 than the trial, of 12.";
    assert!(said.contains(words), "{said}");
    results.outages = (1..=8)
        .map(|seconds| {
            let mut of = example::distribution(Some("sync_dirty"), &point(&format!("{seconds}mbit")), 10);
            of.figures.values_mut().for_each(|spread| spread.p50 = Some(f64::from(seconds)));
            OutageDistribution { never_back: u64::from(seconds == 8), ..of }
        })
        .collect();
    let said = answer(&results, &plan);
    let words = "After `oops` service was as before at the median in 1 s with `sync_dirty, 1mbit` to 8 s with `sync_dirty, 8mbit`; not always \
                 with `sync_dirty, 8mbit`.";
    assert!(said.contains(words), "{said}");
    results.outages.truncate(1);
    assert!(!answer(&results, &plan).contains("service was as before"), "one is no side by side");
}
