//! Bad experiment files, each with its error message. A message is part of the interface: read it
//! before you accept it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::manifest::MetricsFormat;
use experiment::problem::Problems;
use experiment::source::Source;
use known::{catalog, files, here, read, source};

#[test]
fn bad_files_are_refused_with_messages() {
    let files = files(&here().join("tests/bad"));
    assert!(files.len() >= 20);
    let catalog = catalog();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let problems = experiment::read(&source(&path), &[], &catalog).expect_err(&name);
        assert!(problems.as_slice().is_sorted_by_key(|problem| problem.place.span.start), "{name}");
        insta::assert_snapshot!(name, problems.render(false));
    }
}

const FILE: &str = r#"
[target]
use = "vsns"

[load]
agents = 10
time   = "30s"

[[load.cycle]]
call = "save"
with = { space = "a", key = "k", value = "v" }

[[fault]]
name = "oops"
kind = "kill"
at   = "20s"
"#;

#[test]
fn only_metrics_that_the_target_keeps_are_accepted() {
    let mut catalog = catalog();
    catalog.metrics.extend(["max", "per_s"].map(|figure| format!("metrics.*.{figure}")));
    let keep = [("queue_length".to_owned(), String::new()), ("saves_total".to_owned(), String::new())].into();
    let metrics = experiment::manifest::Metrics { keep, ..Default::default() };
    catalog.targets.get_mut("vsns").unwrap().metrics = Some(metrics);
    let problems = |metric: &str, sets: &[&str]| {
        let text = format!("{FILE}\n[[require]]\nmetric = \"{metric}\"\nbelow = 1\n");
        let source = Source { name: "experiment.toml".to_owned(), text };
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        experiment::read(&source, &sets, &catalog).err().map(|problems| problems.render(false))
    };
    for metric in ["metrics.queue_length.max", "metrics.saves_total.per_s"] {
        assert_eq!(problems(metric, &[]), None, "{metric}");
    }
    for (metric, told) in [
        ("metrics.queue_lenght.max", ["the target keeps no metric `queue_lenght`", "did you mean `queue_length`?"]),
        (
            "metrics.queue_length.min",
            ["no metric `metrics.queue_length.min`", "did you mean `metrics.queue_length.max`?"],
        ),
        ("metrics.queue_length", ["unknown metric", "it has parts: `metrics.queue_length.max`"]),
    ] {
        let problems = problems(metric, &[]).unwrap();
        assert!(told.iter().all(|told| problems.contains(told)), "{problems}");
    }
    // The file's metrics may be right for its own target, so they are not checked if `--set` gives
    // another.
    assert_eq!(problems("metrics.other.max", &["target.use=vsns"]), None);
}

#[test]
fn the_rate_of_a_gauge_is_refused_before_the_run() {
    let mut catalog = catalog();
    catalog.metrics.extend(["max", "per_s", "hosts.*.increase"].map(|figure| format!("metrics.*.{figure}")));
    let mut problems = |kind: MetricsFormat, metric: &str| {
        let keep = ["depth", "served", "saves_total"].map(|name| (name.to_owned(), "/x".to_owned())).into();
        let counters = vec!["served".to_owned()];
        let metrics = experiment::manifest::Metrics { kind, keep, counters, ..Default::default() };
        catalog.targets.get_mut("vsns").unwrap().metrics = Some(metrics);
        let text = format!("{FILE}\n[[require]]\nmetric = \"{metric}\"\nbelow = 1\n");
        let source = Source { name: "experiment.toml".to_owned(), text };
        experiment::read(&source, &[], &catalog).err().map(|problems| problems.render(false))
    };
    for metric in ["metrics.depth.max", "metrics.served.per_s", "metrics.saves_total.per_s"] {
        assert_eq!(problems(MetricsFormat::Json, metric), None, "{metric}");
    }
    for (metric, what) in [
        ("metrics.depth.per_s", "`depth` is a gauge, which has no `per_s`"),
        ("metrics.depth.hosts.n1.increase", "`depth` is a gauge, which has no `increase`"),
    ] {
        let told = problems(MetricsFormat::Json, metric).unwrap();
        assert!(told.contains(what) && told.contains("metrics.depth.max"), "{told}");
    }
    // Prometheus' text format gives the type of each metric when it is read.
    assert_eq!(problems(MetricsFormat::Prometheus, "metrics.depth.per_s"), None);
}

#[test]
fn each_bad_set_is_reported() {
    let problems = read(
        FILE,
        &[
            "load.time=10s",
            "load.agnets=3",
            "load.agents=many",
            "x",
            "fault.ops.at=3s",
            "load.cycle.save.with.key={seq",
        ],
    );
    insta::assert_snapshot!("set", problems.unwrap_err());
}

#[test]
fn a_set_overridden_by_every_variant_is_refused() {
    let file = format!(
        "{FILE}\n[[variant]]\nname = \"a\"\nload = {{ ramp = \"1s\" }}\n[[variant]]\nname = \"b\"\nload = {{ ramp = \"2s\" }}\n"
    );
    insta::assert_snapshot!("set_without_effect", read(&file, &["load.ramp=3s"]).unwrap_err());
}

#[test]
fn colours_only_when_asked() {
    let problems = read_text("title = 1\n");
    assert!(problems.render(true).contains('\u{1b}') && !problems.render(false).contains('\u{1b}'));
    assert_eq!(problems.to_string().lines().next(), Some("x.toml:1:1: the section [target] is missing"));
}

#[test]
fn problems_beyond_100_are_counted_but_not_shown() {
    const MISTAKES: usize = 10_000;
    let keys: String = (0..MISTAKES).map(|number| format!("nonsense{number} = 1\n")).collect();
    // Mistakes in the file appear in both trials, and the last mistake only in one of them.
    let variants = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nload = { ramp = \"soon\" }\n";
    let problems = read_text(&format!("{FILE}{keys}{variants}"));
    assert_eq!(problems.as_slice().len(), MISTAKES + 1);
    shows_the_first(&problems, "10001 problems, of which these are the first 100", "and 9901 more");
    let source = source_of(&keys);
    let problems = experiment::manifest::parse("target", &source).unwrap_err();
    assert!(problems.as_slice().len() >= MISTAKES);
    let all = problems.as_slice().len();
    let end = format!("{all} problems, of which these are the first 100");
    shows_the_first(&problems, &end, &format!("and {} more", all - 100));
    // A hundred problems are all shown.
    let keys: String = (0..100).map(|number| format!("nonsense{number} = 1\n")).collect();
    let problems = read_text(&format!("{FILE}{keys}"));
    assert!(problems.render(false).ends_with("\n100 problems\n"));
    assert_eq!(problems.to_string().lines().count(), 100);
}

/// Checks that the first hundred problems are shown, each with its line in the text, and the total
/// number.
fn shows_the_first(problems: &Problems, end: &str, more: &str) {
    let rendered = problems.render(false);
    assert_eq!(rendered.matches("Error: ").count(), 100);
    assert_eq!(rendered.lines().last(), Some(end));
    let lines = problems.to_string();
    assert_eq!((lines.lines().count(), lines.lines().last()), (101, Some(more)));
    for problem in &problems.as_slice()[..100] {
        let (line, column) = problem.place.line_and_column();
        assert!(rendered.contains(&format!("[ x.toml:{line}:{column} ]")), "{problem}");
    }
}

fn source_of(text: &str) -> Source {
    Source { name: "x.toml".to_owned(), text: text.to_owned() }
}

fn read_text(text: &str) -> Problems {
    experiment::read(&source_of(text), &[], &catalog()).unwrap_err()
}

#[test]
fn keys_in_duplicate_sections_are_not_reported() {
    let sections: String = (0..1_000).map(|number| format!("[seed]\nk{number} = 1\nk{number} = 2\n")).collect();
    // The first section is the valid one; a duplicate in it is a separate mistake.
    let problems = read_text(&format!("{sections}[load]\nramp = \"1s\"\nramp = \"2s\"\n"));
    let twice = |name: &str| {
        let what = format!("`{name}` is written twice");
        problems.as_slice().iter().filter(|problem| problem.what == what).count()
    };
    assert_eq!((twice("seed"), twice("k0"), twice("k1"), twice("k999"), twice("ramp")), (999, 1, 0, 0, 1));
}
