//! Loads at a rate on the built-in echo server: as many operations as were asked for, whatever the target does, and a target that
//! cannot keep up is not held against the generator.

use serde_json::Value;

use crate::stage::{Stage, number};

fn at_rate(with: &str, load: &str) -> Value {
    let stage = Stage::new();
    let file = stage.file(
        "rate.toml",
        format!(
            "title = \"At a rate\"\nasks = \"Is every operation there?\"\n[target]\nuse = \"echo\"\nwith = {{ {with} }}\n\
             [load]\n{load}\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
        ),
    );
    stage.run(&[&file]).exits(0).json()
}

fn outcomes(results: &Value) -> (f64, f64) {
    let of = |name: &str| number(results, &format!("/trials/0/outcomes/{name}"));
    (of("ok"), of("failed") + of("timeout") + of("wrong") + of("unfinished"))
}

fn reasons(results: &Value) -> String {
    results["trials"][0]["verdict"]["reasons"].to_string()
}

#[test]
fn every_operation_that_was_asked_for_is_there() {
    let results = at_rate("", "agents = 8\nrate = 400\ntime = \"6s\"\ndrain = \"60s\"");
    assert_eq!(outcomes(&results), (2400.0, 0.0));
    assert_eq!(number(&results, "/trials/0/generator/dropped"), 0.0);
    // The machine may be busy; the books have to be right nevertheless.
    assert!(number(&results, "/trials/0/generator/littles_law_error_pct") < 1.0);
    assert!(!reasons(&results).contains("books") && !reasons(&results).contains("never began"));
}

#[test]
fn a_target_that_cannot_keep_up_is_not_held_against_the_generator() {
    // Two workers of 20 ms can do 100 per second; three times that is asked for.
    let load = "agents = 40\nrate = 300\ntime = \"6s\"\ndrain = \"1s\"\ntimeout = \"60s\"";
    let results = at_rate("delay = \"20ms\", workers = 2", load);
    let (ok, others) = outcomes(&results);
    assert_eq!(ok + others, 1800.0);
    // In the seven seconds with the drain no more than 700 can be done, however slow this machine is; the end may come late.
    assert!(ok <= 900.0, "{ok} and {others}");
    assert_eq!(number(&results, "/trials/0/outcomes/unfinished"), others);
    assert_eq!(number(&results, "/trials/0/generator/dropped"), 0.0);
    assert!(number(&results, "/trials/0/generator/littles_law_error_pct") < 1.0);
    assert!(!reasons(&results).contains("books") && !reasons(&results).contains("never began"));
    // Who was served last had waited for thousands of milliseconds; the service itself is bounded by the queue of 40.
    assert!(number(&results, "/trials/0/latency_us/max") > 2_000_000.0);
}
