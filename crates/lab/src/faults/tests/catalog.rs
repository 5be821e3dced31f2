//! Tests of what an experiment sees of the faults: arguments that are checked before the run, and colours.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::with;
use crate::faults::{KINDS, find};

#[test]
fn wrong_arguments_are_found_before_the_run() {
    let wrong = |kind: &str, arguments: Value| {
        let check = find(kind).unwrap().info.check.unwrap();
        check(&with(kind, "one", arguments).with).into_iter().map(|wrong| wrong.what).collect::<Vec<_>>().join("; ")
    };
    let table = [
        ("clock_skew", json!({"offset": 5}), "`offset = 5` is not a duration"),
        ("command", json!({"run": "x", "within": "long"}), "`within = \"long\"` is not a duration"),
        ("full_disk", json!({"leave": "none"}), "`leave = \"none\"` is not a size"),
        ("kill", json!({"signal": "STOP"}), "`STOP` is no signal that it sends"),
        ("link_flap", json!({"down": "1ms"}), "`down` is too short to be kept"),
        ("lossy_link", json!({"loss_pct": 0}), "`loss_pct = 0` is not possible"),
        ("memory_limit", json!({"size": "0B"}), "a host without memory is a crash"),
        ("partition", json!({"shape": "half"}), "`shape = \"half\"` is not one of them"),
        ("restart", json!({"wait": "1"}), "`wait = \"1\"` is not a duration"),
        ("slow_disk", json!({}), "nothing says how slow"),
        ("slow_disk", json!({"factor": 0.5, "write_iops": 5}), "`factor` and figures exclude each other"),
        (
            "slow_link",
            json!({"rate": "fast", "delay": "-1s"}),
            "`rate = \"fast\"` is not a rate; `delay = \"-1s\"` is not a duration",
        ),
        ("slow_port", json!({"port": "bulk"}), "nothing says how slow"),
        ("slow_port", json!({"port": "bulk", "rate": "0mbit"}), "`rate = \"0mbit\"` is not a rate"),
        ("squeeze", json!({"cpu": 1}), "the whole is no squeeze"),
        ("squeeze", json!({"cpu": "half"}), "`cpu = \"half\"` is not possible"),
    ];
    for (kind, arguments, expected) in table {
        assert_eq!(wrong(kind, arguments), expected, "{kind}");
    }
    for (kind, arguments) in [
        ("slow_link", json!({"delay": "50ms"})),
        ("slow_port", json!({"port": "bulk", "delay": "50ms"})),
        ("slow_disk", json!({"write_rate": "10MB/s"})),
        ("lossy_link", json!({"loss_pct": 100})),
        ("kill", json!({})),
    ] {
        assert_eq!(wrong(kind, arguments), "", "{kind}");
    }
}

#[test]
fn every_argument_that_is_checked_is_one_that_is_taken() {
    for kind in KINDS {
        let info = kind.info;
        let Some(check) = info.check else { continue };
        for field in info.takes {
            let with = BTreeMap::from([(field.name.to_owned(), Value::from(vec![1]))]);
            for wrong in check(&with) {
                let named = wrong.argument.is_none_or(|name| info.takes.iter().any(|field| field.name == name));
                assert!(named && wrong.hint.is_some(), "{}: {wrong:?}", info.name);
            }
        }
    }
}

#[test]
fn colours_are_told_apart_on_light_and_on_dark() {
    let parts = |colour: &str| [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()));
    let luminance = |colour: &str| {
        let linear = parts(colour).map(|part| {
            let part = part / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    for (index, kind) in KINDS.iter().enumerate() {
        let light = luminance(kind.info.colour);
        // 3 : 1 against white, and against the ground of a dark page.
        assert!((0.13..=0.3).contains(&light), "{}: {light}", kind.info.name);
        for other in &KINDS[..index] {
            let (a, b) = (parts(kind.info.colour), parts(other.info.colour));
            let apart: f64 = (0..3).map(|at| (a[at] - b[at]).abs()).sum();
            assert!(apart >= 50.0, "{} and {}: {apart}", kind.info.name, other.info.name);
        }
    }
}
