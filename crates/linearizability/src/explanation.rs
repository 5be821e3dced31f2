//! Sentences about operations and values, in which a reader's own names replace the numbers.

use std::fmt;

use crate::carry::NO_OPERATION;
use crate::operation::ABSENT;

/// A sentence that says why operations contradict each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation(Vec<ExplanationPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExplanationPart {
    Text(&'static str),
    /// Position of an operation in the order of `push`.
    Operation(usize),
    /// `u64::MAX` stands for an absent key.
    Value(u64),
    Number(u64),
}

impl Explanation {
    pub(crate) fn of(parts: impl IntoIterator<Item = ExplanationPart>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Returns the sentence with other numbers of operations.
    pub(crate) fn renumbered(self, number: impl Fn(usize) -> usize) -> Self {
        let part = |part: ExplanationPart| match part {
            ExplanationPart::Operation(place) if place != NO_OPERATION => ExplanationPart::Operation(number(place)),
            other => other,
        };
        Self(self.0.into_iter().map(part).collect())
    }

    /// Returns the sentence with these names of operations and values.
    pub fn with_names(&self, operation: impl Fn(usize) -> String, value: impl Fn(u64) -> String) -> String {
        let part = |part: &ExplanationPart| match part {
            ExplanationPart::Text(text) => (*text).to_owned(),
            ExplanationPart::Operation(NO_OPERATION) => "an earlier operation".to_owned(),
            ExplanationPart::Operation(place) => operation(*place),
            ExplanationPart::Value(ABSENT) => "the absent key".to_owned(),
            ExplanationPart::Value(number) => value(*number),
            ExplanationPart::Number(number) => number.to_string(),
        };
        self.0.iter().map(part).collect()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(|place| format!("operation {place}"), |value| format!("value {value}")))
    }
}

impl From<&'static str> for ExplanationPart {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

/// Joins parts to an [`Explanation`].
macro_rules! explained {
    ($($part:expr),+ $(,)?) => {
        $crate::explanation::Explanation::of([$($crate::explanation::ExplanationPart::from($part)),+])
    };
}
pub(crate) use explained;
