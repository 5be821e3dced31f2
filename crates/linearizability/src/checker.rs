//! Checks of many keys: of a whole history, or beside a load in bounded memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::carry::InitialValue;
use crate::key_history::KeyHistory;
use crate::operation::{Item, Operation};
use crate::proof::Proof;
use crate::window::QuickCheck;

pub use crate::key_history::Linearizability;

/// Conditions of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Value of each key before its first operation.
    pub initial: InitialValue,
    /// Greatest difference between a client's clock and the common one. Each interval is widened by
    /// it on both sides.
    pub clock_error_ns: i64,
    /// Most configurations of one search. One takes about 50 bytes.
    pub search_limit: usize,
    /// Whether to look for the fewest operations that prove a violation. Otherwise the proof of a
    /// search holds all operations of the search.
    pub brief_proofs: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { initial: InitialValue::Absent, clock_error_ns: 0, search_limit: 1_000_000, brief_proofs: true }
    }
}

/// Verdict on one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyVerdict {
    pub key: u64,
    pub verdict: Linearizability,
}

/// Operations that a key collects before the first check of them.
const FIRST_CHECK: usize = 32;

/// Operations of a busy key that may wait for the key to be idle.
const THIN_AT: usize = if cfg!(test) { 3 } else { 2_048 };

/// Checks each key while operations arrive.
///
/// A key's operations are forgotten when they are checked. A proof then holds only operations
/// since the last moment at which none was open on the key; [`check`] with all operations on the
/// key finds the whole proof.
///
/// On a key that is hardly ever idle, a failed comparison is checked against one order of the
/// other operations only, and deletes keep operations from being forgotten.
#[derive(Debug)]
pub struct Checker {
    settings: Settings,
    slots: KeyMap<usize>,
    keys: Vec<OpenKey>,
    pushed: usize,
    /// No operation that is still to be pushed starts before this time.
    open_since: i64,
    /// Positions in `keys` of violations, in the order in which they were found.
    violations: Vec<usize>,
    quick: QuickCheck,
}

#[derive(Debug)]
struct OpenKey {
    key: u64,
    history: KeyHistory,
    /// Operations that have not been checked.
    items: Vec<Item>,
    /// Number of operations at which to check.
    check_at: usize,
}

impl Checker {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            slots: KeyMap::default(),
            keys: Vec::new(),
            pushed: 0,
            open_since: i64::MIN,
            violations: Vec::new(),
            quick: QuickCheck::default(),
        }
    }

    /// Adds an operation that has ended or whose outcome is unknown. Returns its position, by which
    /// proofs refer to it.
    pub fn push(&mut self, operation: &Operation) -> usize {
        let position = self.pushed;
        self.pushed += 1;
        let Some(item) = operation.item(position, self.settings.clock_error_ns) else { return position };
        let next = self.keys.len();
        let slot = *self.slots.entry(operation.key).or_insert(next);
        if slot == next {
            let history = KeyHistory::new(self.settings.initial);
            self.keys.push(OpenKey { key: operation.key, history, items: Vec::new(), check_at: FIRST_CHECK });
        }
        let key = &mut self.keys[slot];
        if key.history.is_open() {
            key.items.push(item);
            if key.items.len() >= key.check_at {
                self.close(slot, self.open_since);
            }
        }
        position
    }

    /// Declares that no operation which is still to be pushed starts before `open_since_ns`: the
    /// least start of the operations that are open now.
    pub fn advance(&mut self, open_since_ns: i64) {
        let widened = open_since_ns.saturating_sub(self.settings.clock_error_ns);
        self.open_since = self.open_since.max(widened);
    }

    /// Checks every key up to its last moment without an open operation, and not only those that
    /// collected many operations.
    pub fn check_all(&mut self) {
        (0..self.keys.len()).for_each(|slot| self.close(slot, self.open_since));
    }

    /// Returns the violations so far, in the order in which they were found.
    pub fn violations(&self) -> impl Iterator<Item = (u64, &Proof)> {
        self.violations.iter().filter_map(|&slot| match &self.keys[slot].history.verdict {
            Linearizability::Violation(proof) => Some((self.keys[slot].key, proof)),
            _ => None,
        })
    }

    /// Returns the number of operations that wait for a check.
    pub fn waiting(&self) -> usize {
        self.keys.iter().map(|key| key.items.len()).sum()
    }

    /// Returns the number of operations and values in memory. A key has at least one value.
    pub fn size(&self) -> usize {
        self.keys.iter().map(|key| key.items.len() + key.history.size()).sum()
    }

    /// Checks what is left, and returns a verdict for each key that had operations.
    pub fn finish(mut self) -> Vec<KeyVerdict> {
        (0..self.keys.len()).for_each(|slot| self.close(slot, i64::MAX));
        self.keys.into_iter().map(|key| KeyVerdict { key: key.key, verdict: key.history.verdict }).collect()
    }

    fn close(&mut self, slot: usize, open_since: i64) {
        let key = &mut self.keys[slot];
        if key.items.is_empty() || !key.history.is_open() {
            return;
        }
        let closed = key.history.close(&mut key.items, open_since, &mut self.quick, &self.settings);
        key.items.drain(..closed);
        if key.items.len() >= THIN_AT && key.history.is_open() {
            key.history.thin(&mut key.items, open_since, &mut self.quick);
        }
        key.check_at = (key.items.len() * 2).max(FIRST_CHECK);
        if !key.history.is_open() {
            key.items = Vec::new();
            if matches!(key.history.verdict, Linearizability::Violation(_)) {
                self.violations.push(slot);
            }
        }
    }
}

/// Checks a whole history. Proofs refer to positions in `operations`. The verdicts are in the order
/// in which the keys occur.
pub fn check(operations: &[Operation], settings: Settings) -> Vec<KeyVerdict> {
    let mut slots: KeyMap<u32> = KeyMap::default();
    let mut keys: Vec<(u64, usize)> = Vec::new();
    let slot_of: Vec<u32> = operations
        .iter()
        .map(|operation| {
            let slot = *slots.entry(operation.key).or_insert(keys.len() as u32);
            if slot as usize == keys.len() {
                keys.push((operation.key, 0));
            }
            keys[slot as usize].1 += 1;
            slot
        })
        .collect();
    let mut ends: Vec<usize> = Vec::with_capacity(keys.len());
    let mut total = 0;
    for (_, count) in &keys {
        ends.push(total);
        total += count;
    }
    // Per key, the positions of its operations, in order.
    let mut positions = vec![0_u32; operations.len()];
    for (position, &slot) in slot_of.iter().enumerate() {
        let end = &mut ends[slot as usize];
        positions[*end] = position as u32;
        *end += 1;
    }
    let mut quick = QuickCheck::default();
    let mut items = Vec::new();
    let verdict = |(slot, (key, count)): (usize, &(u64, usize))| {
        let places = positions[ends[slot] - count..ends[slot]].iter().map(|&position| position as usize);
        items.clear();
        items.extend(places.filter_map(|position| operations[position].item(position, settings.clock_error_ns)));
        let mut history = KeyHistory::new(settings.initial);
        history.close(&mut items, i64::MAX, &mut quick, &settings);
        KeyVerdict { key: *key, verdict: history.verdict }
    };
    keys.iter().enumerate().map(verdict).collect()
}

/// Map whose keys are numbers.
pub(crate) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Fast hash of a number that need not resist attacks.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
