//! Tree of values with their places in the text: a parsed file whose keys are not checked yet.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::source::Source;

/// A range of a source text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// The text.
    pub source: Arc<Source>,
    /// Byte range in the text.
    pub span: Range<usize>,
    /// Origin of the text: 0 is the file, k the k-th `--set`.
    pub(crate) rank: usize,
}

impl TextSpan {
    /// Returns the bytes `span` of a source, limited to the text and to whole characters.
    pub(crate) fn new(source: &Arc<Source>, rank: usize, span: Range<usize>) -> Self {
        let text = &source.text;
        let floor = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = floor(span.start);
        let end = floor(span.end).max(start);
        Self { source: Arc::clone(source), span: start..end, rank }
    }

    /// Returns another part of the same text.
    pub(crate) fn at(&self, span: Range<usize>) -> Self {
        Self::new(&self.source, self.rank, span)
    }

    #[must_use]
    pub fn text(&self) -> &str {
        self.source.text.get(self.span.clone()).unwrap_or_default()
    }

    /// Returns line and column, from 1; the column counts characters.
    #[must_use]
    pub fn line_and_column(&self) -> (usize, usize) {
        let before = self.source.text.get(..self.span.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Returns the key by which problems are sorted and compared.
    pub(crate) fn order(&self) -> (usize, usize, usize) {
        (self.rank, self.span.start, self.span.end)
    }
}

/// A value and its place in the text.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub place: TextSpan,
    pub value: TomlValue,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(crate) enum TomlValue {
    Text(String),
    /// A whole number; `None` if it does not fit into 64 bits.
    Whole(Option<i64>),
    Decimal(f64),
    Boolean(bool),
    Date,
    List(Vec<Node>),
    Table(TomlTable),
}

/// A table, in the order of the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct TomlTable {
    pub entries: Vec<TableEntry>,
}

/// An entry of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    pub key: String,
    pub key_place: TextSpan,
    pub node: Node,
}

impl TomlTable {
    pub fn entry(&self, key: &str) -> Option<&TableEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::text)
    }

    pub fn table(&self, key: &str) -> Option<&Self> {
        self.get(key).and_then(Node::table)
    }

    /// Returns every value that is not a table, with its dotted path.
    pub fn flattened(&self) -> Vec<TableEntry> {
        self.flattened_until(&|_| false)
    }

    /// Returns every value with its dotted path. `is_value` selects the tables that count as
    /// values.
    pub fn flattened_until(&self, is_value: &dyn Fn(&Self) -> bool) -> Vec<TableEntry> {
        let mut flat = Vec::new();
        self.flatten("", is_value, &mut flat);
        flat
    }

    fn flatten(&self, prefix: &str, is_value: &dyn Fn(&Self) -> bool, flat: &mut Vec<TableEntry>) {
        for entry in &self.entries {
            let key = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
            match entry.node.table().filter(|table| !is_value(table)) {
                Some(table) => table.flatten(&key, is_value, flat),
                None => {
                    // The same path may occur again in another form, such as from `--set`. The
                    // later value counts.
                    flat.retain(|known| known.key != key);
                    flat.push(TableEntry { key, ..entry.clone() });
                }
            }
        }
    }

    /// Returns the tables in a list of tables; other values are skipped.
    pub fn tables(&self, key: &str) -> impl Iterator<Item = (&Node, &Self)> {
        let list = self.get(key).and_then(Node::list).unwrap_or_default();
        list.iter().filter_map(|node| Some((node, node.table()?)))
    }
}

impl Node {
    pub fn text(&self) -> Option<&str> {
        if let TomlValue::Text(text) = &self.value { Some(text) } else { None }
    }

    pub fn table(&self) -> Option<&TomlTable> {
        if let TomlValue::Table(table) = &self.value { Some(table) } else { None }
    }

    pub fn list(&self) -> Option<&[Self]> {
        if let TomlValue::List(list) = &self.value { Some(list) } else { None }
    }

    /// Returns a number, whole or not.
    #[expect(clippy::cast_precision_loss, reason = "no setting has 16 digits")]
    pub fn number(&self) -> Option<f64> {
        match self.value {
            TomlValue::Whole(Some(whole)) => Some(whole as f64),
            TomlValue::Decimal(decimal) => Some(decimal),
            _ => None,
        }
    }

    /// Returns a scalar as text. Numbers and dates are exactly as written, so that the version
    /// `1.10` is not changed.
    pub fn as_written(&self) -> Option<String> {
        match &self.value {
            TomlValue::Text(text) => Some(text.clone()),
            TomlValue::Boolean(boolean) => Some(boolean.to_string()),
            TomlValue::Whole(_) | TomlValue::Decimal(_) | TomlValue::Date => Some(self.place.text().trim().to_owned()),
            TomlValue::List(_) | TomlValue::Table(_) => None,
        }
    }

    /// Returns the type's name, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            TomlValue::Text(_) => "a text",
            TomlValue::Whole(_) => "a whole number",
            TomlValue::Decimal(_) => "a number",
            TomlValue::Boolean(_) => "true or false",
            TomlValue::Date => "a date or time of day",
            TomlValue::List(_) => "a list",
            TomlValue::Table(_) => "a table",
        }
    }

    /// Converts the value to JSON, without its places.
    pub fn json(&self) -> Json {
        match &self.value {
            TomlValue::Text(text) => Json::from(text.as_str()),
            TomlValue::Whole(Some(whole)) => Json::from(*whole),
            TomlValue::Decimal(decimal) => Json::from(*decimal),
            TomlValue::Boolean(boolean) => Json::from(*boolean),
            TomlValue::Whole(None) | TomlValue::Date => Json::from(self.place.text()),
            TomlValue::List(list) => list.iter().map(Self::json).collect(),
            TomlValue::Table(table) => {
                let entries = table.entries.iter().map(|entry| (entry.key.clone(), entry.node.json()));
                Json::Object(entries.collect())
            }
        }
    }

    /// Returns the place of the bytes `inside` of a text value. Takes quotes and escapes in the
    /// source into account.
    pub fn inside(&self, inside: Range<usize>) -> TextSpan {
        let Some(text) = self.text() else { return self.place.clone() };
        let raw = self.place.text();
        let offsets = crate::source::offsets(raw, text);
        match (offsets.get(inside.start), offsets.get(inside.end)) {
            (Some(from), Some(to)) => self.place.at(self.place.span.start + from..self.place.span.start + to),
            _ => self.place.clone(),
        }
    }
}
