//! Reads the values of a section whose shape has been checked, with the defaults of its table of keys. A value of a
//! wrong type reads as absent: it has been reported already.

use crate::duration;
use crate::keys::{self, Key, Kind, Need};
use crate::tree::{Entry, Node, Place, Table, Value};

/// A table, its keys, and where it is headed.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    pub table: &'a Table,
    pub keys: &'static [Key],
    pub place: &'a Place,
}

impl<'a> Section<'a> {
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// Where the key's value stands; the section's heading without one.
    pub fn place(&self, key: &str) -> &'a Place {
        self.node(key).map_or(self.place, |node| &node.place)
    }

    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    fn default(&self, key: &str) -> Option<&'static str> {
        match keys::find(self.keys, key).map(|key| key.need) {
            Some(Need::Default(default)) if !self.has(key) => Some(default),
            _ => None,
        }
    }

    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.table.text(key).or_else(|| self.default(key))
    }

    pub fn seconds(&self, key: &str) -> Option<f64> {
        self.text(key).and_then(|text| duration::parse_s(text).ok())
    }

    /// A size or rate, in its base unit.
    pub fn amount(&self, key: &str) -> Option<f64> {
        match keys::find(self.keys, key)?.kind {
            Kind::Quantity(quantity) => quantity.parse(self.text(key)?).ok(),
            _ => None,
        }
    }

    pub fn whole<T: TryFrom<i64> + std::str::FromStr>(&self, key: &str) -> Option<T> {
        match self.node(key).map(|node| &node.value) {
            Some(Value::Whole(Some(whole))) => T::try_from(*whole).ok(),
            Some(_) => None,
            None => self.default(key).and_then(|default| default.parse().ok()),
        }
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        match self.node(key) {
            Some(node) => node.number(),
            None => self.default(key).and_then(|default| default.parse().ok()),
        }
    }

    pub fn boolean(&self, key: &str) -> bool {
        match self.node(key).map(|node| &node.value) {
            Some(Value::Boolean(boolean)) => *boolean,
            _ => false,
        }
    }

    /// A section below this one.
    pub fn section(&self, key: &str) -> Option<Self> {
        let node = self.node(key)?;
        Some(Self { table: node.table()?, keys: keys::find(self.keys, key)?.kind.keys(), place: &node.place })
    }

    /// The sections of a list of tables.
    pub fn sections(&self, key: &str) -> Vec<Self> {
        let keys = keys::find(self.keys, key).map(|key| key.kind.keys()).unwrap_or_default();
        self.table.tables(key).map(|(node, table)| Self { table, keys, place: &node.place }).collect()
    }

    /// The entries of a table with free keys; keys with dots are put together again.
    pub fn entries(&self, key: &str) -> Vec<Entry> {
        let Some(table) = self.table.table(key) else { return Vec::new() };
        match keys::find(self.keys, key).map(|key| &key.kind) {
            Some(Kind::Paths(of)) => table.flattened_until(&|table| of.is_value(table)),
            _ => table.entries.clone(),
        }
    }
}
