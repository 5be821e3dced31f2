//! `[[require]]` and `[[claim]]`, the limits of a search, and the metrics that they name. Checks
//! them against the names in the trials; it measures and computes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use FunctionArgument::{Condition, Crowd, Load, OwnVariant, Parameter, Path, Swept, Value, Variant};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use text::numbers::FigureUnit;

use crate::catalog::{ANY_PERCENTILE, Catalog};
use crate::duration::show;
use crate::keys::{Key, section};
use crate::plan::load;
use crate::plan::metric::{self, MetricExpression, MetricFunction, MetricTerm, PARAMETERS, percentile};
use crate::plan::rate::is_offered;
use crate::plan::trial::TrialTemplate;
use crate::problem::{Problem, join_words, nearest_hint, nearest_name};
use crate::quantity::parse_figure;
use crate::section::Section;
use crate::tree::{Node, TableEntry, TextSpan};
use crate::trial_setting::{Sweep, TrialSetting};

section! {
    /// Range of a metric; all given bounds must hold.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct MetricRange = RANGE {
        below: Figure => Option<f64>, "value < this", ["less_than", "max", "lt"];
        above: Figure => Option<f64>, "value > this", ["greater_than", "min", "gt"];
        at_most: Figure => Option<f64>, "value <= this", ["le", "lte"];
        at_least: Figure => Option<f64>, "value >= this", ["ge", "gte"];
        equals: Figure => Option<f64>, "value == this", ["is", "eq", "equal"];
    }
}

impl MetricRange {
    /// Reads a section. A bound with a unit is converted to the metric's unit.
    pub(super) fn in_unit_of(section: &Section<'_>, metric: Option<&str>) -> Self {
        let unit = FigureUnit::of(metric.unwrap_or_default());
        let bound = |key: &str| {
            let node = section.node(key)?;
            node.number().or_else(|| parse_figure(node.text()?, unit).ok())
        };
        Self {
            below: bound("below"),
            above: bound("above"),
            at_most: bound("at_most"),
            at_least: bound("at_least"),
            equals: bound("equals"),
        }
    }

    /// Whether `value` satisfies every bound given.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.below.is_none_or(|bound| value < bound)
            && self.above.is_none_or(|bound| value > bound)
            && self.at_most.is_none_or(|bound| value <= bound)
            && self.at_least.is_none_or(|bound| value >= bound)
            && self.equals.is_none_or(|bound| (value - bound).abs() <= f64::EPSILON * bound.abs().max(1.0))
    }

    /// Returns every given bound with a word for it: `at least`, 5.
    pub fn bounds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let bounds = [
            ("below", self.below),
            ("above", self.above),
            ("at least", self.at_least),
            ("at most", self.at_most),
            ("equal to", self.equals),
        ];
        bounds.into_iter().filter_map(|(word, bound)| Some((word, bound?)))
    }
}

section! {
    const LIMIT {
        ..REQUIRE: metric;
        ..RANGE: below, above, at_most, at_least, equals;
    }
}

section! {
    /// `[[require]]`: a requirement on the results.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Requirement = REQUIRE {
        metric = required: Text => MetricExpression,
            "Path inside a trial of analysis.json, such as latency_us.p99, or a function of such paths";
        ..RANGE: below, above, at_most, at_least, equals;
        => range: MetricRange = |limit| MetricRange::in_unit_of(limit, limit.text("metric")), "Required range";
        where: Paths(&Scalar) => filter: BTreeMap<String, Json> = filter,
            "Only trials with this `variant`, or with this value of a swept path";
    }
}

section! {
    /// `[[claim]]`: a statement of a source that the results confirm or contradict.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Claim = CLAIM {
        says = required: Text => String, "Claim in words";
        source = required: Text => String, "Author and place of the claim";
        ..REQUIRE: metric;
        => metric: MetricExpression = |claim| claim.get("metric").unwrap_or_default(), "As in [`Requirement`]";
        holds = required: Table(RANGE) => range: MetricRange
            = |claim| {
                let holds = claim.section("holds");
                holds.map(|holds| MetricRange::in_unit_of(&holds, claim.text("metric"))).unwrap_or_default()
            },
            "Range that the metric must be in";
        ..REQUIRE: where;
        => filter: BTreeMap<String, Json> = filter, "As in [`Requirement`]";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_void = "false": Boolean => bool,
            "Whether it is checked on void trials as well, for a source that says that the measurement itself was void";
    }
}

/// Names that metrics and filters may use.
pub(super) struct MetricNames<'a> {
    pub catalog: &'a Catalog,
    pub variants: Vec<&'a str>,
    pub sweeps: &'a [Sweep],
    /// Names of the faults of all trials; `None` if `--set` changed them. Then names are not
    /// checked, because they may be right for the file's own faults.
    pub faults: Option<Vec<String>>,
    /// Names of the steps of all trials; `None` as with faults.
    pub steps: Option<Vec<String>>,
    /// Names of the operations of all trials; `None` as with faults.
    pub operations: Option<Vec<String>>,
    /// Operations with expectations, and the fields that they expect; `None` as with faults.
    pub checks: Option<BTreeMap<String, BTreeSet<String>>>,
    /// Names of the groups of all loads; `None` as with faults.
    pub groups: Option<Vec<String>>,
    /// Metrics that the targets of all trials publish; `None` as with faults, and if a target is
    /// not known.
    pub kept: Option<Vec<String>>,
    /// Metrics in `kept` that are known not to be counters.
    pub gauges: Vec<String>,
    /// Conditions that are searched; `None` without a search.
    pub conditions: Option<Vec<String>>,
}

pub(super) fn requirements(
    sections: &[Section<'_>],
    names: &MetricNames<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Requirement> {
    let mut requirements = Vec::new();
    for section in sections {
        let requirement = Requirement::read(section);
        let metric = check_named(section, names, problems);
        check_range(section, &requirement.range, metric, section.place("metric"), problems);
        requirements.push(requirement);
    }
    requirements
}

pub(super) fn claims(root: &Section<'_>, names: &MetricNames<'_>, problems: &mut Vec<Problem>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for section in &root.sections("claim") {
        let claim = Claim::read(section);
        let metric = check_named(section, names, problems);
        if let Some(holds) = section.section("holds") {
            check_range(&holds, &claim.range, metric, holds.place, problems);
            problems.extend(always_holds(&claim, holds.place));
        }
        claims.push(claim);
    }
    claims
}

/// Checks the names in the metric and in the filter. Returns the metric, if it exists.
pub(super) fn check_named<'a>(
    section: &Section<'a>,
    names: &MetricNames<'_>,
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let mut metric = None;
    if let Some((text, node)) = section.node("metric").and_then(|node| Some((node.text()?, node))) {
        let wrong = check_metric(text, node, names);
        metric = wrong.is_empty().then_some(text);
        problems.extend(wrong);
        if section.has("where") && text.split('(').next() == Some(SAFE_LOAD) {
            let problem = Problem::new(section.place("where"), "a safe load is found by all trials of its search");
            let hint = "name the variant and the condition: safe_load(a, nothing lost)";
            problems.push(problem.expected("chooses trials").hint(hint));
        }
    }
    problems.extend(section.entries("where").iter().filter_map(|entry| chosen(entry, names)));
    metric
}

/// Returns the problem of a variant or a swept value that selects trials.
pub(super) fn chosen(entry: &TableEntry, names: &MetricNames<'_>) -> Option<Problem> {
    if entry.key == "variant" { variant(entry, names) } else { swept_value(&entry.key, entry, names) }
}

/// Checks that each bound has the metric's unit, if that is known, and that some value satisfies
/// all bounds. `place` is the place for problems of the whole range.
pub(super) fn check_range(
    section: &Section<'_>,
    range: &MetricRange,
    metric: Option<&str>,
    place: &TextSpan,
    problems: &mut Vec<Problem>,
) {
    let wrong: Vec<Problem> = metric.map(|metric| wrong_units(section, metric)).unwrap_or_default();
    if !wrong.is_empty() {
        problems.extend(wrong);
        return;
    }
    let given = RANGE.iter().rev().find(|key| section.has(key.name));
    if given.is_none() {
        problems.push(
            Problem::absent(place, "the range of right values is missing")
                .expected("no range")
                .hint("add `below`, `above`, `at_most`, `at_least` or `equals`"),
        );
    }
    if let Some(key) = given.filter(|_| is_empty(range)) {
        let problem = Problem::new(section.place(key.name), "no value satisfies this range");
        problems.push(problem.expected("contradicts the other bounds").hint("all bounds that are given must hold"));
    }
}

/// Returns the problems of bounds that do not have the metric's unit.
fn wrong_units(section: &Section<'_>, metric: &str) -> Vec<Problem> {
    let wrong = |key: &Key| {
        let node = section.node(key.name)?;
        let text = node.text()?;
        let words = parse_figure(text, FigureUnit::of(metric)).err()?;
        let problem = Problem::new(&node.place, format!("`{}` cannot be \"{text}\"", key.name)).expected(words);
        let is_number = text.trim().parse::<f64>().is_ok();
        Some(problem.hint(if is_number { format!("without quotes: {}", text.trim()) } else { of_unit(metric) }))
    };
    RANGE.iter().filter_map(wrong).collect()
}

/// Returns a hint with the metric's unit.
fn of_unit(metric: &str) -> String {
    let unit = match FigureUnit::of(metric) {
        FigureUnit::Bytes => "is in bytes",
        FigureUnit::BytesPerSecond => "is in bytes per second",
        FigureUnit::Micros => "is in microseconds",
        FigureUnit::Millis => "is in milliseconds",
        FigureUnit::PerSecond => "is per second",
        FigureUnit::Percent => "is in percent",
        FigureUnit::Seconds => "is in seconds",
        FigureUnit::Count | FigureUnit::Joules | FigureUnit::Ratio | FigureUnit::Watts => "is a plain number",
    };
    format!("`{metric}` {unit}")
}

fn is_empty(range: &MetricRange) -> bool {
    if let Some(equals) = range.equals {
        return !range.holds(equals);
    }
    let low = range.above.into_iter().chain(range.at_least).fold(f64::NEG_INFINITY, f64::max);
    let high = range.below.into_iter().chain(range.at_most).fold(f64::INFINITY, f64::min);
    low > high || (low >= high && !range.holds(low))
}

/// Returns the problem of a claim that no run can contradict. No metric is below 0, except
/// differences and losses, which are differences.
fn always_holds(claim: &Claim, place: &TextSpan) -> Option<Problem> {
    let is_difference = match claim.metric.term() {
        MetricTerm::Function(MetricFunction::UslDifference(..)) => true,
        _ => claim.metric.measured().is_some_and(|path| {
            // A gauge of the target may have any value.
            path.0.first().is_some_and(|step| step == TOLD)
                || path.0.iter().any(|step| step.starts_with("lost_operations"))
        }),
    };
    let holds_all = claim.range.holds(0.0) && claim.range.holds(f64::INFINITY);
    // A claim without any bound has been reported.
    if is_difference || !holds_all || claim.range == MetricRange::default() {
        return None;
    }
    let problem = Problem::new(place, "this claim holds whatever the run shows").expected("can never be `no`");
    Some(problem.hint("no figure is below 0: claim a range that the figure can miss"))
}

/// Reports claims, requirements and stop rules on timeouts if the load ends before an operation can
/// time out.
pub(super) fn check_timeouts(
    root: &Section<'_>,
    (requirements, claims, stop): (&[Requirement], &[Claim], Option<&MetricExpression>),
    (settings, parts): (&[TrialSetting], &[Option<TrialTemplate>]),
    problems: &mut Vec<Problem>,
) {
    let required = requirements.iter().map(|one| (&one.metric, &one.filter));
    let claimed = claims.iter().map(|one| (&one.metric, &one.filter));
    let everywhere = BTreeMap::new();
    let stopping = root.section("sweep").and_then(|sweep| sweep.section("stop"));
    let stopping = stopping.into_iter().zip(stop.map(|metric| (metric, &everywhere)));
    let sections = root.sections("require").into_iter().zip(required).chain(stopping);
    for (section, (metric, asked)) in sections.chain(root.sections("claim").into_iter().zip(claimed)) {
        if !metric.measured().is_some_and(|path| path.0.iter().any(|step| step == "timeout")) {
            continue;
        }
        let loads = settings.iter().zip(parts).filter(|(setting, _)| is_asked(setting, asked));
        let loads: Option<Vec<&load::Load>> = loads.map(|(_, parts)| parts.as_ref()?.load.as_ref()).collect();
        let populations = loads.into_iter().flatten().flat_map(load::Load::populations);
        let Some(shortest) = populations.min_by(|a, b| slack_s(a).total_cmp(&slack_s(b))) else {
            continue;
        };
        if slack_s(shortest) < 0.0 || is_from_set(settings) {
            continue;
        }
        let (timeout, end) = (show(shortest.timeout_s), show(shortest.time_s + shortest.drain_s));
        let problem =
            Problem::new(section.place("metric"), "no operation of these trials can time out").expected("always 0");
        problems.push(problem.hint(format!(
            "`load.timeout` is {timeout}, and the load with its drain is over after {end}: make the timeout shorter"
        )));
    }
}

/// Returns the seconds from the end of a load's drain until its first operation could time out.
fn slack_s(load: &load::Load) -> f64 {
    load.timeout_s - load.time_s - load.drain_s
}

/// Whether a filter selects a trial.
pub(super) fn is_asked(setting: &TrialSetting, asked: &BTreeMap<String, Json>) -> bool {
    asked.iter().all(|(key, value)| match key.as_str() {
        "variant" => setting.variant.as_deref() == value.as_str(),
        path => {
            setting.point.get(path).is_none_or(|is| is == value || (is.is_number() && is.as_f64() == value.as_f64()))
        }
    })
}

/// Whether `--set` gives the load's times. Then the file's requirements are not checked, because
/// they may be right for its own times.
fn is_from_set(settings: &[TrialSetting]) -> bool {
    let loads = settings.iter().filter_map(|setting| setting.tree.table("load"));
    let mut times = loads.flat_map(|load| ["time", "timeout", "drain"].map(|key| load.get(key)));
    times.any(|node| node.is_some_and(|node| node.place.rank > 0))
}

/// Reads `where`: a variant, and values of swept paths.
fn filter(section: &Section<'_>) -> BTreeMap<String, Json> {
    section.entries("where").into_iter().map(|entry| (entry.key, entry.node.json())).collect()
}

fn variant(entry: &TableEntry, names: &MetricNames<'_>) -> Option<Problem> {
    let text = entry.node.text()?;
    if names.variants.contains(&text) {
        return None;
    }
    let hint =
        nearest_hint(text, names.variants.iter().copied()).unwrap_or_else(|| "this file has no [[variant]]".to_owned());
    let problem = Problem::absent(&entry.node.place, format!("there is no variant \"{text}\""));
    Some(problem.expected("unknown variant").hint(hint))
}

fn swept_value(path: &str, entry: &TableEntry, names: &MetricNames<'_>) -> Option<Problem> {
    let Some(sweep) = names.sweeps.iter().find(|sweep| sweep.path == path) else {
        let known = names.sweeps.iter().map(|sweep| sweep.path.as_str()).chain(["variant"]);
        let problem =
            Problem::absent(&entry.key_place, format!("`{path}` is not swept")).expected("the same in all trials");
        return Some(problem.maybe(nearest_hint(path, known)));
    };
    let json = entry.node.json();
    // The file's filter may be right for its own values, so it is not checked if `--set` gives
    // others.
    if sweep.listed.iter().any(|node| node.place.rank > 0) {
        return None;
    }
    let same = |node: &Node| node.json() == json || (node.number().is_some() && node.number() == entry.node.number());
    if sweep.listed.iter().chain(&sweep.values).any(same) {
        return None;
    }
    let values: Vec<String> = sweep.listed.iter().map(|node| node.json().to_string()).collect();
    Some(
        Problem::absent(&entry.node.place, format!("`{path}` is never {json}"))
            .expected("not in its sweep")
            .related(&sweep.path_place, "swept here")
            .hint(format!("it is {}", join_words(&values, "or"))),
    )
}

/// Type of a function's argument.
#[derive(Clone, Copy, PartialEq)]
enum FunctionArgument {
    /// A variant.
    Variant,
    /// The only variant; left out if there are none.
    OwnVariant,
    /// A swept path.
    Swept,
    /// A swept path with numbers as values, over which a curve is possible.
    Load,
    /// Same as `Load`, but of agents or hosts, which can hinder each other.
    Crowd,
    /// A value of a swept path.
    Value,
    /// A parameter of the scalability law.
    Parameter,
    /// A metric of a trial.
    Path,
    /// A condition of a search. It is optional: the default is the lowest result of all conditions.
    Condition,
}

/// Name of the function whose value comes from a search and not from trials.
const SAFE_LOAD: &str = "safe_load";

/// Name of the part of a trial that has the target's own metrics.
const TOLD: &str = "metrics";

/// Functions over all trials, each with its arguments.
const FUNCTIONS: [(&str, &[FunctionArgument]); 14] = [
    ("crossing", &[Variant, Variant, Load]),
    ("flat_ratio", &[Variant, Variant, Load]),
    ("flat_until", &[OwnVariant, Load]),
    ("knee", &[OwnVariant, Load]),
    ("knee_ratio", &[Variant, Variant, Load]),
    ("level_from", &[OwnVariant, Load]),
    ("onset", &[Path, OwnVariant, Swept]),
    ("peak", &[OwnVariant]),
    ("peak_ratio", &[Variant, Variant]),
    ("ratio", &[Path, Variant, Variant]),
    ("retained", &[Path, OwnVariant, Load, Value]),
    (SAFE_LOAD, &[OwnVariant, Condition]),
    ("usl", &[Parameter, OwnVariant, Crowd]),
    ("usl_difference", &[Parameter, Variant, Variant, Crowd]),
];

type Checked = Option<Problem>;

/// Returns the problems of a metric: a path or a function.
fn check_metric(text: &str, node: &Node, names: &MetricNames<'_>) -> Vec<Problem> {
    let Some(open) = text.find('(') else { return path(text, 0..text.len(), node, names).into_iter().collect() };
    let function = text[..open].trim();
    let Some((_, arguments)) = FUNCTIONS.iter().find(|(name, ..)| *name == function) else {
        let problem = Problem::new(&node.inside(0..open), format!("there is no function `{function}`"));
        let near = elsewhere(text)
            .or_else(|| nearest_name(function, FUNCTIONS.iter().map(|(name, ..)| *name)).map(str::to_owned));
        let hint = near.map_or_else(forms, |near| format!("did you mean `{near}`?"));
        return vec![problem.expected("unknown function").hint(hint)];
    };
    let own = !names.variants.is_empty();
    let Some(inside) = text.trim_end().strip_suffix(')').map(|text| &text[open + 1..]) else {
        let problem = Problem::new(&node.inside(open..text.len()), "this bracket is never closed");
        return vec![problem.expected(format!("write {}", form(function, arguments, own)))];
    };
    if function == SAFE_LOAD && names.conditions.is_none() {
        let problem = Problem::new(&node.inside(0..open), "this file has no search");
        return vec![problem.expected("no safe load").hint("[find] searches for the highest load that is safe")];
    }
    let given = split(inside, open + 1);
    let mut wanted: Vec<FunctionArgument> = arguments
        .iter()
        .copied()
        .filter(|argument| own || *argument != OwnVariant || given.len() == arguments.len())
        .collect();
    let lacks_one = given.len() + 1 == wanted.len();
    wanted.pop_if(|last| lacks_one && *last == Condition);
    if given.len() != wanted.len() {
        let problem = Problem::new(&node.inside(0..text.len()), format!("`{function}` takes {}", count(wanted.len())));
        return vec![problem.expected(format!("write {}", form(function, arguments, own)))];
    }
    let mut problems = Vec::new();
    let mut load = "";
    for (argument, (word, at)) in wanted.into_iter().zip(given) {
        let checked = match argument {
            Path => path(word, at, node, names),
            Condition => {
                let conditions: Vec<&str> = names.conditions.iter().flatten().map(String::as_str).collect();
                known(word, "there is no search under the condition", &conditions, &node.inside(at))
            }
            Variant | OwnVariant => known(word, "there is no variant", &names.variants, &node.inside(at)),
            Parameter => {
                known(word, "the scalability law has no parameter", &PARAMETERS.map(|(name, _)| name), &node.inside(at))
            }
            Swept => swept(word, &node.inside(at), names),
            Load | Crowd => curve(word, argument, &node.inside(at), names),
            Value => value(word, load, &node.inside(at), names),
        };
        load = word;
        problems.extend(checked);
    }
    problems
}

/// Returns the usage of a function. `own` says whether the file has variants.
fn form(function: &str, arguments: &[FunctionArgument], own: bool) -> String {
    let mut variants = ["a", "b"].into_iter();
    let word = |argument: &FunctionArgument| match argument {
        Variant => variants.next(),
        OwnVariant => own.then_some("a"),
        Swept | Load | Crowd => Some("path"),
        Value => Some("value"),
        Parameter => Some("sigma"),
        Path => Some("metric"),
        Condition => Some("condition"),
    };
    let words: Vec<&str> = arguments.iter().filter_map(word).collect();
    format!("{function}({})", words.join(", "))
}

fn forms() -> String {
    let forms: Vec<String> = FUNCTIONS.iter().map(|(name, arguments)| form(name, arguments, true)).collect();
    format!("the functions are {}", join_words(&forms, "and"))
}

fn count(arguments: usize) -> String {
    match arguments {
        0 => "no arguments here".to_owned(),
        1 => "one argument".to_owned(),
        several => format!("{several} arguments"),
    }
}

pub(super) fn swept(word: &str, place: &TextSpan, names: &MetricNames<'_>) -> Checked {
    let swept: Vec<&str> = names.sweeps.iter().map(|sweep| sweep.path.as_str()).collect();
    known(word, "there is no sweep over", &swept, place)
}

/// Checks a swept path over which a curve is drawn or a law is fitted.
fn curve(word: &str, argument: FunctionArgument, place: &TextSpan, names: &MetricNames<'_>) -> Checked {
    let unknown = swept(word, place, names);
    let sweep = names.sweeps.iter().find(|sweep| sweep.path == word);
    if sweep.is_some_and(|sweep| !sweep.values.iter().all(|value| value.number().is_some_and(|load| load > 0.0))) {
        let problem = Problem::absent(place, format!("there is no curve over `{word}`")).expected("not a load");
        return Some(problem.hint("a curve goes over numbers above 0; onset(metric, a, path) takes any values"));
    }
    if argument == Crowd && is_offered(word) {
        let problem = Problem::absent(place, format!("no law is fitted over `{word}`"))
            .expected("not a number of agents or hosts");
        return Some(problem.hint("an offered rate is not a number of agents or hosts"));
    }
    unknown
}

/// Checks a value of the swept path that the argument before it names.
fn value(word: &str, load: &str, place: &TextSpan, names: &MetricNames<'_>) -> Checked {
    let sweep = names.sweeps.iter().find(|sweep| sweep.path == load)?;
    // The file's value may be right for its own list, so it is not checked if `--set` gives
    // another.
    if sweep.listed.iter().any(|node| node.place.rank > 0) {
        return None;
    }
    let number = word.parse::<f64>().ok();
    let listed: Vec<f64> = sweep.listed.iter().chain(&sweep.values).filter_map(Node::number).collect();
    if number.is_some_and(|number| listed.contains(&number)) {
        return None;
    }
    let values: Vec<String> = sweep.listed.iter().map(|node| node.json().to_string()).collect();
    let problem = Problem::absent(place, format!("`{load}` is never {word}")).expected("not in its sweep");
    Some(problem.related(&sweep.path_place, "swept here").hint(format!("it is {}", join_words(&values, "or"))))
}

/// Splits arguments at commas and trims them. Each comes with its byte range.
fn split(inside: &str, base: usize) -> Vec<(&str, ops::Range<usize>)> {
    if inside.trim().is_empty() {
        return Vec::new();
    }
    let mut at = base;
    let mut words = Vec::new();
    for word in inside.split(',') {
        let start = at + word.len() - word.trim_start().len();
        let trimmed = word.trim();
        words.push((trimmed, start..start + trimmed.len()));
        at += word.len() + 1;
    }
    words
}

fn known(word: &str, what: &str, names: &[&str], place: &TextSpan) -> Checked {
    if names.contains(&word) {
        return None;
    }
    let problem = Problem::absent(place, format!("{what} `{word}`")).expected("unknown name");
    Some(problem.maybe(nearest_hint(word, names.iter().copied())))
}

/// Checks a path against the metrics of a trial.
fn path(text: &str, at: ops::Range<usize>, node: &Node, names: &MetricNames<'_>) -> Checked {
    // Without a list of metrics, the path cannot be checked.
    if names.catalog.metrics.is_empty() {
        return None;
    }
    let parts = metric::steps(text);
    if let Some(problem) = named_part(&parts, at.start, node, names) {
        return Some(problem);
    }
    let of_check = check_path(text, at.start, node, names);
    if let Some(Err(problem)) = of_check {
        return Some(problem);
    }
    let parts = of_check.and_then(Result::ok).unwrap_or(parts);
    let is_known = |parts: &[&str]| {
        names.catalog.metrics.iter().any(|metric| matches(&metric.split('.').collect::<Vec<_>>(), parts))
    };
    if is_known(&parts) {
        return rate_of_gauge(&parts, at.start, node, names);
    }
    let listed = names.catalog.metrics.iter().filter(|metric| !metric.ends_with(ANY_PERCENTILE));
    let concrete: Vec<String> = listed.map(|metric| like(metric, &parts)).collect();
    let problem =
        Problem::absent(&node.inside(at), format!("the results have no metric `{text}`")).expected("unknown metric");
    let below = concrete.iter().filter(|metric| metric.strip_prefix(text).is_some_and(|rest| rest.starts_with('.')));
    let below: Vec<String> = below.map(|metric| format!("`{metric}`")).collect();
    if !below.is_empty() {
        return Some(problem.hint(format!("it has parts: {}", join_words(&below, "and"))));
    }
    let near = elsewhere(text)
        .or_else(|| text.strip_suffix("p100").map(|of| format!("{of}max")))
        .filter(|near| is_known(&metric::steps(near)))
        .or_else(|| nearest_name(text, concrete.iter().map(String::as_str)).map(str::to_owned))
        .or_else(|| same_end(&concrete, &parts).map(str::to_owned));
    Some(problem.hint(near.map_or_else(
        || "`plimsoll schema results` describes them all".to_owned(),
        |near| format!("did you mean `{near}`?"),
    )))
}

/// Names that other tools and users give to metrics.
const ELSEWHERE: [(&str, &[&str]); 8] = [
    (
        "throughput.operations_per_s",
        &["rps", "qps", "tps", "iops", "throughput", "rate", "requests_per_second", "http_reqs"],
    ),
    ("failed_pct", &["error_rate", "errors", "error_pct", "failure_rate", "failed", "http_req_failed", "errors_pct"]),
    ("latency_us.p50", &["median", "med", "latency", "http_req_duration"]),
    ("latency_us.mean", &["mean", "avg", "average"]),
    ("latency_us.max", &["max", "worst"]),
    ("outcomes.timeout", &["timeouts", "timeout"]),
    ("outcomes.ok", &["requests", "operations", "iterations"]),
    ("generator.cpu_pct", &["cpu", "cpu_pct"]),
];

/// Returns the metric for another tool's name.
fn elsewhere(text: &str) -> Option<String> {
    let name = text.to_ascii_lowercase();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let is_quantile = ["p", "latencyp", "platency", "pms", "latencymsp", "platencyms"].contains(&letters.as_str());
    let quantile = Some(format!("p{digits}")).filter(|name| is_quantile && percentile(name).is_some());
    let by_name = ELSEWHERE.iter().find(|(_, names)| names.contains(&name.as_str()));
    quantile.map(|name| format!("latency_us.{name}")).or_else(|| by_name.map(|(metric, _)| (*metric).to_owned()))
}

/// Returns the metric with the same last part.
fn same_end<'a>(metrics: &'a [String], parts: &[&str]) -> Option<&'a str> {
    let last = format!(".{}", parts.last()?);
    metrics.iter().find(|metric| metric.ends_with(&last)).map(String::as_str)
}

/// Checks the names in `faults.oops.…`, `groups.readers.…` and `operations.save.…`.
fn named_part(parts: &[&str], base: usize, node: &Node, names: &MetricNames<'_>) -> Checked {
    let (known, what) = match parts.first() {
        Some(&"faults") => (&names.faults, "there is no fault called"),
        Some(&"steps") => (&names.steps, "there is no step called"),
        Some(&"operations") => (&names.operations, "the load has no operation called"),
        Some(&"groups") => (&names.groups, "the load has no group called"),
        Some(&TOLD) => (&names.kept, "the target keeps no metric"),
        _ => return None,
    };
    let [list, name, _, ..] = parts else { return None };
    let known = known.as_ref()?;
    let is_metric = names.catalog.metrics.iter().any(|metric| {
        let pattern: Vec<&str> = metric.split('.').collect();
        pattern.first() == Some(list)
            && (pattern.get(1) == Some(name) || (pattern.get(1) == Some(&"*") && pattern.get(2) == Some(name)))
    });
    if known.iter().any(|known| known == name) || is_metric {
        return None;
    }
    let start = base + list.len() + 1;
    let problem = Problem::absent(&node.inside(start..start + name.len()), format!("{what} `{name}`"));
    let hint = nearest_hint(name, known.iter().map(String::as_str));
    let none = "a target's own figures are those that `keep` names in [metrics] of its target.toml";
    Some(problem.expected("unknown name").maybe(hint.or_else(|| (*list == TOLD).then(|| none.to_owned()))))
}

/// Name of the part of a trial that has the figures of expectations.
const CHECKS: &str = "checks.";

/// Splits the path of an expectation's figure, such as `checks.login.header.location.failed_pct`:
/// the name of a field may contain dots. Returns the problem of a name that no load has. `None` if
/// the path has another form.
fn check_path<'a>(
    text: &'a str,
    base: usize,
    node: &Node,
    names: &MetricNames<'_>,
) -> Option<Result<Vec<&'a str>, Problem>> {
    let known = names.checks.as_ref()?;
    let (named, figure) = text.strip_prefix(CHECKS)?.rsplit_once('.')?;
    let (operation, field) = named.split_once('.').map_or((named, None), |(name, field)| (name, Some(field)));
    let start = base + CHECKS.len();
    let Some(fields) = known.get(operation) else {
        let place = node.inside(start..start + operation.len());
        let problem = Problem::absent(&place, format!("no step called `{operation}` has expectations"));
        let near = nearest_hint(operation, known.keys().map(String::as_str)).filter(|_| !known.is_empty());
        let none = "a step says what its answer has to be: expect = { status = \"200\" }";
        return Some(Err(problem.expected("nothing is checked").hint(near.unwrap_or_else(|| none.to_owned()))));
    };
    let mut parts = vec![CHECKS.trim_end_matches('.'), operation];
    if let Some(field) = field {
        if !fields.contains(field) {
            let start = start + operation.len() + 1;
            let place = node.inside(start..start + field.len());
            let problem = Problem::absent(&place, format!("`{operation}` has no expectation of `{field}`"));
            let hint = nearest_hint(field, fields.iter().map(String::as_str));
            return Some(Err(problem.expected("nothing is checked").maybe(hint)));
        }
        parts.push(field);
    }
    parts.push(figure);
    Some(Ok(parts))
}

/// Values that only counters have.
const OF_COUNTERS: [&str; 2] = ["increase", "per_s"];

/// Reports a rate of a gauge, such as `metrics.queue.per_s`. It would never be measured, because a
/// queue grows and shrinks.
fn rate_of_gauge(parts: &[&str], base: usize, node: &Node, names: &MetricNames<'_>) -> Checked {
    let [TOLD, name, .., figure] = parts else { return None };
    if !OF_COUNTERS.contains(figure) || !names.gauges.iter().any(|gauge| gauge == name) {
        return None;
    }
    let start = base + parts[..parts.len() - 1].iter().map(|part| part.len() + 1).sum::<usize>();
    let place = node.inside(start..start + figure.len());
    let problem = Problem::new(&place, format!("`{name}` is a gauge, which has no `{figure}`")).expected("of counters");
    Some(problem.hint(format!(
        "metrics.{name}.max, mean and last are its figures; if it only rises, name it in `counters` in [metrics] of the target's target.toml"
    )))
}

/// Lists from which a path selects an element by name, or all elements without one.
const LISTS: [&str; 3] = ["faults", "hosts", "steps"];

/// Whether a path matches this pattern. `*` matches any one part, and `p*` a percentile. The
/// element of a list may be left out.
fn matches(pattern: &[&str], parts: &[&str]) -> bool {
    let fits = |want: &str, part: &str| match want {
        "*" => true,
        ANY_PERCENTILE => percentile(part).is_some(),
        _ => want == part,
    };
    let plain = |pattern: &[&str], parts: &[&str]| {
        pattern.len() == parts.len() && pattern.iter().zip(parts).all(|(want, part)| fits(want, part))
    };
    if plain(pattern, parts) {
        return true;
    }
    let (Some(list), Some(first)) = (pattern.first(), parts.first()) else { return false };
    if list != first || !LISTS.contains(list) {
        return false;
    }
    let has_star = pattern.get(1) == Some(&"*");
    if has_star { plain(&pattern[2..], &parts[1..]) } else { parts.len() > 1 && plain(&pattern[1..], &parts[2..]) }
}

/// Replaces the stars of a pattern with the path's own parts, to compare their spelling.
fn like(metric: &str, parts: &[&str]) -> String {
    let filled: Vec<&str> = metric
        .split('.')
        .enumerate()
        .map(|(index, part)| if part == "*" { parts.get(index).copied().unwrap_or("*") } else { part })
        .collect();
    filled.join(".")
}
