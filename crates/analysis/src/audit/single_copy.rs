//! Linearizability: whether all that clients saw of an audited key during the load could come from
//! a single copy of it. The crate `linearizability` decides each key by itself.
//!
//! An operation took effect between its start and its end, or at any time after its start if its
//! result is unknown. With several clocks, both ends are widened by their greatest error. A key is
//! checked if clients changed and read it, and if the history shows all that is needed: the start
//! and the value of each operation, each sent once. If clients read a value that nobody wrote, the
//! key may have had it before its first operation. The read-back after the load does not count,
//! because [`super::lost_writes`] judges it. A key that clients use as a queue or a set is checked
//! as one.

use linearizability::{InitialValue, Linearizability, QueueSettings, Settings, check, check_queue, check_set};
use record::results::ConsistencyProof;

use super::EXAMPLES;
use super::proofs::{PROOFS, example, proof};
use crate::client_history::{ClientHistory, KeyOperations};

/// Largest number of configurations in the search for one key.
const SEARCH_LIMIT: usize = 10_000;

/// Result of the check.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SingleCopyCheck {
    /// Number of keys that were checked.
    pub keys: u64,
    /// Number of checked keys whose history fits no single copy.
    pub violated: u64,
    /// Number of checked keys without a verdict.
    pub undecided: u64,
    /// The operations that prove a violation, for the first few keys, in words.
    pub examples: Vec<String>,
    /// The same proofs, to draw.
    pub proofs: Vec<ConsistencyProof>,
}

/// Checks each key of a history. Returns `None` if no key can be checked.
pub(super) fn single_copy(history: &ClientHistory<'_>, clock_error_ns: i64) -> Option<SingleCopyCheck> {
    let settings = settings(clock_error_ns);
    let mut found = SingleCopyCheck::default();
    for key in history.keys.iter().filter(|key| is_checkable(key)) {
        found.add(history, key, settings);
    }
    (found.keys > 0).then_some(found)
}

fn is_checkable(key: &KeyOperations<'_>) -> bool {
    key.is_checkable() || key.is_checkable_queue() || key.is_checkable_set()
}

/// Returns the conditions of the check.
pub(crate) fn settings(clock_error_ns: i64) -> Settings {
    Settings { initial: InitialValue::Seen, clock_error_ns, search_limit: SEARCH_LIMIT, ..Settings::default() }
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

    fn add(&mut self, history: &ClientHistory<'_>, key: &KeyOperations<'_>, settings: Settings) {
        self.keys += 1;
        let verdict = if key.is_checkable_queue() {
            // The queue may have held values before its first operation.
            let clock_error_ns = settings.clock_error_ns;
            check_queue(&key.queue, QueueSettings { starts_empty: false, clock_error_ns, ..QueueSettings::default() })
        } else if key.is_checkable_set() {
            check_set(&key.set, settings)
        } else {
            let Some(judged) = check(&key.operations, settings).into_iter().next() else { return };
            judged.verdict
        };
        match verdict {
            Linearizability::Linearizable => {}
            Linearizability::Unknown { .. } => self.undecided += 1,
            Linearizability::Violation(found) => {
                self.violated += 1;
                if self.examples.len() < EXAMPLES {
                    self.examples.push(example(key, &found));
                }
                if self.proofs.len() < PROOFS {
                    self.proofs.push(proof("linearizable", history, key, &found));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use record::events::{By, HistoryEntry, Outcome};

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
        judged(&history, 0.0).unwrap()
    }

    fn judged(history: &[HistoryEntry], clock_error_s: f64) -> Option<SingleCopyCheck> {
        single_copy(&ClientHistory::of(history), (clock_error_s * 1e9) as i64)
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
    fn a_proof_names_its_operations_by_number() {
        let found = checked([line(2, "read", Some("b"), [5.0, 6.0]), line(2, "read", Some("a"), [7.0, 8.0])]);
        let [proof] = found.proofs.as_slice() else { panic!("{:?}", found.proofs) };
        assert_eq!((proof.guarantee.as_str(), proof.key.as_str()), ("linearizable", "s/k"));
        let told: Vec<_> = proof.operations.iter().map(|one| (one.agent, one.did.as_str(), one.end_s)).collect();
        let expected = [
            (Some(1), "wrote \"a\"", Some(2.0)),
            (Some(1), "wrote \"b\"", Some(4.0)),
            (Some(2), "read \"a\"", Some(8.0)),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            proof.explanation,
            "operation 1 ended with \"a\" before operation 2 on \"b\" started, and operation 2 ended with \"b\" before \
             operation 3 on \"a\" started: neither value can come first"
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
        let found = judged(&[created.clone(), twice], 0.0).unwrap();
        assert_eq!((found.verdict(), found.keys), ("no", 1), "both found the key absent");
        assert!(found.examples[0].contains("agent 3 replaced nothing by \"d\""), "{:?}", found.examples);
        let other = HistoryEntry { found: Some("c".to_owned()), ..swap(None, false, [3.0, 4.0]) };
        assert_eq!(judged(&[created, other.clone()], 0.0).unwrap().verdict(), "yes");
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
            judged(&[writes, reads].concat(), 0.0).unwrap().verdict()
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
        assert_eq!(judged(&history, 0.01).unwrap().verdict(), "no");
        assert_eq!(judged(&history, 0.1).unwrap().verdict(), "yes");
    }

    #[test]
    fn queues_are_checked() {
        let dequeue = |value, times| line(2, "dequeue", value, times);
        let checked = |dequeues: &[HistoryEntry]| {
            let enqueue = |value, times| line(1, "enqueue", Some(value), times);
            let enqueued = [enqueue("a", [1.0, 2.0]), enqueue("b", [3.0, 4.0])];
            judged(&[&enqueued, dequeues].concat(), 0.0)
        };
        let in_order = [dequeue(Some("a"), [5.0, 6.0]), dequeue(Some("b"), [7.0, 8.0]), dequeue(None, [9.0, 9.5])];
        assert_eq!(checked(&in_order).map(|found| (found.verdict(), found.keys)), Some(("yes", 1)));
        let found = checked(&[in_order[1].clone()]).unwrap();
        assert_eq!(
            (found.verdict(), found.examples),
            (
                "no",
                vec![
                    "s/k: agent 1 enqueued \"a\" (1.000000 to 2.000000 s), then agent 1 enqueued \"b\" (3.000000 to 4.000000 \
                     s), then agent 2 dequeued \"b\" (7.000000 to 8.000000 s)"
                        .to_owned()
                ]
            )
        );
        let open = unknown(dequeue(None, [4.5, 4.6]));
        assert_eq!(checked(&[open.clone(), in_order[1].clone()]).unwrap().verdict(), "yes", "it may have taken a");
        assert_eq!(checked(&[open, in_order[2].clone()]).unwrap().verdict(), "no", "it cannot have taken both");
        let before = [dequeue(Some("x"), [0.1, 0.2]), in_order[0].clone()];
        assert_eq!(checked(&before).unwrap().verdict(), "yes", "x may be older");
        assert_eq!(checked(&[]), None, "nobody took a value");
        assert_eq!(checked(&[line(2, "read", Some("a"), [5.0, 6.0])]), None, "not only a queue");
    }

    #[test]
    fn sets_are_checked() {
        let add = |value, times| line(1, "add_to_set", Some(value), times);
        let members = |list, times| line(2, "members", Some(list), times);
        let checked = |more: &[HistoryEntry]| {
            let added = [add("a", [1.0, 2.0]), add("b", [3.0, 4.0])];
            judged(&[&added, more].concat(), 0.0)
        };
        let verdict = |more: &[HistoryEntry]| checked(more).map(|found| (found.verdict(), found.keys));
        let both = members(r#"["b","a"]"#, [5.0, 6.0]);
        let empty = members("[]", [0.1, 0.2]);
        assert_eq!(verdict(&[empty.clone(), both.clone()]), Some(("yes", 1)));
        let lost = members(r#"["b"]"#, [7.0, 8.0]);
        let found = checked(&[empty.clone(), both.clone(), lost.clone()]).unwrap();
        assert_eq!((found.verdict(), found.violated), ("no", 1));
        assert_eq!(
            found.proofs[0].explanation,
            "operation 2 did not read \"a\", which was there when operation 1 ended, before it started"
        );
        let told: Vec<&str> = found.proofs[0].operations.iter().map(|one| one.did.as_str()).collect();
        assert_eq!(told, ["added \"a\"", "read [\"b\"]"]);
        assert_eq!(verdict(&[empty, lost.clone()]), Some(("no", 1)), "a was acknowledged before");
        assert_eq!(verdict(&[members(r#"["a","b","old"]"#, [5.0, 6.0])]), Some(("yes", 1)), "it may be older");
        let late = unknown(add("c", [4.5, 4.6]));
        let all = members(r#"["a","b","c"]"#, [9.0, 9.1]);
        assert_eq!(verdict(&[late, both.clone(), all.clone()]), Some(("yes", 1)));
        assert_eq!(verdict(&[both.clone(), all]), Some(("no", 1)), "nobody added c");
        let no_answer = HistoryEntry { value: None, ..unknown(members("", [5.0, 6.0])) };
        assert_eq!(verdict(&[no_answer, both.clone()]), Some(("yes", 1)));
        assert_eq!(checked(&[]), None, "nobody read");
        assert_eq!(checked(&[members("a b", [5.0, 6.0]), both.clone()]), None, "no list");
        assert_eq!(checked(&[both, line(2, "dequeue", Some("a"), [5.0, 6.0])]), None, "not only a set");
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
    fn a_creation_may_fail_on_a_key_that_was_there_before() {
        let refused = |times| HistoryEntry { equal: Some(false), ..swap(None, false, times) };
        let removed = HistoryEntry { value: None, ..line(1, "remove", None, [3.0, 4.0]) };
        assert_eq!(judged(&[refused([1.0, 2.0]), removed.clone()], 0.0).unwrap().verdict(), "yes");
        let after = [swap(None, true, [5.0, 6.0]), refused([7.0, 8.0])];
        let all = [vec![refused([1.0, 2.0]), removed], after.to_vec()].concat();
        assert_eq!(judged(&all, 0.0).unwrap().verdict(), "yes");
    }

    #[test]
    fn keys_without_starts_values_or_reads_are_left_out() {
        assert_eq!(judged(&written(), 0.0), None, "nobody read");
        let read = line(2, "read", Some("a"), [5.0, 6.0]);
        let older = HistoryEntry { start_s: None, ..read.clone() };
        assert_eq!(judged(&[written(), vec![older]].concat(), 0.0), None, "a record of an older version");
        let emptied = HistoryEntry { key: String::new(), ..line(1, "remove_all", None, [4.5, 4.6]) };
        assert_eq!(judged(&[written(), vec![emptied, read]].concat(), 0.0), None, "the space was emptied");
    }
}
