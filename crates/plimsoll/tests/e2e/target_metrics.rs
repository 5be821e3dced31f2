//! Metrics that a target reports about itself are recorded, judged and shown like other figures.

use std::fs;

use crate::sandbox::{Sandbox, number};

/// Returns an experiment on the target that counts, with these claims.
fn experiment(claims: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"counted\"\n[load]\nagents = 2\ntime = \"4s\"\nthink = \"10ms\"\n\
         warmup = \"500ms\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n{claims}"
    )
}

/// Returns a claim that is also judged on void trials, because the debug build is too slow as a
/// generator.
fn claim(metric: &str, holds: &str) -> String {
    format!("[[claim]]\nsays = \"s\"\nsource = \"a\"\nmetric = \"{metric}\"\nholds = {holds}\non_void = true\n")
}

#[test]
fn json_metrics_are_claimed_drawn_and_analysed_again() {
    let sandbox = Sandbox::new().with_shelves();
    let claims = [
        claim("metrics.depth.max", "{ equals = 7 }"),
        claim("metrics.served.per_s", "{ above = 1 }"),
        claim("metrics.served.hosts.increase", "{ below = 0.5 }"),
        claim("metrics.absent.last", "{ above = 0 }"),
    ];
    let gate = "[[require]]\nmetric = \"metrics.depth.mean\"\nequals = 7\n";
    let file = sandbox.file("counted.toml", experiment(&claims.concat()) + gate);
    let results = sandbox.run(&[&file]).exits(0).json();
    let metrics = &results["trials"][0]["metrics"];
    assert_eq!((&metrics["served"]["kind"], &metrics["depth"]["kind"]), (&"counter".into(), &"gauge".into()));
    assert!(number(metrics, "/served/increase") > 10.0 && metrics["depth"]["increase"].is_null(), "{metrics:#}");
    assert!(metrics["absent"].is_null());
    let held: Vec<_> = results["claims"].as_array().unwrap().iter().map(|claim| claim["holds"].clone()).collect();
    assert_eq!(held, ["yes", "yes", "no", "not measured"]);
    assert_eq!(results["claims"][3]["note"], "no host reported `absent`");
    let is_void = results["trials"][0]["verdict"]["is"] == "void";
    assert_eq!(results["claims"][0]["on_void"] == true, is_void);
    assert_eq!(results["requirements"][0]["holds"], true);

    let run = sandbox.run_folder();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Metrics of the target") && page.contains("id=\"t001-metric-1\""));
    let rows = fs::read_to_string(run.join("trials/001/metrics.csv")).unwrap();
    assert!(rows.starts_with("at_s,host,name,value,kind\n") && rows.contains("depth{key=\"\"in\"\"}"), "{rows}");
    let analysis = fs::read_to_string(run.join("analysis.json")).unwrap();
    fs::remove_file(run.join("analysis.json")).unwrap();
    sandbox.play(&["analyze", run.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(run.join("analysis.json")).unwrap(), analysis);
}

#[test]
fn unknown_metrics_are_refused() {
    let sandbox = Sandbox::new().with_shelves();
    for (metric, words) in [
        ("metrics.srved.per_s", ["keeps no metric `srved`", "did you mean `served`?"]),
        ("metrics.served.per_m", ["no metric `metrics.served.per_m`", "did you mean `metrics.served.per_s`?"]),
        ("safe_load()", ["this file has no search", "[find]"]),
    ] {
        let file = sandbox.file("bad.toml", experiment(&claim(metric, "{ above = 1 }")));
        sandbox.play(&["check", &file]).exits(2).says(&words);
    }
    let echo = experiment(&claim("metrics.served.per_s", "{ above = 1 }")).replace("\"counted\"", "\"echo\"");
    let file = sandbox.file("echo.toml", echo);
    Sandbox::new().play(&["check", &file]).exits(2).says(&["keeps no metric `served`", "[metrics] of its target.toml"]);
}
