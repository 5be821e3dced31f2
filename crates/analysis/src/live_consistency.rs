//! Check of audited keys while the load runs, in bounded memory. It finds a key that is not
//! linearizable soon after its answers came. The check of the whole history has the last word: it
//! also sees what happened while an operation was open for long.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use linearizability::{Checker, Proof};
use record::events::HistoryEntry;

use crate::audit::{proofs, single_copy};
use crate::client_history::{collection_operation, key_name, ns, operation};
use crate::live_collections::{CollectionViolation, LiveCollections};

/// Number of the latest operations whose lines are kept, to describe a violation.
const RECENT: usize = 100_000;

/// Keys under check. Lines of the history are added when their operations have ended.
#[derive(Debug)]
pub struct LiveConsistency {
    checker: Checker,
    checker_lines: RecentLines,
    /// Keys that are queues or sets.
    collections: LiveCollections,
    collection_lines: RecentLines,
    violation: Option<CollectionViolation>,
    /// Keys by their number.
    keys: HashMap<u64, LiveKey>,
    /// Spaces that were emptied as a whole.
    emptied: BTreeSet<String>,
    seed: u64,
}

/// Lines of the latest operations, and the number of lines before them.
#[derive(Debug, Default)]
struct RecentLines {
    lines: VecDeque<HistoryEntry>,
    before: usize,
}

/// A key that was found not to be linearizable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveViolation {
    /// The key, as `space/key`.
    pub key: String,
    /// Reason why its operations fit no order.
    pub explanation: String,
}

/// A key of the check.
#[derive(Debug)]
struct LiveKey {
    space: String,
    key: String,
    /// Whether clients use the key as a queue or a set. `None` if it was not used.
    is_collection: Option<bool>,
    /// Whether something about the key is not known.
    is_left_out: bool,
}

impl LiveConsistency {
    /// Starts a check. `seed` decides the numbers of keys and values: hashes of their texts.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            checker: Checker::new(single_copy::settings(0)),
            checker_lines: RecentLines::default(),
            collections: LiveCollections::default(),
            collection_lines: RecentLines::default(),
            violation: None,
            keys: HashMap::new(),
            emptied: BTreeSet::new(),
            seed,
        }
    }

    /// Adds an operation that has ended. It was certainly not sent before `not_before_s`.
    pub fn take(&mut self, line: HistoryEntry, not_before_s: f64) {
        if line.effect == "remove_all" {
            self.emptied.insert(line.space.clone());
        }
        if self.emptied.contains(&line.space) {
            return;
        }
        let seed = self.seed;
        let number = hash(seed, (&line.space, &line.key));
        let key = match self.keys.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (space, key) = (line.space.clone(), line.key.clone());
                new.insert(LiveKey { space, key, is_collection: None, is_left_out: false })
            }
        };
        let is_collection = line.is_of_queue() || line.is_of_set();
        // A key that is used in two ways is not checked.
        key.is_left_out |= *key.is_collection.get_or_insert(is_collection) != is_collection;
        if is_collection {
            let operation = collection_operation(&line, |value| hash(seed, value));
            key.is_left_out |= matches!(operation, Some(Err(_)));
            if key.is_left_out {
                self.collections.leave_out(number);
            } else if let Some(Ok(operation)) = operation {
                let place = self.collection_lines.push(line);
                self.collections.push(number, place, operation.not_before(ns(not_before_s)));
            }
            return;
        }
        match operation(&line, number, |value| hash(seed, value)) {
            Some(Ok(mut operation)) if !key.is_left_out => {
                operation.start_ns = operation.start_ns.max(ns(not_before_s));
                self.checker.push(&operation);
                self.checker_lines.push(line);
            }
            Some(Err(_)) => key.is_left_out = true,
            Some(Ok(_)) | None => {}
        }
    }

    /// Checks what can be checked, given that no operation which is still to be added was sent
    /// before `open_since_s`.
    pub fn check(&mut self, open_since_s: f64) {
        self.checker.advance(ns(open_since_s));
        self.checker.check_all();
        if self.violation.is_none() {
            self.violation = self.collections.check(ns(open_since_s));
        }
    }

    /// Returns the first violation that was found.
    #[must_use]
    pub fn violation(&self) -> Option<LiveViolation> {
        let checked = |key: &&LiveKey| !key.is_left_out && !self.emptied.contains(&key.space);
        let told = |number: u64, explanation: &dyn Fn() -> String| {
            let key = self.keys.get(&number).filter(checked)?;
            Some(LiveViolation { key: key_name(&key.space, &key.key), explanation: explanation() })
        };
        let of_checker = self.checker.violations().find_map(|(number, proof)| {
            told(number, &|| self.checker_lines.explanation(proof, |place| place, self.seed))
        });
        of_checker.or_else(|| {
            let CollectionViolation { key, proof, places } = self.violation.as_ref()?;
            told(*key, &|| self.collection_lines.explanation(proof, |place| places[place], self.seed))
        })
    }

    /// Returns the number of keys, and of the operations and values that wait for a check.
    #[must_use]
    pub fn size(&self) -> usize {
        self.keys.len() + self.checker.size() + self.collections.size()
    }
}

impl RecentLines {
    /// Adds a line, and returns its place.
    fn push(&mut self, line: HistoryEntry) -> usize {
        if self.lines.len() == RECENT {
            self.lines.pop_front();
            self.before += 1;
        }
        self.lines.push_back(line);
        self.before + self.lines.len() - 1
    }

    /// Returns the explanation of a proof. Operations and values that are no longer kept have no
    /// names.
    fn explanation(&self, proof: &Proof, place_of: impl Fn(usize) -> usize, seed: u64) -> String {
        let line = |place: usize| self.lines.get(place_of(place).checked_sub(self.before)?);
        let operation = |place| line(place).map_or_else(|| "an earlier operation".to_owned(), proofs::name);
        let value = |number: u64| {
            let texts = self.lines.iter().flat_map(|line| [&line.value, &line.from, &line.found]).flatten();
            let text = texts.into_iter().find(|text| hash(seed, text.as_str()) == number);
            text.map_or_else(|| "an earlier value".to_owned(), |text| proofs::quoted(text))
        };
        proof.explanation.with_names(operation, value)
    }
}

/// Returns a number that is none of the two highest, which the checker reserves.
fn hash(seed: u64, of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, of).hash(&mut hasher);
    hasher.finish() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(agent: u32, effect: &str, value: &str, [start_s, at_s]: [f64; 2]) -> HistoryEntry {
        HistoryEntry {
            at_s,
            start_s: Some(start_s),
            agent: Some(agent),
            effect: effect.to_owned(),
            space: "s".to_owned(),
            key: "k".to_owned(),
            value: Some(value.to_owned()),
            applied: Some(true),
            ..HistoryEntry::default()
        }
    }

    /// Adds the lines, each after a check up to its start, and returns the key that is violated.
    fn violated(lines: &[HistoryEntry]) -> Option<String> {
        let mut live = LiveConsistency::new(1);
        for line in lines {
            live.check(line.start_s.unwrap_or(line.at_s));
            live.take(line.clone(), f64::NEG_INFINITY);
        }
        live.check(f64::INFINITY);
        live.violation().map(|violation| violation.key)
    }

    /// A write of `a`, and after it a write of `b`.
    fn written() -> Vec<HistoryEntry> {
        vec![line(1, "write", "a", [1.0, 2.0]), line(1, "write", "b", [3.0, 4.0])]
    }

    #[test]
    fn a_stale_read_names_its_key() {
        let with = |read: HistoryEntry| violated(&[written(), vec![read]].concat());
        assert_eq!(with(line(2, "read", "b", [5.0, 6.0])), None);
        assert_eq!(with(line(2, "read", "a", [5.0, 6.0])), Some("s/k".to_owned()));
        let own_space = HistoryEntry { space: String::new(), ..line(2, "read", "a", [5.0, 6.0]) };
        assert_eq!(with(own_space), None, "another key");
    }

    #[test]
    fn a_violation_is_explained_by_its_operations() {
        let explanation = |kept: usize| {
            let mut live = LiveConsistency::new(1);
            for line in [written(), vec![line(2, "read", "b", [4.5, 4.6]), line(2, "read", "a", [5.0, 6.0])]].concat() {
                live.take(line, f64::NEG_INFINITY);
            }
            live.check(f64::INFINITY);
            let recent = &mut live.checker_lines;
            recent.before = recent.lines.len() - kept;
            recent.lines.drain(..recent.before);
            live.violation().map(|violation| violation.explanation)
        };
        assert_eq!(
            explanation(4).as_deref(),
            Some(
                "agent 1's write at 1.000 s ended with \"a\" before agent 1's write at 3.000 s on \"b\" started, and agent 1's \
                 write at 3.000 s ended with \"b\" before agent 2's read at 5.000 s on \"a\" started: neither value can come \
                 first"
            )
        );
        assert_eq!(
            explanation(2).as_deref(),
            Some(
                "an earlier operation ended with \"a\" before an earlier operation on \"b\" started, and an earlier operation \
                 ended with \"b\" before agent 2's read at 5.000 s on \"a\" started: neither value can come first"
            )
        );
    }

    #[test]
    fn queues_and_sets_are_checked() {
        let enqueued = [line(1, "enqueue", "a", [1.0, 2.0]), line(1, "enqueue", "b", [3.0, 4.0])];
        let dequeue = |value, times| line(2, "dequeue", value, times);
        let queue = |more: &[HistoryEntry]| violated(&[&enqueued, more].concat());
        assert_eq!(queue(&[dequeue("a", [5.0, 6.0]), dequeue("b", [5.0, 6.0])]), None);
        assert_eq!(queue(&[dequeue("b", [5.0, 6.0]), dequeue("a", [7.0, 8.0])]), Some("s/k".to_owned()));
        assert_eq!(queue(&[line(2, "read", "a", [5.0, 6.0]), dequeue("b", [7.0, 8.0])]), None, "used in two ways");

        let added = [line(1, "add_to_set", "a", [1.0, 2.0]), line(1, "add_to_set", "b", [3.0, 4.0])];
        let members = |list, times| line(2, "members", list, times);
        let set = |more: &[HistoryEntry]| violated(&[&added, more].concat());
        assert_eq!(set(&[members("[\"a\"]", [2.5, 3.5]), members("[\"a\",\"b\"]", [5.0, 6.0])]), None);
        assert_eq!(set(&[members("[\"a\"]", [5.0, 6.0])]), Some("s/k".to_owned()));
        assert_eq!(set(&[members("a", [2.5, 3.5]), members("[\"a\"]", [5.0, 6.0])]), None, "no list");
    }

    #[test]
    fn an_open_enqueue_excuses_what_others_dequeue() {
        let mut live = LiveConsistency::new(1);
        live.take(line(2, "dequeue", "a", [1.0, 2.0]), f64::NEG_INFINITY);
        live.take(line(2, "dequeue", "b", [3.0, 5.0]), f64::NEG_INFINITY);
        live.check(0.5);
        live.take(line(1, "enqueue", "a", [0.5, 6.0]), f64::NEG_INFINITY);
        live.check(4.0);
        live.take(line(1, "enqueue", "b", [4.0, 6.0]), f64::NEG_INFINITY);
        live.check(f64::INFINITY);
        assert_eq!(live.violation(), None);
        live.take(line(2, "dequeue", "b", [7.0, 8.0]), f64::NEG_INFINITY);
        live.check(f64::INFINITY);
        let explanation = live.violation().map(|violation| violation.explanation);
        let twice =
            "agent 2's dequeue at 3.000 s and agent 2's dequeue at 7.000 s both took \"b\", which was enqueued once";
        assert_eq!(explanation.as_deref(), Some(twice));
    }

    #[test]
    fn a_violation_of_a_large_queue_is_found_when_it_has_grown() {
        let mut live = LiveConsistency::new(1);
        for number in 0..100 {
            let at_s = f64::from(number);
            live.take(line(1, "enqueue", &number.to_string(), [at_s, at_s + 0.2]), f64::NEG_INFINITY);
            let taken = if number == 50 { 49 } else { number };
            live.take(line(2, "dequeue", &taken.to_string(), [at_s + 0.3, at_s + 0.5]), f64::NEG_INFINITY);
            live.check(at_s + 0.6);
            if live.violation().is_some() {
                assert!((51..=65).contains(&number), "{number}");
                return;
            }
        }
        panic!("not found");
    }

    #[test]
    fn keys_that_are_not_fully_known_are_left_out() {
        let stale = line(2, "read", "a", [7.0, 8.0]);
        let unknown_start = HistoryEntry { start_s: None, ..line(2, "read", "b", [5.0, 6.0]) };
        assert_eq!(violated(&[written(), vec![unknown_start, stale.clone()]].concat()), None);
        let emptied = HistoryEntry { key: String::new(), value: None, ..line(1, "remove_all", "", [5.0, 6.0]) };
        assert_eq!(violated(&[written(), vec![emptied, stale]].concat()), None);
    }

    #[test]
    fn a_value_from_before_the_load_is_no_violation() {
        let reads = [line(2, "read", "old", [0.1, 0.2]), line(2, "read", "old", [0.3, 0.4])];
        assert_eq!(violated(&[reads.to_vec(), written()].concat()), None);
    }

    #[test]
    fn an_operation_starts_no_earlier_than_its_thread_had_nothing_open() {
        let read = line(2, "read", "a", [0.5, 6.0]);
        let mut live = LiveConsistency::new(1);
        written().into_iter().for_each(|line| live.take(line, f64::NEG_INFINITY));
        live.take(read, 5.0);
        live.check(7.0);
        assert_eq!(live.violation().map(|violation| violation.key), Some("s/k".to_owned()), "it was sent after 5 s");
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_operations() {
        let mut live = LiveConsistency::new(1);
        for number in 0..10_000 {
            let at_s = f64::from(number);
            let key = format!("k{}", number % 10);
            let written = line(1, "write", &number.to_string(), [at_s, at_s + 0.4]);
            live.take(HistoryEntry { key: key.clone(), ..written.clone() }, f64::NEG_INFINITY);
            live.take(HistoryEntry { key, effect: "read".to_owned(), ..written }, f64::NEG_INFINITY);
            live.check(at_s + 0.5);
        }
        assert_eq!(live.violation(), None);
        assert!(live.size() <= 100, "{}", live.size());
    }
}
