//! `[demand]`: a demand, for which the results give the number of hosts that each variant needs.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::find::Find;
use crate::plan::gates::{self, MetricNames, MetricRange, RANGE};
use crate::plan::metric::{MetricExpression, MetricTerm};
use crate::problem::Problem;
use crate::section::Section;

/// The searched path and the metric that a demand needs beside a search. The result of a search is
/// a load, and no other metric.
const SEARCHED: (&str, &str) = ("load.rate", "throughput.operations_per_s");

section! {
    /// `[demand]`: the amount of a metric that the hosts must carry.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Demand = DEMAND {
        metric = required: Text => MetricExpression,
            "Path inside a trial of analysis.json whose value grows with the hosts: throughput.operations_per_s, \
             throughput.median_units_per_s";
        ..RANGE: at_least;
        => at_least: f64 = |demand| MetricRange::in_unit_of(demand, demand.text("metric")).at_least.unwrap_or_default(),
            "Amount to carry, in the unit of the metric; above 0";
    }
}

pub(super) fn read(
    root: &Section<'_>,
    find: Option<&Find>,
    names: &MetricNames<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Demand> {
    let section = root.section("demand")?;
    let demand = Demand::read(&section);
    let metric = gates::check_named(&section, names, problems);
    let range = MetricRange::in_unit_of(&section, section.text("metric"));
    gates::check_range(&section, &range, metric, section.place("metric"), problems);
    if range.at_least.is_some_and(|least| least <= 0.0) {
        let problem = Problem::new(section.place("at_least"), "the demand is not positive");
        problems.push(problem.expected("not above 0").hint("give the amount that all hosts together must carry"));
    }
    if metric.is_some() && !matches!(demand.metric.term(), MetricTerm::Path(_)) {
        let problem =
            Problem::new(section.place("metric"), "the metric of a demand must be a metric of a single trial");
        problems.push(
            problem.expected("a function over trials").hint("name a metric of a trial: throughput.operations_per_s"),
        );
    }
    if let Some(find) = find
        && (find.highest.as_str(), section.text("metric").unwrap_or_default()) != SEARCHED
        && metric.is_some()
    {
        let problem = Problem::new(section.place("metric"), "this search finds operations per second");
        problems.push(
            problem
                .expected("another metric is demanded")
                .hint("write metric = \"throughput.operations_per_s\" here, and highest = \"load.rate\" in [find]; or sweep the load"),
        );
    }
    Some(demand)
}
