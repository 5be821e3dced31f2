//! Examples of failures on their way to the records: one of each kind, and without values of the environment.

use experiment::plan::Load;
use experiment::template;
use record::events::FailureExample;

/// Examples that a trial records.
const MOST: usize = 32;
/// A value of the environment of so many bytes is hidden wherever it occurs; a shorter one may well be another word.
const DISTINCT: usize = 8;

/// The examples of a trial.
#[derive(Debug, Default)]
pub struct ExampleBook {
    seen: Vec<FailureExample>,
    /// What stands for a value of the environment, and the value.
    hidden: Vec<(String, String)>,
}

impl ExampleBook {
    /// Of a load, whose templates may name values of the environment.
    pub fn of(load: Option<&Load>) -> Self {
        let mut hidden: Vec<(String, String)> = Vec::new();
        let text = load.and_then(|load| serde_json::to_string(load).ok()).unwrap_or_default();
        let names = std::cell::RefCell::new(Vec::new());
        let _ = template::with_environment(&text, &|name| {
            names.borrow_mut().push(name.to_owned());
            None
        });
        for name in names.into_inner() {
            let value = std::env::var(&name).ok().filter(|value| value.len() >= DISTINCT);
            hidden.extend(value.map(|value| (format!("[redacted env:{name}]"), value)));
        }
        Self { seen: Vec::new(), hidden }
    }

    /// The example as it is recorded, if it is the first of its kind.
    pub fn take(&mut self, mut example: FailureExample) -> Option<FailureExample> {
        let is_same = |other: &FailureExample| {
            (&other.operation, &other.result, &other.expectation)
                == (&example.operation, &example.result, &example.expectation)
        };
        if self.seen.len() >= MOST || self.seen.iter().any(is_same) {
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
    use experiment::plan::Step;

    use super::*;

    #[test]
    fn one_of_each_kind_is_recorded_without_values_of_the_environment() {
        let path = std::env::var("PATH").unwrap();
        let with = [("path".to_owned(), "/x?t={env:PATH}".to_owned())].into();
        let load = Load { steps: vec![Step { with, ..Step::default() }], ..Load::default() };
        let mut book = ExampleBook::of(Some(&load));
        let example = |result: &str| FailureExample {
            result: result.to_owned(),
            answer: Some(format!("HTTP/1.1 500 {path}")),
            ..FailureExample::default()
        };
        let told = book.take(example("status 500")).unwrap();
        assert_eq!(told.answer.as_deref(), Some("HTTP/1.1 500 [redacted env:PATH]"));
        assert_eq!(book.take(example("status 500")), None);
        let kinds = (0..1000).filter_map(|number| book.take(example(&format!("answer: {number}")))).count();
        assert_eq!(kinds, MOST - 1);
    }
}
