//! Dotted paths into an experiment: `load.agents`, `fault.oops.at`, `load.cycle.0.with.key`. Finds and sets values.

use std::ops::Range;

use crate::keys::{self, Key, Kind};
use crate::problem::{join_words, nearest_hint};
use crate::tree::{Entry, Node, Place, Table, Value};

/// By which of its keys a table in a list is addressed; the first that it has counts.
const NAMES: [&str; 3] = ["name", "call", "role"];

/// One step down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(crate) struct Lost {
    /// The part of the path that is not there.
    pub at: Range<usize>,
    pub what: String,
    pub hint: Option<String>,
}

/// A part of a path and its bytes.
type Part = (String, Range<usize>);

/// Finds the way of `path` through `tree`. The last table may lack the key, if its section may have it.
pub(crate) fn resolve(path: &str, keys: &'static [Key], tree: &Table) -> Result<Vec<Step>, Lost> {
    let parts = split(path)?;
    let mut steps = Vec::new();
    enter_section(&parts, "", keys, Some(tree), &mut steps)?;
    Ok(steps)
}

fn split(path: &str) -> Result<Vec<Part>, Lost> {
    let mut parts: Vec<Part> = Vec::new();
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

fn malformed(at: Range<usize>) -> Lost {
    Lost {
        at,
        what: "this is not a path".to_owned(),
        hint: Some("write a path such as load.agents or fault.oops.at".to_owned()),
    }
}

fn enter_section(
    parts: &[Part],
    path: &str,
    keys: &'static [Key],
    table: Option<&Table>,
    steps: &mut Vec<Step>,
) -> Result<(), Lost> {
    let Some(((name, at), rest)) = parts.split_first() else { return Ok(()) };
    let Some(key) = keys::find(keys, name) else {
        let what = if path.is_empty() {
            format!("there is no section `{name}`")
        } else {
            format!("`{path}` has no key `{name}`")
        };
        return Err(Lost { at: at.clone(), what, hint: nearest_hint(name, keys.iter().map(|key| key.name)) });
    };
    steps.push(Step::Key(name.clone()));
    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
    enter_value(rest, &below, &key.kind, table.and_then(|table| table.get(name)), steps)
}

fn enter_value(
    parts: &[Part],
    path: &str,
    kind: &'static Kind,
    node: Option<&Node>,
    steps: &mut Vec<Step>,
) -> Result<(), Lost> {
    let Some(((first, at), rest)) = parts.split_first() else { return Ok(()) };
    match kind {
        Kind::Table(keys) => enter_section(parts, path, keys, node.and_then(Node::table), steps),
        Kind::Tables(keys) | Kind::Overlays(keys) => {
            if let Some(item) = node.and_then(Node::table).and_then(|table| table.get(first)) {
                steps.push(Step::Key(first.clone()));
                return enter_section(rest, &format!("{path}.{first}"), keys, item.table(), steps);
            }
            let list = node.and_then(Node::list).unwrap_or_default();
            let index = find_item(list, first).map_err(|several| missing_item(path, list, first, at, several))?;
            steps.push(Step::Index(index));
            enter_section(rest, &format!("{path}.{first}"), keys, list.get(index).and_then(Node::table), steps)
        }
        Kind::Map(of) | Kind::Paths(of) => {
            // The free key may have dots. What follows it is a key of the value, where that is a table.
            let is_key = |(text, _): &Part| keys::find(of.keys(), text).is_some();
            let end = parts.iter().skip(1).position(is_key).map_or(parts.len(), |at| at + 1);
            let name: Vec<&str> = parts[..end].iter().map(|(text, _)| text.as_str()).collect();
            let name = name.join(".");
            steps.push(Step::Key(name.clone()));
            let value = node.and_then(Node::table).and_then(|table| table.get(&name)).and_then(Node::table);
            enter_section(&parts[end..], &format!("{path}.{name}"), of.keys(), value, steps)
        }
        Kind::Any => {
            steps.extend(parts.iter().map(|(text, _)| Step::Key(text.clone())));
            Ok(())
        }
        Kind::Either(kinds, _) if !kind.keys().is_empty() => {
            // Of the sections it may be the one that it is.
            let is_list = node.and_then(Node::list).is_some();
            let mut sections = kinds.iter().filter(|kind| !kind.keys().is_empty());
            let as_it_is = sections.clone().find(|kind| matches!(kind, Kind::Tables(_)) == is_list);
            let section = as_it_is.or_else(|| sections.next()).unwrap_or(kind);
            enter_value(parts, path, section, node, steps)
        }
        _ => Err(Lost {
            at: at.clone(),
            what: format!("there is nothing below `{path}`"),
            hint: Some(format!("`{path}` is {}", kind.words())),
        }),
    }
}

/// The item of a list of tables that goes by `name`, or has that index. `Err(true)`: several go by that name.
fn find_item(list: &[Node], name: &str) -> Result<usize, bool> {
    let named: Vec<usize> = (0..list.len()).filter(|index| item_name(&list[*index]) == Some(name)).collect();
    match named.as_slice() {
        [only] => Ok(*only),
        [] => name.parse().ok().filter(|index| *index < list.len()).ok_or(false),
        _ => Err(true),
    }
}

/// By what an item of a list of tables is addressed.
fn item_name(item: &Node) -> Option<&str> {
    let table = item.table()?;
    NAMES.iter().find_map(|key| table.text(key))
}

fn missing_item(path: &str, list: &[Node], name: &str, at: &Range<usize>, several: bool) -> Lost {
    let at = at.clone();
    if several {
        let indices: Vec<String> = (0..list.len())
            .filter(|index| item_name(&list[*index]) == Some(name))
            .map(|index| index.to_string())
            .collect();
        let hint = Some(format!("give each a `name`, or use its index: {}", join_words(&indices, "or")));
        return Lost { at, what: format!("several of `{path}` are called `{name}`"), hint };
    }
    if list.is_empty() {
        return Lost { at, what: format!("there is no [[{path}]] in the file"), hint: None };
    }
    let hint = nearest_hint(name, list.iter().filter_map(item_name))
        .unwrap_or_else(|| format!("by index there are 0 to {}", list.len() - 1));
    Lost { at, what: format!("no `{path}` is called `{name}`"), hint: Some(hint) }
}

/// The value at the end of resolved steps.
pub(crate) fn get<'a>(table: &'a Table, steps: &[Step]) -> Option<&'a Node> {
    let (first, rest) = steps.split_first()?;
    let Step::Key(key) = first else { return None };
    let mut node = table.get(key)?;
    for step in rest {
        node = match step {
            Step::Key(key) => node.table()?.get(key)?,
            Step::Index(index) => node.list()?.get(*index)?,
        };
    }
    Some(node)
}

/// Sets the value at the end of resolved steps, making the tables on the way. `place` is where the path is written.
pub(crate) fn set(table: &mut Table, steps: &[Step], place: &Place, value: Node) {
    let Some((Step::Key(key), rest)) = steps.split_first() else { return };
    if table.get(key).is_none() {
        let empty = Node { place: place.clone(), value: Value::Table(Table::default()) };
        table.entries.push(Entry { key: key.clone(), key_place: place.clone(), node: empty });
    }
    if let Some(node) = table.get_mut(key) {
        set_node(node, rest, place, value);
    }
}

fn set_node(node: &mut Node, steps: &[Step], place: &Place, value: Node) {
    match steps.first() {
        None => *node = value,
        Some(Step::Index(index)) => {
            if let Value::List(list) = &mut node.value
                && let Some(item) = list.get_mut(*index)
            {
                set_node(item, &steps[1..], place, value);
            }
        }
        Some(Step::Key(_)) => {
            if node.table().is_none() {
                *node = Node { place: place.clone(), value: Value::Table(Table::default()) };
            }
            if let Value::Table(table) = &mut node.value {
                set(table, steps, place, value);
            }
        }
    }
}

/// The index of the item that goes by `name` in a list of tables.
pub(crate) fn index_of(list: &[Node], name: &str) -> Result<usize, Lost> {
    find_item(list, name).map_err(|several| missing_item("list", list, name, &(0..0), several))
}
