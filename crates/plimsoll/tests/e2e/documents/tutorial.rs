//! Test of the tutorial: saves the files that it says to save and runs its commands, in order, in
//! one shell.

use std::fs;
use std::path::PathBuf;

use fixture::free_address;
use serde_json::Value;

use crate::sandbox::{Sandbox, json, number, root};

/// Script before the page's commands. Verdicts and latencies on this machine do not stop the page,
/// and the search is short. The exit code of each command is noted.
const BEFORE: &str = r#"
real=$1
trap 'command kill $! 2> /dev/null || true' EXIT
# The next one listens on the same port.
kill() {
    command kill "$@"
    wait "$@" || true
}
plimsoll() {
    case $1 in
        run | hit | compare) set -- "$@" --accept ;;
    esac
    case $2 in
        find.toml) set -- "$@" --set find.trials=4 ;;
    esac
    code=0
    "$real" "$@" || code=$?
    echo "$code $*" >> codes
    [ "$code" != 5 ] || [ "$2" = fault.toml ] || [ "$1" = compare ] || code=0
    return $code
}
"#;

/// Turns the page into a script: its `sh` blocks, and the files to save or to extend. The paragraph
/// above a block names its file.
fn script(page: &str) -> String {
    let mut script = BEFORE.to_owned();
    let mut lines = page.lines();
    let mut paragraph = String::new();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            let begins = paragraph.ends_with("\n\n");
            paragraph = if begins { String::new() } else { paragraph } + line + "\n";
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let block = block.join("\n") + "\n";
        match language {
            "sh" => script.push_str(&block),
            // Another test reads this with the other recipes for builds.
            "yaml" => {}
            _ => {
                let mut names = paragraph.split('`').skip(1).step_by(2).filter(|name| name.contains('.'));
                let name = names.next().unwrap_or_else(|| panic!("a block without a file below: {paragraph}"));
                let how = if paragraph.contains("Add to the end of") { ">>" } else { ">" };
                script.push_str(&format!("cat {how} {name} <<'END OF BLOCK'\n{block}END OF BLOCK\n"));
            }
        }
        paragraph.clear();
    }
    script
}

/// Returns the results of the only run in a folder whose name ends with `end`.
fn results(sandbox: &Sandbox, runs: &str, end: &str) -> Value {
    let entries = fs::read_dir(sandbox.path().join(runs)).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = entries.filter(|path| path.display().to_string().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{runs}: {found:?}");
    json(&found[0].join("analysis.json"))
}

#[test]
fn all_commands_of_the_tutorial_work() {
    let port = free_address().port();
    let page = fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let mut sandbox = Sandbox::new();
    sandbox.file("tutorial.sh", script(&page.replace("8080", &port.to_string()).replace("\"10s\"", "\"4s\"")));
    let folder = sandbox.path().to_owned();
    sandbox.within("cd \"$0\" && exec timeout 900 sh -e tutorial.sh \"$1\"", &folder);
    let played = sandbox.play(&[]).exits(0);
    let codes = fs::read_to_string(folder.join("codes")).unwrap();
    assert_eq!(codes.lines().count(), 10, "{codes}");
    assert!(played.stdout.contains("\"id\": 1}"), "{}", played.stdout);

    let orders = results(&sandbox, "runs", "-orders");
    assert!(number(&orders, "/trials/0/operations/look/outcomes/ok") > 0.0);
    assert_eq!(number(&orders, "/trials/0/outcomes/wrong"), 0.0);
    let sweep = results(&sandbox, "runs/sweep", "-orders");
    assert_eq!(sweep["trials"].as_array().unwrap().len(), 3);
    assert!(played.stdout.contains("load.agents"), "no row for each trial: {}", played.stdout);
    let find = results(&sandbox, "runs/find", "-orders");
    assert_eq!(find["safe_loads"][0]["over"], "load.rate");
    let limits = results(&sandbox, "runs/limits", "-orders");
    assert_eq!(limits["requirements"].as_array().unwrap().len(), 2);
    assert!(fs::read_to_string(folder.join("limits.xml")).unwrap().contains("failed_pct"));

    let fault = results(&sandbox, "runs/fault", "-orders");
    assert!(number(&fault, "/trials/0/faults/0/outage/failed") > 0.0);
    assert!(played.stdout.contains("the run says 5"), "{codes}");
    assert!(!folder.join("no-database").exists(), "the fault was healed");
    // A target that is five times as slow never passes, even with few turns.
    assert!(["the gate says 5", "the gate says 7"].iter().any(|said| played.stdout.contains(said)), "{codes}");
    assert!(fs::read_to_string(folder.join("change.md")).unwrap().contains("slower"));
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
}
