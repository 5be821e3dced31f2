//! The text of `.proto` files: messages, enumerations and services. Options and extensions are
//! skipped, except those that change how fields are written.

use super::descriptors::inside;
use super::types::{ProtoEnum, ProtoField, ProtoFile, ProtoKind, ProtoMessage, ProtoMethod, Scalar, json_name};

/// Maximum depth of types in each other.
const DEPTH: usize = 64;

/// Reads the text of a file. `name` is the name by which other files import it.
///
/// # Errors
/// `NAME:LINE:COLUMN`, and what is wrong there.
pub fn parse(name: &str, text: &str) -> Result<ProtoFile, String> {
    let at = |wrong: SyntaxError| {
        let before = &text[..wrong.at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        format!("{name}:{line}:{column}: {}", wrong.what)
    };
    let tokens = tokens(text).map_err(at)?;
    let mut reader = ProtoReader { tokens: &tokens, at: 0, end: text.len(), rules: FieldRules::PROTO2 };
    let mut file = ProtoFile { name: name.to_owned(), ..ProtoFile::default() };
    reader.file(&mut file).map_err(at)?;
    Ok(file)
}

/// A mistake in a text, and its position.
#[derive(Debug)]
struct SyntaxError {
    at: usize,
    what: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name, possibly with dots, or a keyword.
    Word(String),
    Number(String),
    Text(String),
    Sign(char),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) | Self::Number(word) => format!("`{word}`"),
            Self::Text(text) => format!("\"{text}\""),
            Self::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// Splits a text into tokens with their positions. Comments are left out.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, SyntaxError> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start_matches('\u{feff}'));
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let length = match first {
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                let unclosed = || SyntaxError { at, what: "this comment is never closed".to_owned() };
                rest = &rest[rest.find("*/").ok_or_else(unclosed)? + 2..];
                continue;
            }
            '"' | '\'' => {
                let (value, length) =
                    quoted(rest, first).ok_or(SyntaxError { at, what: "this text is never closed".to_owned() })?;
                tokens.push((at, Token::Text(value)));
                length
            }
            _ if first.is_ascii_alphabetic() || first == '_' || is_inner_dot(rest) => {
                let is_inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
                let length = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
                tokens.push((at, Token::Word(rest[..length].to_owned())));
                length
            }
            _ if first.is_ascii_digit() => {
                let is_inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_');
                let length = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
                tokens.push((at, Token::Number(rest[..length].to_owned())));
                length
            }
            sign => {
                tokens.push((at, Token::Sign(sign)));
                sign.len_utf8()
            }
        };
        rest = &rest[length..];
    }
}

/// Whether the text begins with a dot before a name.
fn is_inner_dot(text: &str) -> bool {
    text.strip_prefix('.').is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_alphabetic() || next == '_'))
}

/// Returns a text in quotes, and its length with them. Escapes stay as they are, because names of
/// files and fields have none.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\n' => return None,
            _ if letter == quote => return Some((text[1..at].to_owned(), at + 1)),
            _ => {}
        }
    }
    None
}

/// Rules for fields, from the file's syntax and options.
#[derive(Debug, Clone, Copy)]
struct FieldRules {
    is_proto3: bool,
    is_packed: bool,
    has_presence: bool,
    is_delimited: bool,
}

impl FieldRules {
    const PROTO2: Self = Self { is_proto3: false, is_packed: false, has_presence: true, is_delimited: false };
    const PROTO3: Self = Self { is_proto3: true, is_packed: true, has_presence: false, is_delimited: false };
    const EDITION: Self = Self { is_proto3: false, is_packed: true, has_presence: true, is_delimited: false };

    /// Applies an option. Options of other names change nothing.
    fn apply(&mut self, name: &str, value: &str) {
        match (name, value) {
            ("packed", _) => self.is_packed = value == "true",
            ("features.repeated_field_encoding", _) => self.is_packed = value == "PACKED",
            ("features.field_presence", _) => self.has_presence = value != "IMPLICIT",
            ("features.message_encoding", _) => self.is_delimited = value == "DELIMITED",
            _ => {}
        }
    }
}

/// A reader of tokens.
struct ProtoReader<'a> {
    tokens: &'a [(usize, Token)],
    at: usize,
    /// Length of the text.
    end: usize,
    rules: FieldRules,
}

impl ProtoReader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn wrong<T>(&self, expected: &str) -> Result<T, SyntaxError> {
        let (at, found) = match self.tokens.get(self.at) {
            Some((at, token)) => (*at, token.shown()),
            None => (self.end, "the end of the file".to_owned()),
        };
        Err(SyntaxError { at, what: format!("expected {expected}, found {found}") })
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let is_it = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn sign(&mut self, sign: char) -> Result<(), SyntaxError> {
        if self.takes_sign(sign) { Ok(()) } else { self.wrong(&format!("`{sign}`")) }
    }

    fn word(&mut self, what: &str) -> Result<String, SyntaxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.wrong(what),
        }
    }

    /// Reads the name of something that is defined here, which has no dots.
    fn name(&mut self, what: &str) -> Result<String, SyntaxError> {
        match self.peek() {
            Some(Token::Word(word)) if !word.contains('.') => self.word(what),
            _ => self.wrong(what),
        }
    }

    fn text(&mut self, what: &str) -> Result<String, SyntaxError> {
        let mut text = String::new();
        let begin = self.at;
        while let Some(Token::Text(part)) = self.peek() {
            text.push_str(part);
            self.at += 1;
        }
        if self.at == begin { self.wrong(what) } else { Ok(text) }
    }

    fn number(&mut self, what: &str) -> Result<i64, SyntaxError> {
        let is_negative = self.takes_sign('-');
        let number = match self.peek() {
            Some(Token::Number(digits)) => whole(digits),
            _ => None,
        };
        let Some(number) = number else { return self.wrong(what) };
        self.at += 1;
        Ok(if is_negative { -number } else { number })
    }

    fn file(&mut self, file: &mut ProtoFile) -> Result<(), SyntaxError> {
        let mut package = String::new();
        while self.peek().is_some() {
            if self.takes_sign(';') {
                continue;
            }
            match self.word("`message`, `enum`, `service`, `import`, `package` or `option`")?.as_str() {
                "syntax" => {
                    self.sign('=')?;
                    let is_proto3 = self.text("\"proto2\" or \"proto3\"")? == "proto3";
                    self.rules = if is_proto3 { FieldRules::PROTO3 } else { FieldRules::PROTO2 };
                    self.sign(';')?;
                }
                "edition" => {
                    self.rules = FieldRules::EDITION;
                    self.skip_statement()?;
                }
                "package" => {
                    package = self.word("the name of the package")?;
                    self.sign(';')?;
                }
                "import" => {
                    let _ = self.takes_word("public") || self.takes_word("weak") || self.takes_word("option");
                    file.imports.push(self.text("the name of a file in quotes")?);
                    self.sign(';')?;
                }
                "option" => {
                    let mut rules = self.rules;
                    self.options(';', |name, value| rules.apply(name, value))?;
                    self.rules = rules;
                    self.sign(';')?;
                }
                // Visibility of edition 2024.
                "export" | "local" => {}
                "message" => self.message(&package, 0, file)?,
                "enum" => file.enums.push(self.enumeration(&package)?),
                "service" => self.service(&package, file)?,
                "extend" => self.skip_statement()?,
                _ => {
                    self.at -= 1;
                    return self.wrong("`message`, `enum`, `service`, `import`, `package` or `option`");
                }
            }
        }
        Ok(())
    }

    /// Skips up to the end of a statement: a semicolon, or a block in braces.
    fn skip_statement(&mut self) -> Result<(), SyntaxError> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return self.wrong("`;`"),
                Some(Token::Sign(';')) if depth == 0 => break,
                Some(Token::Sign('{' | '[')) => depth += 1,
                Some(Token::Sign('}')) if depth == 1 => break,
                Some(Token::Sign('}' | ']')) => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// Reads options separated by commas, up to `end`, which stays. Passes the name and the value
    /// of each option whose value is one token.
    fn options(&mut self, end: char, mut take: impl FnMut(&str, &str)) -> Result<(), SyntaxError> {
        loop {
            let mut name = String::new();
            while !matches!(self.peek(), None | Some(Token::Sign('='))) {
                match self.peek() {
                    Some(Token::Word(word)) => name.push_str(word),
                    Some(Token::Sign(sign)) => name.push(*sign),
                    _ => return self.wrong("the name of an option"),
                }
                self.at += 1;
            }
            self.sign('=')?;
            match (self.peek(), self.tokens.get(self.at + 1).map(|(_, token)| token)) {
                (Some(Token::Word(value) | Token::Text(value)), Some(Token::Sign(next)))
                    if [',', end].contains(next) =>
                {
                    take(&name, value);
                }
                _ => {}
            }
            let mut depth = 0_usize;
            loop {
                match self.peek() {
                    None => return self.wrong(&format!("`{end}`")),
                    Some(Token::Sign(sign)) if *sign == end && depth == 0 => return Ok(()),
                    Some(Token::Sign(',')) if depth == 0 => break,
                    Some(Token::Sign('{' | '[' | '<')) => depth += 1,
                    Some(Token::Sign('}' | ']' | '>')) => depth = depth.saturating_sub(1),
                    Some(_) => {}
                }
                self.at += 1;
            }
            self.at += 1;
        }
    }

    fn message(&mut self, scope: &str, depth: usize, file: &mut ProtoFile) -> Result<(), SyntaxError> {
        let name = inside(scope, &self.name("the name of the message")?);
        self.sign('{')?;
        self.message_body(name, depth, file)
    }

    fn message_body(&mut self, name: String, depth: usize, file: &mut ProtoFile) -> Result<(), SyntaxError> {
        if depth > DEPTH {
            return self.wrong("at most 64 messages in each other");
        }
        let place = file.messages.len();
        file.messages.push(ProtoMessage { name: name.clone(), ..ProtoMessage::default() });
        let mut oneofs = 0;
        while !self.takes_sign('}') {
            if self.takes_sign(';') {
                continue;
            }
            match (self.peek(), self.tokens.get(self.at + 1).map(|(_, token)| token)) {
                (Some(Token::Word(word)), Some(Token::Word(next))) if word == "message" && !next.contains('.') => {
                    self.at += 1;
                    self.message(&name, depth + 1, file)?;
                }
                (Some(Token::Word(word)), Some(Token::Word(_))) if word == "enum" => {
                    self.at += 1;
                    file.enums.push(self.enumeration(&name)?);
                }
                (Some(Token::Word(word)), Some(Token::Word(_))) if word == "oneof" => {
                    self.at += 2;
                    self.oneof(oneofs, (&name, place), depth, file)?;
                    oneofs += 1;
                }
                (Some(Token::Word(word)), _)
                    if ["option", "extensions", "reserved", "extend"].contains(&word.as_str()) =>
                {
                    self.skip_statement()?;
                }
                (Some(Token::Word(word)), Some(Token::Word(_))) if ["export", "local"].contains(&word.as_str()) => {
                    self.at += 1;
                }
                (Some(Token::Word(word)), Some(Token::Sign('<'))) if word == "map" => {
                    self.map(&name, place, file)?;
                }
                _ => {
                    let field = self.field(&name, None, depth, file)?;
                    file.messages[place].fields.push(field);
                }
            }
        }
        Ok(())
    }

    fn oneof(
        &mut self,
        number: u32,
        (message, place): (&str, usize),
        depth: usize,
        file: &mut ProtoFile,
    ) -> Result<(), SyntaxError> {
        self.sign('{')?;
        while !self.takes_sign('}') {
            if self.takes_sign(';') {
            } else if matches!(self.peek(), Some(Token::Word(word)) if word == "option") {
                self.skip_statement()?;
            } else {
                let field = self.field(message, Some(number), depth, file)?;
                file.messages[place].fields.push(field);
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        message: &str,
        oneof: Option<u32>,
        depth: usize,
        file: &mut ProtoFile,
    ) -> Result<ProtoField, SyntaxError> {
        let label = match self.peek() {
            Some(Token::Word(word)) if ["optional", "required", "repeated"].contains(&word.as_str()) => {
                Some(self.word("a label")?)
            }
            _ => None,
        };
        let is_repeated = label.as_deref() == Some("repeated");
        let kind = self.word("a field, or `}`")?;
        let is_group = kind == "group";
        let mut name = self.name("the name of the field")?;
        let type_name = if is_group { name.clone() } else { kind };
        if is_group {
            name.make_ascii_lowercase();
        }
        self.sign('=')?;
        let number = self.field_number()?;
        let mut rules = self.rules;
        rules.has_presence |= label.is_some_and(|label| label == "optional") || oneof.is_some();
        rules.is_delimited |= is_group;
        let json = self.field_options(&mut rules)?.unwrap_or_else(|| json_name(&name));
        if is_group {
            self.sign('{')?;
            self.message_body(inside(message, &type_name), depth + 1, file)?;
        } else {
            self.sign(';')?;
        }
        Ok(ProtoField {
            json_name: json,
            name,
            number,
            kind: Scalar::named(&type_name).map_or(ProtoKind::Named(type_name), ProtoKind::Scalar),
            is_repeated,
            is_packed: is_repeated && rules.is_packed,
            is_delimited: rules.is_delimited,
            has_presence: !is_repeated && rules.has_presence,
            oneof,
        })
    }

    fn field_number(&mut self) -> Result<u32, SyntaxError> {
        const LARGEST: i64 = (1 << 29) - 1;
        let number = self.number("the number of the field")?;
        match u32::try_from(number) {
            Ok(number @ 1..) if i64::from(number) <= LARGEST => Ok(number),
            _ => {
                self.at -= 1;
                self.wrong("a number from 1 to 536870911")
            }
        }
    }

    /// Reads the options of a field in brackets, if there are any. Returns its name in JSON, if an
    /// option gives it.
    fn field_options(&mut self, rules: &mut FieldRules) -> Result<Option<String>, SyntaxError> {
        let mut json = None;
        if self.takes_sign('[') {
            self.options(']', |name, value| match name {
                "json_name" => json = Some(value.to_owned()),
                _ => rules.apply(name, value),
            })?;
            self.sign(']')?;
        }
        Ok(json)
    }

    /// Reads `map<KEY, VALUE> name = NUMBER;`, which is a repeated message of a key and a value.
    fn map(&mut self, message: &str, place: usize, file: &mut ProtoFile) -> Result<(), SyntaxError> {
        self.at += 1;
        self.sign('<')?;
        let key = self.word("the type of the keys")?;
        self.sign(',')?;
        let value = self.word("the type of the values")?;
        self.sign('>')?;
        let name = self.name("the name of the field")?;
        self.sign('=')?;
        let number = self.field_number()?;
        let mut rules = self.rules;
        let json = self.field_options(&mut rules)?.unwrap_or_else(|| json_name(&name));
        self.sign(';')?;
        let mut entry = json_name(&format!("_{name}"));
        entry.push_str("Entry");
        let part = |name: &str, number: u32, kind: String| ProtoField {
            name: name.to_owned(),
            json_name: name.to_owned(),
            number,
            kind: Scalar::named(&kind).map_or(ProtoKind::Named(kind), ProtoKind::Scalar),
            is_repeated: false,
            is_packed: false,
            is_delimited: false,
            has_presence: !self.rules.is_proto3,
            oneof: None,
        };
        file.messages.push(ProtoMessage {
            name: inside(message, &entry),
            fields: vec![part("key", 1, key), part("value", 2, value)],
            is_map_entry: true,
        });
        file.messages[place].fields.push(ProtoField {
            json_name: json,
            number,
            kind: ProtoKind::Named(entry),
            is_repeated: true,
            ..part(&name, number, String::new())
        });
        if let Some(field) = file.messages[place].fields.last_mut() {
            field.has_presence = false;
        }
        Ok(())
    }

    fn enumeration(&mut self, scope: &str) -> Result<ProtoEnum, SyntaxError> {
        let mut read = ProtoEnum { name: inside(scope, &self.name("the name of the enum")?), values: Vec::new() };
        self.sign('{')?;
        while !self.takes_sign('}') {
            if self.takes_sign(';') {
                continue;
            }
            if matches!(self.peek(), Some(Token::Word(word)) if word == "option" || word == "reserved")
                && self.tokens.get(self.at + 1).is_none_or(|(_, next)| *next != Token::Sign('='))
            {
                self.skip_statement()?;
                continue;
            }
            let name = self.name("a value, or `}`")?;
            self.sign('=')?;
            let number = self.number("the number of the value")?;
            let Ok(number) = i32::try_from(number) else {
                self.at -= 1;
                return self.wrong("a number of 32 bits");
            };
            self.field_options(&mut { self.rules })?;
            self.sign(';')?;
            read.values.push((name, number));
        }
        Ok(read)
    }

    fn service(&mut self, package: &str, file: &mut ProtoFile) -> Result<(), SyntaxError> {
        let service = inside(package, &self.name("the name of the service")?);
        self.sign('{')?;
        while !self.takes_sign('}') {
            if self.takes_sign(';') {
            } else if self.takes_word("rpc") {
                file.methods.push(self.method(&service)?);
            } else if matches!(self.peek(), Some(Token::Word(word)) if word == "option") {
                self.skip_statement()?;
            } else {
                return self.wrong("`rpc`, or `}`");
            }
        }
        Ok(())
    }

    fn method(&mut self, service: &str) -> Result<ProtoMethod, SyntaxError> {
        let name = self.name("the name of the method")?;
        let (takes_stream, input) = self.message_of_method()?;
        if !self.takes_word("returns") {
            return self.wrong("`returns`");
        }
        let (answers_stream, output) = self.message_of_method()?;
        if self.peek() == Some(&Token::Sign('{')) {
            self.skip_statement()?;
        } else {
            self.sign(';')?;
        }
        Ok(ProtoMethod { service: service.to_owned(), name, input, output, takes_stream, answers_stream })
    }

    /// Reads `(stream Type)`. `stream` alone is a type.
    fn message_of_method(&mut self) -> Result<(bool, String), SyntaxError> {
        self.sign('(')?;
        let is_last = matches!(self.tokens.get(self.at + 1), Some((_, Token::Sign(')'))));
        let is_stream = !is_last && self.takes_word("stream");
        let name = self.word("the type of the messages")?;
        self.sign(')')?;
        Ok((is_stream, name))
    }
}

/// Returns a whole number in decimal, hexadecimal or octal digits.
fn whole(digits: &str) -> Option<i64> {
    let lower = digits.to_ascii_lowercase();
    match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(hex), _) => i64::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok(),
        _ => lower.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
