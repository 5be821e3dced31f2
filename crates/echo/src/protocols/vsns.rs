//! Frames of the target `vsns` (`targets/vsns/PROTOCOL.md`), answered like a name service without
//! names.

use super::{Codec, CodecStep, NextAction};
use crate::{Options, ServedProtocol};

/// Server side of the `vsns` frames.
#[derive(Debug)]
pub(crate) struct VsnsCodec {
    frame_limit_bytes: u32,
}

/// Statuses that this server uses.
mod status {
    pub const OK: u8 = 0;
    pub const BAD_REQUEST: u8 = 2;
    pub const UNAVAILABLE: u8 = 3;
    pub const TOO_LARGE: u8 = 5;
}

impl Codec for VsnsCodec {
    const PROTOCOL: ServedProtocol = ServedProtocol::Vsns;

    type Memory = ();

    fn new(options: &Options) -> Self {
        Self { frame_limit_bytes: u32::try_from(options.frame_limit_bytes).unwrap_or(u32::MAX) }
    }

    fn advance(&mut self, (): &mut (), input: &[u8], failing: bool, answers: &mut Vec<u8>) -> CodecStep {
        let Some((length, rest)) = u32_at_front(input) else { return CodecStep::new(0, NextAction::Wait) };
        if length > self.frame_limit_bytes {
            let Some((id, _)) = u32_at_front(rest) else { return CodecStep::new(0, NextAction::Wait) };
            append(answers, id, status::TOO_LARGE, &[]);
            return CodecStep::new(input.len(), NextAction::Refuse);
        }
        let Some(frame) = rest.get(..length as usize) else { return CodecStep::new(0, NextAction::Wait) };
        answer(frame, failing, answers);
        CodecStep::new(4 + frame.len(), NextAction::Next)
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

/// Returns the body of an `ok` answer, or the reason why the request is invalid.
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

/// Splits off a space or a key: bytes after their `u16` length.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Splits off a value: bytes after their `u32` length.
fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = u32_at_front(bytes)?;
    rest.split_at_checked(length as usize)
}

fn u32_at_front(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::VsnsCodec;
    use crate::Options;
    use crate::protocols::{Codec, CodecStep, NextAction};

    fn advance(input: &[u8], failing: bool) -> (CodecStep, Vec<u8>) {
        let mut answers = Vec::new();
        let mut vsns = VsnsCodec::new(&Options { frame_limit_bytes: 1000, ..Options::default() });
        let step = vsns.advance(&mut (), input, failing, &mut answers);
        (step, answers)
    }

    /// Makes a frame around a body.
    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        [&u32::try_from(body.len()).unwrap().to_be_bytes(), &body[..]].concat()
    }

    const ID: &[u8] = &[0, 0, 0, 7];

    #[test]
    fn the_example_of_the_description() {
        let save = b"\0\0\0\x12\0\0\0\x07\x01\0\x02a1\0\x01k\0\0\0\x02hi";
        assert_eq!(advance(save, false), (CodecStep::new(22, NextAction::Next), b"\0\0\0\x05\0\0\0\x07\0".to_vec()));
        let load = b"\0\0\0\x0c\0\0\0\x08\x02\0\x02a1\0\x01k";
        assert_eq!(advance(load, false), (CodecStep::new(16, NextAction::Next), b"\0\0\0\x06\0\0\0\x08\0k".to_vec()));
    }

    #[test]
    fn each_operation_has_its_answer() {
        let table: [(&[u8], &[u8]); 8] = [
            (b"\x01\0\0\0\x01k\0\0\0\0", b""),
            (b"\x02\0\x01s\0\x03key", b"key"),
            (b"\x03\0\x01s\0\x03key", b"\x01"),
            (b"\x04\0\x01s\0\0\0\x0a", b"\0\0\0\0\0"),
            (b"\x05\0\x01s", b"\0\0\0\0"),
            (b"\x06", b""),
            (b"\x07", b"{}"),
            (b"\x08", b""),
        ];
        for (request, body) in table {
            let input = frame(&[ID, request]);
            let ok = frame(&[ID, &[0], body]);
            assert_eq!(advance(&input, false), (CodecStep::new(input.len(), NextAction::Next), ok), "{request:?}");
            let unavailable = frame(&[ID, &[3], b"told to fail"]);
            assert_eq!(
                advance(&input, true),
                (CodecStep::new(input.len(), NextAction::Next), unavailable),
                "{request:?}"
            );
            for end in 1..input.len() {
                assert_eq!(
                    advance(&input[..end], false),
                    (CodecStep::new(0, NextAction::Wait), vec![]),
                    "{request:?} up to {end}"
                );
            }
        }
    }

    #[test]
    fn a_bad_request_is_answered_and_the_connection_stays() {
        let table: [(&[u8], &[u8]); 14] = [
            (b"", b"no opcode"),
            (b"\0", b"unknown opcode"),
            (b"\x09", b"unknown opcode"),
            (b"\x01", b"the fields do not fit the opcode"),
            (b"\x01\0\0\0\0\0\0\0\0", b"the key is empty"),
            (b"\x01\0\0\0\x01k\0\0\0\x02v", b"the fields do not fit the opcode"),
            (b"\x01\0\0\0\x01k\0\0\0\x01vv", b"the fields do not fit the opcode"),
            (b"\x02\0\x01s\0\x04key", b"the fields do not fit the opcode"),
            (b"\x02\0\x01s\0\0", b"the key is empty"),
            (b"\x03\0\x01s\0\x01kk", b"the fields do not fit the opcode"),
            (b"\x04\0\0\0\0\0\0", b"limit is 0"),
            (b"\x04\0\0\0\0", b"the fields do not fit the opcode"),
            (b"\x05\0\0x", b"the fields do not fit the opcode"),
            (b"\x08x", b"the fields do not fit the opcode"),
        ];
        for (request, why) in table {
            let input = frame(&[ID, request]);
            for failing in [false, true] {
                let answer = frame(&[ID, &[2], why]);
                assert_eq!(
                    advance(&input, failing),
                    (CodecStep::new(input.len(), NextAction::Next), answer),
                    "{request:?}"
                );
            }
        }
        let answer = frame(&[&[0, 0, 0, 0], &[2], b"no request id"]);
        for short in [&b"\0\0\0\0"[..], b"\0\0\0\x03abc"] {
            assert_eq!(advance(short, false), (CodecStep::new(short.len(), NextAction::Next), answer.clone()));
        }
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_read() {
        assert_eq!(advance(b"\0\0\x03\xe9\0\0\0", false), (CodecStep::new(0, NextAction::Wait), vec![]));
        let refused = frame(&[ID, &[5]]);
        assert_eq!(advance(b"\0\0\x03\xe9\0\0\0\x07", false), (CodecStep::new(8, NextAction::Refuse), refused));
        assert_eq!(advance(b"\0\0\x03\xe8\0\0\0\x07", false), (CodecStep::new(0, NextAction::Wait), vec![]));
        assert_eq!(advance(b"GET / HTTP/1.1\r\n\r\n", false).0.then, NextAction::Refuse);
    }
}
