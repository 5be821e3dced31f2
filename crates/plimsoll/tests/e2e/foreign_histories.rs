//! `plimsoll audit` of histories that other programs wrote.

use std::fs;

use crate::sandbox::{Played, Sandbox};

/// Audits a history, which is called `history` in the output.
fn audit(sandbox: &Sandbox, text: &str, more: &[&str]) -> Played {
    let path = sandbox.path().join("history");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let played = sandbox.play(&[&["audit", path], more].concat());
    let shown = |text: String| text.replace(path, "history");
    Played { stdout: shown(played.stdout), stderr: shown(played.stderr), ..played }
}

/// Audits a history with this exit code and a text in its output.
fn audits(sandbox: &Sandbox, text: &str, code: i32, says: &str) {
    let said = audit(sandbox, text, &[]).exits(code).stdout;
    assert!(said.contains(says), "{said}");
}

const QUEUES: &str = r#"{:process 0, :type :invoke, :f :enqueue, :value [:a "x"]}
{:process 0, :type :ok, :f :enqueue, :value [:a "x"]}
{:process 0, :type :invoke, :f :enqueue, :value [:a "y"]}
{:process 0, :type :ok, :f :enqueue, :value [:a "y"]}
{:process 1, :type :invoke, :f :dequeue, :value [:a nil]}
{:process 1, :type :ok, :f :dequeue, :value [:a "y"]}
{:process 2, :type :invoke, :f :enqueue, :value [:b "x"]}
"#;

#[test]
fn violations_are_proved_by_lines_of_the_file() {
    let sandbox = Sandbox::new();
    let said = audit(&sandbox, QUEUES, &[]).exits(5).stdout;
    assert_eq!(
        said,
        r#"history: 4 operations on 2 queues: not linearizable (1 queue)

queue a: value "x" was in the queue before operation 2 enqueued value "y", but operation 3 took that one before value "x" was taken
  operation 1: lines 1 and 2: {:process 0, :type :ok, :f :enqueue, :value [:a "x"]}
  operation 2: lines 3 and 4: {:process 0, :type :ok, :f :enqueue, :value [:a "y"]}
  operation 3: lines 5 and 6: {:process 1, :type :ok, :f :dequeue, :value [:a "y"]}
"#
    );
    let said = audit(&sandbox, QUEUES, &["--any-order"]).exits(0).stdout;
    assert_eq!(said, "history: 4 operations on 2 queues: linearizable\n");
    let twice = QUEUES.replace("\"y\"", "\"x\"");
    let said = audit(&sandbox, &twice, &[]).exits(7).stdout;
    assert!(said.ends_with("undecided (1 queue)\n  queue a: a value was enqueued twice\n"), "{said}");
}

#[test]
fn sets_registers_and_logs_are_audited() {
    let sandbox = Sandbox::new();
    let set = "[{:process 0 :type :invoke :f :add :value 1} {:process 0 :type :ok :f :add :value 1}\n\
               {:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value #{1}}]";
    audits(&sandbox, set, 0, "2 operations on 1 set: linearizable");
    audits(&sandbox, &set.replace("#{1}", "#{}"), 5, "operation 2 did not read value 1");
    let register = "{:process 0 :type :invoke :f :read}\n{:process 0 :type :ok :f :read :value 5}\n";
    audit(&sandbox, register, &["--initial", "5"]).exits(0);
    audit(&sandbox, register, &[]).exits(5);
    audit(&sandbox, register, &["--initial", "five"]).exits(2).says(&["has the value five of --initial"]);
    let log = "INFO  jepsen.util - 1\t:invoke\t:write\t8\nINFO  jepsen.util - 1\t:ok\t:write\t8\n\
               INFO  jepsen.util - 2\t:invoke\t:read\tnil\nINFO  jepsen.util - 2\t:ok\t:read\t8\n";
    audits(&sandbox, log, 0, "2 operations on 1 register: linearizable");
    audit(&sandbox, &log.replace(":read\t8", ":read\t9"), &[]).exits(5);
}

#[test]
fn bad_files_are_named_line_by_line() {
    let sandbox = Sandbox::new();
    let broken = QUEUES
        .replace(":invoke, :f :enqueue, :value [:b", ":began, :f :enqueue, :value [:b")
        .replace("{:process 1, :type :ok", "{:process 7, :type :ok");
    audit(&sandbox, &broken, &[]).exits(2).says(&[
        "history: line 6: process 7 ends an operation that it did not start",
        "history: line 7: the type :began is none of",
        "expected a history of Jepsen in edn",
    ]);
    audit(&sandbox, "{:process 0\n", &[]).exits(2).says(&["history: line 1: a bracket is not closed"]);
    audit(&sandbox, "", &[]).exits(2).says(&["history: line 1: no operation of a client"]);
    audit(&sandbox, "{\"at_s\":1.0}\n", &[]).exits(2).says(&["`plimsoll analyze DIR`"]);
    sandbox.play(&["audit", "none"]).exits(2).says(&["cannot read none", "give a file"]);
}
