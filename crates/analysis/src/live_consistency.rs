//! Check of audited keys while the load runs, in bounded memory. It finds a key that is not
//! linearizable soon after its answers came. The check of the whole history has the last word: it
//! also sees what happened while an operation was open for long.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use linearizability::{Checker, Proof};
use record::events::HistoryEntry;

use crate::audit::{proofs, single_copy};
use crate::client_history::{key_name, ns, operation};

/// Number of the latest operations whose lines are kept, to describe a violation.
const RECENT: usize = 100_000;

/// Keys under check. Lines of the history are added when their operations have ended.
#[derive(Debug)]
pub struct LiveConsistency {
    checker: Checker,
    /// Keys by their number.
    keys: HashMap<u64, LiveKey>,
    /// Spaces that were emptied as a whole.
    emptied: BTreeSet<String>,
    seed: u64,
    /// Lines of the latest operations that the checker has.
    recent: VecDeque<HistoryEntry>,
    /// Number of lines that came before them.
    before_recent: usize,
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
    /// Whether something about the key is not known.
    is_left_out: bool,
}

impl LiveConsistency {
    /// Starts a check. `seed` decides the numbers of keys and values: hashes of their texts.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let checker = Checker::new(single_copy::settings(0));
        let (keys, emptied) = (HashMap::new(), BTreeSet::new());
        Self { checker, keys, emptied, seed, recent: VecDeque::new(), before_recent: 0 }
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
                new.insert(LiveKey { space: line.space.clone(), key: line.key.clone(), is_left_out: false })
            }
        };
        match operation(&line, number, |value| hash(seed, value)) {
            Some(Ok(mut operation)) if !key.is_left_out => {
                operation.start_ns = operation.start_ns.max(ns(not_before_s));
                self.checker.push(&operation);
                self.keep(line);
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
    }

    /// Returns the first violation that was found.
    #[must_use]
    pub fn violation(&self) -> Option<LiveViolation> {
        let mut violated =
            self.checker.violations().filter_map(|(number, proof)| Some((self.keys.get(&number)?, proof)));
        let (key, proof) = violated.find(|(key, _)| !key.is_left_out && !self.emptied.contains(&key.space))?;
        Some(LiveViolation { key: key_name(&key.space, &key.key), explanation: self.explanation(proof) })
    }

    /// Returns the explanation of a proof. Operations and values that are no longer kept have no
    /// names.
    fn explanation(&self, proof: &Proof) -> String {
        let line = |place: usize| self.recent.get(place.checked_sub(self.before_recent)?);
        let operation = |place| line(place).map_or_else(|| "an earlier operation".to_owned(), proofs::name);
        let value = |number: u64| {
            let texts = self.recent.iter().flat_map(|line| [&line.value, &line.from, &line.found]).flatten();
            let text = texts.into_iter().find(|text| hash(self.seed, text.as_str()) == number);
            text.map_or_else(|| "an earlier value".to_owned(), |text| proofs::quoted(text))
        };
        proof.explanation.with_names(operation, value)
    }

    fn keep(&mut self, line: HistoryEntry) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
            self.before_recent += 1;
        }
        self.recent.push_back(line);
    }

    /// Returns the number of keys, and of the operations and values that wait for a check.
    #[must_use]
    pub fn size(&self) -> usize {
        self.keys.len() + self.checker.size()
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
            live.before_recent = live.recent.len() - kept;
            live.recent.drain(..live.before_recent);
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
