//! Programs that misbehave: write without end, never end, close their streams, leave other
//! processes behind.

use load::LoadOrder;

use super::{IMPATIENCE_S, PATIENCE_S, balance, begun, in_time};
use crate::setting::{load, orders, pairs, play, step};

/// Program to run, its input, and the result.
type Program = (&'static str, &'static str, &'static str);

static PROGRAMS: &[Program] = &[
    ("cat /dev/zero", "", "timeout"),
    ("sh -c 'exec cat /dev/zero >&2'", "", "timeout"),
    ("sh -c 'cat /dev/zero & exec cat /dev/zero >&2'", "", "timeout"),
    ("sleep 600", "", "timeout"),
    ("sh -c 'trap \"\" TERM HUP INT; sleep 600'", "", "timeout"),
    ("sh -c 'exec >&- 2>&-; sleep 600'", "", "timeout"),
    ("sh -c 'exec <&-; sleep 600'", "{bytes:3000000}", "timeout"),
    ("sh -c 'kill -STOP $$'", "", "timeout"),
    ("sh -c 'exec >&- 2>&-'", "", "ok"),
    ("sh -c 'exec <&- >&- 2>&-; exit 3'", "{bytes:3000000}", "answer: exit"),
    ("true", "{bytes:3000000}", "ok"),
    ("head -c 9000000 /dev/zero", "", "ok"),
    ("sh -c 'head -c 9000000 /dev/zero >&2; kill -SEGV $$'", "", "answer: signal"),
    ("sh -c 'cat /dev/zero & echo hi'", "", "ok"),
    ("sh -c 'sleep 600 & sleep 600 & exit 0'", "", "ok"),
    ("sh -c 'kill -KILL 0'", "", "answer: signal"),
    ("/", "", "answer: not started"),
    ("/dev/null", "", "answer: not started"),
];

fn check((command, stdin, word): Program) {
    let run = begun(|time_s| {
        let mut with = vec![format!("command={command}")];
        if !stdin.is_empty() {
            with.push(format!("stdin={stdin}"));
        }
        let with: Vec<&str> = with.iter().map(String::as_str).collect();
        let mut step = step("run", &with);
        step.keep = pairs(&["kept=answer.stdout"]);
        let mut load = load(2, time_s, vec![step]);
        load.timeout_s = if word == "timeout" { IMPATIENCE_S } else { PATIENCE_S };
        load.drain_s = PATIENCE_S;
        let orders = LoadOrder { protocol: "command".into(), ..orders("", load) };
        in_time(command, move || play(orders))
    });
    assert_eq!(run.results().into_iter().collect::<Vec<_>>(), [word], "{command}");
    balance(command, &run);
}

#[test]
fn programs() {
    PROGRAMS.iter().copied().for_each(check);
}
