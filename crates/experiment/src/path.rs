//! Dotted paths into an experiment: `load.agents`, `fault.oops.at`, `load.cycle.0.with.key`. Finds
//! and sets values.

use std::ops::Range;

use crate::keys::{self, Key, KeyType};
use crate::problem::{join_words, nearest_hint};
use crate::tree::{Node, TableEntry, TextSpan, TomlTable, TomlValue};

/// Keys that can name a table in a list. The first key that a table has gives the table's name.
const NAMES: [&str; 3] = ["name", "call", "role"];

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    Key(String),
    Index(usize),
}

/// The reason why a path does not exist.
#[derive(Debug)]
pub(crate) struct PathError {
    /// Byte range of the part that does not exist, in the path.
    pub at: Range<usize>,
    pub what: String,
    pub hint: Option<String>,
}

/// A part of a path, and its byte range in the path.
type PathPart = (String, Range<usize>);

/// Finds the steps of `path` in `tree`. The key at the path's end may be absent from `tree`, if the
/// key table allows it there.
pub(crate) fn resolve(path: &str, keys: &'static [Key], tree: &TomlTable) -> Result<Vec<PathStep>, PathError> {
    let parts = split(path)?;
    let mut steps = Vec::new();
    enter_section(&parts, "", keys, Some(tree), &mut steps)?;
    Ok(steps)
}

fn split(path: &str) -> Result<Vec<PathPart>, PathError> {
    let mut parts: Vec<PathPart> = Vec::new();
    let mut start = 0;
    loop {
        let rest = &path[start..];
        let (text, length) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let Some(closed) = rest[1..].find(quote) else { return Err(malformed(start..path.len())) };
                (&rest[1..=closed], closed + 2)
            }
            _ => {
                let length = rest.find('.').unwrap_or(rest.len());
                (rest[..length].trim(), length)
            }
        };
        let end = start + length;
        if text.is_empty() {
            return Err(malformed(start..end.max(path.len().min(start + 1))));
        }
        parts.push((text.to_owned(), start..end));
        match path[end..].chars().next() {
            None => return Ok(parts),
            Some('.') => start = end + 1,
            Some(_) => return Err(malformed(end..path.len())),
        }
    }
}

fn malformed(at: Range<usize>) -> PathError {
    PathError {
        at,
        what: "this is not a path".to_owned(),
        hint: Some("write a path such as load.agents or fault.oops.at".to_owned()),
    }
}

fn enter_section(
    parts: &[PathPart],
    path: &str,
    keys: &'static [Key],
    table: Option<&TomlTable>,
    steps: &mut Vec<PathStep>,
) -> Result<(), PathError> {
    let Some(((name, at), rest)) = parts.split_first() else { return Ok(()) };
    let Some(key) = keys::find(keys, name) else {
        let what = if path.is_empty() {
            format!("there is no section `{name}`")
        } else {
            format!("`{path}` has no key `{name}`")
        };
        return Err(PathError { at: at.clone(), what, hint: nearest_hint(name, keys.iter().map(|key| key.name)) });
    };
    steps.push(PathStep::Key(name.clone()));
    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
    enter_value(rest, &below, &key.kind, table.and_then(|table| table.get(name)), steps)
}

fn enter_value(
    parts: &[PathPart],
    path: &str,
    kind: &'static KeyType,
    node: Option<&Node>,
    steps: &mut Vec<PathStep>,
) -> Result<(), PathError> {
    let Some(((first, at), rest)) = parts.split_first() else { return Ok(()) };
    match kind {
        KeyType::Table(keys) => enter_section(parts, path, keys, node.and_then(Node::table), steps),
        KeyType::Tables(keys) | KeyType::Overlays(keys) => {
            if let Some(item) = node.and_then(Node::table).and_then(|table| table.get(first)) {
                steps.push(PathStep::Key(first.clone()));
                return enter_section(rest, &format!("{path}.{first}"), keys, item.table(), steps);
            }
            let list = node.and_then(Node::list).unwrap_or_default();
            let index = find_item(list, first).map_err(|several| missing_item(path, list, first, at, several))?;
            steps.push(PathStep::Index(index));
            enter_section(rest, &format!("{path}.{first}"), keys, list.get(index).and_then(Node::table), steps)
        }
        KeyType::PathsBeside(keys, _) if keys::find(keys, first).is_some() => {
            enter_section(parts, path, keys, node.and_then(Node::table), steps)
        }
        KeyType::PathsBeside(_, paths) => enter_value(parts, path, paths, node, steps),
        KeyType::Map(of) | KeyType::Paths(of) => {
            // The free key may have dots. If the value is a table, the rest of the path is a key of
            // that table.
            let next_key = parts.iter().skip(1).position(|(text, _)| keys::find(of.keys(), text).is_some());
            let end = next_key.map_or(parts.len(), |at| at + 1);
            let name: Vec<&str> = parts[..end].iter().map(|(text, _)| text.as_str()).collect();
            let name = name.join(".");
            steps.push(PathStep::Key(name.clone()));
            let value = node.and_then(Node::table).and_then(|table| table.get(&name)).and_then(Node::table);
            enter_section(&parts[end..], &format!("{path}.{name}"), of.keys(), value, steps)
        }
        KeyType::Any => {
            steps.extend(parts.iter().map(|(text, _)| PathStep::Key(text.clone())));
            Ok(())
        }
        KeyType::Either(kinds, _) if !kind.keys().is_empty() => {
            // If several kinds of section are possible, prefers the kind that the file uses.
            let is_list = node.and_then(Node::list).is_some();
            let mut sections = kinds.iter().filter(|kind| !kind.keys().is_empty());
            let as_it_is = sections.clone().find(|kind| matches!(kind, KeyType::Tables(_)) == is_list);
            let section = as_it_is.or_else(|| sections.next()).unwrap_or(kind);
            enter_value(parts, path, section, node, steps)
        }
        _ => Err(PathError {
            at: at.clone(),
            what: format!("there is nothing below `{path}`"),
            hint: Some(format!("`{path}` is {}", kind.words())),
        }),
    }
}

/// Returns the index of the item with this name or index in a list of tables. The error is `true`
/// if several items have the name.
fn find_item(list: &[Node], name: &str) -> Result<usize, bool> {
    let named: Vec<usize> = (0..list.len()).filter(|index| item_name(&list[*index]) == Some(name)).collect();
    match named.as_slice() {
        [only] => Ok(*only),
        [] => name.parse().ok().filter(|index| *index < list.len()).ok_or(false),
        _ => Err(true),
    }
}

/// Returns the name of an item in a list of tables.
fn item_name(item: &Node) -> Option<&str> {
    let table = item.table()?;
    NAMES.iter().find_map(|key| table.text(key))
}

fn missing_item(path: &str, list: &[Node], name: &str, at: &Range<usize>, several: bool) -> PathError {
    let at = at.clone();
    if several {
        let indices: Vec<String> = (0..list.len())
            .filter(|index| item_name(&list[*index]) == Some(name))
            .map(|index| index.to_string())
            .collect();
        let hint = Some(format!("give each a `name`, or use its index: {}", join_words(&indices, "or")));
        return PathError { at, what: format!("several of `{path}` are called `{name}`"), hint };
    }
    if list.is_empty() {
        return PathError { at, what: format!("there is no [[{path}]] in the file"), hint: None };
    }
    let hint = nearest_hint(name, list.iter().filter_map(item_name))
        .unwrap_or_else(|| format!("by index there are 0 to {}", list.len() - 1));
    PathError { at, what: format!("no `{path}` is called `{name}`"), hint: Some(hint) }
}

/// Returns the value that resolved steps lead to.
pub(crate) fn get<'a>(table: &'a TomlTable, steps: &[PathStep]) -> Option<&'a Node> {
    let (first, rest) = steps.split_first()?;
    let PathStep::Key(key) = first else { return None };
    let mut node = table.get(key)?;
    for step in rest {
        node = match step {
            PathStep::Key(key) => node.table()?.get(key)?,
            PathStep::Index(index) => node.list()?.get(*index)?,
        };
    }
    Some(node)
}

/// Sets the value that resolved steps lead to, and makes missing tables on the way. `place` is the
/// place of the path in the text.
pub(crate) fn set(table: &mut TomlTable, steps: &[PathStep], place: &TextSpan, value: Node) {
    let Some((PathStep::Key(key), rest)) = steps.split_first() else { return };
    if table.get(key).is_none() {
        let empty = Node { place: place.clone(), value: TomlValue::Table(TomlTable::default()) };
        table.entries.push(TableEntry { key: key.clone(), key_place: place.clone(), node: empty });
    }
    if let Some(node) = table.get_mut(key) {
        set_node(node, rest, place, value);
    }
}

fn set_node(node: &mut Node, steps: &[PathStep], place: &TextSpan, value: Node) {
    match steps.first() {
        None => *node = value,
        Some(PathStep::Index(index)) => {
            if let TomlValue::List(list) = &mut node.value
                && let Some(item) = list.get_mut(*index)
            {
                set_node(item, &steps[1..], place, value);
            }
        }
        Some(PathStep::Key(_)) => {
            if node.table().is_none() {
                *node = Node { place: place.clone(), value: TomlValue::Table(TomlTable::default()) };
            }
            if let TomlValue::Table(table) = &mut node.value {
                set(table, steps, place, value);
            }
        }
    }
}

/// Returns the index of the item with this name in a list of tables.
pub(crate) fn index_of(list: &[Node], name: &str) -> Result<usize, PathError> {
    find_item(list, name).map_err(|several| missing_item("list", list, name, &(0..0), several))
}
