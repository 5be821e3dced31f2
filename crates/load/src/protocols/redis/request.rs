//! The request side: a command as a list of texts, each behind its length (RESP, "Sending commands to a Redis server"). It must not look
//! at replies.
//!
//! The server takes lengths without padding only. So where a length changes from request to request, the text is written first and its
//! length then moved before it.

use super::{Request, Verb, Want};
use crate::protocols::Call;
use crate::values::words::Words;
use crate::values::{Argument, Values, write_decimal};

/// A stretch of a request.
#[derive(Debug)]
pub enum Part {
    /// The same bytes each time.
    Bytes(Vec<u8>),
    /// An argument whose length is always the same and stands before it already.
    Fixed(usize),
    /// An argument of any length.
    Measured(usize),
    /// Words of any length.
    Words(Words),
}

/// Compiles a step.
pub fn compile(call: &Call<'_>) -> Result<Request, String> {
    call.check()?;
    let verb = Verb::named(call.operation.name)?;
    let names: &[&str] = match verb {
        Verb::Get | Verb::Del | Verb::Incr => &["key"],
        Verb::Set => &["key", "value"],
        Verb::Ping => &[],
        Verb::Command => return Ok(Request { verb, parts: any(call)?, wants: wants(call)? }),
    };
    let mut builder = Builder::default();
    builder.bytes(format!("*{}\r\n", 1 + names.len()).as_bytes());
    builder.word(call.operation.name.to_ascii_uppercase().as_bytes());
    for name in names {
        let place = call.argument(name).ok_or_else(|| format!("`{}` needs `{name}`", call.operation.name))?;
        builder.argument(call.arguments, place);
    }
    Ok(Request { verb, parts: builder.0.into(), wants: wants(call)? })
}

fn wants(call: &Call<'_>) -> Result<Box<[Want]>, String> {
    call.wants.iter().map(|want| Want::named(want)).collect()
}

/// A command of the user's own.
fn any(call: &Call<'_>) -> Result<Box<[Part]>, String> {
    let place = call.argument("arguments").ok_or("`command` needs `arguments`")?;
    let words = Words::cut(&call.arguments[place].template).map_err(|wrong| format!("`arguments`: {wrong}"))?;
    if words.count() == 0 {
        return Err("`arguments` is empty; write a command, such as \"HGET user:{agent} name\"".to_owned());
    }
    Ok(match words.as_constant() {
        Some(words) => {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            Box::new([Part::Bytes(of_words(&words))])
        }
        None => Box::new([Part::Bytes(format!("*{}\r\n", words.count()).into_bytes()), Part::Words(words)]),
    })
}

/// A command of these words.
pub fn of_words(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        measured(&mut bytes, |out| out.extend_from_slice(word));
    }
    bytes
}

/// Appends the request.
pub fn write(parts: &[Part], values: &Values<'_>, out: &mut Vec<u8>) {
    for part in parts {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Fixed(place) => values.write(*place, out),
            Part::Measured(place) => measured(out, |out| values.write(*place, out)),
            Part::Words(words) => {
                let mut saying = words.say(&values.source);
                for _ in 0..words.count() {
                    measured(out, |out| saying.next_into(out));
                }
            }
        }
    }
}

/// Appends a text behind its length.
fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'$');
    let hole = out.len();
    out.extend_from_slice(b"\r\n");
    let begin = out.len();
    write(out);
    let end = out.len();
    write_decimal((end - begin) as u64, out);
    let digits = out.len() - end;
    out[hole..].rotate_right(digits);
    out.extend_from_slice(b"\r\n");
}

#[derive(Default)]
struct Builder(Vec<Part>);

impl Builder {
    fn bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Part::Bytes(bytes.to_vec())),
        }
    }

    fn word(&mut self, word: &[u8]) {
        self.bytes(format!("${}\r\n", word.len()).as_bytes());
        self.bytes(word);
        self.bytes(b"\r\n");
    }

    fn argument(&mut self, arguments: &[Argument], place: usize) {
        let template = &arguments[place].template;
        match (template.as_constant(), template.fixed_length()) {
            (Some(text), _) => self.word(text),
            (None, Some(length)) => {
                self.bytes(format!("${length}\r\n").as_bytes());
                self.0.push(Part::Fixed(place));
                self.bytes(b"\r\n");
            }
            (None, None) => self.0.push(Part::Measured(place)),
        }
    }
}
