//! Fuzz target for files of other tools: every text becomes an experiment that can be read, or
//! gives an error that says what was expected.

use experiment::source::Source;
use import::{ImportSource, formats};

use crate::experiments::CATALOG;

/// Reads any text in each format, and in the format that is detected.
pub fn import(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let attached = |name: &str| (name.len().is_multiple_of(2)).then(|| input.to_vec());
    let source = ImportSource { name: "source", text: &text, attached: &attached };
    let names = formats::KINDS.iter().map(|format| Some(format.name));
    for format in names.chain([None]) {
        match import::experiment(&source, format, "requests.csv") {
            Err(error) => assert!(!error.what.is_empty() && !error.expected.is_empty(), "{error:?}"),
            Ok(made) => {
                let source = Source { name: "f.toml".to_owned(), text: made.text };
                if let Err(problems) = experiment::read(&source, &[], &CATALOG) {
                    panic!("{}\n{}", problems.render(false), source.text);
                }
            }
        }
    }
}
