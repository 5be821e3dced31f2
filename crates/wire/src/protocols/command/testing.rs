//! Test data of programs: programs that misbehave, and the fuzz target of their orders and
//! outcomes.
#![allow(clippy::unwrap_used)]

use super::{Command, ProgramOutcome, ProgramRun, measured};
use crate::testing::TestedProtocol;
use crate::testing::hostile::HostileCase;

impl TestedProtocol for Command {
    const HOSTILE: &'static [HostileCase] = CASES;

    /// Encoding a decoded message gives the same bytes.
    fn fuzz(input: &[u8]) {
        if let Some(written) = outcome(input) {
            let (length, frame) = written.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_be_bytes(*length) as usize, frame.len());
            assert_eq!(outcome(frame).as_deref(), Some(&written[..]));
            // The encoding of the exit status may differ; the program's output may not.
            assert!(written.len() == input.len() + 4 && frame.ends_with(&input[6..]));
        }
        if let Some(order) = ProgramRun::read(input) {
            let mut written = vec![u8::from(order.on_member)];
            written.extend_from_slice(&u32::try_from(order.words.len()).unwrap().to_be_bytes());
            for part in order.words.into_iter().chain(order.stdin) {
                measured(&mut written, |written| written.extend_from_slice(part));
            }
            assert_eq!(written, input);
        }
    }
}

/// Reads a frame as a program's outcome and encodes it again. `None` if the frame is not valid.
fn outcome(frame: &[u8]) -> Option<Vec<u8>> {
    let mut written = Vec::new();
    ProgramOutcome::read(frame)?.write(&mut written);
    Some(written)
}

const fn program(with: &'static [&'static str], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "", call: "run", with, keep: Some("answer.stdout"), ..HostileCase::new(with[0], &[], ends) }
}

/// Programs that write without end, never end, close their streams, leave other processes behind.
static CASES: &[HostileCase] = &[
    program(&["command=cat /dev/zero"], &["timeout"]),
    program(&["command=sh -c 'exec cat /dev/zero >&2'"], &["timeout"]),
    program(&["command=sh -c 'cat /dev/zero & exec cat /dev/zero >&2'"], &["timeout"]),
    program(&["command=sleep 600"], &["timeout"]),
    program(&["command=sh -c 'trap \"\" TERM HUP INT; sleep 600'"], &["timeout"]),
    program(&["command=sh -c 'exec >&- 2>&-; sleep 600'"], &["timeout"]),
    program(&["command=sh -c 'exec <&-; sleep 600'", "stdin={bytes:3000000}"], &["timeout"]),
    program(&["command=sh -c 'kill -STOP $$'"], &["timeout"]),
    program(&["command=sh -c 'exec >&- 2>&-'"], &["ok"]),
    program(&["command=sh -c 'exec <&- >&- 2>&-; exit 3'", "stdin={bytes:3000000}"], &["answer: exit"]),
    program(&["command=true", "stdin={bytes:3000000}"], &["ok"]),
    program(&["command=head -c 9000000 /dev/zero"], &["ok"]),
    program(&["command=sh -c 'head -c 9000000 /dev/zero >&2; kill -SEGV $$'"], &["answer: signal"]),
    program(&["command=sh -c 'cat /dev/zero & echo hi'"], &["ok"]),
    program(&["command=sh -c 'sleep 600 & sleep 600 & exit 0'"], &["ok"]),
    program(&["command=sh -c 'kill -KILL 0'"], &["answer: signal"]),
    program(&["command=/"], &["answer: not started"]),
    program(&["command=/dev/null"], &["answer: not started"]),
];
