//! Fewest operations that still prove a violation which the search found.
//!
//! Any observation may be left out: if the whole history had a linearization, so had the rest. A
//! write may be left out if it could not be the last one before a remaining operation that saw its
//! value, or before a comparison that found another one.

use crate::carry::{Carry, LastValue};
use crate::explanation::{Explanation, explained};
use crate::operation::{Act, BEFORE_ALL, Item, NEVER};
use crate::proof::{Objection, Proof, operation_name};
use crate::search::{Effort, Extent, Searched};
use crate::window::{Judged, QuickCheck, WindowSearch, judge_by_search};

/// Most searches for one proof.
const SEARCHES: usize = 2_000;
/// Most configurations of all of them.
const CONFIGURATIONS: usize = 1_000_000;
/// Most configurations of one of them.
const CONFIGURATIONS_EACH: usize = 50_000;
/// Most operations that are tried.
const OPERATIONS: usize = 5_000;
/// Most operations of a proof of the quick method that is made smaller.
const QUICK_OPERATIONS: usize = 64;

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

/// Leaves out single operations of a proof that the quick method found, as long as it still finds a
/// violation in the rest.
pub(crate) fn shrink_quickly(mut proof: Proof, items: &[Item], carry: &Carry, quick: &mut QuickCheck) -> Proof {
    let in_core = |items: &[Item], proof: &Proof| -> Vec<Item> {
        items.iter().copied().filter(|item| proof.core.binary_search(&item.operation).is_ok()).collect()
    };
    let mut items = in_core(items, &proof);
    let mut place = 0;
    while place < items.len() && items.len() <= QUICK_OPERATIONS {
        let dropped = [items[place]];
        let kept = items.iter().copied().filter(|item| *item != dropped[0]).collect();
        // A reader of the proof expects the writes of all values in it.
        let mut kept = restore_needed(kept, &dropped, &[]);
        kept.sort_by_key(|item| item.start);
        place += 1;
        if kept.len() == items.len() {
            continue;
        }
        match quick.judge(&kept, &mut carry.clone(), true) {
            Err(Objection::Violation(smaller)) => {
                items = in_core(&kept, &smaller);
                (proof, place) = (smaller, 0);
            }
            Err(Objection::Undecided(_)) => {
                let extent = Extent { limit: CONFIGURATIONS_EACH, all: false };
                if let Judged::Violation = judge_by_search(&kept, carry, extent, NEVER) {
                    return shrink(&kept, carry, true);
                }
            }
            Ok(()) => {}
        }
    }
    proof
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
        let kept = restore_needed(first, &later, &items);
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
        let kept: Vec<Item> = others.collect();
        if kept.len() < items.len() && self.is_impossible(&kept) { kept } else { items }
    }

    /// Leaves out parts of decreasing size, and in the end single operations, each time with the
    /// operations that saw its value.
    fn cut_parts(&mut self, mut items: Vec<Item>) -> Vec<Item> {
        let mut size = items.len().div_ceil(2).max(1);
        loop {
            let mut first = 0;
            let mut has_shrunk = false;
            while first < items.len() {
                let part = first..(first + size).min(items.len());
                match self.without(&items, &items[part.clone()]) {
                    Some(kept) => {
                        items = kept;
                        has_shrunk = true;
                    }
                    None => first += size,
                }
            }
            if size == 1 && !has_shrunk {
                return items;
            }
            size = if has_shrunk && size == 1 { 1 } else { (size / 2).max(1) };
        }
    }

    /// Returns a smaller set without linearization that lacks some of the dropped operations.
    fn without(&mut self, items: &[Item], dropped: &[Item]) -> Option<Vec<Item>> {
        let is_dropped = |item: &Item| dropped.iter().any(|other| other.operation == item.operation);
        let kept = items.iter().copied().filter(|item| !is_dropped(item)).collect();
        let kept = restore_needed(kept, dropped, items);
        if kept.len() < items.len() && self.is_impossible(&kept) {
            return Some(kept);
        }
        let [one] = dropped else { return None };
        let kept = without_value(items, one.act.written()?);
        (kept.len() < items.len() && self.is_impossible(&kept)).then_some(kept)
    }

    fn proof(&self, items: &[Item]) -> Proof {
        let observed = |written: Option<u64>| written.is_some() && items.iter().any(|item| item.act.seen() == written);
        let pending = self.carry.pending.iter().filter(|item| observed(item.act.written()));
        let mut operations: Vec<usize> = items.iter().chain(pending).map(|item| item.operation).collect();
        operations.extend(self.carry.last.iter().filter(|last| observed(last.value)).map(|last| last.writer));
        let mut proof = Proof::new(operations, Explanation::default());
        proof.explanation = match proof.core.as_slice() {
            [one] => explained![operation_name(*one), " fits no order of the operations"],
            _ => explained![
                "no order of these operations fits their times and values; writes that others surely overwrote are left \
                 out"
            ],
        };
        proof
    }
}

/// Returns the kept operations of a set and, of the dropped ones, the writes without which the rest
/// might have no linearization although the whole set has one.
fn restore_needed(mut kept: Vec<Item>, dropped: &[Item], all: &[Item]) -> Vec<Item> {
    let mut open: Vec<Item> = dropped.to_vec();
    loop {
        let (needed, rest): (Vec<Item>, Vec<Item>) = open.into_iter().partition(|item| is_needed(item, &kept, all));
        if needed.is_empty() {
            kept.sort_by_key(|item| item.end);
            return kept;
        }
        kept.extend(needed);
        open = rest;
    }
}

/// Whether one of the kept operations depends on a write.
fn is_needed(item: &Item, kept: &[Item], all: &[Item]) -> bool {
    let Some(value) = item.act.written() else { return false };
    let depends = |act: Act| match act {
        Act::Differs(from) => from != value,
        act => act.seen() == Some(value),
    };
    kept.iter().any(|other| depends(other.act) && may_be_current(item, other, all))
}

/// Whether a write may be the last one before an observation: no other write surely came between.
/// Writes may be left out in the order of their starts, so that the one between is still there.
fn may_be_current(write: &Item, observation: &Item, all: &[Item]) -> bool {
    let is_between = |other: &Item| {
        other.act.written().is_some()
            && !other.is_optional()
            && write.end < other.start
            && other.end < observation.start
    };
    write.start <= observation.end && !all.iter().any(is_between)
}

/// Leaves out all operations that write a value or saw it.
fn without_value(items: &[Item], value: u64) -> Vec<Item> {
    let mut gone = vec![value];
    loop {
        let is_gone = |seen: Option<u64>| seen.is_some_and(|value| gone.contains(&value));
        let (dropped, kept): (Vec<Item>, Vec<Item>) =
            items.iter().partition(|item| is_gone(item.act.written()) || is_gone(item.act.seen()));
        // A compare-and-set that is left out takes its new value along.
        let more: Vec<u64> =
            dropped.iter().filter_map(|item| item.act.written()).filter(|value| !gone.contains(value)).collect();
        if more.is_empty() {
            return restore_needed(kept, &dropped, items);
        }
        gone.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::carry::InitialValue;
    use crate::operation::{Access, Operation, Status};
    use crate::oracle::has_linearization;

    /// Makes a history of a register that answers a share of operations as if an older value were
    /// there.
    fn history_with_faults(count: i64, faults: f64, rng: &mut Rng) -> Vec<Operation> {
        let (mut value, mut older) = (None, None);
        let mut history = Vec::new();
        for number in 0..count {
            let to = rng.u64(0..4);
            let seen = if rng.f64() < faults { older } else { value };
            let expected = Some(rng.u64(0..4));
            let (access, status) = match rng.u32(0..4) {
                0 => (Access::Write { value: to }, Status::Applied),
                1 if expected == seen => (Access::CompareAndSet { from: expected, to: Some(to) }, Status::Applied),
                1 => (Access::CompareAndSet { from: expected, to: Some(to) }, Status::Unequal),
                _ => (Access::Read { value: seen }, Status::Applied),
            };
            if status == Status::Applied && !matches!(access, Access::Read { .. }) {
                (older, value) = (value, Some(to));
            }
            let start_ns = number * 10 - rng.i64(0..15);
            let end_ns = Some(number * 10 + rng.i64(1..15));
            history.push(Operation { process: 0, key: 0, start_ns, end_ns, access, status, version: None });
        }
        history
    }

    #[test]
    fn what_may_be_left_out_is_never_missed() {
        let mut checked = 0;
        for seed in 0..6_000 {
            let mut rng = Rng::with_seed(seed);
            let history = history_with_faults(8, 0.0, &mut rng);
            let items: Vec<Item> =
                history.iter().enumerate().filter_map(|(place, operation)| operation.item(place, 0)).collect();
            let (dropped, kept): (Vec<Item>, Vec<Item>) = items.iter().partition(|_| rng.f64() < 0.4);
            let mut rests = vec![restore_needed(kept, &dropped, &items)];
            rests.extend(dropped.iter().filter_map(|item| Some(without_value(&items, item.act.written()?))));
            for rest in rests.iter().filter(|rest| rest.len() < items.len()) {
                let rest: Vec<Operation> = rest.iter().map(|item| history[item.operation]).collect();
                assert!(has_linearization(&rest, InitialValue::Absent), "seed {seed}: {rest:?} of {history:?}");
                checked += 1;
            }
        }
        assert!(checked > 5_000, "{checked}");
    }

    #[test]
    fn proofs_are_minimal() {
        let (mut sizes, mut proofs) = (0, 0);
        for seed in 0..150 {
            let history = history_with_faults(60, 0.03, &mut Rng::with_seed(seed));
            let mut items: Vec<Item> =
                history.iter().enumerate().filter_map(|(place, operation)| operation.item(place, 0)).collect();
            items.sort_by_key(|item| item.start);
            let start = |carry| Shrinking { carry, searches: 0, configurations: 0 };
            let given = || Carry::of_initial(InitialValue::Absent);
            if !start(given()).is_impossible(&items) {
                continue;
            }
            let core = shrink(&items, &given(), true).core;
            items.retain(|item| core.binary_search(&item.operation).is_ok());
            items.sort_by_key(|item| item.end);
            let any = || Carry::of_initial(InitialValue::Unknown);
            let carry = if start(any()).is_impossible(&items) { any() } else { given() };
            assert!(start(carry.clone()).is_impossible(&items), "seed {seed}: {items:?}");
            for item in &items {
                let smaller = start(carry.clone()).without(&items, &[*item]);
                assert_eq!(smaller, None, "seed {seed}: {item:?} of {items:?}");
            }
            (sizes, proofs) = (sizes + items.len(), proofs + 1);
        }
        assert!(proofs > 50 && sizes < 8 * proofs, "{proofs} proofs of {sizes} operations");
    }
}
