//! Commands of a shell script, as far as they matter for `curl` commands: quotes, line
//! continuations, variables, substitutions, here-documents. Also takes the forms in which browsers
//! copy a command for Windows.

use std::iter::Peekable;
use std::str::Chars;

use crate::ImportError;
use crate::credentials::variable_name;
use crate::placeholder::placeholder;

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// Line on which the command begins, from 1.
    pub line: usize,
    pub words: Vec<String>,
    /// Text of its here-document.
    pub input: Option<String>,
}

/// Maximum depth of substitutions, `$(…)`.
const DEPTH: usize = 8;

/// Splits a script into commands. Commands in substitutions come before the command around them.
///
/// # Errors
/// A quote is not closed.
pub fn commands(script: &str) -> Result<Vec<ShellCommand>, ImportError> {
    let script = script.replace("\r\n", "\n");
    let script = if is_for_windows(&script) { without_carets(&script) } else { script };
    let mut reader = ShellReader { rest: script.chars().peekable(), line: 1, commands: Vec::new(), depth: 0 };
    reader.read()?;
    Ok(reader.commands)
}

/// Whether the script is a command for `cmd.exe`, with `^` before line ends and quotes.
fn is_for_windows(script: &str) -> bool {
    script.contains(" ^\n") || script.contains("^\"")
}

fn without_carets(script: &str) -> String {
    let mut plain = String::new();
    let mut rest = script.chars();
    while let Some(one) = rest.next() {
        match one {
            '^' => match rest.next() {
                Some('\n') | None => plain.push(' '),
                Some(other) => plain.push(other),
            },
            other => plain.push(other),
        }
    }
    plain
}

struct ShellReader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    commands: Vec<ShellCommand>,
    depth: usize,
}

/// A command that is being read.
#[derive(Default)]
struct OpenCommand {
    command: ShellCommand,
    word: Option<String>,
    documents: Vec<HereDocument>,
}

/// A here-document that begins after the current line.
struct HereDocument {
    /// Line that ends it.
    end: String,
    /// Whether the tabs before each line are removed.
    is_indented: bool,
    /// Number of commands before the command that reads it.
    command: usize,
}

impl OpenCommand {
    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self) {
        self.command.words.extend(self.word.take());
    }
}

impl ShellReader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn read(&mut self) -> Result<(), ImportError> {
        let mut open = OpenCommand::default();
        while let Some(one) = self.next() {
            if open.command.words.is_empty() && open.word.is_none() {
                open.command.line = self.line;
            }
            match one {
                ' ' | '\t' => open.end_word(),
                '\n' => {
                    open.end_word();
                    self.documents(&mut open);
                    self.end(&mut open);
                }
                ';' | '&' | '|' | '(' | ')' => self.end(&mut open),
                '#' if open.word.is_none() => {
                    while self.rest.peek().is_some_and(|one| *one != '\n') {
                        self.next();
                    }
                }
                '<' if self.rest.peek() == Some(&'<') => self.here_document(&mut open),
                '<' | '>' => self.redirection(&mut open),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(other) => open.push(&other.to_string()),
                },
                // PowerShell continues a line with a backquote.
                '`' if self.rest.peek() == Some(&'\n') => drop(self.next()),
                '\'' => self.single_quoted(&mut open)?,
                '"' => self.double_quoted(&mut open)?,
                '$' => self.dollar(&mut open)?,
                '`' => self.substitution('`', &mut open)?,
                other => open.push(&other.to_string()),
            }
        }
        self.end(&mut open);
        Ok(())
    }

    fn end(&mut self, open: &mut OpenCommand) {
        open.end_word();
        let command = std::mem::take(&mut open.command);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }

    fn unclosed(&self, line: usize, what: &str) -> ImportError {
        ImportError::at(line, format!("a {what} is opened and never closed"), "a shell command with matching quotes")
    }

    fn single_quoted(&mut self, open: &mut OpenCommand) -> Result<(), ImportError> {
        let line = self.line;
        open.push("");
        loop {
            match self.next() {
                None => return Err(self.unclosed(line, "single quote")),
                Some('\'') => return Ok(()),
                Some(other) => open.push(&other.to_string()),
            }
        }
    }

    fn double_quoted(&mut self, open: &mut OpenCommand) -> Result<(), ImportError> {
        let line = self.line;
        open.push("");
        loop {
            match self.next() {
                None => return Err(self.unclosed(line, "double quote")),
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('\n') | None => {}
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => open.push(&escaped.to_string()),
                    Some(other) => open.push(&format!("\\{other}")),
                },
                Some('$') if self.rest.peek() == Some(&'\'') => open.push("$"),
                Some('$') => self.dollar(open)?,
                Some('`') => self.substitution('`', open)?,
                Some(other) => open.push(&other.to_string()),
            }
        }
    }

    /// Reads what follows a `$`: a variable, a substitution or a quoted text with escapes.
    fn dollar(&mut self, open: &mut OpenCommand) -> Result<(), ImportError> {
        match self.rest.peek().copied() {
            Some('\'') => {
                self.next();
                self.escaped(open)
            }
            Some('{') => {
                self.next();
                let mut name = String::new();
                while let Some(one) = self.next().filter(|one| *one != '}') {
                    name.push(one);
                }
                let end = name.find(|one: char| !one.is_ascii_alphanumeric() && one != '_').unwrap_or(name.len());
                open.push(&variable(&name[..end]));
                Ok(())
            }
            Some('(') => {
                self.next();
                self.substitution(')', open)
            }
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                let mut name = String::new();
                while let Some(one) = self.rest.next_if(|one| one.is_ascii_alphanumeric() || *one == '_') {
                    name.push(one);
                }
                open.push(&variable(&name));
                Ok(())
            }
            Some(digit) if digit.is_ascii_digit() => {
                self.next();
                open.push(&variable(&format!("ARGUMENT_{digit}")));
                Ok(())
            }
            _ => {
                open.push("$");
                Ok(())
            }
        }
    }

    /// Reads a substitution up to its end. Its commands are read, too; its result is a variable.
    fn substitution(&mut self, end: char, open: &mut OpenCommand) -> Result<(), ImportError> {
        let line = self.line;
        let (mut inner, mut depth, mut quote) = (String::new(), 0_usize, None);
        loop {
            let Some(one) = self.next() else { return Err(self.unclosed(line, "substitution")) };
            match one {
                '\\' => {
                    inner.push(one);
                    inner.extend(self.next());
                    continue;
                }
                '\'' | '"' if quote == Some(one) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(one),
                _ if quote == Some('\'') => {}
                '(' if end == ')' => depth += 1,
                _ if one == end && depth == 0 => break,
                ')' if end == ')' => depth -= 1,
                _ => {}
            }
            inner.push(one);
        }
        if self.depth < DEPTH {
            let rest = inner.chars().peekable();
            let mut reader = ShellReader { rest, line, commands: Vec::new(), depth: self.depth + 1 };
            // An arithmetic expression is no command, and may have any quotes.
            if reader.read().is_ok() {
                self.commands.append(&mut reader.commands);
            }
        }
        open.push(&placeholder("env:COMMAND_OUTPUT"));
        Ok(())
    }

    /// Reads `$'…'`, a text with escapes as in C.
    fn escaped(&mut self, open: &mut OpenCommand) -> Result<(), ImportError> {
        let line = self.line;
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let one = match self.next() {
                None => return Err(self.unclosed(line, "single quote")),
                Some('\'') => break,
                Some('\\') => match self.next() {
                    None => return Err(self.unclosed(line, "single quote")),
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('a') => '\u{7}',
                    Some('b') => '\u{8}',
                    Some('e' | 'E') => '\u{1b}',
                    Some('f') => '\u{c}',
                    Some('v') => '\u{b}',
                    Some('x') => {
                        bytes.push(u8::try_from(self.number(16, 2)).unwrap_or(b'?'));
                        continue;
                    }
                    Some('u') => char::from_u32(self.number(16, 4)).unwrap_or('\u{fffd}'),
                    Some('U') => char::from_u32(self.number(16, 8)).unwrap_or('\u{fffd}'),
                    Some(other) => other,
                },
                Some(other) => other,
            };
            bytes.extend(one.to_string().as_bytes());
        }
        open.push(&String::from_utf8_lossy(&bytes));
        Ok(())
    }

    /// Reads a number of up to `most` digits.
    fn number(&mut self, base: u32, most: usize) -> u32 {
        let mut number: u32 = 0;
        for _ in 0..most {
            let Some(digit) = self.rest.peek().and_then(|one| one.to_digit(base)) else { break };
            self.next();
            number = number.wrapping_mul(base).wrapping_add(digit);
        }
        number
    }

    /// Skips a redirection: `> file`, `2>&1`, `< file`.
    fn redirection(&mut self, open: &mut OpenCommand) {
        // The digit before it names a descriptor.
        if open.word.as_deref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            open.word = None;
        }
        open.end_word();
        while self.rest.next_if(|one| matches!(one, '>' | '&' | ' ' | '|')).is_some() {}
        while self.rest.next_if(|one| !one.is_whitespace() && !";&|()".contains(*one)).is_some() {}
    }

    fn here_document(&mut self, open: &mut OpenCommand) {
        open.end_word();
        self.next();
        // `<<<` gives a word as input.
        if self.rest.next_if_eq(&'<').is_some() {
            return;
        }
        let is_indented = self.rest.next_if_eq(&'-').is_some();
        while self.rest.next_if_eq(&' ').is_some() {}
        let mut end = String::new();
        while let Some(one) = self.rest.next_if(|one| !one.is_whitespace() && !";&|()<>".contains(*one)) {
            end.push(one);
        }
        let end = end.replace(['\'', '"', '\\'], "");
        if !end.is_empty() {
            open.documents.push(HereDocument { end, is_indented, command: self.commands.len() });
        }
    }

    /// Reads the here-documents that were announced on the line before.
    fn documents(&mut self, open: &mut OpenCommand) {
        for HereDocument { end, is_indented, command } in std::mem::take(&mut open.documents) {
            let mut lines: Vec<String> = Vec::new();
            while self.rest.peek().is_some() {
                let mut line = String::new();
                while let Some(one) = self.next().filter(|one| *one != '\n') {
                    line.push(one);
                }
                let line = if is_indented { line.trim_start_matches('\t') } else { &line };
                if line == end {
                    break;
                }
                lines.push(line.to_owned());
            }
            let text = lines.join("\n");
            match self.commands.get_mut(command) {
                // The line was `curl -d @- <<EOF | jq`.
                Some(ended) => ended.input = Some(text),
                None => open.command.input = Some(text),
            }
        }
    }
}

fn variable(name: &str) -> String {
    placeholder(&format!("env:{}", variable_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholder::shown;

    fn words(script: &str) -> Vec<Vec<String>> {
        let commands = commands(script).unwrap();
        commands.into_iter().map(|command| command.words.iter().map(|word| shown(word)).collect()).collect()
    }

    #[test]
    fn quotes_and_continuations_are_as_in_a_shell() {
        assert_eq!(
            words("curl 'a b' \\\n \"c\\\"$D ${E:-1}\" f\\ g''"),
            [["curl", "a b", "c\"{env:D} {env:E}", "f g"]]
        );
        assert_eq!(words("curl $'a\\'\\u0021\\x41\\n'"), [["curl", "a'!A\n"]]);
        assert_eq!(words("a; b && c # d\n e | f > g 2>&1"), [["a"], ["b"], ["c"], ["e"], ["f"]]);
        assert_eq!(words("curl ^\"http://a/^\" ^\n  -H ^\"b: c^\""), [["curl", "http://a/", "-H", "b: c"]]);
        assert_eq!(
            words("x=$(curl \"http://a/$(id)\")"),
            [vec!["id"], vec!["curl", "http://a/{env:COMMAND_OUTPUT}"], vec!["x={env:COMMAND_OUTPUT}"]]
        );
    }

    #[test]
    fn a_here_document_belongs_to_its_command() {
        let commands = commands("curl -d @- http://a/ <<'EOF' | jq\n{\n}\nEOF\nls").unwrap();
        assert_eq!(commands[0].input.as_deref(), Some("{\n}"));
        assert_eq!((commands[1].words[0].as_str(), commands[2].line), ("jq", 5));
    }

    #[test]
    fn an_open_quote_is_an_error_with_its_line() {
        for script in ["\ncurl 'a\nb", "\ncurl \"a\n", "\ncurl $'a\\", "\ncurl $(a"] {
            assert_eq!(commands(script).unwrap_err().line, Some(2), "{script}");
        }
    }
}
