//! Outages of several variants or points in words: how long each kept service from being as before, at the median and at worst. It must
//! not pool what was not played alike.

use record::results::{OutageDistribution, Results};

use super::{capital, listed, quoted};
use crate::numbers;
use crate::recovery::{label, repeated};

/// Distributions that are worded one by one, at most.
const WORDED: usize = 6;

const BACK: &str = "back_to_baseline_s";

/// A sentence for each fault that occurred often enough with several variants or points.
pub fn findings(results: &Results, plan: &experiment::plan::Plan) -> Vec<String> {
    let mut faults: Vec<&str> = Vec::new();
    for of in repeated(results) {
        if !faults.contains(&of.fault.as_str()) {
            faults.push(&of.fault);
        }
    }
    let of_fault = |fault: &&str| {
        let named: Vec<(String, &OutageDistribution)> = repeated(results)
            .filter(|of| of.fault == *fault && of.figures.contains_key(BACK))
            .map(|of| (quoted(&label(of, plan)), of))
            .collect();
        (named.len() > 1).then(|| finding(fault, &named))
    };
    faults.iter().filter_map(of_fault).collect()
}

fn finding(fault: &str, named: &[(String, &OutageDistribution)]) -> String {
    let fault = quoted(fault);
    if named.len() <= WORDED {
        let parts: Vec<String> = named.iter().map(|(name, of)| format!("with {name} {}", figures(of))).collect();
        return capital(&format!("how long until service was as before {fault}: {}.", parts.join("; ")));
    }
    // Of many, the one that was quickest and the one that took longest.
    let never: Vec<String> = named.iter().filter(|(_, of)| of.never_back > 0).map(|(name, _)| name.clone()).collect();
    let median = |of: &OutageDistribution| of.figures.get(BACK).and_then(|back| back.p50);
    let mut medians: Vec<(&str, f64)> =
        named.iter().filter_map(|(name, of)| Some((name.as_str(), median(of)?))).collect();
    medians.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (medians.first(), medians.last()) {
        let (least, most) = (numbers::seconds(first.1), numbers::seconds(last.1));
        parts
            .push(format!("service was as before at the median in {least} with {} to {most} with {}", first.0, last.0));
    }
    match never.len() {
        0 => {}
        1..=WORDED => parts.push(format!("not always with {}", listed(&never))),
        count => parts.push(format!("not always in {count} of {} cases", named.len())),
    }
    capital(&format!("after {fault} {}.", parts.join("; ")))
}

/// `1.2 s at the median (95 % interval 0.9–1.4 s) and 3.1 s at worst, of 12`; of few, the best instead of the median.
fn figures(of: &OutageDistribution) -> String {
    let back = of.figures.get(BACK).cloned().unwrap_or_default();
    let usual = match (back.p50, back.min) {
        (Some(median), _) => {
            let range = back.p50_ci95.map(|ends| ends.map(numbers::seconds));
            let range = range
                .map_or_else(String::new, |[low, high]| format!(" (95 % interval {})", numbers::from_to(&low, &high)));
            Some(format!("{} at the median{range}", numbers::seconds(median)))
        }
        (None, Some(best)) => Some(format!("{} at best", numbers::seconds(best))),
        (None, None) => None,
    };
    let worst = match (of.never_back, back.max) {
        (0, most) => most.map(|most| format!("{} at worst", numbers::seconds(most))),
        (never, _) if never == of.count => Some("longer than the trial".to_owned()),
        (1, _) => Some("once longer than the trial".to_owned()),
        (never, _) => Some(format!("{never} times longer than the trial")),
    };
    let parts: Vec<String> = [usual, worst].into_iter().flatten().collect();
    format!("{}, of {}", parts.join(" and "), numbers::count(of.count))
}

#[cfg(test)]
mod tests {
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
}
