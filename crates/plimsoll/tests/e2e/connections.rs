//! Connections of agents, from the experiment file to the records: kept and shared, or made for
//! each operation.

use crate::sandbox::{Sandbox, number};

/// Returns the `ok` operations, and the connections that the generator counted, of a load at a
/// rate. Both are known beforehand.
fn played(load: &str) -> (f64, u64) {
    let sandbox = Sandbox::new();
    let file = sandbox.file(
        "connections.toml",
        format!(
            "title = \"Connections\"\nasks = \"How many are made?\"\n[target]\nuse = \"echo\"\n[load]\nagents = 8\nrate = 200\n\
             time = \"1s\"\ndrain = \"60s\"\n{load}\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
        ),
    );
    let results = sandbox.run(&[&file]).exits(0).json();
    let off_pct = number(&results, "/trials/0/generator/littles_law_error_pct");
    let rows = std::fs::read_to_string(sandbox.run_folder().join("trials/001/generator.csv")).unwrap();
    let trial = &results["trials"][0];
    assert!(off_pct < 1.0, "{load}: off by {off_pct} %: {rows}{} {}", trial["outcomes"], trial["verdict"]["reasons"]);
    let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let place = rows.next().unwrap().iter().position(|column| *column == "connects").unwrap();
    let connects = rows.map(|row| row[place].parse::<u64>().unwrap()).sum();
    (number(&results, "/trials/0/outcomes/ok"), connects)
}

#[test]
fn connections_are_kept_shared_or_made_per_operation() {
    assert_eq!(played(""), (200.0, 8));
    assert_eq!(played("pipeline = 4"), (200.0, 2));
    assert_eq!(played("keep_alive = false"), (200.0, 200));
}
