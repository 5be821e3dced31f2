//! Experiments from files of other tools. The text of a file goes in, the text of an experiment
//! comes out. Each format is read into a [`recording::ImportedRecording`], which is then written.

mod credentials;
mod experiment_text;
pub mod formats;
mod header_rules;
pub mod left_out;
mod multipart;
mod placeholder;
pub mod recording;
mod shell_words;
mod steps;
mod web_address;
mod yaml;

use recording::{ImportedRecording, RecordedRequest};
use web_address::WebAddress;

/// Source of an import.
#[derive(Clone, Copy)]
pub struct ImportSource<'a> {
    /// File name, for comments.
    pub name: &'a str,
    pub text: &'a str,
    /// Returns the content of a file that the source names, such as the body `@body.json`; `None`
    /// if it cannot be read.
    pub attached: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// Experiment that was made from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedExperiment {
    pub text: String,
    /// Content of the CSV file that the experiment names; `None` if it names none.
    pub csv: Option<String>,
}

/// Reason why a source cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ImportError {
    /// Line of the source, from 1, if it is known.
    pub line: Option<usize>,
    /// Description of the problem.
    pub what: String,
    /// Content that was expected instead.
    pub expected: String,
}

impl ImportError {
    pub(crate) fn new(what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), expected: expected.into() }
    }

    pub(crate) fn at(line: usize, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::new(what, expected) }
    }
}

/// Reads a source and writes it as an experiment. Without `format`, the format is detected from the
/// content. `csv_name` is the file name that the experiment has for recorded starts.
///
/// # Errors
/// The format is unknown, the source is broken, or it has no request that Plimsoll can send.
pub fn experiment(
    source: &ImportSource<'_>,
    format: Option<&str>,
    csv_name: &str,
) -> Result<ImportedExperiment, ImportError> {
    let source = ImportSource { text: source.text.trim_start_matches('\u{feff}'), ..*source };
    let format = match format {
        Some(name) => formats::named(name)?,
        None => formats::detected(source.text)?,
    };
    let recording = (format.read)(&source)?;
    experiment_text::write(&source, format, recording, csv_name)
}

/// Reads one curl command with one request, given as its words after `curl`. Credentials are kept,
/// and the headers are those that a step would have. `attached` returns the content of files.
///
/// # Errors
/// The command has no URL or several, or Plimsoll cannot send its request.
pub fn curl_command(
    words: &[String],
    attached: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Result<(RecordedRequest, ImportedRecording), ImportError> {
    let mut recording = formats::curl::command(words, attached)?;
    let mut requests = std::mem::take(&mut recording.requests);
    let (Some(mut request), true) = (requests.pop(), requests.is_empty()) else {
        let what = format!("this curl command sends {} requests", requests.len() + 1);
        return Err(ImportError::new(what, "one URL; `plimsoll new --from FILE` reads several commands from a file"));
    };
    let address = WebAddress::parse(&request.url)
        .map_err(|why| ImportError::new(format!("{}: {why}", request.url), "an http:// or https:// URL"))?;
    request.headers = steps::headers(&request, &address, false, &mut recording.left_out);
    request.url = format!("{}{}", address.service, address.path);
    Ok((request, recording))
}
