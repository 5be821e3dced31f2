//! A template cut into words, as a shell cuts a line, but nothing is expanded and the value of a placeholder is never cut. It must not
//! know what the words are for.

use fastrand::Rng;

use super::{Piece, Source, Template, mix};

/// The words of a template. Written one after the other they hold the same random values as the template written whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    words: Box<[Box<[Piece]>]>,
    stream: u64,
}

/// The words of one operation, on their way out.
pub struct Saying<'a> {
    words: std::slice::Iter<'a, Box<[Piece]>>,
    source: &'a Source<'a>,
    random: Rng,
}

impl Words {
    /// Cuts the template at its blanks. What stands in `'…'` or `"…"` is not cut; a backslash outside of `'…'` takes the next
    /// character as it is.
    ///
    /// # Errors
    /// If a quote is left open, or a backslash has no character to take.
    pub fn cut(template: &Template) -> Result<Self, String> {
        let mut cutter = Cutter::default();
        for piece in &template.pieces {
            match piece {
                Piece::Text(text) => text.iter().for_each(|byte| cutter.byte(*byte)),
                value => cutter.value(value.clone())?,
            }
        }
        Ok(Self { words: cutter.finish()?.into(), stream: template.stream })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// The words, if none of them ever changes.
    pub fn as_constant(&self) -> Option<Vec<Vec<u8>>> {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Env(text) => Some(text.to_vec()),
            _ => None,
        };
        let words = self.words.iter();
        words.map(|pieces| Some(pieces.iter().map(text).collect::<Option<Vec<_>>>()?.concat())).collect()
    }

    /// Begins with the first word.
    pub fn say<'a>(&'a self, source: &'a Source<'a>) -> Saying<'a> {
        let random = Rng::with_seed(mix(source.draw ^ mix(self.stream)));
        Saying { words: self.words.iter(), source, random }
    }
}

impl Saying<'_> {
    /// Appends the next word; nothing after the last.
    pub fn next_into(&mut self, out: &mut Vec<u8>) {
        for piece in self.words.next().into_iter().flatten() {
            piece.write(self.source, &mut self.random, out);
        }
    }
}

#[derive(Default)]
struct Cutter {
    words: Vec<Box<[Piece]>>,
    /// The word under way, but for `text`. Quotes make one even of nothing.
    word: Option<Vec<Piece>>,
    /// What it ends with.
    text: Vec<u8>,
    quote: Option<u8>,
    is_escaped: bool,
}

impl Cutter {
    fn byte(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
            self.text.push(byte);
            return;
        }
        match (byte, self.quote) {
            (b'\\', None | Some(b'"')) => {
                self.is_escaped = true;
                self.word.get_or_insert_default();
            }
            (byte, Some(quote)) if byte == quote => self.quote = None,
            (b'"' | b'\'', None) => {
                self.quote = Some(byte);
                self.word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => self.end_word(),
            _ => {
                self.word.get_or_insert_default();
                self.text.push(byte);
            }
        }
    }

    fn value(&mut self, value: Piece) -> Result<(), String> {
        if self.is_escaped {
            return Err("a backslash stands before a placeholder; write two of them for one".to_owned());
        }
        self.take_text();
        self.word.get_or_insert_default().push(value);
        Ok(())
    }

    fn take_text(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.word.get_or_insert_default().push(Piece::Text(text.into()));
        }
    }

    fn end_word(&mut self) {
        self.take_text();
        self.words.extend(self.word.take().map(Vec::into_boxed_slice));
    }

    fn finish(mut self) -> Result<Vec<Box<[Piece]>>, String> {
        if self.is_escaped {
            return Err("a backslash stands at the end; write two of them for one".to_owned());
        }
        if let Some(quote) = self.quote {
            return Err(format!("a quote {} is opened and not closed", char::from(quote)));
        }
        self.end_word();
        Ok(self.words)
    }
}

#[cfg(test)]
mod tests;
