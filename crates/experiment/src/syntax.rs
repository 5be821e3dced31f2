//! TOML text into a tree of values with their places, and every syntax error of the text at once. It knows no key.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::Problem;
use crate::source::Source;
use crate::tree::{Entry, Node, Place, Table, Value};

mod explanation;

/// As many syntax errors as anyone wants to see at once.
const ERRORS_MAX: usize = 50;

/// Reads a text. Each statement that is not TOML is reported and left out; the rest is in the table.
///
/// The parser's own recovery may lose the rest of a file after one mistake, or report a mistake once for
/// every line that follows. So the first error is taken, its statement blanked out (which moves nothing), and the
/// text read again.
pub(crate) fn parse(source: &Arc<Source>) -> (Table, Vec<Problem>) {
    let mut text = source.text.clone();
    let mut problems = Vec::new();
    loop {
        let (document, mut errors) = DeTable::parse_recoverable(&text);
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        problems.extend(duplicates(source, &errors));
        let first = errors.iter().find(|error| !explanation::is_duplicate(error));
        let Some(first) = first.filter(|_| problems.len() < ERRORS_MAX) else {
            return (table(source, 0, 0, document.get_ref()), problems);
        };
        let (problem, statement) = explanation::explain(source, &text, first);
        problems.retain(|known| !explanation::says_duplicate(known));
        problems.push(problem);
        let blanked = blank(&text, statement);
        if blanked == text {
            return (table(source, 0, 0, document.get_ref()), problems);
        }
        text = blanked;
    }
}

/// What is written twice; of a section that is, only the heading.
fn duplicates(source: &Arc<Source>, errors: &[toml::de::Error]) -> Vec<Problem> {
    let twice: Vec<_> = errors.iter().filter(|error| explanation::is_duplicate(error)).collect();
    let (headings, keys): (Vec<_>, Vec<_>) =
        twice.into_iter().partition(|error| explanation::is_heading(source, error));
    // In the order of the text, as the errors are; each ends where the next heading begins.
    let sections: Vec<_> = headings.iter().map(|heading| explanation::section_of(source, heading)).collect();
    let inside = |error: &&toml::de::Error| {
        let at = error.span().unwrap_or_default().start;
        let begun = sections.partition_point(|section| section.start <= at);
        sections[..begun].last().is_some_and(|section| section.contains(&at))
    };
    let keys = keys.into_iter().filter(|error| !inside(error));
    headings.iter().copied().chain(keys).map(|error| explanation::duplicate(source, error)).collect()
}

/// The value of a `--set`, which begins at byte `at` of the source. What is not TOML is a text.
pub(crate) fn parse_value(source: &Arc<Source>, rank: usize, at: usize) -> Node {
    let text = source.text.get(at..).unwrap_or_default();
    match DeValue::parse(text) {
        Ok(value) => node(source, rank, at, &value),
        Err(_) => Node { place: Place::new(source, rank, at..source.text.len()), value: Value::Text(text.to_owned()) },
    }
}

/// Replaces everything but line breaks by blanks, byte for byte.
fn blank(text: &str, range: std::ops::Range<usize>) -> String {
    let kept = |byte: u8| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' };
    let middle: String = text[range.clone()].bytes().map(kept).collect();
    [&text[..range.start], &middle, &text[range.end..]].concat()
}

fn table(source: &Arc<Source>, rank: usize, base: usize, table: &DeTable<'_>) -> Table {
    let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        Entry {
            key: key.get_ref().to_string(),
            key_place: Place::new(source, rank, base + key.span().start..base + key.span().end),
            node: node(source, rank, base, value),
        }
    };
    Table { entries: table.iter().map(entry).collect() }
}

fn node(source: &Arc<Source>, rank: usize, base: usize, spanned: &Spanned<DeValue<'_>>) -> Node {
    let place = Place::new(source, rank, base + spanned.span().start..base + spanned.span().end);
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(whole) => Value::Whole(i64::from_str_radix(whole.as_str(), whole.radix()).ok()),
        DeValue::Float(decimal) => Value::Decimal(decimal.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.iter().map(|item| node(source, rank, base, item)).collect()),
        DeValue::Table(entries) => Value::Table(table(source, rank, base, entries)),
    };
    Node { place, value }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::parse;
    use crate::source::Source;

    fn problems(text: &str) -> (Vec<String>, Vec<String>) {
        let source = Arc::new(Source { name: "f".to_owned(), text: text.to_owned() });
        let (table, problems) = parse(&source);
        let told = problems.iter().map(|problem| {
            let (line, column) = problem.place.line_and_column();
            format!("{line}:{column} {} `{}`", problem.what, problem.place.text())
        });
        (told.collect(), table.entries.into_iter().map(|entry| entry.key).collect())
    }

    #[test]
    fn each_mistake_once_and_the_rest_is_read() {
        let text = "title = \"abc\nagents = \nfoo = = 3\n[load\nx = 1\n[a]\ntime = 30s\nb = [1, 2\nc = 3\n\
        d = \"\"\"never\n[[fault]]\nname = 'x\nsome words\n[b]\n";
        let (told, keys) = problems(text);
        assert_eq!(
            told,
            [
                "1:9 this text is never closed `\"abc`",
                "2:1 `agents` has no value `agents =`",
                "3:7 this is not TOML: extra `=` `=`",
                "4:1 this section's name is never closed `[load`",
                "7:8 a duration is written in quotes `30s`",
                "8:5 this list is never closed `[1, 2`",
                "10:5 this text is never closed `\"\"\"never`",
                "12:8 this text is never closed `'x`",
                "13:1 this is not `key = value` `some words`",
            ]
        );
        assert_eq!(keys, ["a", "fault", "b"]);
    }

    #[test]
    fn what_is_written_twice() {
        let (told, keys) = problems("a = 1\na = 2\n[b]\nc = 1\n[b]\nc = 1\n[c]\nbad\n");
        assert_eq!(
            told,
            ["8:1 this is not `key = value` `bad`", "5:2 `b` is written twice `b`", "2:1 `a` is written twice `a`"]
        );
        assert_eq!(keys, ["a", "b", "c"]);
    }
}
