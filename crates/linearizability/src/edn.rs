//! Values in Clojure's notation, edn.

use std::fmt;

/// A value in Clojure's notation.
#[derive(Debug, Clone, PartialEq)]
pub enum Edn {
    Nil,
    Number(i64),
    Text(String),
    /// Keyword without its colon, symbol, or a number that is no integer.
    Word(String),
    List(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
}

/// Text that is no edn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdnError {
    /// Number of the line, from 1.
    pub line: usize,
    pub what: &'static str,
}

impl fmt::Display for EdnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for EdnError {}

impl Edn {
    /// Reads all values of a text.
    ///
    /// # Errors
    /// Text that does not follow the notation.
    pub fn read_all(text: &str) -> Result<Vec<Self>, EdnError> {
        let mut values = Vec::new();
        Reader::new(text).read_until_end(|_, value| values.push(value))?;
        Ok(values)
    }

    /// Reads the values of a text, or the items of the list that is the whole text, each with the
    /// number of the line on which it begins.
    ///
    /// # Errors
    /// Text that does not follow the notation.
    pub fn read_lines(text: &str) -> Result<Vec<(usize, Self)>, EdnError> {
        let mut reader = Reader::new(text);
        let mut values = Vec::new();
        reader.skip_blanks();
        let close = match reader.text.get(reader.at) {
            Some(b'[') => b']',
            Some(b'(') => b')',
            _ => {
                reader.read_until_end(|line, value| values.push((line, value)))?;
                return Ok(values);
            }
        };
        reader.items(close, 0, |line, value| values.push((line, value)))?;
        reader.skip_blanks();
        if reader.at < reader.text.len() {
            return Err(reader.error("text after the list of events"));
        }
        Ok(values)
    }

    /// Returns the value of a keyword in a map.
    pub fn get(&self, keyword: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else { return None };
        pairs.iter().find(|(key, _)| matches!(key, Self::Word(word) if word == keyword)).map(|(_, value)| value)
    }

    /// Returns the word or text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Word(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Edn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Word(word) => f.write_str(word),
            Self::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if place == 0 { "" } else { " " })?;
                }
                f.write_str("]")
            }
            Self::Map(pairs) => {
                f.write_str("{")?;
                for (place, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key} {value}", if place == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Deepest nesting.
const DEPTH: usize = 64;

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    /// Position up to which lines were counted, and the number of the line there.
    counted: (usize, usize),
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0, counted: (0, 1) }
    }

    /// Returns the number of the current line.
    fn line(&mut self) -> usize {
        let (until, line) = self.counted;
        let at = self.at.min(self.text.len());
        let breaks = self.text[until..at].iter().filter(|byte| **byte == b'\n').count();
        self.counted = (at, line + breaks);
        self.counted.1
    }

    fn read_until_end(&mut self, mut found: impl FnMut(usize, Edn)) -> Result<(), EdnError> {
        self.skip_blanks();
        while self.at < self.text.len() {
            let line = self.line();
            found(line, self.value(0)?);
            self.skip_blanks();
        }
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b',' => self.at += 1,
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn error(&mut self, what: &'static str) -> EdnError {
        EdnError { line: self.line(), what }
    }

    fn value(&mut self, depth: usize) -> Result<Edn, EdnError> {
        if depth > DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.skip_blanks();
        match self.text.get(self.at) {
            None => Err(self.error("a value is missing")),
            Some(b'[') => self.list(b']', depth),
            Some(b'(') => self.list(b')', depth),
            Some(b'{') => self.map(depth),
            Some(b'#') => self.tagged(depth),
            Some(b'"') => self.string(),
            Some(b'}' | b']' | b')') => Err(self.error("a bracket closes nothing")),
            Some(_) => Ok(self.word()),
        }
    }

    /// Reads the items between two brackets, with their lines.
    fn items(&mut self, close: u8, depth: usize, mut found: impl FnMut(usize, Edn)) -> Result<(), EdnError> {
        let opened = self.line();
        self.at += 1;
        loop {
            self.skip_blanks();
            if self.text.get(self.at) == Some(&close) {
                self.at += 1;
                return Ok(());
            }
            if self.at >= self.text.len() {
                return Err(EdnError { line: opened, what: "a bracket is not closed" });
            }
            let line = self.line();
            found(line, self.value(depth + 1)?);
        }
    }

    fn list(&mut self, close: u8, depth: usize) -> Result<Edn, EdnError> {
        let mut items = Vec::new();
        self.items(close, depth, |_, item| items.push(item))?;
        Ok(Edn::List(items))
    }

    fn map(&mut self, depth: usize) -> Result<Edn, EdnError> {
        let (mut pairs, mut key) = (Vec::new(), None);
        self.items(b'}', depth, |_, item| match key.take() {
            None => key = Some(item),
            Some(key) => pairs.push((key, item)),
        })?;
        if key.is_some() {
            return Err(self.error("a map ends with a key"));
        }
        Ok(Edn::Map(pairs))
    }

    /// Reads a set, or a value with a tag, whose tag is left out.
    fn tagged(&mut self, depth: usize) -> Result<Edn, EdnError> {
        self.at += 1;
        if self.text.get(self.at) == Some(&b'{') {
            return self.list(b'}', depth);
        }
        if self.text.get(self.at) != Some(&b'[') {
            self.word();
        }
        self.value(depth + 1)
    }

    fn string(&mut self) -> Result<Edn, EdnError> {
        let mut bytes = Vec::new();
        loop {
            self.at += 1;
            match self.text.get(self.at) {
                None => return Err(self.error("a string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    bytes.push(match self.text.get(self.at) {
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(b'r') => b'\r',
                        Some(&other) => other,
                        None => return Err(self.error("a string does not end")),
                    });
                }
                Some(&byte) => bytes.push(byte),
            }
        }
        self.at += 1;
        Ok(Edn::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn word(&mut self) -> Edn {
        let rest = &self.text[self.at..];
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",;()[]{}\"".contains(byte);
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        self.at += length;
        let word = String::from_utf8_lossy(&rest[..length]);
        match word.as_ref() {
            "nil" => Edn::Nil,
            word => word.parse().map_or_else(|_| Edn::Word(word.trim_start_matches(':').to_owned()), Edn::Number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_lines() {
        let text = "; a comment\n[#a.b{:x 1}\n #{2 3}, \"a\\\"\n\"\n-4.5 (nil)]";
        let read = Edn::read_lines(text).unwrap();
        let shown: Vec<(usize, String)> = read.into_iter().map(|(line, value)| (line, value.to_string())).collect();
        let shown: Vec<(usize, &str)> = shown.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(shown, [(2, "{x 1}"), (3, "[2 3]"), (3, "\"a\\\"\\n\""), (5, "-4.5"), (5, "[nil]")]);
        assert_eq!(Edn::read_lines("1\n2").unwrap().last(), Some(&(2, Edn::Number(2))));
    }

    #[test]
    fn broken_text_is_refused() {
        let says = |text: &str| Edn::read_lines(text).unwrap_err().to_string();
        assert_eq!(says("{:a 1}\n{:a"), "line 2: a bracket is not closed");
        assert_eq!(says("[\n[1]\n"), "line 1: a bracket is not closed");
        assert_eq!(says("\n]"), "line 2: a bracket closes nothing");
        assert_eq!(says("{:a}"), "line 1: a map ends with a key");
        assert_eq!(says("\"x"), "line 1: a string does not end");
        assert_eq!(says("[1] 2"), "line 1: text after the list of events");
        assert_eq!(says(&"[".repeat(1_000)), "line 1: nested too deeply");
    }
}
