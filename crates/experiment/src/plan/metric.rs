//! Metric expressions: a path to a number of a trial, or a function over trials that are paired,
//! compared or drawn as a curve. This module parses them. `gates` checks that their names exist.

use core::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// A metric expression; its text is kept as written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct MetricExpression {
    text: String,
    term: MetricTerm,
}

/// Parsed form of a metric expression.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum MetricTerm {
    /// A path inside a trial.
    Path(MetricPath),
    /// A function over trials.
    Function(MetricFunction),
    /// Neither a path nor a function; it has no value.
    #[default]
    Unknown,
}

/// Parts of a path to a number of a trial: `latency_us.p99`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricPath(pub Vec<String>);

/// A function with its arguments: variants (`None` if the file has none), swept paths, and
/// arguments that depend on the function.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "they are the functions' own names, which docs/experiment.md explains")]
pub enum MetricFunction {
    Crossing([String; 2], String),
    FlatRatio([String; 2], String),
    FlatUntil(Option<String>, String),
    Knee(Option<String>, String),
    KneeRatio([String; 2], String),
    LevelFrom(Option<String>, String),
    Onset(MetricPath, Option<String>, String),
    Peak(Option<String>),
    PeakRatio([String; 2]),
    Ratio(MetricPath, [String; 2]),
    Retained(MetricPath, Option<String>, String, f64),
    /// The variant, if the file has any, and the condition, if one is given.
    SafeLoad(Vec<String>),
    Usl(LawParameter, Option<String>, String),
    UslDifference(LawParameter, [String; 2], String),
}

/// A parameter of the scalability law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LawParameter {
    /// Cost of coherence.
    Kappa,
    /// Throughput of a single agent.
    Lambda,
    /// Cost of contention.
    Sigma,
}

/// Parameters of the scalability law, by name.
pub(super) const PARAMETERS: [(&str, LawParameter); 3] =
    [("kappa", LawParameter::Kappa), ("lambda", LawParameter::Lambda), ("sigma", LawParameter::Sigma)];

impl MetricExpression {
    /// Returns the parsed form.
    #[must_use]
    pub fn term(&self) -> &MetricTerm {
        &self.term
    }

    /// Returns the path, if the expression is a path.
    #[must_use]
    pub fn path(&self) -> Option<&MetricPath> {
        if let MetricTerm::Path(path) = &self.term { Some(path) } else { None }
    }

    /// Returns the path that is looked up in each trial: the metric itself, or the argument of its
    /// function.
    #[must_use]
    pub fn measured(&self) -> Option<&MetricPath> {
        use MetricFunction::{Onset, Ratio, Retained};
        match &self.term {
            MetricTerm::Function(Onset(path, ..) | Ratio(path, _) | Retained(path, ..)) => Some(path),
            _ => self.path(),
        }
    }
}

/// Splits a path into its parts. A percentile keeps its decimals: `latency_us`, `p99.95`.
pub(super) fn steps(path: &str) -> Vec<&str> {
    let mut dots = path.rmatch_indices('.').map(|(at, _)| at);
    let (decimals, before) = (dots.next(), dots.next().map_or(0, |at| at + 1));
    match decimals {
        Some(_) if percentile(&path[before..]).is_some() => {
            path[..before].split_terminator('.').chain([&path[before..]]).collect()
        }
        _ => path.split('.').collect(),
    }
}

/// Returns the share below a percentile, by its name: 0.95 for `p95`, 0.9995 for `p99.95`. Without
/// a point, digits after the second are decimals if the name begins with a 9: `p999` is 99.9 %.
/// Returns `None` if the name is no percentile.
#[must_use]
pub fn percentile(name: &str) -> Option<f64> {
    let digits =
        name.strip_prefix('p').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))?;
    let (whole, decimals) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(both) => both,
        None if digits.len() > 2 && digits.starts_with('9') => digits.split_at(2),
        None => (digits, ""),
    };
    if !(1..=2).contains(&whole.len()) || decimals.contains('.') {
        return None;
    }
    let share: f64 = format!("0.{whole:0>2}{decimals}").parse().ok()?;
    (share > 0.0 && share < 1.0).then_some(share)
}

/// Returns the fewest samples that support the quantile `q`: with 95 % confidence at least one
/// sample lies beyond it, above a high quantile and below a low one. Of `n` independent samples all
/// lie below it with probability `q^n`, so `n ≥ ln 0.05 / ln q`: 5 for the median, 11 for p75, 29
/// for p90, 59 for p95, 299 for p99 and 2,995 for p99.9 (S. S. Wilks, "Determination of sample
/// sizes for setting tolerance limits", Annals of Mathematical Statistics 12, 1941). With fewer,
/// the "p99" would merely be another name for the maximum.
#[must_use]
pub fn samples_for(q: f64) -> u64 {
    const CONFIDENCE: f64 = 0.95;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both logarithms are negative")]
    {
        ((1.0 - CONFIDENCE).ln() / q.max(1.0 - q).ln()).ceil() as u64
    }
}

impl From<&str> for MetricPath {
    fn from(text: &str) -> Self {
        Self(steps(text).into_iter().map(str::to_owned).collect())
    }
}

impl fmt::Display for MetricPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl From<&str> for MetricExpression {
    fn from(text: &str) -> Self {
        let term = match text.split_once('(') {
            None => MetricTerm::Path(text.into()),
            Some((name, rest)) => rest
                .trim_end()
                .strip_suffix(')')
                .and_then(|inside| function(name.trim(), &arguments(inside)))
                .map_or(MetricTerm::Unknown, MetricTerm::Function),
        };
        Self { text: text.to_owned(), term }
    }
}

impl From<String> for MetricExpression {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<MetricExpression> for String {
    fn from(metric: MetricExpression) -> Self {
        metric.text
    }
}

impl Deref for MetricExpression {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for MetricExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits the arguments at commas and trims them.
fn arguments(inside: &str) -> Vec<&str> {
    if inside.trim().is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() }
}

fn function(name: &str, arguments: &[&str]) -> Option<MetricFunction> {
    use MetricFunction as F;
    let own = |a: &str| Some(a.to_owned());
    let both = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
    let law = |name: &str| PARAMETERS.iter().find(|(known, _)| *known == name).map(|(_, parameter)| *parameter);
    Some(match (name, arguments) {
        ("crossing", [a, b, over]) => F::Crossing(both(a, b), (*over).to_owned()),
        ("flat_ratio", [a, b, over]) => F::FlatRatio(both(a, b), (*over).to_owned()),
        ("flat_until", [over]) => F::FlatUntil(None, (*over).to_owned()),
        ("flat_until", [a, over]) => F::FlatUntil(own(a), (*over).to_owned()),
        ("knee", [over]) => F::Knee(None, (*over).to_owned()),
        ("knee", [a, over]) => F::Knee(own(a), (*over).to_owned()),
        ("knee_ratio", [a, b, over]) => F::KneeRatio(both(a, b), (*over).to_owned()),
        ("level_from", [over]) => F::LevelFrom(None, (*over).to_owned()),
        ("level_from", [a, over]) => F::LevelFrom(own(a), (*over).to_owned()),
        ("onset", [path, over]) => F::Onset((*path).into(), None, (*over).to_owned()),
        ("onset", [path, a, over]) => F::Onset((*path).into(), own(a), (*over).to_owned()),
        ("peak", []) => F::Peak(None),
        ("peak", [a]) => F::Peak(own(a)),
        ("peak_ratio", [a, b]) => F::PeakRatio(both(a, b)),
        ("ratio", [path, a, b]) => F::Ratio((*path).into(), both(a, b)),
        ("retained", [path, over, at]) => F::Retained((*path).into(), None, (*over).to_owned(), at.parse().ok()?),
        ("retained", [path, a, over, at]) => F::Retained((*path).into(), own(a), (*over).to_owned(), at.parse().ok()?),
        ("safe_load", names @ ([] | [_] | [_, _])) => {
            F::SafeLoad(names.iter().map(|name| (*name).to_owned()).collect())
        }
        ("usl", [parameter, over]) => F::Usl(law(parameter)?, None, (*over).to_owned()),
        ("usl", [parameter, a, over]) => F::Usl(law(parameter)?, own(a), (*over).to_owned()),
        ("usl_difference", [parameter, a, b, over]) => {
            F::UslDifference(law(parameter)?, both(a, b), (*over).to_owned())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{LawParameter, MetricExpression, MetricFunction as F, MetricPath, MetricTerm, percentile, samples_for};

    #[test]
    fn percentiles_have_decimals() {
        for (name, share) in [
            ("p50", Some(0.5)),
            ("p5", Some(0.05)),
            ("p95", Some(0.95)),
            ("p99.95", Some(0.9995)),
            ("p99.9", Some(0.999)),
            ("p999", Some(0.999)),
            ("p9999", Some(0.9999)),
            ("p97.5", Some(0.975)),
            ("p100", None),
            ("p0", None),
            ("p99.", None),
            ("p9.9.9", None),
            ("p", None),
            ("p9x", None),
            ("p99.99999999999999999999", None),
            ("max", None),
        ] {
            assert_eq!(percentile(name), share, "{name}");
        }
        let steps = |path: &str| MetricPath::from(path).0;
        assert_eq!(steps("operations.save.latency_us.p99.95"), ["operations", "save", "latency_us", "p99.95"]);
        assert_eq!(steps("latency_us.p95"), ["latency_us", "p95"]);
        assert_eq!(steps("p99.5"), ["p99.5"]);
        assert_eq!(steps("attempt_results.status 503.1"), ["attempt_results", "status 503", "1"]);
        assert_eq!([0.5, 0.75, 0.9, 0.95, 0.99, 0.999].map(samples_for), [5, 11, 29, 59, 299, 2_995]);
        assert_eq!(samples_for(0.05), 59, "one has to lie below it");
    }

    #[test]
    fn metrics_are_parsed_and_written_back_unchanged() {
        let own = |name: &str| Some(name.to_owned());
        let function = MetricTerm::Function;
        for (text, term) in [
            ("latency_us.p99", MetricTerm::Path("latency_us.p99".into())),
            ("peak()", function(F::Peak(None))),
            ("usl( sigma, pi,load.agents )", function(F::Usl(LawParameter::Sigma, own("pi"), "load.agents".into()))),
            ("level_from(pi, load.agents)", function(F::LevelFrom(own("pi"), "load.agents".into()))),
            ("retained(a.b, load.rate, 8)", function(F::Retained("a.b".into(), None, "load.rate".into(), 8.0))),
            ("safe_load()", function(F::SafeLoad(Vec::new()))),
            ("safe_load(pi, one member down)", function(F::SafeLoad(vec!["pi".into(), "one member down".into()]))),
            ("safe_load(a, b, c)", MetricTerm::Unknown),
            ("peek(pi)", MetricTerm::Unknown),
            ("usl(kapa, pi, load.agents)", MetricTerm::Unknown),
            ("peak(pi", MetricTerm::Unknown),
        ] {
            let json = format!("{text:?}");
            let metric: MetricExpression = serde_json::from_str(&json).unwrap();
            assert_eq!(*metric.term(), term, "{text}");
            assert_eq!(serde_json::to_string(&metric).unwrap(), json);
        }
    }
}
