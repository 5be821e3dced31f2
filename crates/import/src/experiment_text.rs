//! Text of an experiment: the comments at its top, the target, the load and its steps.

use std::fmt::Write as _;

use crate::credentials::NeededVariable;
use crate::formats::{Format, access_log};
use crate::left_out::{LeftOut, comment};
use crate::recording::{ImportedRecording, RequestOrder};
use crate::steps::{self, ImportedStep};
use crate::web_address::is_loopback;
use crate::{ImportError, ImportSource, ImportedExperiment};

/// Maximum width of a comment and of a line with an inline table.
const WIDTH: usize = 100;
/// Agents on this machine, and on a foreign host, where a load needs its owner's consent.
const AGENTS: u32 = 10;
const AGENTS_ABROAD: u32 = 1;

/// Longest pause that is written, seconds. A longer one says that the user was away.
const LONGEST_PAUSE_S: f64 = 30.0;
/// Shortest load, seconds, and the number of sessions that an agent can do in a longer one.
const SHORTEST_S: f64 = 30.0;
const SESSIONS: f64 = 5.0;

/// Writes a recording as an experiment.
///
/// # Errors
/// The recording has no request that Plimsoll can send.
pub fn write(
    source: &ImportSource<'_>,
    format: &Format,
    mut recording: ImportedRecording,
    csv_name: &str,
) -> Result<ImportedExperiment, ImportError> {
    if recording.order == RequestOrder::Log {
        return access_log::experiment(source, recording, csv_name);
    }
    let list = steps::of(&mut recording, format.is_of_a_browser)?;
    let mut notes = notes(&list.service, &list.steps);
    notes.extend(recording.notes.iter().map(|note| comment(note)));
    let title = recording.title.as_deref().filter(|title| !title.trim().is_empty());
    let title = title.map_or_else(|| format!("Requests of {}", source.name), |title| comment(title.trim()));
    let head = ExperimentHead {
        source: source.name,
        format: format.title,
        notes: &notes,
        variables: list.variables.needed(),
        left_out: &recording.left_out,
        title: &title,
        service: &list.service,
        is_insecure: recording.is_insecure,
    };
    let mut text = head.text();
    let agents = if is_loopback(&list.service) { AGENTS } else { AGENTS_ABROAD };
    let pauses_s = list.steps.iter().filter_map(|step| step.think_s).map(|think_s| think_s.min(LONGEST_PAUSE_S));
    let time = seconds((pauses_s.sum::<f64>() * SESSIONS).ceil().max(SHORTEST_S));
    let has_jar = recording.has_cookie_jar && recording.order == RequestOrder::Session;
    let (width, cookies) = if has_jar { (7, "cookies = true\n") } else { (6, "") };
    text.push_str(&format!("\n[load]\n{:width$} = {agents}\n{:width$} = \"{time}\"\n{cookies}", "agents", "time"));
    for step in &list.steps {
        text.push_str(&step_text(step, recording.order));
    }
    Ok(ImportedExperiment { text, csv: None })
}

/// Returns remarks about what the load does to its target.
fn notes(service: &str, steps: &[ImportedStep]) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_loopback(service) {
        notes.push(format!(
            "The load goes to {service}, which is another machine. Ask its owner before a run, or write the URL of a \
             server of your own. `agents` is 1 for this reason."
        ));
    }
    let changing = steps.iter().filter(|step| step.may_change()).count();
    if changing > 0 {
        let steps = if changing == 1 { "step sends a".to_owned() } else { "steps send a".to_owned() };
        notes.push(format!(
            "{changing} {steps} POST, PUT, PATCH or DELETE, and may change data. They send the same values again and \
             again: use placeholders such as {{seq}} or a [[load.feed]] for values that must differ."
        ));
    }
    notes
}

/// Part of an experiment before `[load]`.
pub struct ExperimentHead<'a> {
    pub source: &'a str,
    /// Name of the format for readers.
    pub format: &'a str,
    pub notes: &'a [String],
    pub variables: &'a [NeededVariable],
    pub left_out: &'a LeftOut,
    pub title: &'a str,
    pub service: &'a str,
    pub is_insecure: bool,
}

impl ExperimentHead<'_> {
    pub fn text(&self) -> String {
        let mut text = String::new();
        let made = format!("Made by `plimsoll new --from {}` ({}).", comment(self.source), self.format);
        paragraph(&mut text, &made, "");
        for note in self.notes {
            text.push_str("#\n");
            paragraph(&mut text, note, "");
        }
        if !self.variables.is_empty() {
            text.push_str("#\n# Variables of the environment to set before a run:\n");
            for variable in self.variables {
                let places = variable.places.iter().map(|place| comment(place)).collect::<Vec<String>>().join(", ");
                paragraph(&mut text, &format!("{}: {places}", variable.name), "  ");
            }
        }
        if !self.left_out.is_empty() {
            text.push_str("#\n# Left out:\n");
            for line in self.left_out.paragraphs() {
                paragraph(&mut text, &line, "  ");
            }
        }
        let _ = write!(
            text,
            "\ntitle = {}\nasks  = \"How many requests per second, and how fast are they answered?\"\n\n[target]\nurl = {}\n",
            text::toml_string(self.title),
            text::toml_string(self.service),
        );
        if self.is_insecure && ["https://", "h2://"].iter().any(|scheme| self.service.starts_with(scheme)) {
            text.push_str("tls = { insecure = true }\n");
        }
        text
    }
}

/// Appends a comment, in lines of limited width. Further lines of an indented comment are indented
/// more.
fn paragraph(text: &mut String, words: &str, indent: &str) {
    let mut line = format!("# {indent}");
    let mut is_first = true;
    for word in words.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = format!("# {indent}{indent}");
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

fn step_text(step: &ImportedStep, order: RequestOrder) -> String {
    let mix = order == RequestOrder::Mix;
    let mut text = String::from("\n");
    if let Some(why) = &step.missing_body {
        paragraph(&mut text, &format!("Its body is left out ({}).", comment(why)), "");
    }
    if let Some(think_s) = step.think_s.filter(|think_s| !mix && *think_s > LONGEST_PAUSE_S) {
        let _ = writeln!(text, "# The pause in the source was {}.", seconds(think_s));
    }
    let (table, path) = if mix { ("[[load.mix]]", "[load.mix.with]") } else { ("[[load.cycle]]", "[load.cycle.with]") };
    let mut keys = vec![("name", text::toml_string(&step.name)), ("call", text::toml_string(&step.call))];
    if mix && step.count > 1 {
        keys.push(("weight", step.count.min(1_000_000).to_string()));
    }
    let pairs: Vec<String> =
        step.with.iter().map(|(name, value)| format!("{} = {}", key(name), toml_text(value))).collect();
    let inline = format!("{{ {} }}", pairs.join(", "));
    let is_inline = inline.chars().count() <= WIDTH && !inline.contains('\n');
    if is_inline {
        keys.push(("with", inline));
    }
    if step.count > 1 && !mix {
        keys.push(("repeat", step.count.min(10_000).to_string()));
    }
    if let Some(think_s) = step.think_s.filter(|_| !mix) {
        keys.push(("think", text::toml_string(&seconds(think_s.min(LONGEST_PAUSE_S)))));
    }
    if let Some(status) = step.expected_status {
        keys.push(("expect", format!("{{ status = \"{status}\" }}")));
    }
    let width = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let _ = writeln!(text, "{table}");
    for (key, value) in keys {
        let _ = writeln!(text, "{key:width$} = {value}");
    }
    if !is_inline {
        let _ = writeln!(text, "{path}");
        for pair in pairs {
            let _ = writeln!(text, "{pair}");
        }
    }
    text
}

/// Returns a duration for an experiment, in tenths of a second.
pub fn seconds(seconds: f64) -> String {
    let tenths = (seconds * 10.0).round().max(1.0);
    format!("{}s", tenths / 10.0)
}

/// Returns a TOML key; a header's name is quoted if necessary.
fn key(name: &str) -> String {
    let is_bare = name.splitn(2, '.').all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    });
    if is_bare { name.to_owned() } else { text::toml_string(name) }
}

/// Returns a TOML string in the form that is easiest to read: without escapes if possible, and on
/// several lines if the text has them.
fn toml_text(value: &str) -> String {
    if value.contains("\r\n") {
        return lines_with_returns(value);
    }
    let is_plain = !value.chars().any(|one| one.is_control() && one != '\n' && one != '\t') && !value.contains("'''");
    if value.contains('\n') && is_plain && !value.ends_with('\'') {
        return format!("'''\n{value}'''");
    }
    if !value.contains(['"', '\\']) || !is_plain || value.contains('\n') {
        return text::toml_string(value);
    }
    match value.contains('\'') {
        false => format!("'{value}'"),
        true if value.ends_with('\'') || value.starts_with('\'') => text::toml_string(value),
        true => format!("'''{value}'''"),
    }
}

/// Returns a TOML string on several lines, each of which ends with `\r`, as in multipart bodies.
fn lines_with_returns(value: &str) -> String {
    let mut text = String::from("\"\"\"\n");
    for one in value.chars() {
        match one {
            '\\' => text.push_str("\\\\"),
            '"' if text.ends_with("\"\"") => text.push_str("\\\""),
            '\r' => text.push_str("\\r"),
            '\n' | '\t' => text.push(one),
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    if text.ends_with('"') && !text.ends_with("\\\"") {
        text.truncate(text.len() - 1);
        text.push_str("\\\"");
    }
    text.push_str("\"\"\"");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_no_escapes_where_toml_allows_it() {
        for (value, written) in [
            ("/a", "\"/a\""),
            ("{\"a\": 1}", "'{\"a\": 1}'"),
            ("{\"a\": \"it's\"}", "'''{\"a\": \"it's\"}'''"),
            ("{\n}", "'''\n{\n}'''"),
            ("'''\n", "\"'''\\n\""),
            ("a\r\nb\"", "\"\"\"\na\\r\nb\\\"\"\"\""),
            ("a\r\n\"\"\"\"", "\"\"\"\na\\r\n\"\"\\\"\\\"\"\"\""),
            ("a\rb", "\"a\\rb\""),
            ("\"it'", "\"\\\"it'\""),
        ] {
            assert_eq!(toml_text(value), written);
        }
    }

    #[test]
    fn comments_are_wrapped() {
        let mut text = String::new();
        paragraph(&mut text, &"word ".repeat(40), "  ");
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("#   ")), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn pauses_have_tenths_of_a_second() {
        assert_eq!([seconds(2.04), seconds(0.001), seconds(12.0)], ["2s", "0.1s", "12s"]);
    }
}
