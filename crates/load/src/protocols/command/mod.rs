//! Programs, one for each operation. Nothing goes over a network: an order goes to an attendant of this process, which runs the program
//! (see `crate::attendant`), and what came of it comes back. Here is only how both are written down.

use experiment::catalog;

use super::{AboutData, Answer, Asked, Call, Cause, Progress, Protocol, Refusal};
use crate::values::words::Words;
use crate::values::{Values, write_decimal};

pub mod frames;
mod operations;

use frames::{How, Outcome, measured, take_measured};
pub use operations::INFO;

/// The longest answer that is taken for one: both outputs and what is around them.
const FRAME_LIMIT: usize = 4 * 1024 * 1024;
/// Numbers of the refusals.
const EXIT: u8 = 0;
const SIGNAL: u8 = 1;
const NOT_STARTED: u8 = 2;

/// This machine, and what its programs are to work on.
#[derive(Debug)]
pub struct Command {
    service: String,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    words: Words,
    stdin: Option<usize>,
    wants: Box<[Want]>,
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
    type Decoder = ();
    type Memory = ();

    /// Anything: programs are told, and know what it means.
    fn open(service: &str) -> Result<Self, String> {
        Ok(Self { service: service.to_owned() })
    }

    fn authority(&self) -> &str {
        &self.service
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let place = call.argument("command").ok_or("`run` needs a `command`")?;
        let words = Words::cut(&call.arguments[place].template).map_err(|wrong| format!("`command`: {wrong}"))?;
        if words.count() == 0 {
            return Err(
                "`command` is empty; write a program and its arguments, such as \"psql -c 'select 1'\"".to_owned()
            );
        }
        let wants = call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?;
        Ok(Request { words, stdin: call.argument("stdin"), wants })
    }

    /// Nobody knows.
    fn may_change(_request: &Request) -> bool {
        true
    }

    fn about_data(_failure: Cause) -> Option<AboutData> {
        None
    }

    fn encode(request: &Request, _id: u32, values: &Values<'_>, out: &mut Vec<u8>) {
        measured(out, |out| {
            let count = u32::try_from(request.words.count()).unwrap_or(u32::MAX);
            out.extend_from_slice(&count.to_be_bytes());
            let mut saying = request.words.say(&values.source);
            for _ in 0..count {
                measured(out, |out| saying.next_into(out));
            }
            if let Some(place) = request.stdin {
                measured(out, |out| values.write(place, out));
            }
        });
    }

    fn decode(_asked: &Asked<'_, Self>, (): &mut (), (): &mut (), input: &[u8], _ended: bool) -> Progress {
        let Some(length) = input.first_chunk::<4>() else { return Progress::More { used: 0 } };
        if u32::from_be_bytes(*length) as usize > FRAME_LIMIT {
            return Progress::Bad(Cause::TooLong);
        }
        let mut rest = input;
        let Some(frame) = take_measured(&mut rest) else { return Progress::More { used: 0 } };
        let Some(outcome) = Outcome::read(frame) else { return Progress::Bad(Cause::BadAnswer) };
        let result = match outcome.how {
            How::Exited(0) => Cause::Ok,
            How::Exited(_) => Cause::Answer(EXIT),
            How::Signalled(_) => Cause::Answer(SIGNAL),
            How::NotStarted => Cause::Answer(NOT_STARTED),
        };
        Progress::Answer(Answer { used: input.len() - rest.len(), result, reusable: true })
    }

    fn field<'a>(
        request: &'a Request,
        (): &'a (),
        want: usize,
        mut input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let outcome = Outcome::read(take_measured(&mut input)?)?;
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
        match take_measured(&mut input).and_then(Outcome::read) {
            Some(outcome) => status(outcome.how, scratch),
            None => b"?",
        }
    }
}

fn status(how: How, scratch: &mut Vec<u8>) -> &[u8] {
    let code = match how {
        How::Exited(code) => code,
        How::Signalled(signal) => {
            scratch.extend_from_slice(b"signal ");
            signal
        }
        How::NotStarted => return b"not started",
    };
    write_decimal(u64::from(code.unsigned_abs()), scratch);
    scratch
}

/// Without the line ends at its end, as shells take the output of a command.
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

#[cfg(test)]
mod tests;
