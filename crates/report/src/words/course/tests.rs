//! What is printed of a course.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;

fn made_up() -> Course {
    let changed = vec![Changed { field: "kernel".into(), from: Some("6.1.0-18".into()), to: None }];
    let run = |day: u32| CourseRun {
        folder: format!("runs/2026-11-{day:02}T03-00-00-nightly"),
        trials: 3,
        changed: if day == 3 { changed.clone() } else { Vec::new() },
        ..CourseRun::default()
    };
    let change = Change {
        run: 2,
        before: 1_000.0,
        after: 822.0,
        change_pct: Some(-17.8),
        p: 0.004,
        environment: changed.clone(),
    };
    let series = Series {
        metric: "throughput.operations_per_s".into(),
        variant: Some("wait".into()),
        point: BTreeMap::from([("load.agents".to_owned(), 8.into())]),
        values: vec![Some(1_000.0), None, Some(822.0)],
        changes: vec![change],
    };
    Course { title: "Nightly".into(), runs: (1..=3).map(run).collect(), series: vec![series], ..Course::default() }
}

#[test]
fn a_change_stands_beside_its_run_with_what_else_changed() {
    insta::assert_snapshot!(course(&made_up(), false));
}

#[test]
fn nothing_found_is_said() {
    let mut calm = made_up();
    calm.series[0].changes.clear();
    let text = course(&calm, false);
    assert!(text.contains("3 runs: no change point in any figure\n"), "{text}");
    assert!(text.contains("changed: kernel 6.1.0-18 → unknown"), "{text}");
    calm.series.clear();
    assert!(course(&calm, false).ends_with("no usable trial has any of the figures\n"));
}
