//! JSON text with values in it that are only known when an operation is sent.

use crate::values::{CompiledTemplate, TemplateShare};

/// Maximum depth of arrays and objects in each other.
const DEPTH: usize = 64;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonNode {
    Null,
    Bool(bool),
    /// A number as it is written.
    Number(String),
    Text(VariableText),
    /// A value without quotes: the piece of the template with this index.
    Bare(usize),
    List(Vec<JsonNode>),
    /// Members in the order of the text.
    Object(Vec<(VariableText, JsonNode)>),
}

/// A text with values in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VariableText(pub Vec<TextShare>);

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextShare {
    Literal(String),
    /// The piece of the template with this index.
    Value(usize),
}

impl VariableText {
    /// Returns the text, if it has no values.
    pub fn as_constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [TextShare::Literal(text)] => Some(text),
            _ => None,
        }
    }

    fn push(&mut self, letters: &str) {
        match self.0.last_mut() {
            Some(TextShare::Literal(text)) => text.push_str(letters),
            _ => self.0.push(TextShare::Literal(letters.to_owned())),
        }
    }
}

impl JsonNode {
    /// Reads a template as JSON. Its literal text and files are the syntax. A value stands for a
    /// scalar, or is part of a text.
    pub fn parse(template: &CompiledTemplate) -> Result<Self, String> {
        let mut reader = JsonReader { pieces: template.shares().collect(), piece: 0, at: 0 };
        let node = reader.value(0)?;
        reader.skip_blanks();
        match reader.peek() {
            None => Ok(node),
            Some(_) => Err(reader.wrong("the end of the JSON text")),
        }
    }

    /// Returns the kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Bare(_) => "a placeholder without quotes",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// A reader of JSON text in pieces.
struct JsonReader<'a> {
    pieces: Vec<TemplateShare<'a>>,
    /// Index of the current piece, and the position in it.
    piece: usize,
    at: usize,
}

/// The next byte of syntax, or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symbol {
    Byte(u8),
    Value(usize),
}

impl<'a> JsonReader<'a> {
    fn peek(&mut self) -> Option<Symbol> {
        loop {
            match self.pieces.get(self.piece)? {
                TemplateShare::Literal(text) => match text.get(self.at) {
                    Some(byte) => return Some(Symbol::Byte(*byte)),
                    None => (self.piece, self.at) = (self.piece + 1, 0),
                },
                TemplateShare::Constant(_) | TemplateShare::Variable => return Some(Symbol::Value(self.piece)),
            }
        }
    }

    fn step(&mut self) {
        match self.pieces.get(self.piece) {
            Some(TemplateShare::Literal(_)) => self.at += 1,
            _ => self.piece += 1,
        }
    }

    fn wrong(&mut self, expected: &str) -> String {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Symbol::Value(_)) => "a placeholder".to_owned(),
            Some(Symbol::Byte(_)) => match &self.pieces[self.piece] {
                TemplateShare::Literal(text) => {
                    let rest = String::from_utf8_lossy(&text[self.at..text.len().min(self.at + 40)]);
                    format!("`{}`", rest.chars().take(20).collect::<String>())
                }
                _ => String::new(),
            },
        };
        format!("the JSON text is not valid: expected {expected}, found {found}")
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(Symbol::Byte(b' ' | b'\t' | b'\r' | b'\n'))) {
            self.step();
        }
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_it = self.peek() == Some(Symbol::Byte(byte));
        if is_it {
            self.step();
        }
        is_it
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, String> {
        if depth > DEPTH {
            return Err(format!("the JSON text has more than {DEPTH} arrays and objects in each other"));
        }
        self.skip_blanks();
        match self.peek() {
            Some(Symbol::Value(piece)) => {
                self.step();
                Ok(match &self.pieces[piece] {
                    TemplateShare::Constant(text) => JsonNode::Number(utf8(text)?.to_owned()),
                    _ => JsonNode::Bare(piece),
                })
            }
            Some(Symbol::Byte(b'"')) => self.text().map(JsonNode::Text),
            Some(Symbol::Byte(b'{')) => self.object(depth),
            Some(Symbol::Byte(b'[')) => self.list(depth),
            Some(Symbol::Byte(byte)) if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => self.word(),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<JsonNode, String> {
        self.step();
        let mut members = Vec::new();
        if self.takes(b'}') {
            return Ok(JsonNode::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(Symbol::Byte(b'"')) {
                return Err(self.wrong("the name of a member in quotes"));
            }
            let name = self.text()?;
            if !self.takes(b':') {
                return Err(self.wrong("`:`"));
            }
            members.push((name, self.value(depth + 1)?));
            if self.takes(b'}') {
                return Ok(JsonNode::Object(members));
            }
            if !self.takes(b',') {
                return Err(self.wrong("`,` or `}`"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonNode, String> {
        self.step();
        let mut elements = Vec::new();
        if self.takes(b']') {
            return Ok(JsonNode::List(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            if self.takes(b']') {
                return Ok(JsonNode::List(elements));
            }
            if !self.takes(b',') {
                return Err(self.wrong("`,` or `]`"));
            }
        }
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<JsonNode, String> {
        let mut word = String::new();
        while let Some(Symbol::Byte(byte)) = self.peek() {
            if !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'+' | b'.') {
                break;
            }
            word.push(char::from(byte));
            self.step();
        }
        Ok(match word.as_str() {
            "null" => JsonNode::Null,
            "true" => JsonNode::Bool(true),
            "false" => JsonNode::Bool(false),
            _ if serde_json::from_str::<serde_json::Number>(&word).is_ok() => JsonNode::Number(word),
            _ => return Err(format!("the JSON text is not valid: `{word}` is no value; write a text in quotes")),
        })
    }

    /// Reads a text in quotes.
    fn text(&mut self) -> Result<VariableText, String> {
        self.step();
        let (mut text, mut bytes) = (VariableText::default(), Vec::new());
        loop {
            match self.peek() {
                None => return Err(self.wrong("a quote that ends the text")),
                Some(Symbol::Value(piece)) => {
                    flush(&mut bytes, &mut text)?;
                    match &self.pieces[piece] {
                        TemplateShare::Constant(constant) => text.push(utf8(constant)?),
                        _ => text.0.push(TextShare::Value(piece)),
                    }
                }
                Some(Symbol::Byte(b'"')) => {
                    self.step();
                    flush(&mut bytes, &mut text)?;
                    return Ok(text);
                }
                Some(Symbol::Byte(byte)) => {
                    bytes.push(byte);
                    // The byte after a backslash does not end the text.
                    if byte == b'\\' {
                        self.step();
                        if let Some(Symbol::Byte(escaped)) = self.peek() {
                            bytes.push(escaped);
                        } else {
                            return Err(self.wrong("a letter after the backslash"));
                        }
                    }
                }
            }
            self.step();
        }
    }
}

/// Moves the bytes of a text, which may have escapes, behind the text.
fn flush(bytes: &mut Vec<u8>, text: &mut VariableText) -> Result<(), String> {
    let quoted = [b"\"", bytes.as_slice(), b"\""].concat();
    if !bytes.is_empty() {
        // Line ends are allowed, because a text in the experiment file may have them.
        let quoted = String::from_utf8(quoted).map_err(|_| "the JSON text is not UTF-8".to_owned())?;
        let quoted = quoted.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        let plain: String =
            serde_json::from_str(&quoted).map_err(|error| format!("the JSON text is not valid: {quoted}: {error}"))?;
        text.push(&plain);
        bytes.clear();
    }
    Ok(())
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "a value in the JSON text is not UTF-8".to_owned())
}
