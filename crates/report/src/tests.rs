//! Tests of the whole page.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Plan;
use record::results::Results;

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
    let write = |name: &str, page: String| std::fs::write(folder.join(name), page).unwrap();
    let plan = example::plan(&[], &[], 1);
    let mut crash = example::results(&plan);
    example::crash(&mut crash.trials[0]);
    write("crash.html", page(&input(&crash, &plan, 30)).unwrap());
    let (plan, results) = example::policies();
    write("policies.html", page(&input(&results, &plan, 30)).unwrap());
    let golden = RunFolder::at(&golden());
    let (results, plan) = (golden.read_results().unwrap().unwrap(), example::plan_of(&golden));
    write("golden.html", page(&read(&golden, &results, &plan).unwrap()).unwrap());
}

fn golden() -> std::path::PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/golden/2026-11-20T10-31-05-a-name-server-crashes");
    std::path::PathBuf::from(folder)
}
