//! `plimsoll selfcheck` with short loads. Its output has the right shape, counts are exact, and
//! wrong truths are noticed. Other results depend on how busy the machine is, and are not tested.

use serde_json::Value;

use crate::sandbox::{Played, Sandbox, json};

/// Plays parts with loads of a few seconds.
fn checked(sandbox: &Sandbox, words: &[&str]) -> Played {
    let out = sandbox.runs();
    sandbox.play(&[&["selfcheck", "--out", out.to_str().unwrap(), "--plain", "--seed", "3"], words].concat())
}

fn truths(sandbox: &Sandbox) -> Vec<Value> {
    json(&sandbox.runs().join("selfcheck.json"))["truths"].as_array().unwrap().clone()
}

fn came(truths: &[Value], what: &str) -> usize {
    truths.iter().filter(|one| one["came"] == what).count()
}

/// Returns the exit code that belongs to these truths.
fn code(truths: &[Value]) -> i32 {
    match (came(truths, "wrong"), came(truths, "marked")) {
        (0, 0) => 0,
        (0, _) => 6,
        _ => 5,
    }
}

fn asked<'a>(truths: &'a [Value], asked: &str) -> &'a Value {
    truths.iter().find(|one| one["asked"] == asked).unwrap_or_else(|| panic!("no {asked} in {truths:#?}"))
}

#[test]
fn errors_are_counted_exactly_and_shown_on_the_page() {
    let sandbox = Sandbox::new();
    let table = sandbox.path().join("table.md");
    let played = checked(&sandbox, &["--part", "errors", "--scale", "0.4", "--markdown", table.to_str().unwrap()]);
    let truths = truths(&sandbox);
    assert_eq!(played.code, code(&truths), "{}\n{}", played.stdout, played.stderr);
    let failed = asked(&truths, "failed operations");
    assert_eq!((failed["came"].as_str(), failed["measured"].as_f64()), (Some("right"), failed["truth"][0].as_f64()));
    assert!(failed["measured"].as_f64().unwrap() > 50.0, "errors were planted: {failed}");
    let page = std::fs::read_to_string(sandbox.runs().join("selfcheck.html")).unwrap();
    let table = std::fs::read_to_string(table).unwrap();
    for text in [&page, &table, &played.stdout] {
        assert!(text.contains("failed operations") && text.contains("errors for a while"), "{text}");
    }
    let run = json(&sandbox.runs().join("selfcheck.json"))["runs"][0].as_str().unwrap().to_owned();
    assert!(sandbox.runs().join(&run).join("report.html").is_file() && page.contains(&run));
}

#[test]
fn statistics_are_counted_on_simulated_runs() {
    let sandbox = Sandbox::new();
    let played = checked(&sandbox, &["--statistics", "--part", "throughput", "--scale", "0.02", "--json"]);
    let rows = played.json()["rows"].as_array().unwrap().clone();
    assert_eq!(json(&sandbox.runs().join("statistics.json"))["rows"], Value::Array(rows.clone()));
    let is_met = rows.iter().all(|row| row["is_met"] == true);
    assert_eq!(played.code, if is_met { 0 } else { 5 }, "{}", played.stderr);
    let counts = |setting: &str| {
        let row = rows.iter().find(|row| row["of"] == "throughput" && row["setting"] == setting).unwrap();
        ["replicates", "refused", "hits"].map(|name| row[name].as_u64().unwrap())
    };
    assert_eq!(counts("AR 0, 5 s"), [4, 4, 0], "too short for an interval");
    assert!(counts("AR 0, 60 s")[1] == 0 && counts("AR 0, 60 s")[2] >= 2, "{rows:#?}");
    let other = checked(&sandbox, &["--statistics", "--part", "errors"]);
    assert!(other.code == 2 && other.stderr.contains("--statistics has no part"), "{}", other.stderr);
}

#[test]
fn wrong_truths_are_noticed() {
    let sandbox = Sandbox::new();
    let parts = ["--part", "errors", "--part", "full-queue", "--scale", "0.4"];
    let played = checked(&sandbox, &[&parts[..], &["--misinformed", "--json"]].concat());
    let truths = truths(&sandbox);
    assert_eq!(played.json()["truths"].as_array(), Some(&truths));
    let code = code(&truths);
    assert!(code == 5 || code == 6, "{truths:#?}");
    assert_eq!(played.code, code, "{}", played.stderr);
    // A wrong value is `wrong` in a valid trial, and `marked` in any other.
    for one in ["failed operations", "throughput", "median latency"].map(|one| asked(&truths, one)) {
        let expected = if one["trust"] == "valid" { "wrong" } else { "marked" };
        assert_eq!(one["came"], expected, "{one}");
    }
}

#[test]
fn every_part_has_its_truths() {
    let sandbox = Sandbox::new();
    let played = checked(&sandbox, &["--scale", "0.2"]);
    let truths = truths(&sandbox);
    assert_eq!(played.code, code(&truths), "{}", played.stderr);
    let of: Vec<&str> = truths.iter().map(|one| one["of"].as_str().unwrap()).collect();
    for part in ["a full queue", "a random queue", "short stalls", "long stalls", "errors for a while", "comparisons"] {
        assert!(of.contains(&part), "{part}: {of:?}");
    }
    let smallest = json(&sandbox.runs().join("selfcheck.json"))["smallest"].as_array().unwrap().len();
    assert!(smallest > 0, "five pairs were compared: {}", played.stdout);
    assert_eq!(truths.iter().map(|one| one["times"].as_u64().unwrap()).min(), Some(1));
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}
