//! The schema and the reference say what the table of keys says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{reference, schema};
use crate::keys::experiment::EXPERIMENT;
use crate::keys::{Key, Kind, Need};

#[test]
fn every_key_is_in_both() {
    let (schema, reference) = (schema().to_string(), reference());
    fn each(keys: &'static [Key], visit: &mut dyn FnMut(&Key)) {
        for key in keys {
            visit(key);
            each(key.kind.keys(), visit);
        }
    }
    each(EXPERIMENT, &mut |key| {
        assert!(schema.contains(&format!("\"{}\":", key.name)), "{}", key.name);
        assert!(reference.contains(&format!("`{}`", key.name)), "{}", key.name);
        assert!(!key.help.ends_with('.') && !key.help.is_empty(), "{}", key.name);
    });
}

#[test]
fn sections_are_closed_and_say_what_is_required() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["target"]));
    let load = &schema["properties"]["load"];
    assert_eq!(load["required"], serde_json::json!(["agents", "time"]));
    assert_eq!(load["properties"]["cycle"]["items"]["additionalProperties"], false);
    assert_eq!(load["properties"]["timeout"]["default"], "10s");
    assert_eq!(load["properties"]["cycle"]["items"]["properties"]["audit"]["default"], false);
    assert_eq!(load["properties"]["retry"]["default"], "fail-fast");
    let variant = &schema["properties"]["variant"]["items"];
    assert_eq!(variant["required"], serde_json::json!(["name"]));
    assert!(variant["properties"]["load"].get("required").is_none());
}

#[test]
fn defaults_are_values_of_their_kind() {
    fn each(keys: &'static [Key]) {
        for key in keys {
            if let Need::Default(default) = key.need {
                let fits = match key.kind {
                    Kind::Duration { .. } => crate::duration::parse_s(default).is_ok(),
                    Kind::Whole { min, max } => (min..=max).contains(&default.parse().unwrap()),
                    Kind::Boolean => default.parse::<bool>().is_ok(),
                    Kind::Choice(choices) => choices.contains(&default),
                    _ => true,
                };
                assert!(fits, "{} = {default}", key.name);
            }
            each(key.kind.keys());
        }
    }
    each(EXPERIMENT);
    each(crate::keys::target::TARGET);
}

#[test]
fn a_key_that_may_be_one_section_or_another_has_all_of_them() {
    let reference = reference();
    for heading in ["## `[load.rate]`", "## `[[load.rate]]`", "## `[[lab.network]]`", "## `[load.retry]`"] {
        assert_eq!(reference.matches(heading).count(), 1, "{heading}");
    }
    assert!(!reference.contains("## `[lab.network]`"), "the same keys once or several times are one section");
}

#[test]
fn values_that_are_tables_are_in_both() {
    let schema = schema();
    let step = &schema["properties"]["load"]["properties"]["cycle"]["items"]["properties"];
    let value = &step["expect"]["additionalProperties"]["anyOf"];
    let comparison = &value[0]["anyOf"][1];
    assert_eq!(comparison["additionalProperties"], false);
    assert_eq!(comparison["properties"]["one_of"]["type"], "array");
    assert!(comparison["properties"]["not"]["anyOf"][1]["properties"].get("contains").is_some());
    // Or else a comparison with a mistake in it would be taken for the header `header.etag.contains`.
    let deeper = &value[1]["propertyNames"]["not"]["enum"];
    assert_eq!(*deeper, serde_json::json!(["matches", "contains", "one_of", "lua", "not"]));
    let kept = &step["keep"]["additionalProperties"]["anyOf"][1];
    assert_eq!(kept["required"], serde_json::json!(["from", "matches"]));
    let reference = reference();
    for heading in
        ["## A value of `load.cycle.expect`\n", "## A value of `load.mix.keep`\n", "## A value of `prepare.expect`\n"]
    {
        assert!(reference.contains(heading), "{heading}");
    }
}
