//! Examples of failures for the records: one of each kind, without environment values.

use std::collections::BTreeMap;

use record::events::FailureExample;

/// Maximum number of examples that a trial records.
const MOST: usize = 32;
/// Length in bytes from which an environment value is hidden wherever it occurs. A shorter value
/// may also be an ordinary word.
const DISTINCT: usize = 8;

/// The examples of a trial.
#[derive(Debug, Default)]
pub struct ExampleBook {
    seen: Vec<FailureExample>,
    /// Pairs of a placeholder and the environment value that it replaces.
    hidden: Vec<(String, String)>,
}

impl ExampleBook {
    /// Creates a book for a load whose templates use these environment values, by name.
    pub fn of(environment: BTreeMap<String, String>) -> Self {
        let distinct = environment.into_iter().filter(|(_, value)| value.len() >= DISTINCT);
        let hidden = distinct.map(|(name, value)| (format!("[redacted env:{name}]"), value)).collect();
        Self { seen: Vec::new(), hidden }
    }

    /// Returns the example for the records, if it is the first of its kind.
    pub fn take(&mut self, mut example: FailureExample) -> Option<FailureExample> {
        let is_seen = self.seen.iter().any(|other| {
            (&other.operation, &other.result, &other.expectation)
                == (&example.operation, &example.result, &example.expectation)
        });
        if self.seen.len() >= MOST || is_seen {
            return None;
        }
        self.seen.push(example.clone());
        let FailureExample { request, got, answer, .. } = &mut example;
        for text in [Some(request), got.as_mut(), answer.as_mut()].into_iter().flatten() {
            for (mark, value) in &self.hidden {
                *text = text.replace(value.as_str(), mark);
            }
        }
        Some(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_of_each_kind_is_recorded_without_secrets() {
        let environment = [("PIN", "500"), ("TOKEN", "s3cret-t0ken")];
        let mut book = ExampleBook::of(environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let answer = Some("HTTP/1.1 500 s3cret-t0ken".to_owned());
        let example = FailureExample { result: "status 500".to_owned(), answer, ..FailureExample::default() };
        let recorded = book.take(example.clone()).unwrap();
        assert_eq!(recorded.answer.as_deref(), Some("HTTP/1.1 500 [redacted env:TOKEN]"));
        assert_eq!(book.take(example.clone()), None);
        let others = (0..1000).map(|number| FailureExample { result: format!("answer: {number}"), ..example.clone() });
        assert_eq!(others.filter_map(|other| book.take(other)).count(), MOST - 1);
    }
}
