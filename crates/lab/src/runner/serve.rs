//! The runner's end: reads what it is told, line by line, has each order carried out on a
//! thread of its own, and undoes everything when its input ends.

mod init;
mod orders;
mod processes;
mod programs;
mod room;
mod voice;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use super::{ORDER_BYTES, Order, Refusal, Request, Said, Setup, VERSION};
use crate::hosts::netns;
use orders::Runner;
use voice::Voice;

/// Is the runner of a host: `plimsoll runner`, on its standard input and output. `inside` is the second start, in a host
/// that the first has made. Gives the exit code.
#[must_use]
pub fn serve(inside: bool, mut input: File, output: File) -> u8 {
    if inside && rustix::process::getpid().is_init() {
        return init::be().unwrap_or(1);
    }
    let voice = Voice::new(Box::new(output));
    // Byte by byte: what follows the line is for whoever gets this input next.
    let setup = match setup(&mut input) {
        Ok(setup) => setup,
        Err(reason) => return failed(&voice, reason),
    };
    if setup.isolation.is_some() && !inside && setup.version == VERSION {
        let kept = input.try_clone().map_err(|error| error.to_string()).and_then(|input| netns::keep(&setup, input));
        match kept {
            Ok(Some(code)) => return u8::try_from(code).unwrap_or(1),
            // The host is made, and we are its runner.
            Ok(None) => {}
            Err(reason) => return failed(&voice, reason),
        }
    }
    serve_on(&setup, BufReader::new(input), voice)
}

fn failed(voice: &Voice, reason: String) -> u8 {
    voice.say(&Said::Failed { reason });
    1
}

fn setup(input: &mut impl Read) -> Result<Setup, String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && line.len() as u64 <= ORDER_BYTES {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot read what the host is to be: {error}")),
        }
    }
    serde_json::from_slice(&line).map_err(|error| match version_of(&line) {
        Some(version) if version != VERSION => other_version(&version),
        _ => format!("cannot understand what the host is to be: {error}"),
    })
}

/// Of a setup that another version may have written in another way.
fn version_of(line: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<serde_json::Value>(line).ok()?.get("version")?.as_str()?.to_owned())
}

fn other_version(asked: &str) -> String {
    format!("its runner is of version {VERSION}, and {asked} was asked for")
}

/// Serves one conversation to its end. `input` stands after the setup.
fn serve_on(setup: &Setup, mut input: impl BufRead, voice: Arc<Voice>) -> u8 {
    if setup.version != VERSION {
        return failed(&voice, other_version(&setup.version));
    }
    let runner = match Runner::begin(setup, Arc::clone(&voice)) {
        Ok(runner) => Arc::new(runner),
        Err(reason) => return failed(&voice, reason),
    };
    let ending = listen(&runner, &mut input, &voice);
    runner.end();
    match ending {
        Ending::Asked(number) => voice.done(number),
        Ending::Silent => {}
        Ending::Nonsense => return 1,
    }
    0
}

/// Why a conversation is over.
enum Ending {
    /// It was asked to end, by this request.
    Asked(u64),
    /// Nobody speaks to it any more.
    Silent,
    /// What it hears is not meant for it.
    Nonsense,
}

fn listen(runner: &Arc<Runner>, input: &mut impl BufRead, voice: &Voice) -> Ending {
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(ORDER_BYTES).read_until(b'\n', &mut line) {
            // A line without its end was cut off with the conversation.
            Ok(_) if !line.ends_with(b"\n") => return Ending::Silent,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ending::Silent,
        }
        match serde_json::from_slice(&line) {
            Ok(Request { number, order: Order::End }) => return Ending::Asked(number),
            Ok(request) => Runner::take(runner, request),
            Err(error) => match number_of(&line) {
                Some(number) => voice.refused(number, Refusal::system("understand an order", &error)),
                None => return Ending::Nonsense,
            },
        }
    }
}

/// Of an order that is not understood, so that it can be refused.
fn number_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(line).ok()?.get("number")?.as_u64()
}

impl Refusal {
    /// The system refused.
    pub(crate) fn system(doing: impl Into<String>, error: &impl ToString) -> Self {
        Self::System { doing: doing.into(), error: error.to_string() }
    }
}

/// A runner on a thread of this process, for tests.
#[cfg(test)]
pub fn beside(mut input: io::PipeReader, output: io::PipeWriter) -> std::thread::JoinHandle<u8> {
    let serve = move || {
        let voice = Voice::new(Box::new(output));
        match setup(&mut input) {
            Ok(setup) => serve_on(&setup, BufReader::new(input), voice),
            Err(reason) => failed(&voice, reason),
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap()
}

#[cfg(test)]
mod tests;
