//! Tests of the whole page.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Plan;
use record::results::{Results, Trust};

use super::*;

fn input<'a>(results: &'a Results, plan: &'a Plan, seconds: u32) -> Input<'a> {
    let trials = results.trials.iter().map(|trial| example::series(trial, seconds)).collect();
    Input { results, plan, environment: Some(example::environment()), folder: "run".to_owned(), trials }
}

/// For looking at pages by eye: `PAGES=/tmp/pages cargo test -p report -- --ignored look`.
#[test]
#[ignore = "writes pages to look at"]
fn look() {
    let folder = std::path::PathBuf::from(std::env::var_os("PAGES").expect("PAGES"));
    let plan = example::plan(&[], &[], 1);
    let mut crash = example::results(&plan);
    example::crash(&mut crash.trials[0]);
    std::fs::write(folder.join("crash.html"), page(&input(&crash, &plan, 30)).unwrap()).unwrap();
}
