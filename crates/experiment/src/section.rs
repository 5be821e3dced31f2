//! A section of a file with its table of keys. Checks the section's shape (unknown and missing
//! keys, wrong types, values outside their range), and returns values, or the key table's defaults.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::duration::{self, DurationError};
use crate::keys::{self, Key, KeyType, Need};
use crate::problem::{Problem, Problems, join_words, nearest_hint, nearest_name};
use crate::quantity::{Quantity, QuantityError};
use crate::source::{self, Source};
use crate::tree::{Node, TableEntry, TextSpan, TomlTable, TomlValue};

/// A table, its keys, and the place of its heading.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    pub table: &'a TomlTable,
    pub keys: &'static [Key],
    pub place: &'a TextSpan,
}

impl<'a> Section<'a> {
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// Returns the place of the key's value, or of the section's heading if the key is absent.
    pub fn place(&self, key: &str) -> &'a TextSpan {
        self.node(key).map_or(self.place, |node| &node.place)
    }

    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// Returns the result of `read` for an empty section, which has only defaults.
    pub fn nothing<T>(keys: &'static [Key], read: impl Fn(&Section<'_>) -> T) -> T {
        read(&Section { table: &TomlTable::default(), keys, place: &TextSpan::default() })
    }

    /// Returns the key's text, or its default.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.table.text(key).or_else(|| match keys::find(self.keys, key)?.need {
            Need::Default(default) if !self.has(key) => Some(default),
            _ => None,
        })
    }

    /// Returns the key's value, or its default: times in seconds, sizes and rates in their base
    /// units.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let key = keys::find(self.keys, key)?;
        let json = match (self.node(key.name), key.need) {
            (Some(node), _) => resolved(&key.kind, node),
            (None, Need::Default(text)) => in_base_unit(&key.kind, text),
            (None, _) => return None,
        };
        serde_json::from_value(json).ok()
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key)
    }

    pub fn boolean(&self, key: &str) -> bool {
        self.get(key).unwrap_or_default()
    }

    /// Returns the subsection `key`.
    pub fn section(&self, key: &str) -> Option<Self> {
        let node = self.node(key)?;
        Some(Self { table: node.table()?, keys: keys::find(self.keys, key)?.kind.keys(), place: &node.place })
    }

    /// Returns the sections of a list of tables.
    pub fn sections(&self, key: &str) -> Vec<Self> {
        let keys = keys::find(self.keys, key).map(|key| key.kind.keys()).unwrap_or_default();
        self.table.tables(key).map(|(node, table)| Self { table, keys, place: &node.place }).collect()
    }

    /// Returns the entries of a table with free keys. A key with dots is one entry, with the whole
    /// key.
    pub fn entries(&self, key: &str) -> Vec<TableEntry> {
        let Some(table) = self.table.table(key) else { return Vec::new() };
        match keys::find(self.keys, key).map(|key| &key.kind) {
            Some(KeyType::Paths(of)) => table.flattened_until(&|table| of.is_value(table)),
            _ => table.entries.clone(),
        }
    }
}

/// Converts a value to JSON, in base units. The result is null for a value of another type.
fn resolved(kind: &KeyType, node: &Node) -> Json {
    match (kind, &node.value) {
        (KeyType::Scalar | KeyType::Template, _) => node.as_written().map_or(Json::Null, Json::from),
        (KeyType::List(of), TomlValue::List(list)) => list.iter().map(|node| resolved(of, node)).collect(),
        (KeyType::Map(of), TomlValue::Table(table)) => {
            table.entries.iter().map(|entry| (entry.key.clone(), resolved(of, &entry.node))).collect()
        }
        (KeyType::Either(kinds, _), _) => {
            kinds.iter().map(|kind| resolved(kind, node)).find(|json| !json.is_null()).unwrap_or_default()
        }
        (KeyType::Duration { .. } | KeyType::Quantity(_), TomlValue::Text(text)) => in_base_unit(kind, text),
        (KeyType::Duration { .. } | KeyType::Quantity(_), _) => Json::Null,
        (KeyType::Choice(choices), _) if !node.text().is_some_and(|text| choices.contains(&text)) => Json::Null,
        _ => node.json(),
    }
}

fn in_base_unit(kind: &KeyType, text: &str) -> Json {
    match kind {
        KeyType::Duration { .. } => duration::parse_s(text).map_or(Json::Null, Json::from),
        KeyType::Quantity(quantity) => quantity.parse(text).map_or(Json::Null, Json::from),
        _ => kind.default_value(text),
    }
}

/// Strictness of the check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every required key must be present.
    Whole,
    /// A file that variants may complete: no key is required.
    File,
    /// An overlay: no key is required, and lists of tables may be entered by name.
    Part,
}

/// Reads a file that is one table of these keys.
///
/// # Errors
/// All problems in the file.
pub(crate) fn read_file<T>(
    source: &Source,
    keys: &'static [Key],
    read: impl FnOnce(&Section<'_>, &mut Vec<Problem>) -> T,
) -> Result<T, Problems> {
    let file = Arc::new(source.clone());
    let (table, mut problems) = source::parse(&file);
    let syntax_is_broken = !problems.is_empty();
    let start = TextSpan::new(&file, 0, 0..0);
    SectionWalk { root: keys, mode: Mode::Whole, problems: &mut problems }.table("", keys, &table, &start);
    let read = read(&Section { table: &table, keys, place: &start }, &mut problems);
    if problems.is_empty() { Ok(read) } else { Err(Problems::new(problems, syntax_is_broken)) }
}

/// A check of a file's tree against the key table.
pub(crate) struct SectionWalk<'a> {
    /// All keys of the file, to name the right section of a misplaced key.
    pub root: &'static [Key],
    pub mode: Mode,
    pub problems: &'a mut Vec<Problem>,
}

impl SectionWalk<'_> {
    /// Checks a table. `path` is the table's path (empty for the file), `place` the place of its
    /// heading.
    pub fn table(&mut self, path: &str, keys: &'static [Key], table: &TomlTable, place: &TextSpan) {
        let mut meant = Vec::new();
        for entry in &table.entries {
            match keys::find(keys, &entry.key) {
                Some(key) => self.value(&join(path, &entry.key), &key.kind, &entry.node),
                None => {
                    meant.extend(nearest_key(keys, &entry.key).map(|key| key.name));
                    let problem = self.unknown(path, keys, &entry.key, &entry.key_place);
                    self.problems.push(problem);
                }
            }
        }
        if self.mode == Mode::Whole {
            // A key that is present but misspelt is not also reported as missing.
            let is_missing =
                |key: &&Key| key.is_required_in(table) && table.get(key.name).is_none() && !meant.contains(&key.name);
            self.problems.extend(keys.iter().filter(is_missing).map(|key| missing(path, key, place)));
        }
    }

    fn unknown(&self, path: &str, keys: &'static [Key], name: &str, place: &TextSpan) -> Problem {
        let what = match path {
            "" if self.mode == Mode::Part => format!("a variant cannot set `{name}`"),
            "" => format!("there is no section or key `{name}`"),
            _ => format!("`{path}` has no key `{name}`"),
        };
        let problem = Problem::new(place, what).expected("unknown key");
        if let Some(key) = nearest_key(keys, name) {
            let known_elsewhere = key.elsewhere.iter().any(|other| other.eq_ignore_ascii_case(name));
            return problem.hint(match known_elsewhere {
                true => format!("it is called `{}` here: {}", key.name, key.help),
                false => format!("did you mean `{}`?", key.name),
            });
        }
        let homes = keys::homes(self.root, name);
        if !homes.is_empty() {
            return problem.hint(format!("`{name}` is a key of {}", join_words(&homes, "and")));
        }
        problem.maybe(nearest_hint(name, keys.iter().map(|key| key.name)))
    }

    /// Checks a value against the type of its key.
    pub fn value(&mut self, path: &str, kind: &'static KeyType, node: &Node) {
        match (kind, &node.value) {
            (KeyType::Table(keys), TomlValue::Table(table)) => self.table(path, keys, table, &node.place),
            (KeyType::Tables(keys) | KeyType::Overlays(keys), TomlValue::List(list)) => {
                for item in list {
                    self.item(path, kind, keys, item);
                }
            }
            (KeyType::Tables(keys), TomlValue::Table(table)) if self.mode == Mode::Part => {
                for entry in &table.entries {
                    self.item(&join(path, &entry.key), kind, keys, &entry.node);
                }
            }
            (KeyType::Map(of), TomlValue::Table(table)) => {
                for entry in &table.entries {
                    self.value(&join(path, &entry.key), of, &entry.node);
                }
            }
            (KeyType::Paths(of), TomlValue::Table(table)) => {
                for entry in &table.entries {
                    let goes_on = entry.node.table().is_some_and(|table| !of.is_value(table));
                    let kind = if goes_on { kind } else { of };
                    self.value(&join(path, &entry.key), kind, &entry.node);
                }
            }
            (KeyType::PathsBeside(keys, paths), TomlValue::Table(table)) => {
                let (own, free): (Vec<TableEntry>, Vec<TableEntry>) =
                    table.entries.iter().cloned().partition(|entry| keys::find(keys, &entry.key).is_some());
                self.table(path, keys, &TomlTable { entries: own }, &node.place);
                let free = Node { value: TomlValue::Table(TomlTable { entries: free }), ..node.clone() };
                self.value(path, paths, &free);
            }
            (KeyType::List(of), TomlValue::List(list)) => {
                for item in list {
                    self.value(path, of, item);
                }
            }
            (KeyType::Either(kinds, _), _) => self.either(path, kind, kinds, node),
            _ => self.problems.extend(scalar(path, kind, node)),
        }
    }

    fn item(&mut self, path: &str, kind: &'static KeyType, keys: &'static [Key], item: &Node) {
        let TomlValue::Table(table) = &item.value else {
            self.problems.push(wrong_type(path, &KeyType::Table(keys), item));
            return;
        };
        if !matches!(kind, KeyType::Overlays(_)) {
            self.table(path, keys, table, &item.place);
            return;
        }
        let outer = self.mode;
        self.mode = Mode::Part;
        // A variant's paths are written as in the file, without the variant.
        self.table("", keys, table, &item.place);
        self.mode = outer;
        for key in keys.iter().filter(|key| key.need == Need::Required && table.get(key.name).is_none()) {
            self.problems.push(missing(path, key, &item.place));
        }
    }

    fn either(&mut self, path: &str, kind: &'static KeyType, kinds: &'static [KeyType], node: &Node) {
        let mut rejected = Vec::new();
        for kind in kinds {
            let mut problems = Vec::new();
            SectionWalk { root: self.root, mode: self.mode, problems: &mut problems }.value(path, kind, node);
            if problems.is_empty() {
                return;
            }
            // Whether the value may be meant as this type, and whether this type's problem is more
            // exact than "wrong type".
            let (same_type, is_exact) = match kind {
                KeyType::Table(_) => (node.table().is_some(), true),
                KeyType::Tables(_) => (node.list().is_some(), true),
                _ => {
                    let is_number = matches!(kind, KeyType::Whole { .. } | KeyType::Number | KeyType::Positive);
                    let same_type = node.table().is_none() && node.list().is_none();
                    (same_type, is_number && node.number().is_some())
                }
            };
            rejected.push((same_type, is_exact, problems));
        }
        rejected.retain(|(same_type, is_exact, _)| *same_type && *is_exact);
        match rejected.pop() {
            Some((.., problems)) if rejected.is_empty() => self.problems.extend(problems),
            _ => self.problems.push(wrong_type(path, kind, node)),
        }
    }
}

/// Returns the key for an unknown name: by another tool's name, or by similar spelling.
fn nearest_key(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    let elsewhere = |key: &&Key| key.elsewhere.iter().any(|other| other.eq_ignore_ascii_case(name));
    keys.iter()
        .find(elsewhere)
        .or_else(|| nearest_name(name, keys.iter().map(|key| key.name)).and_then(|near| keys::find(keys, near)))
}

/// Checks a value that contains no other values.
fn scalar(path: &str, kind: &'static KeyType, node: &Node) -> Option<Problem> {
    match (kind, &node.value) {
        (KeyType::Any, _)
        | (
            KeyType::Scalar | KeyType::Template,
            TomlValue::Boolean(_) | TomlValue::Whole(Some(_)) | TomlValue::Text(_),
        )
        | (KeyType::Scalar, TomlValue::Date)
        | (KeyType::Boolean, TomlValue::Boolean(_)) => None,
        (KeyType::Text, TomlValue::Text(text)) if text.trim().is_empty() => {
            Some(Problem::new(&node.place, format!("`{path}` is empty")).expected("write something here"))
        }
        (KeyType::Text | KeyType::Argument, TomlValue::Text(_)) => None,
        (KeyType::Scalar | KeyType::Template | KeyType::Number | KeyType::Figure, TomlValue::Decimal(number))
            if number.is_finite() =>
        {
            None
        }
        (KeyType::Number | KeyType::Figure, TomlValue::Whole(Some(_))) => None,
        // The unit is checked by code that knows the metric.
        (KeyType::Figure, TomlValue::Text(_)) => None,
        (KeyType::Name, TomlValue::Text(text)) => (!is_name(text))
            .then(|| Problem::new(&node.place, format!("\"{text}\" is not a name")).expected(kind.words())),
        (KeyType::Choice(choices), TomlValue::Text(text)) => (!choices.contains(&text.as_str())).then(|| {
            Problem::new(&node.place, format!("`{path}` cannot be \"{text}\""))
                .expected(kind.words())
                .maybe(nearest_name(text, choices.iter().copied()).map(|near| format!("did you mean \"{near}\"?")))
        }),
        (KeyType::Duration { zero }, _) => time(path, *zero, node),
        (KeyType::Quantity(quantity), _) => amount(path, *quantity, node),
        (KeyType::Whole { min, max }, TomlValue::Whole(number)) => {
            let inside = number.is_some_and(|number| (*min..=*max).contains(&number));
            (!inside).then(|| {
                Problem::new(&node.place, format!("`{path}` cannot be {}", node.place.text())).expected(kind.words())
            })
        }
        (KeyType::Positive, TomlValue::Whole(_) | TomlValue::Decimal(_)) => {
            let inside = node.number().is_some_and(|number| number > 0.0 && number.is_finite());
            (!inside).then(|| {
                Problem::new(&node.place, format!("`{path}` cannot be {}", node.place.text())).expected(kind.words())
            })
        }
        _ => Some(wrong_type(path, kind, node)),
    }
}

fn time(path: &str, zero: bool, node: &Node) -> Option<Problem> {
    const WORDS: &str = "a duration such as \"30s\"";
    let text = match &node.value {
        TomlValue::Text(text) => text,
        TomlValue::Whole(_) | TomlValue::Decimal(_) => {
            let number = node.place.text();
            return Some(
                Problem::new(&node.place, format!("`{path}` has no unit"))
                    .expected(WORDS)
                    .hint(format!("for seconds write \"{number}s\"; the units are us, ms, s, m and h")),
            );
        }
        _ => return Some(wrong_type(path, &KeyType::Duration { zero: true }, node)),
    };
    match duration::parse_s(text) {
        Ok(seconds) if seconds > 0.0 || zero => None,
        Ok(_) => Some(Problem::new(&node.place, format!("`{path}` cannot be 0")).expected("longer than 0")),
        Err(error @ DurationError::Negative) => {
            Some(Problem::new(&node.place, format!("`{path}` cannot be negative")).expected(error.to_string()))
        }
        Err(DurationError::NoUnit) => Some(
            Problem::new(&node.place, format!("`{path}` has no unit"))
                .expected(WORDS)
                .hint(format!("for seconds write \"{}s\"; the units are us, ms, s, m and h", text.trim())),
        ),
        Err(error) => Some(
            Problem::new(&node.place, format!("`{path}` is not a duration")).expected(WORDS).hint(error.to_string()),
        ),
    }
}

fn amount(path: &str, quantity: Quantity, node: &Node) -> Option<Problem> {
    let text = match &node.value {
        TomlValue::Text(text) => text,
        TomlValue::Whole(_) | TomlValue::Decimal(_) => return Some(no_unit(path, quantity, node)),
        _ => return Some(wrong_type(path, &KeyType::Quantity(quantity), node)),
    };
    let error = quantity.parse(text).err()?;
    let problem = Problem::new(&node.place, format!("`{path}` cannot be \"{text}\"")).expected(quantity.words());
    Some(match error {
        QuantityError::NoUnit => no_unit(path, quantity, node),
        QuantityError::UnknownUnit => problem.hint(format!("the units are {}", quantity.units())),
        _ => problem.hint(error.to_string()),
    })
}

fn no_unit(path: &str, quantity: Quantity, node: &Node) -> Problem {
    let problem = Problem::new(&node.place, format!("`{path}` has no unit")).expected(quantity.words());
    problem.hint(format!("the units are {}", quantity.units()))
}

fn wrong_type(path: &str, kind: &KeyType, node: &Node) -> Problem {
    let what = match (kind, &node.value) {
        // If the type may be right, names the value instead of its type.
        (KeyType::Either(..), TomlValue::Text(_)) | (_, TomlValue::Boolean(_)) => node.place.text(),
        _ => node.kind(),
    };
    let problem = Problem::new(&node.place, format!("`{path}` cannot be {what}")).expected(kind.words());
    match (kind, &node.value) {
        (KeyType::Tables(_) | KeyType::Overlays(_), TomlValue::Table(_)) => {
            problem.hint(format!("this section may occur several times: write [[{path}]]"))
        }
        (
            KeyType::List(_),
            TomlValue::Text(_) | TomlValue::Whole(_) | TomlValue::Decimal(_) | TomlValue::Boolean(_),
        ) => problem.hint(format!("write [{}]", node.place.text())),
        (KeyType::Table(_), TomlValue::List(_)) => problem.hint(format!("this section occurs once: write [{path}]")),
        (KeyType::Whole { .. } | KeyType::Number | KeyType::Positive, TomlValue::Text(text))
            if text.trim().parse::<f64>().is_ok() =>
        {
            problem.hint(format!("without quotes: {}", text.trim()))
        }
        (KeyType::Boolean, TomlValue::Text(text)) if matches!(text.as_str(), "true" | "false") => {
            problem.hint(format!("without quotes: {text}"))
        }
        (
            KeyType::Text | KeyType::Argument | KeyType::Name,
            TomlValue::Whole(_) | TomlValue::Decimal(_) | TomlValue::Boolean(_) | TomlValue::Date,
        ) => problem.hint(format!("in quotes: \"{}\"", node.place.text())),
        _ => problem,
    }
}

fn missing(path: &str, key: &Key, place: &TextSpan) -> Problem {
    let (what, heading) = match path {
        "" => (format!("the section [{}] is missing", key.name), "nowhere in this file".to_owned()),
        _ => (format!("`{path}` needs `{}`", key.name), format!("`{}` is missing", key.name)),
    };
    let hint = match path {
        "" => format!("add {}: {}", key.heading(key.name), key.help),
        _ => format!("{}: {}", key.help, key.kind.words()),
    };
    Problem::absent(place, what).expected(heading).hint(hint)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
