//! Programs under the engine: the outcome for each kind of end, and no program that outlives a
//! load.

use std::sync::Arc;
use std::time::Duration;

use experiment::plan::{MemberProgram, Step};
use fixture::TestDir;
use load::LoadOrder;
use load::client::{self, CallError};
use load::program_worker::{ProgramHost, ProgramResult, ProgramRunner};
use record::events::Outcome;

use crate::setting::{LoadRun, load, orders, pairs, play, step};

fn programs(time_s: f64, timeout_s: f64, steps: Vec<Step>) -> LoadOrder {
    let mut load = load(2, time_s, steps);
    load.timeout_s = timeout_s;
    LoadOrder { protocol: "command".into(), ..orders("", load) }
}

fn run(command: &str) -> Step {
    step("run", &[&format!("command={command}")])
}

fn ok(run: &LoadRun) -> bool {
    run.summary.ok > 0 && run.summary.failed + run.summary.wrong + run.summary.timeout == 0
}

#[test]
fn words_inputs_and_outputs() {
    let echo = Step {
        expect: pairs(&["stdout=agent {agent}, 'cycle' {seq}", "status=0", "stderr=", "cut=0"]),
        keep: pairs(&["said=answer.stdout"]),
        ..run("printf '%s, %s\\n' 'agent {agent}' \"'cycle' {seq}\"")
    };
    let cat = Step { expect: pairs(&["stdout={said}"]), ..step("run", &["command=cat", "stdin={said}\n\n"]) };
    assert!(ok(&play(programs(0.3, 30.0, vec![echo, cat]))));
}

#[test]
fn an_expected_exit_is_ok() {
    let expected = Step { expect: pairs(&["status=3", "stderr=no"]), ..run("sh -c 'echo no >&2; exit 3'") };
    assert!(ok(&play(programs(0.2, 30.0, vec![expected]))));
}

#[test]
fn each_kind_of_exit_has_its_own_result() {
    for (command, result) in [
        ("false", "answer: exit"),
        ("sh -c 'kill -KILL $$'", "answer: signal"),
        ("no-such-program-anywhere", "answer: not started"),
    ] {
        let run = play(programs(0.2, 30.0, vec![run(command)]));
        assert!(run.summary.failed > 0 && run.summary.ok == 0);
        assert_eq!(run.attempts(result), run.summary.failed, "{command}");
    }
}

#[test]
fn a_program_that_takes_too_long_is_killed() {
    let folder = TestDir::new();
    let note = folder.join("pids");
    let mut orders = programs(0.2, 2.0, vec![run(&format!("sh -c 'echo $$ >> {}; sleep 600'", note.display()))]);
    orders.load.drain_s = 30.0;
    let run = play(orders);
    assert!(run.summary.timeout > 0 && run.summary.ok == 0);
    let pids = std::fs::read_to_string(&note).unwrap();
    assert!(!pids.is_empty());
    wait_until_gone(&pids);
}

#[test]
fn no_program_outlives_the_load() {
    let folder = TestDir::new();
    let note = folder.join("pids");
    let mut orders = programs(0.3, 60.0, vec![run(&format!("sh -c 'echo $$ >> {}; sleep 600'", note.display()))]);
    orders.load.drain_s = 3.0;
    let run = play(orders);
    assert_eq!(run.summary.unfinished, 2);
    assert_eq!(run.times_ns(Outcome::Ok, record::hlog::Time::Latency), [0; 0]);
    let pids = std::fs::read_to_string(&note).unwrap();
    assert_eq!(pids.lines().count(), 2, "{pids}");
    wait_until_gone(&pids);
}

/// Waits until none of these processes is left.
fn wait_until_gone(pids: &str) {
    for pid in pids.lines() {
        fixture::until("it goes", || !fixture::is_alive(pid.parse().unwrap()));
    }
}

#[test]
fn single_calls_are_refused() {
    let refused = client::connect("command", "", Duration::from_secs(1)).err().unwrap();
    assert!(matches!(refused, CallError::Invalid(_)));
}

/// A program runner whose output is the command and its input. The program `wait` runs until the
/// caller ends it.
#[derive(Debug, Default)]
struct Member {
    given_up: std::sync::atomic::AtomicBool,
}

impl ProgramRunner for Member {
    fn run(
        &self,
        command: Vec<String>,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<ProgramResult, Option<String>> {
        match command[0].as_str() {
            "wait" => {
                while goes_on() {
                    std::thread::yield_now();
                }
                self.given_up.store(true, std::sync::atomic::Ordering::SeqCst);
                Err(None)
            }
            "missing" => Err(Some("n1 is down".to_owned())),
            _ => {
                Ok(ProgramResult { how: 0, stdout: format!("{} < {input}", command.join("|")), stderr: String::new() })
            }
        }
    }
}

fn on_member(runner: Option<Arc<dyn ProgramRunner>>, run: &[&str], step: Step) -> LoadOrder {
    let run = run.iter().map(|word| (*word).to_owned()).collect();
    let program = Some(MemberProgram { run, stdin: Some("{name}".to_owned()) });
    let host = ProgramHost {
        values: [("name".to_owned(), "n1".to_owned())].into(),
        folder: "/".into(),
        environment: [("PLIMSOLL_NAME".to_owned(), "n1".into())].into(),
        runner,
    };
    LoadOrder { hosts: vec![host], ..programs(0.3, 1.0, vec![Step { program, ..step }]) }
}

#[test]
fn the_members_runner_runs_programs_of_the_target() {
    let member: Arc<Member> = Arc::default();
    let said = Step { expect: pairs(&["stdout=set|k 1|n1 < n1"]), ..step("set", &["key=k 1"]) };
    assert!(ok(&play(on_member(Some(member.clone()), &["set", "{key}", "{name}"], said))));
    let run = play(on_member(Some(member.clone()), &["missing"], step("set", &[])));
    assert_eq!((run.attempts("answer: not started"), run.summary.ok), (run.summary.failed, 0));
    let mut orders = on_member(Some(member.clone()), &["wait"], step("set", &[]));
    orders.load.timeout_s = 0.05;
    let run = play(orders);
    assert!(
        run.summary.timeout > 0 && run.summary.ok == 0 && member.given_up.load(std::sync::atomic::Ordering::SeqCst)
    );
}

#[test]
fn programs_of_the_target_run_locally_without_a_runner() {
    let said = Step { expect: pairs(&["stdout=n1 / n1 k"]), ..step("set", &["key=k"]) };
    let run = ["sh", "-c", "echo $PLIMSOLL_NAME $(pwd) $(cat) $0", "{key}"];
    assert!(ok(&play(on_member(None, &run, said))));
    let orders = on_member(None, &["{nobody}"], step("set", &[]));
    assert!(
        load::check(&orders).unwrap_err().to_string().contains("{nobody} in `{nobody}` is not a known placeholder")
    );
    let orders = LoadOrder { hosts: Vec::new(), ..on_member(None, &["true"], step("set", &[])) };
    assert!(load::check(&orders).unwrap_err().to_string().contains("the target has no host"));
}
