//! Operations of clients on audited keys, by key, as the crate `linearizability` reads them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use linearizability::{Access, Operation, QueueAccess, QueueOperation, SetAccess, SetOperation, Status};
use record::events::{By, HistoryEntry};

use crate::live_collections::CollectionOperation;

const NS_PER_S: f64 = 1e9;

/// Operations of a load and its preparation. Keys of spaces that were emptied as a whole are left
/// out, and so is the read-back after the load.
#[derive(Debug, Default)]
pub struct ClientHistory<'a> {
    /// Keys in the order in which they occur.
    pub keys: Vec<KeyOperations<'a>>,
    /// Texts of the values. Operations refer to them by their index.
    pub values: Vec<Cow<'a, str>>,
}

/// Operations on one key, with their lines in the history.
#[derive(Debug, Default)]
pub struct KeyOperations<'a> {
    pub space: &'a str,
    pub key: &'a str,
    pub lines: Vec<&'a HistoryEntry>,
    /// Operations, one for each line. Each has the key's index as its key. Empty for a queue or a
    /// set.
    pub operations: Vec<Operation>,
    /// Operations on a queue, one for each line.
    pub queue: Vec<QueueOperation>,
    /// Operations on a set, one for each line.
    pub set: Vec<SetOperation>,
    /// Whether something about the key is not known.
    is_left_out: bool,
}

/// Numbers of texts.
#[derive(Debug, Default)]
struct ValueNumbers<'a> {
    numbers: HashMap<Cow<'a, str>, u64>,
    values: Vec<Cow<'a, str>>,
}

impl<'a> ValueNumbers<'a> {
    fn of(&mut self, value: impl Into<Cow<'a, str>>) -> u64 {
        let (Self { numbers, values }, value) = (self, value.into());
        if let Some(number) = numbers.get(&value) {
            return *number;
        }
        let number = values.len() as u64;
        values.push(value.clone());
        numbers.insert(value, number);
        number
    }
}

impl<'a> ClientHistory<'a> {
    /// Groups the lines of a history by key.
    #[must_use]
    pub fn of(history: &'a [HistoryEntry]) -> Self {
        let emptied: BTreeSet<&str> =
            history.iter().filter(|line| line.effect == "remove_all").map(|line| line.space.as_str()).collect();
        let mut values = ValueNumbers::default();
        let mut places: HashMap<(&str, &str), usize> = HashMap::new();
        let mut keys: Vec<KeyOperations<'a>> = Vec::new();
        let in_load = history.iter().filter(|line| line.by != By::Audit && !emptied.contains(line.space.as_str()));
        for line in in_load {
            let (space, key) = (line.space.as_str(), line.key.as_str());
            let place = *places.entry((space, key)).or_insert_with(|| {
                keys.push(KeyOperations { space, key, ..KeyOperations::default() });
                keys.len() - 1
            });
            if line.is_of_queue() || line.is_of_set() {
                match collection_operation(line, |value| values.of(value)) {
                    Some(Ok(CollectionOperation::Queue(operation))) => {
                        keys[place].lines.push(line);
                        keys[place].queue.push(operation);
                    }
                    Some(Ok(CollectionOperation::Set(operation))) => {
                        keys[place].lines.push(line);
                        keys[place].set.push(operation);
                    }
                    Some(Err(Untold)) => keys[place].is_left_out = true,
                    None => {}
                }
                continue;
            }
            match operation(line, place as u64, |value| values.of(value)) {
                Some(Ok(operation)) => {
                    keys[place].lines.push(line);
                    keys[place].operations.push(operation);
                }
                Some(Err(Untold)) => keys[place].is_left_out = true,
                None => {}
            }
        }
        Self { keys, values: values.values }
    }
}

/// Reason to leave a key out: its history does not tell the start or the value of an operation.
pub(crate) struct Untold;

/// Returns the operation of a line, or `None` if it had no effect and saw nothing. `number_of`
/// returns the number of a value.
pub(crate) fn operation<'a>(
    line: &'a HistoryEntry,
    key: u64,
    mut number_of: impl FnMut(&'a str) -> u64,
) -> Option<Result<Operation, Untold>> {
    let mut number = |value: &'a Option<String>| value.as_deref().map(&mut number_of);
    let status = match (line.applied, line.equal) {
        (Some(true), _) => Status::Applied,
        // A compare-and-set that says what it found is a read of that value.
        (Some(false), Some(false)) if line.found.is_some() => Status::Applied,
        (Some(false), Some(false)) => Status::Unequal,
        (Some(false), _) => return None,
        (None, _) if line.effect == "read" => return None,
        (None, _) => Status::Unknown,
    };
    let Some(start_s) = line.start_s else { return Some(Err(Untold)) };
    let access = match (line.effect.as_str(), number(&line.value)) {
        ("cas", _) if line.applied == Some(false) && line.found.is_some() => {
            Access::Read { value: number(&line.found) }
        }
        ("cas", Some(to)) => Access::CompareAndSet { from: number(&line.from), to: Some(to) },
        ("read", value) => Access::Read { value },
        ("write", Some(value)) => Access::Write { value },
        ("remove", _) => Access::Delete,
        _ => return Some(Err(Untold)),
    };
    let end_ns = (status != Status::Unknown).then_some(ns(line.at_s));
    Some(Ok(Operation {
        process: line.agent.unwrap_or(0),
        key,
        start_ns: ns(start_s),
        end_ns,
        access,
        status,
        version: line.version,
    }))
}

/// Converts a time of a history.
pub(crate) fn ns(at_s: f64) -> i64 {
    (at_s * NS_PER_S) as i64
}

/// Returns `space/key`, or the key alone without a space.
pub(crate) fn key_name(space: &str, key: &str) -> String {
    if space.is_empty() { key.to_owned() } else { format!("{space}/{key}") }
}

/// Returns the operation of a line on a queue or a set, or `None` if it had no effect and saw
/// nothing. `number_of` returns the number of a value.
pub(crate) fn collection_operation<'a>(
    line: &'a HistoryEntry,
    mut number_of: impl FnMut(Cow<'a, str>) -> u64,
) -> Option<Result<CollectionOperation, Untold>> {
    let status = match line.applied {
        Some(true) => Status::Applied,
        Some(false) => return None,
        None if line.effect == "members" => return None,
        None => Status::Unknown,
    };
    let Some(start_s) = line.start_s else { return Some(Err(Untold)) };
    let (start_ns, end_ns) = (ns(start_s), (status != Status::Unknown).then_some(ns(line.at_s)));
    let queue = |access| CollectionOperation::Queue(QueueOperation { start_ns, end_ns, access, status });
    let set = |access| CollectionOperation::Set(SetOperation { start_ns, end_ns, access, status });
    Some(Ok(match (line.effect.as_str(), line.value.as_deref()) {
        ("enqueue", Some(value)) => queue(QueueAccess::Enqueue { value: number_of(value.into()) }),
        ("dequeue", value) => queue(QueueAccess::Dequeue { value: value.map(|value| number_of(value.into())) }),
        ("add_to_set", Some(value)) => set(SetAccess::Add { element: number_of(value.into()) }),
        ("members", Some(list)) => {
            let Ok(members) = serde_json::from_str::<Vec<String>>(list) else { return Some(Err(Untold)) };
            set(SetAccess::Read { elements: members.into_iter().map(|member| number_of(member.into())).collect() })
        }
        _ => return Some(Err(Untold)),
    }))
}

impl KeyOperations<'_> {
    /// Whether clients use the key only as a register, as a queue or as a set, and the history has
    /// all that a check needs.
    fn is_used_in_one_way(&self) -> bool {
        let are_there = [!self.operations.is_empty(), !self.queue.is_empty(), !self.set.is_empty()];
        !self.is_left_out && are_there.into_iter().filter(|are_there| *are_there).count() == 1
    }

    /// Whether clients put values into the key as a queue and took some, and the history has all
    /// that a check needs.
    #[must_use]
    pub fn is_checkable_queue(&self) -> bool {
        let has = |wanted: fn(&QueueAccess) -> bool| self.queue.iter().any(|operation| wanted(&operation.access));
        self.is_used_in_one_way()
            && has(|access| matches!(access, QueueAccess::Enqueue { .. }))
            && has(|access| matches!(access, QueueAccess::Dequeue { .. }))
    }

    /// Whether clients added elements to the key as a set and read its members, and the history has
    /// all that a check needs.
    #[must_use]
    pub fn is_checkable_set(&self) -> bool {
        let has = |wanted: fn(&SetAccess) -> bool| self.set.iter().any(|operation| wanted(&operation.access));
        self.is_used_in_one_way()
            && has(|access| matches!(access, SetAccess::Add { .. }))
            && has(|access| matches!(access, SetAccess::Read { .. }))
    }

    /// Returns `space/key`, or the key alone without a space.
    #[must_use]
    pub fn name(&self) -> String {
        key_name(self.space, self.key)
    }

    /// Whether clients changed and saw the key, and the history has all that a check needs.
    #[must_use]
    pub fn is_checkable(&self) -> bool {
        let has = |wanted: fn(&Access) -> bool| self.operations.iter().any(|operation| wanted(&operation.access));
        self.is_used_in_one_way()
            && has(|access| matches!(access, Access::Read { .. } | Access::CompareAndSet { .. }))
            && has(|access| !matches!(access, Access::Read { .. }))
    }

    /// Returns the first value that clients saw and none of them wrote.
    #[must_use]
    pub fn older_value(&self) -> Option<u64> {
        let written: HashSet<u64> = self
            .operations
            .iter()
            .filter_map(|operation| match operation.access {
                Access::Write { value } => Some(value),
                Access::CompareAndSet { to, .. } => to,
                _ => None,
            })
            .collect();
        self.operations.iter().find_map(|operation| match (operation.access, operation.status) {
            (Access::Read { value }, _) | (Access::CompareAndSet { from: value, .. }, Status::Applied) => {
                value.filter(|value| !written.contains(value))
            }
            _ => None,
        })
    }
}
