//! Loads at a rate on the built-in echo server. As many operations start as scheduled, even if the
//! target is slow. A target that cannot keep up does not make the generator suspect.

use record::rows::GeneratorSecond;
use serde_json::Value;

use crate::sandbox::{Sandbox, number};

fn at_rate(with: &str, load: &str) -> Value {
    played(&Sandbox::new(), with, load)
}

fn played(sandbox: &Sandbox, with: &str, load: &str) -> Value {
    let file = sandbox.file(
        "rate.toml",
        format!(
            "title = \"At a rate\"\nasks = \"Is every operation there?\"\n[target]\nuse = \"echo\"\nwith = {{ {with} }}\n\
             [load]\n{load}\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
        ),
    );
    sandbox.run(&[&file]).exits(0).json()
}

fn outcomes(results: &Value) -> (f64, f64) {
    let of = |name: &str| number(results, &format!("/trials/0/outcomes/{name}"));
    (of("ok"), of("failed") + of("timeout") + of("wrong") + of("unfinished"))
}

fn reasons(results: &Value) -> String {
    results["trials"][0]["verdict"]["reasons"].to_string()
}

#[test]
fn every_scheduled_operation_is_counted() {
    let results = at_rate("", "agents = 8\nrate = 400\ntime = \"3s\"\ndrain = \"60s\"");
    assert_eq!(outcomes(&results), (1200.0, 0.0));
    assert_eq!(number(&results, "/trials/0/generator/dropped"), 0.0);
    // The machine may be busy, but the counts must be right.
    assert!(number(&results, "/trials/0/generator/littles_law_error_pct") < 1.0);
    assert!(!reasons(&results).contains("books") && !reasons(&results).contains("dropped"));
}

#[test]
fn a_slow_target_does_not_make_the_generator_suspect() {
    // Two workers of 20 ms can do 100 per second. Three times as many are scheduled.
    let load = "agents = 40\nrate = 300\ntime = \"4s\"\ndrain = \"1s\"\ntimeout = \"60s\"";
    let sandbox = Sandbox::new();
    let results = played(&sandbox, "delay = \"20ms\", workers = 2", load);
    let (ok, others) = outcomes(&results);
    assert_eq!(ok + others, 1200.0);
    // No more than 100 per second can be done. The records show the number of seconds, including
    // the drain.
    let ended_s = seconds(&sandbox).iter().map(|row| row.at_s).fold(0.0, f64::max);
    assert!(ended_s >= 5.0 && ok <= 100.0 * ended_s + 2.0, "{ok} and {others} in {ended_s} s");
    assert_eq!(number(&results, "/trials/0/outcomes/unfinished"), others);
    assert_eq!(number(&results, "/trials/0/generator/dropped"), 0.0);
    assert!(number(&results, "/trials/0/generator/littles_law_error_pct") < 1.0);
    assert!(!reasons(&results).contains("books") && !reasons(&results).contains("dropped"));
    // The last operations waited for seconds. The queue of 40 limits only the service time.
    assert!(number(&results, "/trials/0/latency_us/max") > 2_000_000.0);
}

/// Returns the generator's records of each second.
fn seconds(sandbox: &Sandbox) -> Vec<GeneratorSecond> {
    let trial = record::folder::RunFolder::at(&sandbox.run_folder()).trial("001");
    record::rows::read(&trial.generator()).unwrap().items
}

/// Returns the operations that are due in each second, from the records of all threads.
fn due(sandbox: &Sandbox) -> Vec<u64> {
    let mut due = vec![0; 200];
    for row in seconds(sandbox) {
        due[(row.at_s - 1e-6).max(0.0) as usize] += row.due.unwrap();
    }
    while due.last() == Some(&0) {
        due.pop();
    }
    due
}

#[test]
fn a_staged_rate_schedules_the_right_operations_each_second() {
    let sandbox = Sandbox::new();
    // Integral of the rate over each second; the last rate holds. These are due times, so that a
    // busy machine does not matter.
    let stages = "[{ to = 200, over = \"2s\" }, { at = 50, for = \"1s\" }, { at = 0, for = \"1s\" }, { from = 300, to = 100, over = \"1s\" }]";
    let results = played(&sandbox, "", &format!("agents = 8\nrate = {stages}\ntime = \"6s\"\ndrain = \"60s\""));
    assert_eq!(due(&sandbox), [50, 150, 50, 0, 200, 100]);
    assert_eq!(outcomes(&results), (550.0, 0.0));
    assert!(number(&results, "/trials/0/generator/littles_law_error_pct") < 1.0);
    assert_eq!(number(&results, "/trials/0/steady/from_s"), 0.0, "what is to change is not waited for");
    assert!(!reasons(&results).contains("steady"), "{}", reasons(&results));
}

#[test]
fn a_recorded_schedule_is_found_beside_the_experiment() {
    let sandbox = Sandbox::new();
    sandbox.file("starts.csv", "at_s\n0\n0.5\n0.5\n1.25\n2.75\n");
    let results =
        played(&sandbox, "", "agents = 2\nrate = { replay = \"starts.csv\" }\ntime = \"3s\"\ndrain = \"60s\"");
    assert_eq!((due(&sandbox), outcomes(&results)), (vec![3, 1, 1], (5.0, 0.0)));
}

#[test]
fn an_invalid_recorded_schedule_is_a_bad_file() {
    let sandbox = Sandbox::new();
    sandbox.file("starts.csv", "at_s\n0\n2\n1\n");
    let file = sandbox.file(
        "replay.toml",
        "[target]\nuse = \"echo\"\n[load]\nagents = 1\ntime = \"3s\"\nrate = { replay = \"starts.csv\" }\n[[load.cycle]]\n\
         call = \"get\"\nwith = { path = \"/\" }\n",
    );
    sandbox.run(&[&file]).exits(2).says(&["starts.csv", "line 4: 1 comes after 2"]);
}

#[test]
fn dropped_operations_are_counted_and_reported() {
    for overflow in ["drop", "stop"] {
        let load =
            format!("agents = 20\nrate = 300\ntime = \"3s\"\ndrain = \"1s\"\nbacklog = 30\noverflow = \"{overflow}\"");
        let results = at_rate("delay = \"20ms\", workers = 2", &load);
        let (ok, others) = outcomes(&results);
        let dropped = number(&results, "/trials/0/generator/dropped");
        assert_eq!(ok + others + dropped, 900.0, "{overflow}: {ok} and {others} and {dropped}");
        assert!(dropped > 300.0, "{overflow}: {dropped}");
        assert!(reasons(&results).contains("were dropped: the backlog was full"), "{}", reasons(&results));
    }
}
