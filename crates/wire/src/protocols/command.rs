//! Programs as operations, one program per operation. Nothing goes over a network: an order goes to
//! a worker thread of this process, which runs the program and returns its outcome (see
//! `crate::program_worker`). This file defines only the encoding of orders and outcomes.

use std::collections::BTreeMap;

use experiment::catalog::{self, Effect, Field, Operation};

use super::{AboutData, Call, Protocol};
use crate::cause::{AttemptCause, Refusal};
use crate::in_order::{InOrderProtocol, Progress};
use crate::session::{Answer, RequestContext};
use crate::values::allowed::NotSendable;
use crate::values::words::TemplateWords;
use crate::values::{OperationValues, write_decimal};

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "command",
    schemes: &[],
    help: "one program run on this machine for each operation",
    operations: &[Operation {
        name: "run",
        help: "runs a program and waits for its end; an exit status other than 0 fails the operation, unless that \
               status is expected",
        takes: &[
            Field {
                name: "command",
                help: "the program and its arguments, split at blanks, without a shell: '…' and \"…\" group words, a \
                       backslash escapes the next character, and a placeholder's value is never split",
                required: true,
            },
            Field { name: "stdin", help: "the standard input; default: empty", required: false },
        ],
        answers: &[
            Field {
                name: "status",
                help: "the exit status, `0` for success; `signal N` if a signal ended it; `not started`",
                required: false,
            },
            Field {
                name: "stdout",
                help: "the standard output, without line ends at its end, cut off after 1 MiB",
                required: false,
            },
            Field {
                name: "stderr",
                help: "the standard error, shortened in the same way, or the reason why the program was not started",
                required: false,
            },
            Field { name: "cut", help: "1 if the output or the error was longer than 1 MiB, else 0", required: false },
        ],
        effect: Effect::None,
    }],
};

/// Longest accepted answer, bytes: both outputs and the other fields.
const FRAME_LIMIT: usize = 4 * 1024 * 1024;
/// Indexes into [`Protocol::REFUSALS`].
const EXIT: u8 = 0;
const SIGNAL: u8 = 1;
const NOT_STARTED: u8 = 2;

/// The service that the programs get in their environment.
#[derive(Debug)]
pub struct Command {
    service: String,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    run: RunTemplate,
    wants: Box<[Want]>,
}

/// The program of a step.
#[derive(Debug)]
enum RunTemplate {
    /// A program from the experiment, which runs on the client's machine. `stdin` is an index of an
    /// argument.
    Here { words: TemplateWords, stdin: Option<usize> },
    /// A program that the target names, on the member's host.
    OnMember { words: Box<[Box<[WordPart]>]>, stdin: Option<Box<[WordPart]>> },
}

/// A part of a word of the target's command.
#[derive(Debug, PartialEq, Eq)]
enum WordPart {
    Text(Box<[u8]>),
    /// Index of an argument.
    Argument(usize),
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Stdout,
    Stderr,
    Cut,
}

impl Protocol for Command {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[
        Refusal { name: "exit", harmless: false },
        Refusal { name: "signal", harmless: false },
        Refusal { name: "not started", harmless: true },
    ];
    const RUNS_PROGRAMS: bool = true;
    type Request = Request;

    /// Accepts any text. Only the programs interpret the text.
    fn open(service: &str) -> Result<Self, String> {
        Ok(Self { service: service.to_owned() })
    }

    fn authority(&self) -> &str {
        &self.service
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        let wants = call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?;
        if let Some((program, values)) = call.program {
            let words = program.run.iter().map(|word| parts(word, call, values)).collect::<Result<_, _>>()?;
            let stdin = program.stdin.as_ref().map(|text| parts(text, call, values)).transpose()?;
            return Ok(Request { run: RunTemplate::OnMember { words, stdin }, wants });
        }
        call.check()?;
        let place = call.argument("command").ok_or("`run` needs a `command`")?;
        let words =
            TemplateWords::cut(&call.arguments[place].template).map_err(|wrong| format!("`command`: {wrong}"))?;
        if words.count() == 0 {
            return Err(
                "`command` is empty; write a program and its arguments, such as \"psql -c 'select 1'\"".to_owned()
            );
        }
        Ok(Request { run: RunTemplate::Here { words, stdin: call.argument("stdin") }, wants })
    }

    /// A program may change data; Plimsoll cannot tell.
    fn may_change(_request: &Request) -> bool {
        true
    }

    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl InOrderProtocol for Command {
    type Decoder = ();
    type Memory = ();

    /// Writes the length before every value. Arguments that the system does not accept fail when
    /// the program starts.
    fn encode(request: &Request, _id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        measured(out, |out| match &request.run {
            RunTemplate::Here { words, stdin } => {
                let count = begin_order(false, words.count(), out);
                let mut saying = words.say(&values.source);
                for _ in 0..count {
                    measured(out, |out| saying.next_into(out));
                }
                if let Some(place) = stdin {
                    measured(out, |out| values.write(*place, out));
                }
            }
            RunTemplate::OnMember { words, stdin } => {
                begin_order(true, words.len(), out);
                for parts in words.iter().chain(stdin) {
                    measured(out, |out| parts.iter().for_each(|part| part.write(values, out)));
                }
            }
        });
        Ok(())
    }

    fn decode(_asked: &RequestContext<'_, Self>, (): &mut (), (): &mut (), input: &[u8], _ended: bool) -> Progress {
        let Some(length) = input.first_chunk::<4>() else { return Progress::More { used: 0 } };
        if u32::from_be_bytes(*length) as usize > FRAME_LIMIT {
            return Progress::Bad(AttemptCause::TooLong);
        }
        let mut rest = input;
        let Some(frame) = take_measured(&mut rest) else { return Progress::More { used: 0 } };
        let Some(outcome) = ProgramOutcome::read(frame) else { return Progress::Bad(AttemptCause::BadAnswer) };
        let result = match outcome.how {
            ProgramExit::Exited(0) => AttemptCause::Ok,
            ProgramExit::Exited(_) => AttemptCause::Answer(EXIT),
            ProgramExit::Signalled(_) => AttemptCause::Answer(SIGNAL),
            ProgramExit::NotStarted => AttemptCause::Answer(NOT_STARTED),
        };
        Progress::Answer(Answer { used: input.len() - rest.len(), result, reusable: true, is_costly: false })
    }

    fn field<'a>(
        request: &'a Request,
        (): &'a (),
        want: usize,
        mut input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let outcome = ProgramOutcome::read(take_measured(&mut input)?)?;
        Some(match request.wants.get(want)? {
            Want::Status => status(outcome.how, scratch),
            Want::Stdout => trimmed(outcome.stdout),
            Want::Stderr => trimmed(outcome.stderr),
            Want::Cut if outcome.is_cut => b"1",
            Want::Cut => b"0",
        })
    }

    fn rest((): &mut (), (): &mut ()) {}

    fn status<'a>((): &'a (), mut input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match take_measured(&mut input).and_then(ProgramOutcome::read) {
            Some(outcome) => status(outcome.how, scratch),
            None => b"?",
        }
    }
}

/// Parses a word of the target's command. `{NAME}` is an argument or a value of the member's host.
fn parts(word: &str, call: &Call<'_>, values: &BTreeMap<String, String>) -> Result<Box<[WordPart]>, String> {
    let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), word);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = (&rest[..at], &rest[at..=at]);
        text.push_str(before);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
            continue;
        }
        let found = rest.split_once('}').filter(|_| brace == "{");
        let (name, after) = found.ok_or_else(|| format!("`{word}` has an unmatched brace"))?;
        rest = after;
        if let Some(place) = call.argument(name) {
            parts.push(WordPart::Text(std::mem::take(&mut text).into_bytes().into()));
            parts.push(WordPart::Argument(place));
        } else {
            text.push_str(
                values.get(name).ok_or_else(|| format!("{{{name}}} in `{word}` is not a known placeholder"))?,
            );
        }
    }
    text.push_str(rest);
    parts.push(WordPart::Text(text.into_bytes().into()));
    parts.retain(|part| !matches!(part, WordPart::Text(text) if text.is_empty()));
    Ok(parts.into())
}

impl WordPart {
    fn write(&self, values: &OperationValues<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Argument(place) => values.write(*place, out),
        }
    }
}

/// Appends the host on which the program runs, and the number of words.
fn begin_order(on_member: bool, count: usize, out: &mut Vec<u8>) -> u32 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    out.push(u8::from(on_member));
    out.extend_from_slice(&count.to_be_bytes());
    count
}

fn status(how: ProgramExit, scratch: &mut Vec<u8>) -> &[u8] {
    let code = match how {
        ProgramExit::Exited(code) => code,
        ProgramExit::Signalled(signal) => {
            scratch.extend_from_slice(b"signal ");
            signal
        }
        ProgramExit::NotStarted => return b"not started",
    };
    write_decimal(u64::from(code.unsigned_abs()), scratch);
    scratch
}

/// Removes trailing line ends, as shells do with the output of a command.
fn trimmed(output: &[u8]) -> &[u8] {
    let end = output.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    &output[..end]
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            "cut" => Self::Cut,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

/// Size of a length field, bytes.
const LENGTH: usize = 4;
/// Size of an outcome before the outputs, bytes: kind of exit, code, cut flag, length of the
/// standard output.
const HEAD: usize = 1 + 4 + 1 + LENGTH;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun<'a> {
    /// Whether the program runs on the member's host.
    pub on_member: bool,
    /// The program and its arguments.
    pub words: Vec<&'a [u8]>,
    /// Standard input of the program.
    pub stdin: Option<&'a [u8]>,
}

/// Outcome of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutcome<'a> {
    pub how: ProgramExit,
    /// Whether bytes beyond the kept output were dropped.
    pub is_cut: bool,
    pub stdout: &'a [u8],
    /// Standard error, or the reason why the program did not start.
    pub stderr: &'a [u8],
}

/// The way in which a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    /// Ended with this status.
    Exited(i32),
    /// Ended by this signal.
    Signalled(i32),
    /// The program did not start.
    NotStarted,
}

/// Appends the length of the bytes that `write` produces, and then the bytes.
pub fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let hole = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    write(out);
    let length = u32::try_from(out.len() - hole - LENGTH).unwrap_or(u32::MAX);
    out[hole..][..LENGTH].copy_from_slice(&length.to_be_bytes());
}

/// Splits off a value that follows its length. Returns `None` if bytes are missing.
fn take_measured<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let (taken, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(taken)
}

impl<'a> ProgramRun<'a> {
    /// Reads an order: place, number of words, words, and optionally the standard input.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let (place, mut frame) = frame.split_first()?;
        let (count, rest) = frame.split_first_chunk::<LENGTH>()?;
        frame = rest;
        let count = u32::from_be_bytes(*count);
        let words = (0..count).map_while(|_| take_measured(&mut frame)).collect::<Vec<_>>();
        if words.len() != count as usize {
            return None;
        }
        let stdin = if frame.is_empty() { None } else { Some(take_measured(&mut frame)?) };
        (frame.is_empty() && *place <= 1).then_some(Self { on_member: *place == 1, words, stdin })
    }
}

impl<'a> ProgramOutcome<'a> {
    /// Appends the outcome as a frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, code) = match self.how {
            ProgramExit::Exited(code) => (0, code),
            ProgramExit::Signalled(signal) => (1, signal),
            ProgramExit::NotStarted => (2, 0),
        };
        measured(out, |out| {
            out.push(kind);
            out.extend_from_slice(&code.to_be_bytes());
            out.push(u8::from(self.is_cut));
            measured(out, |out| out.extend_from_slice(self.stdout));
            out.extend_from_slice(self.stderr);
        });
    }

    /// Reads an outcome from a frame.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let (head, _) = frame.split_first_chunk::<HEAD>()?;
        let [kind, a, b, c, d, cut, ..] = *head;
        let code = i32::from_be_bytes([a, b, c, d]);
        let how = match kind {
            0 => ProgramExit::Exited(code),
            1 => ProgramExit::Signalled(code),
            2 => ProgramExit::NotStarted,
            _ => return None,
        };
        let mut outputs = &frame[HEAD - LENGTH..];
        let stdout = take_measured(&mut outputs)?;
        Some(Self { how, is_cut: cut == 1, stdout, stderr: outputs })
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

    const WANTS: [&str; 4] = ["status", "stdout", "stderr", "cut"];

    fn compiled(with: &[(&str, &str)]) -> Compiled<Command> {
        compile(&Command::open("").unwrap(), "run", with, &WANTS).unwrap()
    }

    fn told(how: ProgramExit, is_cut: bool, stdout: &str, stderr: &str) -> Vec<u8> {
        let mut out = Vec::new();
        ProgramOutcome { how, is_cut, stdout: stdout.as_bytes(), stderr: stderr.as_bytes() }.write(&mut out);
        out
    }

    fn seen(result: AttemptCause, fields: [&str; 4]) -> Seen {
        Seen::answer(result, true, fields[0], &fields.map(Some))
    }

    #[test]
    fn orders_byte_for_byte() {
        let plain = encode(&compiled(&[("command", "true")]), 1);
        assert_eq!(plain, b"\0\0\0\x0d\0\0\0\0\x01\0\0\0\x04true");
        let table = [
            (&[("command", "echo 'a b' {agent}")][..], &["echo", "a b", "3"][..], None),
            (&[("command", "cat"), ("stdin", "{seq}\n")], &["cat"], Some("12\n")),
            (&[("command", "cat"), ("stdin", "")], &["cat"], Some("")),
            (&[("command", "x ''")], &["x", ""], None),
        ];
        for (with, words, stdin) in table {
            let bytes = encode(&compiled(with), 1);
            let mut rest = bytes.as_slice();
            let order = ProgramRun::read(take_measured(&mut rest).unwrap()).unwrap();
            assert!(rest.is_empty() && !order.on_member);
            assert_eq!(order.words, words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
            assert_eq!(order.stdin, stdin.map(str::as_bytes));
        }
    }

    #[test]
    fn programs_named_by_the_target() {
        let names = crate::testing::names;
        let argument = |(name, text): (&str, &str)| crate::values::Argument {
            name: name.to_owned(),
            template: crate::values::CompiledTemplate::compile(text, 0, &names()).unwrap(),
        };
        let arguments = [("key", "k-{agent} '"), ("value", "{seq}")].map(argument);
        let values = BTreeMap::from([("name", "n1"), ("target", "/t")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        let encoded = |run: &[&str], stdin: Option<&str>| {
            let run = run.iter().map(|word| (*word).to_owned()).collect();
            let program = experiment::plan::MemberProgram { run, stdin: stdin.map(str::to_owned) };
            let (operation, program) = (&INFO.operations[0], Some((&program, &values)));
            let call = Call {
                number: 0,
                operation,
                arguments: &arguments,
                wants: &[],
                program,
                closes: false,
                cookies: false,
                cookie_host: "",
                follow: 0,
                stream: None,
            };
            let request = Command::open("").unwrap().compile(&call)?;
            let source = crate::testing::source(3, 12);
            let mut out = Vec::new();
            Command::encode(
                &request,
                1,
                &OperationValues { source, arguments: &arguments, cookies: None, redirection: None },
                &mut out,
            )
            .unwrap();
            Ok::<_, String>(out)
        };
        let bytes = encoded(&["{target}/set", "{key}={value}", "{{x}} on {name}", ""], Some("<{value}>")).unwrap();
        let order = ProgramRun::read(&bytes[4..]).unwrap();
        let words: [&[u8]; 4] = [b"/t/set", b"k-3 '=12", b"{x} on n1", b""];
        assert_eq!((order.on_member, order.words.as_slice(), order.stdin), (true, &words[..], Some(&b"<12>"[..])));
        assert_eq!(encoded(&["{other}"], None).unwrap_err(), "{other} in `{other}` is not a known placeholder");
        assert_eq!(encoded(&["{key"], None).unwrap_err(), "`{key` has an unmatched brace");
    }

    #[test]
    fn invalid_orders_are_refused() {
        for with in [
            &[][..],
            &[("command", "")],
            &[("command", "  ")],
            &[("command", "echo 'a")],
            &[("command", "echo"), ("shell", "sh")],
        ] {
            assert!(compile(&Command::open("").unwrap(), "run", with, &[]).is_err(), "{with:?}");
        }
    }

    #[test]
    fn outcomes() {
        let run = compiled(&[("command", "x")]);
        let table = [
            (told(ProgramExit::Exited(0), false, "42\n", ""), seen(AttemptCause::Ok, ["0", "42", "", "0"])),
            (
                told(ProgramExit::Exited(0), true, "\n\na\nb\n\n", "e\n"),
                seen(AttemptCause::Ok, ["0", "\n\na\nb", "e", "1"]),
            ),
            (told(ProgramExit::Exited(0), false, "\n", ""), seen(AttemptCause::Ok, ["0", "", "", "0"])),
            (told(ProgramExit::Exited(3), false, "", "no"), seen(AttemptCause::Answer(EXIT), ["3", "", "no", "0"])),
            (
                told(ProgramExit::Signalled(9), false, "", ""),
                seen(AttemptCause::Answer(SIGNAL), ["signal 9", "", "", "0"]),
            ),
            (
                told(ProgramExit::NotStarted, false, "", "why"),
                seen(AttemptCause::Answer(NOT_STARTED), ["not started", "", "why", "0"]),
            ),
            (b"\xff\xff\xff\xff".to_vec(), Seen::Bad(AttemptCause::TooLong)),
            (b"\0\0\0\x01x".to_vec(), Seen::Bad(AttemptCause::BadAnswer)),
            (b"\0\0\0\x0a\x07\0\0\0\0\0\0\0\0\0".to_vec(), Seen::Bad(AttemptCause::BadAnswer)),
            (b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\x01".to_vec(), Seen::Bad(AttemptCause::BadAnswer)),
        ];
        for (bytes, expected) in table {
            assert_eq!(is_the_same_in_pieces(&run, 1, &bytes, false), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            feed(&compiled(&[("command", "x")]), &mut (), 1, &[left, right], ends);
            // Any bytes can be read as an order without a panic.
            let _ = ProgramRun::read(&bytes);
        }
    }
}
