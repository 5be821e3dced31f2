//! Fewest operations that still prove a violation which the search found.
//!
//! Any observation may be left out: if the whole history had a linearization, so had the rest. A
//! write may be left out if no remaining operation depends on the value that it left.

use crate::carry::{Carry, LastValue};
use crate::explanation::{Explanation, explained};
use crate::operation::{Act, BEFORE_ALL, Item};
use crate::proof::{Proof, operation_name};
use crate::search::{Effort, Extent, Searched};
use crate::window::WindowSearch;

/// Most searches for one proof.
const SEARCHES: usize = 2_000;
/// Most configurations of all of them.
const CONFIGURATIONS: usize = 1_000_000;
/// Most configurations of one of them.
const CONFIGURATIONS_EACH: usize = 50_000;
/// Most operations that are tried.
const OPERATIONS: usize = 5_000;

/// Returns the proof that these operations, sorted by start, have no linearization. If `is_brief`
/// is false, the proof holds all of them.
pub(crate) fn shrink(items: &[Item], carry: &Carry, is_brief: bool) -> Proof {
    let mut shrinking = Shrinking { carry: carry.clone(), searches: 0, configurations: 0 };
    if !is_brief || items.len() > OPERATIONS {
        return shrinking.proof(items);
    }
    let items = shrinking.cut_end(items.to_vec());
    let mut items = shrinking.cut_start(items);
    items.sort_by_key(|item| item.end);
    let items = shrinking.cut_comparisons(items);
    let items = shrinking.cut_parts(items);
    shrinking.proof(&items)
}

struct Shrinking {
    carry: Carry,
    searches: usize,
    configurations: usize,
}

impl Shrinking {
    fn is_impossible(&mut self, items: &[Item]) -> bool {
        self.search(items).is_some()
    }

    /// Returns the effort of a search if there is no linearization.
    fn search(&mut self, items: &[Item]) -> Option<Effort> {
        if self.searches == SEARCHES || self.configurations > CONFIGURATIONS {
            return None;
        }
        self.searches += 1;
        let problem = WindowSearch::new(items, &self.carry);
        let extent = Extent { limit: CONFIGURATIONS_EACH, all: false };
        let (searched, effort) = problem.search_counting(&mut problem.model(), extent);
        self.configurations += effort.configurations;
        (searched == Searched::Impossible).then_some(effort)
    }

    /// Leaves out what happened after the first operation that fits no order.
    fn cut_end(&mut self, items: Vec<Item>) -> Vec<Item> {
        let Some(effort) = self.search(&items) else { return items };
        let (first, later): (Vec<Item>, Vec<Item>) = items.iter().partition(|item| item.end <= effort.reached);
        let kept = restore_needed(first, &later);
        if kept.len() < items.len() && self.is_impossible(&kept) { kept } else { items }
    }

    /// Leaves out what happened before a moment without an open operation, if the rest has no
    /// linearization whatever the value was then.
    fn cut_start(&mut self, mut items: Vec<Item>) -> Vec<Item> {
        items.sort_by_key(|item| item.start);
        let mut starts = Vec::new();
        let mut end = i64::MIN;
        for (place, item) in items.iter().enumerate() {
            if item.start > end {
                starts.push(place);
            }
            end = end.max(item.end);
        }
        let last = vec![LastValue::at(None, BEFORE_ALL)];
        let any = Carry { last, pending: self.carry.pending.clone() };
        let given = std::mem::replace(&mut self.carry, any);
        let (mut low, mut high) = (0, starts.len());
        // The first `low` moments are known to do.
        while low < high {
            let middle = low.midpoint(high);
            if self.is_impossible(&items[starts[middle]..]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            Some(place) => items.split_off(starts[place]),
            None => {
                self.carry = given;
                items
            }
        }
    }

    /// Leaves out all comparisons that found another value.
    fn cut_comparisons(&mut self, items: Vec<Item>) -> Vec<Item> {
        let others = items.iter().copied().filter(|item| !matches!(item.act, Act::Differs(_)));
        let kept = without_idle_writes(others);
        if kept.len() < items.len() && self.is_impossible(&kept) { kept } else { items }
    }

    /// Leaves out parts of decreasing size.
    fn cut_parts(&mut self, mut items: Vec<Item>) -> Vec<Item> {
        let mut size = items.len().div_ceil(2).max(1);
        loop {
            let mut first = 0;
            let mut has_shrunk = false;
            while first < items.len() {
                let part = first..(first + size).min(items.len());
                let rest = items.iter().enumerate().filter(|(place, _)| !part.contains(place)).map(|(_, item)| *item);
                let dropped: Vec<Item> = items[part.clone()].to_vec();
                let kept = without_idle_writes(restore_needed(rest.collect(), &dropped).into_iter());
                if kept.len() < items.len() && self.is_impossible(&kept) {
                    items = kept;
                    has_shrunk = true;
                } else {
                    first += size;
                }
            }
            if size == 1 && !has_shrunk {
                return items;
            }
            size = if has_shrunk && size == 1 { 1 } else { (size / 2).max(1) };
        }
    }

    fn proof(&self, items: &[Item]) -> Proof {
        let observed = |written: Option<u64>| written.is_some() && items.iter().any(|item| item.act.seen() == written);
        let pending = self.carry.pending.iter().filter(|item| observed(item.act.written()));
        let mut operations: Vec<usize> = items.iter().chain(pending).map(|item| item.operation).collect();
        operations.extend(self.carry.last.iter().filter(|last| observed(last.value)).map(|last| last.writer));
        let mut proof = Proof::new(operations, Explanation::default());
        proof.explanation = match proof.core.as_slice() {
            [one] => explained![operation_name(*one), " fits no order of the operations"],
            _ => explained!["no order of these operations fits their times and values"],
        };
        proof
    }
}

/// Puts back the writes without which an operation would lack its value, or a comparison would see
/// another one.
fn restore_needed(mut kept: Vec<Item>, dropped: &[Item]) -> Vec<Item> {
    let mut open: Vec<Item> = dropped.to_vec();
    loop {
        let compares = kept.iter().any(|item| matches!(item.act, Act::Differs(_)));
        let (needed, rest): (Vec<Item>, Vec<Item>) = open.into_iter().partition(|item| {
            let written = item.act.written();
            written.is_some() && (compares || kept.iter().any(|other| other.act.seen() == written))
        });
        if needed.is_empty() {
            kept.sort_by_key(|item| item.end);
            return kept;
        }
        kept.extend(needed);
        open = rest;
    }
}

/// Leaves out writes on which nothing depends.
fn without_idle_writes(items: impl Iterator<Item = Item>) -> Vec<Item> {
    let mut items: Vec<Item> = items.collect();
    if items.iter().any(|item| matches!(item.act, Act::Differs(_))) {
        return items;
    }
    loop {
        let seen: Vec<u64> = items.iter().filter_map(|item| item.act.seen()).collect();
        let before = items.len();
        items.retain(|item| item.act.written().is_none_or(|value| seen.contains(&value)));
        if items.len() == before {
            return items;
        }
    }
}
