//! History of one key, of which all but the newest part is closed.

use crate::carry::{Carry, InitialValue};
use crate::checker::Settings;
use crate::initial_value::seen_by;
use crate::operation::{Item, NEVER};
use crate::proof::{Objection, Proof};
use crate::search::Extent;
use crate::shrink::{shrink, shrink_quickly};
use crate::window::{Judged, QuickCheck, judge_by_search};

/// Configurations per operation of a small search.
const SMALL_SEARCH: usize = 64;

/// Verdict on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linearizability {
    Linearizable,
    Violation(Proof),
    /// The search gave up, and later operations on the key were not checked.
    Unknown {
        why: String,
    },
}

/// Checked part of a key's history.
#[derive(Debug, Clone)]
pub(crate) struct KeyHistory {
    carry: Carry,
    pub verdict: Linearizability,
    /// Whether the value before the first operation is still to be found.
    seeks_initial: bool,
}

impl KeyHistory {
    pub fn new(initial: InitialValue) -> Self {
        let seeks_initial = initial == InitialValue::Seen;
        Self { carry: Carry::of_initial(initial), verdict: Linearizability::Linearizable, seeks_initial }
    }

    pub fn is_open(&self) -> bool {
        self.verdict == Linearizability::Linearizable
    }

    /// Checks the operations up to the last moment at which none was open. No operation that is
    /// missing in `items` starts before `open_since`. Returns the number of operations that were
    /// checked: the first ones of `items`, which this sorts.
    pub fn close(&mut self, items: &mut [Item], open_since: i64, quick: &mut QuickCheck, settings: &Settings) -> usize {
        if !items.is_sorted_by_key(|item| item.start) {
            items.sort_unstable_by_key(|item| (item.start, item.end, item.operation));
        }
        let closed = closed_count(items, open_since);
        let is_end = open_since == i64::MAX;
        let mut window = Vec::new();
        let all = &items[..closed];
        // Most histories are free of unknown outcomes: no copy then.
        let sure = if all.iter().any(Item::is_optional) {
            self.carry.pending.extend(all.iter().filter(|item| item.is_optional()));
            window.extend(all.iter().filter(|item| !item.is_optional()));
            window.as_slice()
        } else {
            all
        };
        if sure.is_empty() {
            return closed;
        }
        if !self.seeks_initial {
            self.judge(sure, is_end, quick, settings);
            return closed;
        }
        let pending = self.carry.pending.clone();
        for initial in seen_by(sure, &pending, i64::MAX) {
            self.begin_with(initial);
            self.carry.pending.clone_from(&pending);
            self.judge(sure, is_end, quick, settings);
            if !matches!(self.verdict, Linearizability::Violation(_)) {
                break;
            }
        }
        closed
    }

    /// Sets the value before the first operation.
    fn begin_with(&mut self, initial: InitialValue) {
        self.carry.last = Carry::of_initial(initial).last;
        self.verdict = Linearizability::Linearizable;
        self.seeks_initial = false;
    }

    /// Checks a window, none of whose operations has an unknown outcome.
    fn judge(&mut self, sure: &[Item], is_end: bool, quick: &mut QuickCheck, settings: &Settings) {
        match quick.judge(sure, &mut self.carry, is_end) {
            Ok(()) => {}
            Err(Objection::Violation(proof)) => {
                let proof = if settings.brief_proofs { shrink_quickly(proof, sure, &self.carry, quick) } else { proof };
                self.verdict = Linearizability::Violation(proof);
            }
            Err(Objection::Undecided(_)) if is_end && self.close_whole(sure, settings) => {}
            Err(Objection::Undecided(why)) => self.close_parts(sure, is_end, quick, settings, why),
        }
    }

    /// Returns the number of operations and values in memory.
    pub fn size(&self) -> usize {
        self.carry.pending.len() + self.carry.last.len()
    }

    /// Forgets operations that need not wait for the key to be idle.
    pub fn thin(&mut self, items: &mut Vec<Item>, open_since: i64, quick: &mut QuickCheck) {
        if self.seeks_initial {
            match seen_by(items, &self.carry.pending, open_since).as_slice() {
                [initial] => self.begin_with(*initial),
                _ => return,
            }
        }
        if let Err(Objection::Violation(proof)) = quick.thin(items, &mut self.carry, open_since) {
            self.verdict = Linearizability::Violation(proof);
        }
    }

    /// Checks the last operations in one search, if it is a small one. Returns whether it was.
    fn close_whole(&mut self, items: &[Item], settings: &Settings) -> bool {
        let extent = Extent { limit: settings.search_limit.min(items.len() * SMALL_SEARCH), all: false };
        match judge_by_search(items, &self.carry, extent, NEVER) {
            Judged::Passed(carry) => self.carry = carry,
            Judged::Violation => {
                self.verdict = Linearizability::Violation(shrink(items, &self.carry, settings.brief_proofs))
            }
            Judged::Unknown(_) => return false,
        }
        true
    }

    /// Checks operations in the smallest windows.
    fn close_parts(
        &mut self,
        items: &[Item],
        is_end: bool,
        quick: &mut QuickCheck,
        settings: &Settings,
        why: &'static str,
    ) {
        let at_start = self.carry.clone();
        let mut checked = 0;
        while checked < items.len() && self.is_open() {
            let window = &items[checked..];
            let window = &window[..first_window(window)];
            checked += window.len();
            let is_whole = window.len() == items.len();
            let result = if is_whole {
                Err(Objection::Undecided(why))
            } else {
                quick.judge(window, &mut self.carry, is_end && checked == items.len())
            };
            self.verdict = match result {
                Ok(()) => continue,
                Err(Objection::Violation(_)) => {
                    Linearizability::Violation(shrink(&items[..checked], &at_start, settings.brief_proofs))
                }
                Err(Objection::Undecided(why)) => {
                    let end = window.iter().map(|item| item.end).max().unwrap_or_default();
                    let extent = Extent { limit: settings.search_limit, all: !(is_end && checked == items.len()) };
                    match judge_by_search(window, &self.carry, extent, end) {
                        Judged::Passed(carry) => {
                            self.carry = carry;
                            continue;
                        }
                        Judged::Violation => {
                            Linearizability::Violation(shrink(&items[..checked], &at_start, settings.brief_proofs))
                        }
                        Judged::Unknown(limit) => Linearizability::Unknown { why: format!("{why}, and {limit}") },
                    }
                }
            };
        }
    }
}

/// Returns the number of first operations after which there was a moment without an open one.
/// Operations with unknown outcome do not count as open.
fn closed_count(items: &[Item], open_since: i64) -> usize {
    let mut count = 0;
    let mut end = i64::MIN;
    for (place, item) in items.iter().enumerate() {
        if item.start > end && end < open_since {
            count = place;
        }
        if !item.is_optional() {
            end = end.max(item.end);
        }
    }
    if end < open_since { items.len() } else { count }
}

/// Returns the length of the first window.
fn first_window(items: &[Item]) -> usize {
    let mut end = i64::MIN;
    for (place, item) in items.iter().enumerate() {
        if place > 0 && item.start > end {
            return place;
        }
        end = end.max(item.end);
    }
    items.len()
}
