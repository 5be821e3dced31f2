//! Templates split into words, as a shell splits a line, but without expansion. Values of
//! placeholders are never split.

use fastrand::Rng;

use super::{CompiledTemplate, TemplatePiece, ValueSource, mix};

/// The words of a template. The random values in the words are the same as in the template written
/// in one piece.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateWords {
    words: Box<[Box<[TemplatePiece]>]>,
    stream: u64,
}

/// The words of one operation while they are written.
pub struct OperationWords<'a> {
    words: std::slice::Iter<'a, Box<[TemplatePiece]>>,
    source: &'a ValueSource<'a>,
    random: Rng,
}

impl TemplateWords {
    /// Splits the template at its blanks. Text in `'…'` or `"…"` is not split. A backslash outside
    /// of `'…'` makes the next character literal.
    ///
    /// # Errors
    /// Returns an error if a quote is not closed, or no character follows a backslash.
    pub fn cut(template: &CompiledTemplate) -> Result<Self, String> {
        let mut cutter = WordCutter::default();
        for piece in &template.pieces {
            match piece {
                TemplatePiece::Text(text) => text.iter().for_each(|byte| cutter.byte(*byte)),
                value => cutter.value(value.clone())?,
            }
        }
        Ok(Self { words: cutter.finish()?.into(), stream: template.stream })
    }

    /// Returns the number of words.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// Returns the words, if all of them are constant.
    pub fn as_constant(&self) -> Option<Vec<Vec<u8>>> {
        let text = |piece: &TemplatePiece| match piece {
            TemplatePiece::Text(text) | TemplatePiece::Env(text) => Some(text.to_vec()),
            _ => None,
        };
        let words = self.words.iter();
        words.map(|pieces| Some(pieces.iter().map(text).collect::<Option<Vec<_>>>()?.concat())).collect()
    }

    /// Starts writing at the first word.
    pub fn say<'a>(&'a self, source: &'a ValueSource<'a>) -> OperationWords<'a> {
        let random = Rng::with_seed(mix(source.draw ^ mix(self.stream)));
        OperationWords { words: self.words.iter(), source, random }
    }
}

impl OperationWords<'_> {
    /// Appends the next word. Appends nothing after the last word.
    pub fn next_into(&mut self, out: &mut Vec<u8>) {
        for piece in self.words.next().into_iter().flatten() {
            piece.write(self.source, &mut self.random, out);
        }
    }
}

#[derive(Default)]
struct WordCutter {
    words: Vec<Box<[TemplatePiece]>>,
    /// The current word without `text`. Quotes begin a word even if they are empty.
    word: Option<Vec<TemplatePiece>>,
    /// End of the current word.
    text: Vec<u8>,
    quote: Option<u8>,
    is_escaped: bool,
}

impl WordCutter {
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

    fn value(&mut self, value: TemplatePiece) -> Result<(), String> {
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
            self.word.get_or_insert_default().push(TemplatePiece::Text(text.into()));
        }
    }

    fn end_word(&mut self) {
        self.take_text();
        self.words.extend(self.word.take().map(Vec::into_boxed_slice));
    }

    fn finish(mut self) -> Result<Vec<Box<[TemplatePiece]>>, String> {
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
mod tests {
    use super::*;
    use crate::testing::{names, source};

    fn compile(text: &str) -> CompiledTemplate {
        CompiledTemplate::compile(text, 0, &names()).unwrap()
    }

    fn said(text: &str) -> Vec<String> {
        let words = TemplateWords::cut(&compile(text)).unwrap();
        let source = source(3, 12);
        let mut saying = words.say(&source);
        let mut next = || {
            let mut out = Vec::new();
            saying.next_into(&mut out);
            String::from_utf8(out).unwrap()
        };
        (0..words.count()).map(|_| next()).collect()
    }

    #[test]
    fn text_is_split_at_blanks() {
        for (text, expected) in [
            ("", &[][..]),
            (" \t\n ", &[]),
            ("PING", &["PING"]),
            ("  SET  k v\n", &["SET", "k", "v"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            ("a'b c'd\"\"", &["ab cd"]),
            ("'' \"\"", &["", ""]),
            (r"a\ b \' \\ \n", &["a b", "'", r"\", "n"]),
            (r#"'a\' "b\"c" "d\e""#, &[r"a\", "b\"c", "de"]),
            ("'é ü' ß", &["é ü", "ß"]),
            ("'a\"b' \"c'd\"", &["a\"b", "c'd"]),
        ] {
            assert_eq!(said(text), expected, "{text:?}");
        }
    }

    #[test]
    fn values_are_not_split() {
        assert_eq!(said("SET k{agent} {seq}{seq}"), ["SET", "k3", "1212"]);
        assert_eq!(said("'{agent} {seq}'x {{}}"), ["3 12x", "{}"]);
        // Values of the environment may contain blanks and quotes.
        let path = std::env::var("PATH").unwrap();
        assert_eq!(said("AUTH {env:PATH} x"), ["AUTH".to_owned(), path, "x".to_owned()]);
        let slots = [b"a b 'c".to_vec()];
        let names = ["kept".to_owned()];
        let names = crate::values::TemplateNames { slots: &names, ..Default::default() };
        let words = TemplateWords::cut(&CompiledTemplate::compile("x {kept}", 0, &names).unwrap()).unwrap();
        let source = ValueSource { slots: &slots, kept: 1, ..source(1, 1) };
        let (mut saying, mut out) = (words.say(&source), Vec::new());
        saying.next_into(&mut out);
        out.push(b'|');
        saying.next_into(&mut out);
        saying.next_into(&mut out);
        assert_eq!(out, b"x|a b 'c");
    }

    #[test]
    fn text_that_cannot_be_split_is_refused() {
        for (text, why) in
            [("'a", "quote '"), ("a \"b", "quote \""), ("a\\", "at the end"), ("a\\{seq}", "placeholder")]
        {
            let refused = TemplateWords::cut(&compile(text)).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn words_and_whole_text_draw_the_same_values() {
        let text = "a {uniform:1..1000000} {bytes:20} x{uniform:1..1000000}";
        let mut whole = Vec::new();
        compile(text).write(&source(3, 12), &mut whole);
        assert_eq!(said(text).join(" "), String::from_utf8(whole).unwrap());
    }

    #[test]
    fn constant_words_are_recognised() {
        let constant = |text: &str| TemplateWords::cut(&compile(text)).unwrap().as_constant();
        assert_eq!(constant("a 'b c' {env:PATH}").unwrap()[1], b"b c");
        assert_eq!(constant("a {seq}"), None);
    }
}
