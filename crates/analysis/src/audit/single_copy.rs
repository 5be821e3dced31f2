//! Linearizability: whether all that clients saw of an audited key during the load could come from
//! a single copy of it. The crate `linearizability` decides each key by itself.
//!
//! An operation took effect between its start and its end, or at any time after its start if its
//! result is unknown. With several clocks, both ends are widened by their greatest error. A key is
//! checked if clients changed and read it, and if the history shows all that is needed: the start
//! and the value of each operation, each sent once. If clients read a value that nobody wrote, the
//! key may have had it before its first operation. The read-back after the load does not count,
//! because [`super::lost_writes`] judges it.

use std::collections::{BTreeSet, HashMap, HashSet};

use linearizability::{Access, InitialValue, Linearizability, Operation, Settings, Status, check};
use record::events::{By, HistoryEntry};

use super::{EXAMPLES, shortened};

/// Largest number of configurations in the search for one key.
const SEARCH_LIMIT: usize = 10_000;
const NS_PER_S: f64 = 1e9;

/// Result of the check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SingleCopyCheck {
    /// Number of keys that were checked.
    pub keys: u64,
    /// Number of checked keys whose history fits no single copy.
    pub violated: u64,
    /// Number of checked keys without a verdict.
    pub undecided: u64,
    /// The operations that prove a violation, for the first few keys.
    pub examples: Vec<String>,
}

impl SingleCopyCheck {
    /// Returns the verdict on all keys, as in the results.
    pub fn verdict(&self) -> &'static str {
        match (self.violated, self.undecided) {
            (0, 0) => "yes",
            (0, _) => "unknown",
            _ => "no",
        }
    }
}

/// Operations on one key, with their lines in the history.
#[derive(Debug, Default)]
struct KeyOperations<'a> {
    lines: Vec<&'a HistoryEntry>,
    operations: Vec<Operation>,
    /// Whether something about the key is not known.
    is_left_out: bool,
}

/// Checks each key of a history. Returns `None` if no key can be checked.
pub(super) fn single_copy(history: &[HistoryEntry], clock_error_s: f64) -> Option<SingleCopyCheck> {
    let emptied: BTreeSet<&str> =
        history.iter().filter(|line| line.effect == "remove_all").map(|line| line.space.as_str()).collect();
    let mut values = HashMap::new();
    let mut keys: HashMap<(&str, &str), KeyOperations<'_>> = HashMap::new();
    let mut names = Vec::new();
    let in_load = history.iter().filter(|line| line.by != By::Audit && !emptied.contains(line.space.as_str()));
    for line in in_load {
        let name = (line.space.as_str(), line.key.as_str());
        let key = keys.entry(name).or_insert_with(|| {
            names.push(name);
            KeyOperations::default()
        });
        match operation(line, &mut values) {
            Some(Ok(operation)) => {
                key.lines.push(line);
                key.operations.push(operation);
            }
            Some(Err(Untold)) => key.is_left_out = true,
            None => {}
        }
    }
    let settings = Settings {
        clock_error_ns: (clock_error_s * NS_PER_S).ceil() as i64,
        search_limit: SEARCH_LIMIT,
        ..Settings::default()
    };
    let mut found = SingleCopyCheck::default();
    for name in names {
        let key = &keys[&name];
        if key.is_checkable() {
            found.add(name, key, settings);
        }
    }
    (found.keys > 0).then_some(found)
}

/// Reason to leave a key out: its history does not tell the start or the value of an operation.
struct Untold;

/// Returns the operation of a line, or `None` if it had no effect and saw nothing.
fn operation<'a>(line: &'a HistoryEntry, values: &mut HashMap<&'a str, u64>) -> Option<Result<Operation, Untold>> {
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
    let mut number = |value: &'a Option<String>| {
        let next = values.len() as u64;
        value.as_deref().map(|value| *values.entry(value).or_insert(next))
    };
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
    let end_ns = (status != Status::Unknown).then_some((line.at_s * NS_PER_S) as i64);
    Some(Ok(Operation {
        process: line.agent.unwrap_or(0),
        key: 0,
        start_ns: (start_s * NS_PER_S) as i64,
        end_ns,
        access,
        status,
        version: line.version,
    }))
}

impl KeyOperations<'_> {
    fn is_checkable(&self) -> bool {
        let has = |wanted: fn(&Access) -> bool| self.operations.iter().any(|operation| wanted(&operation.access));
        !self.is_left_out
            && has(|access| matches!(access, Access::Read { .. } | Access::CompareAndSet { .. }))
            && has(|access| !matches!(access, Access::Read { .. }))
    }

    /// Returns the value before the first operation: one that nobody wrote if clients saw any, and
    /// else none. A history that some other value explains is also explained by none.
    fn initial(&self) -> InitialValue {
        let written: HashSet<u64> = self
            .operations
            .iter()
            .filter_map(|operation| match operation.access {
                Access::Write { value } => Some(value),
                Access::CompareAndSet { to, .. } => to,
                _ => None,
            })
            .collect();
        let is_older = |operation: &Operation| match (operation.access, operation.status) {
            (Access::Read { value }, _) | (Access::CompareAndSet { from: value, .. }, Status::Applied) => {
                value.is_some_and(|value| !written.contains(&value))
            }
            _ => false,
        };
        if self.operations.iter().any(is_older) { InitialValue::Unknown } else { InitialValue::Absent }
    }
}

impl SingleCopyCheck {
    fn add(&mut self, (space, key): (&str, &str), history: &KeyOperations<'_>, settings: Settings) {
        self.keys += 1;
        let settings = Settings { initial: history.initial(), ..settings };
        let Some(judged) = check(&history.operations, settings).into_iter().next() else { return };
        match judged.verdict {
            Linearizability::Linearizable => {}
            Linearizability::Unknown { .. } => self.undecided += 1,
            Linearizability::Violation(proof) => {
                self.violated += 1;
                if self.examples.len() < EXAMPLES {
                    let mut lines: Vec<&HistoryEntry> = proof.core.iter().map(|place| history.lines[*place]).collect();
                    let start_s = |line: &HistoryEntry| line.start_s.unwrap_or(line.at_s);
                    lines.sort_by(|one, other| start_s(one).total_cmp(&start_s(other)));
                    let told: Vec<String> = lines.into_iter().map(in_words).collect();
                    let named = if space.is_empty() { key.to_owned() } else { format!("{space}/{key}") };
                    self.examples.push(format!("{named}: {}", told.join(", then ")));
                }
            }
        }
    }
}

/// Says who did what, and when.
fn in_words(line: &HistoryEntry) -> String {
    let who = line.agent.map_or_else(|| "the preparation".to_owned(), |agent| format!("agent {agent}"));
    let quoted = |value: &Option<String>| value.as_deref().map(|value| format!("\"{}\"", shortened(value)));
    let value = quoted(&line.value);
    let what = match (line.effect.as_str(), value) {
        ("read", Some(value)) => format!("read {value}"),
        ("read", None) => "found nothing".to_owned(),
        ("write", value) => format!("wrote {}", value.unwrap_or_default()),
        ("cas", value) => {
            let from = quoted(&line.from).unwrap_or_else(|| "nothing".to_owned());
            match (line.applied, quoted(&line.found)) {
                (Some(false), Some(found)) => format!("expected {from} and found {found}"),
                (Some(false), None) => format!("did not find {from}"),
                _ => format!("replaced {from} by {}", value.unwrap_or_default()),
            }
        }
        _ => "removed it".to_owned(),
    };
    let start_s = line.start_s.unwrap_or(line.at_s);
    match line.applied {
        Some(_) => format!("{who} {what} ({start_s:.6} to {:.6} s)", line.at_s),
        None => format!("{who} {what} (from {start_s:.6} s, result unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use record::events::Outcome;

    use super::*;

    /// An operation of an agent on key `s/k`, between two times.
    fn line(agent: u32, effect: &str, value: Option<&str>, [start_s, at_s]: [f64; 2]) -> HistoryEntry {
        HistoryEntry {
            at_s,
            start_s: Some(start_s),
            by: By::Load,
            agent: Some(agent),
            effect: effect.to_owned(),
            space: "s".to_owned(),
            key: "k".to_owned(),
            value: value.map(str::to_owned),
            outcome: Outcome::Ok,
            applied: Some(true),
            ..HistoryEntry::default()
        }
    }

    fn unknown(line: HistoryEntry) -> HistoryEntry {
        HistoryEntry { outcome: Outcome::Timeout, applied: None, ..line }
    }

    /// A write of `a`, and after it a write of `b`.
    fn written() -> Vec<HistoryEntry> {
        vec![line(1, "write", Some("a"), [1.0, 2.0]), line(1, "write", Some("b"), [3.0, 4.0])]
    }

    /// Checks the two writes and these operations.
    fn checked(others: impl IntoIterator<Item = HistoryEntry>) -> SingleCopyCheck {
        let mut history = written();
        history.extend(others);
        single_copy(&history, 0.0).unwrap()
    }

    #[test]
    fn reads_of_current_values_are_linearizable() {
        let reads = [("a", [2.5, 3.5]), ("a", [3.1, 3.9]), ("b", [3.2, 4.5]), ("b", [9.0, 9.1])];
        let found = checked(reads.map(|(value, times)| line(2, "read", Some(value), times)));
        assert_eq!((found.verdict(), found.keys), ("yes", 1));
    }

    #[test]
    fn a_stale_read_is_found_and_told() {
        let found = checked([line(2, "read", Some("a"), [5.0, 6.0])]);
        assert_eq!((found.verdict(), found.violated), ("no", 1));
        assert_eq!(
            found.examples,
            ["s/k: agent 1 wrote \"a\" (1.000000 to 2.000000 s), then agent 1 wrote \"b\" (3.000000 to 4.000000 s), \
              then agent 2 read \"a\" (5.000000 to 6.000000 s)"]
        );
    }

    #[test]
    fn a_write_with_an_unknown_result_may_take_effect_late() {
        let late = unknown(line(3, "write", Some("c"), [0.5, 1.5]));
        let read = |times| line(2, "read", Some("c"), times);
        assert_eq!(checked([late.clone(), read([7.0, 8.0])]).verdict(), "yes");
        let back = line(2, "read", Some("b"), [8.5, 9.0]);
        assert_eq!(checked([late, read([7.0, 8.0]), back]).verdict(), "no", "it takes effect once");
    }

    /// A compare-and-set of agent 3 that writes `c`.
    fn swap(from: Option<&str>, equal: bool, times: [f64; 2]) -> HistoryEntry {
        let (from, equal, applied) = (from.map(str::to_owned), Some(equal), Some(equal));
        HistoryEntry { from, equal, applied, ..line(3, "cas", Some("c"), times) }
    }

    #[test]
    fn compare_and_sets_are_checked() {
        let read = |value: &str, times| line(2, "read", Some(value), times);
        let good = [swap(Some("b"), true, [5.0, 6.0]), read("c", [7.0, 8.0])];
        assert_eq!(checked(good.clone()).verdict(), "yes");
        assert_eq!(checked([swap(Some("a"), true, [5.0, 6.0])]).verdict(), "no", "a was overwritten");
        assert_eq!(checked([good[0].clone(), read("b", [7.0, 8.0])]).verdict(), "no");
        assert_eq!(checked([swap(Some("a"), false, [5.0, 6.0]), read("b", [7.0, 8.0])]).verdict(), "yes");
        let missed = checked([read("b", [4.5, 4.6]), swap(Some("b"), false, [5.0, 6.0]), read("b", [7.0, 8.0])]);
        assert_eq!((missed.verdict(), missed.examples.len()), ("no", 1), "b was there all the time");
        assert!(missed.examples[0].contains("agent 3 did not find \"b\""), "{:?}", missed.examples);
        let lost = unknown(HistoryEntry { equal: None, ..swap(Some("b"), true, [5.0, 6.0]) });
        for value in ["b", "c"] {
            assert_eq!(checked([lost.clone(), read(value, [7.0, 8.0])]).verdict(), "yes", "it may have happened");
        }
        let refused = HistoryEntry { equal: None, applied: Some(false), ..swap(Some("b"), true, [5.0, 6.0]) };
        assert_eq!(checked([refused.clone(), read("b", [7.0, 8.0])]).verdict(), "yes");
        assert_eq!(checked([refused, read("c", [7.0, 8.0])]).verdict(), "no", "it had no effect");
    }

    #[test]
    fn compare_and_sets_alone_make_a_key_checkable() {
        let created = swap(None, true, [1.0, 2.0]);
        let twice = HistoryEntry { value: Some("d".to_owned()), ..swap(None, true, [3.0, 4.0]) };
        let found = single_copy(&[created.clone(), twice], 0.0).unwrap();
        assert_eq!((found.verdict(), found.keys), ("no", 1), "both found the key absent");
        assert!(found.examples[0].contains("agent 3 replaced nothing by \"d\""), "{:?}", found.examples);
        let other = HistoryEntry { found: Some("c".to_owned()), ..swap(None, false, [3.0, 4.0]) };
        assert_eq!(single_copy(&[created, other.clone()], 0.0).unwrap().verdict(), "yes");
        let never = HistoryEntry { found: Some("x".to_owned()), ..other };
        assert_eq!(checked([never]).verdict(), "no", "what it found counts as read");
    }

    #[test]
    fn versions_order_overlapping_writes() {
        let versions = |first, second| {
            let write = |value, version| HistoryEntry { version, ..line(1, "write", Some(value), [1.0, 5.0]) };
            let read = |value, version, times| HistoryEntry { version, ..line(2, "read", Some(value), times) };
            let writes = [write("a", first), write("b", second)];
            let reads = [read("a", first, [6.0, 7.0]), read("a", first, [8.0, 9.0])];
            single_copy(&[writes, reads].concat(), 0.0).unwrap().verdict()
        };
        assert_eq!(versions(None, None), "yes", "the writes overlap");
        assert_eq!(versions(Some(8), Some(7)), "yes");
        assert_eq!(versions(Some(7), Some(8)), "no", "b came last");
    }

    #[test]
    fn values_that_go_back_when_read_are_a_violation() {
        let reads = [("b", [3.1, 3.2]), ("a", [3.3, 3.4])];
        assert_eq!(checked(reads.map(|(value, times)| line(2, "read", Some(value), times))).verdict(), "no");
    }

    #[test]
    fn clock_errors_excuse_what_they_can_explain() {
        let mut history = written();
        history.push(line(2, "read", Some("a"), [4.1, 4.2]));
        assert_eq!(single_copy(&history, 0.01).unwrap().verdict(), "no");
        assert_eq!(single_copy(&history, 0.1).unwrap().verdict(), "yes");
    }

    #[test]
    fn removed_keys_are_absent() {
        let removed = line(1, "remove", None, [5.0, 6.0]);
        let absent = |times| line(2, "read", None, times);
        assert_eq!(checked([removed.clone(), absent([7.0, 8.0])]).verdict(), "yes");
        assert_eq!(checked([removed.clone(), line(2, "read", Some("b"), [7.0, 8.0])]).verdict(), "no");
        assert_eq!(checked([removed.clone(), absent([0.1, 0.2])]).verdict(), "yes", "before its first write");
        assert_eq!(checked([removed, absent([4.1, 4.2])]).verdict(), "no", "a write and no removal came before");
    }

    #[test]
    fn a_key_with_an_earlier_value_is_checked_from_there() {
        let old = line(2, "read", Some("old"), [0.1, 0.2]);
        assert_eq!(checked([old.clone()]).verdict(), "yes");
        assert_eq!(checked([line(2, "read", Some("old"), [5.0, 6.0])]).verdict(), "no", "after two writes");
        let two = [old, line(2, "read", Some("older"), [0.3, 0.4])];
        assert_eq!(checked(two).verdict(), "no", "nobody wrote the second value");
    }

    #[test]
    fn keys_without_starts_values_or_reads_are_left_out() {
        assert_eq!(single_copy(&written(), 0.0), None, "nobody read");
        let read = line(2, "read", Some("a"), [5.0, 6.0]);
        let older = HistoryEntry { start_s: None, ..read.clone() };
        assert_eq!(single_copy(&[written(), vec![older]].concat(), 0.0), None, "a record of an older version");
        let emptied = HistoryEntry { key: String::new(), ..line(1, "remove_all", None, [4.5, 4.6]) };
        assert_eq!(single_copy(&[written(), vec![emptied, read]].concat(), 0.0), None, "the space was emptied");
    }
}
