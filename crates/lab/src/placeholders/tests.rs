//! Tests of placeholders and of parameters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
    manifest
        .parameters
        .insert("text".to_owned(), Parameter { takes: Takes::Text, default: "50ms".to_owned(), help: String::new() });
    let filled = parameters(&manifest, &BTreeMap::from([("e".to_owned(), "3m".to_owned())])).unwrap();
    let filled: Vec<_> = filled.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(filled, [("a", "0.00025"), ("b", "1.5"), ("c", "7200"), ("d", "0.05"), ("e", "180"), ("text", "50ms")]);
    manifest.parameters.insert("f".to_owned(), duration("soon"));
    let error = parameters(&manifest, &BTreeMap::new()).err().unwrap();
    assert_eq!(error.to_string(), "target.toml: `soon` of parameter `f` is not a duration");
}
