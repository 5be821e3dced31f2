//! Tables merge, everything else replaces. A table laid over a list of tables enters it by name.

use crate::keys::{self, Key, Kind};
use crate::path;
use crate::problem::Problem;
use crate::tree::{Node, Table, Value};

/// Lays `over` over `base`.
pub(super) fn table(base: &mut Table, over: &Table, keys: &'static [Key], problems: &mut Vec<Problem>) {
    for entry in &over.entries {
        let kind = keys::find(keys, &entry.key).map(|key| &key.kind);
        match base.entries.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => {
                if node(&mut known.node, &entry.node, kind, problems) {
                    known.key_place = entry.key_place.clone();
                }
            }
            None => match (kind, entry.node.table()) {
                (Some(Kind::Tables(_)), Some(parts)) => items(&mut [], parts, &[], problems),
                _ => base.entries.push(entry.clone()),
            },
        }
    }
}

/// Whether `base` was replaced.
fn node(base: &mut Node, over: &Node, kind: Option<&'static Kind>, problems: &mut Vec<Problem>) -> bool {
    let keys = kind.map(Kind::keys).unwrap_or_default();
    match (&mut base.value, &over.value, kind) {
        (Value::Table(base), Value::Table(over), _) => {
            table(base, over, keys, problems);
            false
        }
        (Value::List(list), Value::Table(over), Some(Kind::Tables(_))) => {
            items(list, over, keys, problems);
            false
        }
        _ => {
            *base = over.clone();
            true
        }
    }
}

fn items(list: &mut [Node], over: &Table, keys: &'static [Key], problems: &mut Vec<Problem>) {
    for entry in &over.entries {
        let Some(part) = entry.node.table() else { continue };
        match path::index_of(list, &entry.key) {
            Ok(index) => {
                if let Value::Table(item) = &mut list[index].value {
                    table(item, part, keys, problems);
                }
            }
            Err(lost) => problems.push(
                Problem::absent(&entry.key_place, format!("nothing in the file is called `{}`", entry.key))
                    .expected("unknown name")
                    .maybe(lost.hint),
            ),
        }
    }
}
