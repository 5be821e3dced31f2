//! The frames of the target `vsns` (`targets/vsns/PROTOCOL.md`), answered as a name service that holds no name. It must
//! not store anything: a `load` is answered with its own key, so that a client can tell one answer from another.

#[cfg(test)]
mod tests;

use super::{Codec, Step, Then};
use crate::{Options, Protocol};

/// The server's side of the frames.
#[derive(Debug)]
pub(crate) struct Vsns {
    frame_limit_bytes: u32,
}

/// The statuses that this server uses.
mod status {
    pub const OK: u8 = 0;
    pub const BAD_REQUEST: u8 = 2;
    pub const UNAVAILABLE: u8 = 3;
    pub const TOO_LARGE: u8 = 5;
}

impl Codec for Vsns {
    const PROTOCOL: Protocol = Protocol::Vsns;

    type Memory = ();

    fn new(options: &Options) -> Self {
        Self { frame_limit_bytes: u32::try_from(options.frame_limit_bytes).unwrap_or(u32::MAX) }
    }

    fn advance(&mut self, (): &mut (), input: &[u8], failing: bool, answers: &mut Vec<u8>) -> Step {
        let Some((length, rest)) = u32_at_front(input) else { return Step::new(0, Then::Wait) };
        if length > self.frame_limit_bytes {
            let Some((id, _)) = u32_at_front(rest) else { return Step::new(0, Then::Wait) };
            append(answers, id, status::TOO_LARGE, &[]);
            return Step::new(input.len(), Then::Refuse);
        }
        let Some(frame) = rest.get(..length as usize) else { return Step::new(0, Then::Wait) };
        answer(frame, failing, answers);
        Step::new(4 + frame.len(), Then::Next)
    }
}

fn answer(frame: &[u8], failing: bool, answers: &mut Vec<u8>) {
    let Some((id, request)) = u32_at_front(frame) else {
        append(answers, 0, status::BAD_REQUEST, b"no request id");
        return;
    };
    match body(request) {
        Err(why) => append(answers, id, status::BAD_REQUEST, why.as_bytes()),
        Ok(_) if failing => append(answers, id, status::UNAVAILABLE, b"told to fail"),
        Ok(body) => append(answers, id, status::OK, body),
    }
}

/// The body of the answer `ok`, or why the request is a bad one.
fn body(request: &[u8]) -> Result<&[u8], &'static str> {
    const UNFIT: &str = "the fields do not fit the opcode";
    let (opcode, fields) = request.split_first().ok_or("no opcode")?;
    match opcode {
        1..=3 => {
            let (_space, fields) = name(fields).ok_or(UNFIT)?;
            let (key, fields) = name(fields).ok_or(UNFIT)?;
            if key.is_empty() {
                return Err("the key is empty");
            }
            let (body, fields) = match opcode {
                1 => (&[][..], value(fields).ok_or(UNFIT)?.1),
                2 => (key, fields),
                _ => (&[1][..], fields),
            };
            if fields.is_empty() { Ok(body) } else { Err(UNFIT) }
        }
        4 => {
            let (_space, fields) = name(fields).ok_or(UNFIT)?;
            match name(fields).ok_or(UNFIT)?.1 {
                [0, 0] => Err("limit is 0"),
                [_, _] => Ok(&[0, 0, 0, 0, 0]),
                _ => Err(UNFIT),
            }
        }
        5 => match name(fields) {
            Some((_space, [])) => Ok(&[0, 0, 0, 0]),
            _ => Err(UNFIT),
        },
        7 if fields.is_empty() => Ok(b"{}"),
        6 | 8 if fields.is_empty() => Ok(&[]),
        6..=8 => Err(UNFIT),
        _ => Err("unknown opcode"),
    }
}

fn append(answers: &mut Vec<u8>, id: u32, status: u8, body: &[u8]) {
    // A body is at most a key, whose length is a u16.
    let length = u32::try_from(5 + body.len()).unwrap_or(u32::MAX);
    answers.extend_from_slice(&length.to_be_bytes());
    answers.extend_from_slice(&id.to_be_bytes());
    answers.push(status);
    answers.extend_from_slice(body);
}

/// A space, a key: bytes behind their `u16` length.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// A value: bytes behind their `u32` length.
fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = u32_at_front(bytes)?;
    rest.split_at_checked(length as usize)
}

fn u32_at_front(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}
