//! The declarative tables of keys: for each section of a file which keys it has, what they take, what they default
//! to, and a line of help. The checker, the JSON Schema and the reference are all derived from them.
//! No text is read here.

mod expectation;
pub(crate) mod experiment;
mod lab;
pub(crate) mod profile;
pub(crate) mod rate;
mod service;
pub(crate) mod target;

use crate::quantity::Quantity;
use crate::tree::Table;

/// A key of a section.
#[derive(Debug)]
pub(crate) struct Key {
    /// The word on the left of the `=`, or the section's name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it may be left out.
    pub need: Need,
    /// One line, without a full stop.
    pub help: &'static str,
    /// What other tools call it; only used to suggest the right name.
    pub elsewhere: &'static [&'static str],
}

/// Whether a key may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It may not.
    Required,
    /// It may; nothing takes its place.
    Optional,
    /// It may; this takes its place.
    Default(&'static str),
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// Small letters, digits, `_` and `-`.
    Name,
    /// A text, number or boolean; kept as text.
    Scalar,
    /// A text with placeholders; also a number or boolean.
    Template,
    /// A number and a unit; `zero` says whether `"0s"` makes sense.
    Duration { zero: bool },
    /// A size or rate: a number and a unit.
    Quantity(Quantity),
    /// A whole number.
    Whole { min: i64, max: i64 },
    /// Any number.
    Number,
    /// A number above 0.
    Positive,
    /// true or false.
    Boolean,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Anything, kept as written.
    Any,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A list of tables, each with these keys; entered by `name`, `call`, `role` or index.
    Tables(&'static [Key]),
    /// A list of overlays: every key but `name` is a section of which any part may be given.
    Overlays(&'static [Key]),
    /// A table with free keys.
    Map(&'static Kind),
    /// A table with free keys that may have dots: `a.b = 1`, `"a.b" = 1` and `a = { b = 1 }` say the same.
    /// Where its values may be tables themselves, one that has a key of theirs is a value.
    Paths(&'static Kind),
    /// A list.
    List(&'static Kind),
    /// Any of these; the text is what to tell someone who wrote none of them.
    Either(&'static [Kind], &'static str),
}

impl Kind {
    /// What to write, such as `a duration such as "30s"`.
    pub fn words(&self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Name => "a name of small letters, digits, `_` and `-`".to_owned(),
            Self::Scalar => "a text, a number, or true or false".to_owned(),
            Self::Template => "a text in quotes, perhaps with placeholders such as {seq}".to_owned(),
            Self::Duration { .. } => "a duration such as \"30s\"".to_owned(),
            Self::Quantity(quantity) => quantity.words().to_owned(),
            Self::Whole { min, max } if *max >= i64::from(u32::MAX) => format!("a whole number, {min} or more"),
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number => "a number".to_owned(),
            Self::Positive => "a number above 0".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Choice(choices) => {
                let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                crate::nearest::listed(&quoted, "or")
            }
            Self::Any => "a value".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) | Self::Overlays(_) => "a list of tables".to_owned(),
            Self::Map(of) | Self::Paths(of) => format!("a table, each value {}", of.words()),
            Self::List(of) => format!("a list, each element {}", of.words()),
            Self::Either(_, words) => (*words).to_owned(),
        }
    }

    /// The keys below it, if it is a section.
    pub fn keys(&self) -> &'static [Key] {
        match self {
            Self::Table(keys) | Self::Tables(keys) | Self::Overlays(keys) => keys,
            Self::Either(kinds, _) => kinds.iter().map(Self::keys).find(|keys| !keys.is_empty()).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The keys of each value of a table with free keys.
    pub fn below(&self) -> &'static [Key] {
        if let Self::Map(of) | Self::Paths(of) = self { of.keys() } else { &[] }
    }

    /// Whether the table is a value of this kind rather than a step of a path to one: it has one of its keys, by whatever name.
    pub fn is_value(&self, table: &Table) -> bool {
        let has = |key: &Key| {
            table.entries.iter().any(|entry| key.name == entry.key || key.elsewhere.contains(&entry.key.as_str()))
        };
        self.keys().iter().any(has)
    }
}

impl Key {
    pub(crate) const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, need: Need::Optional, help, elsewhere: &[] }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.need = Need::Required;
        self
    }

    pub(crate) const fn or(mut self, default: &'static str) -> Self {
        self.need = Need::Default(default);
        self
    }

    pub(crate) const fn elsewhere(mut self, words: &'static [&'static str]) -> Self {
        self.elsewhere = words;
        self
    }

    /// How its section is headed: `[load]`, `[[fault]]`.
    pub fn heading(&self, path: &str) -> String {
        let sections = self.sections(path);
        sections.into_iter().last().map_or_else(|| format!("[{path}]"), |(heading, _)| heading)
    }

    /// The sections that it may be, with their headings and keys. One that may occur once or several times is one section.
    pub fn sections(&self, path: &str) -> Vec<(String, &'static [Self])> {
        let kinds = if let Kind::Either(kinds, _) = &self.kind { *kinds } else { std::slice::from_ref(&self.kind) };
        let names = |keys: &'static [Self]| keys.iter().map(|key| key.name).collect::<Vec<_>>();
        let mut sections: Vec<(String, &'static [Self])> = Vec::new();
        for kind in kinds.iter().filter(|kind| !kind.keys().is_empty()) {
            let is_list = matches!(kind, Kind::Tables(_) | Kind::Overlays(_));
            sections.retain(|(_, keys)| names(keys) != names(kind.keys()));
            sections.push((if is_list { format!("[[{path}]]") } else { format!("[{path}]") }, kind.keys()));
        }
        sections
    }
}

/// The key of that name.
pub(crate) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

/// Headings of the sections, anywhere below `keys`, that have a key of that name.
pub(crate) fn homes(keys: &'static [Key], name: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect_homes(keys, "", name, &mut found);
    found
}

fn collect_homes(keys: &'static [Key], path: &str, name: &str, found: &mut Vec<String>) {
    for key in keys {
        if matches!(key.kind, Kind::Overlays(_)) {
            continue;
        }
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        for (heading, keys) in key.sections(&below) {
            if find(keys, name).is_some() {
                found.push(heading);
            }
            collect_homes(keys, &below, name, found);
        }
    }
}
