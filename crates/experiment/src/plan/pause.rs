//! `think`: pauses of an agent between operations, of a fixed length or drawn.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::duration::{self, show};
use crate::keys::{KeyType, PAUSE, section};
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, TomlTable};

section! {
    const DRAWN_PAUSE {
        uniform: List(&PAUSE), "Shortest and longest pause; each length between them is as likely",
            ["between", "range"];
        normal: List(&PAUSE), "Mean and standard deviation of a normal distribution; a pause below 0 is none",
            ["gaussian"];
        exponential: TIME, "Mean of an exponential distribution", ["poisson"];
    }
}

/// Type of a pause.
pub(super) const THINK: KeyType = KeyType::Either(
    &[PAUSE, KeyType::Table(DRAWN_PAUSE)],
    "a duration such as \"2s\", { uniform = [\"1s\", \"3s\"] }, { normal = [\"2s\", \"500ms\"] } (mean and standard \
     deviation) or { exponential = \"2s\" } (mean)",
);

/// Pause of an agent after an operation. Times are seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pause {
    /// The same length each time.
    Fixed(f64),
    /// A length drawn evenly from a range.
    Uniform {
        /// Shortest and longest pause.
        uniform: [f64; 2],
    },
    /// A length drawn from a normal distribution. A length below 0 is 0.
    Normal {
        /// Mean and standard deviation.
        normal: [f64; 2],
    },
    /// A length drawn from an exponential distribution.
    Exponential {
        /// Mean.
        exponential: f64,
    },
}

impl Pause {
    /// Reads `think`, if the section has it. Wrong values have been reported and are treated as
    /// absent.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let node = section.node("think")?;
        match node.table() {
            None => time_s(node).map(Self::Fixed),
            Some(table) => Self::read_drawn(table),
        }
    }

    fn read_drawn(table: &TomlTable) -> Option<Self> {
        let pair = |key: &str| {
            let list = table.get(key)?.list()?;
            let [first, second] = list else { return None };
            Some([time_s(first)?, time_s(second)?])
        };
        let uniform = pair("uniform").map(|uniform| Self::Uniform { uniform });
        let normal = || pair("normal").map(|normal| Self::Normal { normal });
        let exponential =
            || table.get("exponential").and_then(time_s).map(|exponential| Self::Exponential { exponential });
        uniform.or_else(normal).or_else(exponential)
    }

    /// Whether the agent never pauses.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.times_s().iter().all(|time_s| *time_s <= 0.0)
    }

    /// Returns the times that define the pause, in seconds.
    #[must_use]
    pub fn times_s(self) -> [f64; 2] {
        match self {
            Self::Fixed(pause_s) => [pause_s; 2],
            Self::Uniform { uniform } => uniform,
            Self::Normal { normal } => normal,
            Self::Exponential { exponential } => [exponential; 2],
        }
    }

    /// Scales the pause to a lab of this speed.
    pub(super) fn slow(&mut self, speed: f64) {
        match self {
            Self::Fixed(pause_s) | Self::Exponential { exponential: pause_s } => *pause_s /= speed,
            Self::Uniform { uniform: times_s } | Self::Normal { normal: times_s } => {
                times_s.iter_mut().for_each(|time_s| *time_s /= speed);
            }
        }
    }
}

/// Formats the pause for readers: `2s`, `1s to 3s`.
impl fmt::Display for Pause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed(pause_s) => out.write_str(&show(pause_s)),
            Self::Uniform { uniform: [from_s, to_s] } => write!(out, "{} to {}", show(from_s), show(to_s)),
            Self::Normal { normal: [mean_s, deviation_s] } => {
                write!(out, "{} ± {} (normal)", show(mean_s), show(deviation_s))
            }
            Self::Exponential { exponential } => write!(out, "{} (exponential)", show(exponential)),
        }
    }
}

fn time_s(node: &Node) -> Option<f64> {
    duration::parse_s(node.text()?).ok()
}

/// Checks a drawn pause of a load or of a step.
pub(super) fn check(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let Some(node) = section.node("think") else { return };
    let Some(table) = node.table() else { return };
    let forms = ["uniform", "normal", "exponential"];
    let given: Vec<(&str, &Node)> = forms.into_iter().filter_map(|form| Some((form, table.get(form)?))).collect();
    match given.as_slice() {
        [] if table.entries.is_empty() => {
            let problem = Problem::absent(&node.place, "`think` says nothing").expected("an empty table");
            context.problems.push(problem.hint(THINK.words()));
        }
        [(first, before), (second, other), ..] => context.problems.push(
            Problem::new(&other.place, format!("`{first}` and `{second}` exclude each other"))
                .expected("a second distribution")
                .related(&before.place, "the first")
                .hint("remove one of the two"),
        ),
        _ => {}
    }
    for (form, node) in given.into_iter().filter(|(form, _)| *form != "exponential") {
        let Some(list) = node.list() else { continue };
        let times: Vec<f64> = list.iter().filter_map(time_s).collect();
        let words =
            if form == "uniform" { "the shortest and the longest pause" } else { "mean and standard deviation" };
        if list.len() != 2 {
            let problem = Problem::new(&node.place, format!("`{form}` has two durations"));
            context.problems.push(problem.expected(words).hint(format!("such as {form} = [\"3s\", \"5s\"]")));
        } else if form == "uniform" && matches!(times[..], [from_s, to_s] if from_s > to_s) {
            let problem = Problem::new(&node.place, "the longest pause is shorter than the shortest");
            context.problems.push(problem.expected(words).hint("exchange the two"));
        }
    }
}
