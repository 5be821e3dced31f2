//! Placeholders of `target.toml`: `{data}`, `{port.http}`, `{PARAMETER}`. It must not guess: what is unknown is an error.

use std::collections::BTreeMap;

use experiment::duration::{self, DurationError};
use experiment::manifest::{Manifest, Takes};

use crate::Error;

/// Placeholder to value, for one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// The process, for messages.
    pub role: String,
    /// Name without braces to value.
    pub values: BTreeMap<String, String>,
}

impl Values {
    /// `text` with every placeholder replaced; `{{` and `}}` are braces.
    pub fn fill(&self, text: &str) -> Result<String, Error> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                filled.push_str(brace);
                rest = after;
            } else if brace == "{" {
                let (name, after) = rest.split_once('}').ok_or_else(|| self.unknown(text, rest))?;
                filled.push_str(self.values.get(name).ok_or_else(|| self.unknown(text, name))?);
                rest = after;
            } else {
                return Err(self.unknown(text, "}"));
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn unknown(&self, text: &str, name: &str) -> Error {
        Error::Placeholder {
            role: self.role.clone(),
            text: text.to_owned(),
            name: name.to_owned(),
            known: self.values.keys().map(|name| format!("{{{name}}}")).collect(),
        }
    }
}

/// Every parameter as the target gets it: durations in seconds, what the plan leaves out by its default.
pub fn parameters(manifest: &Manifest, with: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    let values = manifest.parameters.iter().map(|(name, parameter)| {
        let given = with.get(name).unwrap_or(&parameter.default);
        let value = match parameter.takes {
            Takes::Duration => seconds(given)
                .ok_or_else(|| Error::Manifest(format!("`{given}` of parameter `{name}` is not a duration")))?,
            _ => given.clone(),
        };
        Ok((name.clone(), value))
    });
    values.collect()
}

/// `"50ms"` as `"0.05"`; a bare number is seconds already.
fn seconds(text: &str) -> Option<String> {
    let seconds = match duration::parse_s(text) {
        Err(DurationError::NoUnit) => text.trim().parse().ok().filter(|seconds: &f64| *seconds >= 0.0),
        parsed => parsed.ok(),
    };
    seconds.map(|seconds| seconds.to_string())
}

#[cfg(test)]
mod tests {
    use experiment::manifest::Parameter;

    use super::*;
    use crate::fixture::manifest;

    fn values() -> Values {
        let values = [("data", "/d"), ("port.http", "8080"), ("state", "ets")];
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Values { role: "server".to_owned(), values }
    }

    #[test]
    fn texts_are_filled() {
        let fill = |text: &str| values().fill(text).unwrap();
        assert_eq!(fill("--data={data}/x:{port.http}{state}"), "--data=/d/x:8080ets");
        assert_eq!(fill("{{kernel, [{{x}}]}}"), "{kernel, [{x}]}");
        assert_eq!(fill("plain"), "plain");
        assert_eq!(fill("{{{state}}}"), "{ets}");
    }

    #[test]
    fn what_is_unknown_is_an_error_that_names_what_there_is() {
        for text in ["{colour}", "{data", "a}b", "{}"] {
            assert!(matches!(values().fill(text), Err(Error::Placeholder { .. })), "{text}");
        }
        let hint = values().fill("{port}").err().unwrap().hint().unwrap();
        assert_eq!(hint, "there are: {data}, {port.http}, {state}");
    }

    #[test]
    fn durations_are_handed_over_in_seconds_and_defaults_filled_in() {
        let mut manifest = manifest(Vec::new());
        let duration =
            |default: &str| Parameter { takes: Takes::Duration, default: default.to_owned(), help: String::new() };
        for (name, default) in [("a", "250us"), ("b", "1.5s"), ("c", "2h"), ("d", "0.05"), ("e", "1s")] {
            manifest.parameters.insert(name.to_owned(), duration(default));
        }
        manifest.parameters.insert(
            "text".to_owned(),
            Parameter { takes: Takes::Text, default: "50ms".to_owned(), help: String::new() },
        );
        let filled = parameters(&manifest, &BTreeMap::from([("e".to_owned(), "3m".to_owned())])).unwrap();
        let filled: Vec<_> = filled.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            filled,
            [("a", "0.00025"), ("b", "1.5"), ("c", "7200"), ("d", "0.05"), ("e", "180"), ("text", "50ms")]
        );
        manifest.parameters.insert("f".to_owned(), duration("soon"));
        let error = parameters(&manifest, &BTreeMap::new()).err().unwrap();
        assert_eq!(error.to_string(), "target.toml: `soon` of parameter `f` is not a duration");
    }
}
