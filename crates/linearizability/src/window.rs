//! Verdict on a window of one key's history: a part of it at whose ends no operation was open.

use crate::carry::{Carry, LastValue, NO_OPERATION};
use crate::cluster::{Cluster, Clusters};
use crate::cluster_order::ClusterOrder;
use crate::explanation::explained;
use crate::operation::{ABSENT, Act, BEFORE_ALL, FORGOTTEN, Item};
use crate::proof::{Objection, Proof, name, operation_name};
use crate::register::Register;
use crate::search::{CallInterval, Effort, Extent, FinalState, Searched, search_counting};
use crate::value_table::NO_CLUSTER;
use crate::zones::Zones;

/// Most last values that a window may pass on.
const LAST_VALUES: usize = 256;

/// Pending operations beyond which a search leaves out those that explain failed comparisons only.
const PENDING: usize = 16;

/// Most last values with which comparisons are checked by sorting.
const COMPARED_LAST_VALUES: usize = 16;

/// Operations of a busy key at which failed comparisons are forgotten that fit no known order.
const FORGET_AT: usize = 16_384;

const OPEN_DELETE: &str = "a delete with unknown outcome may explain an absent key";

/// Result of a search in a window.
pub(crate) enum Judged {
    Passed(Carry),
    Violation,
    Unknown(String),
}

/// Quick method with its buffers.
#[derive(Debug, Default)]
pub(crate) struct QuickCheck {
    clusters: Clusters,
    zones: Zones,
    cluster_order: ClusterOrder,
    /// Per cluster: whether it may be forgotten.
    settled: Vec<bool>,
}

impl QuickCheck {
    /// Checks a window by sorting. Passes the carry on to the next window, unless `is_end`.
    pub fn judge(&mut self, items: &[Item], carry: &mut Carry, is_end: bool) -> Result<(), Objection> {
        if !carry.is_plain() {
            return Err(Objection::Undecided("an operation with unknown outcome may have taken effect"));
        }
        let last = self.last_values(items, carry, is_end).map_err(|refusal| self.doubt(refusal, items, carry))?;
        if last.len() > LAST_VALUES {
            return Err(Objection::Undecided("too many values may be the last one"));
        }
        if !last.is_empty() {
            carry.last = last;
        }
        let clusters = &self.clusters;
        if !carry.pending.is_empty() {
            carry.pending.retain(|item| match item.act.written() {
                Some(value) if value != ABSENT => {
                    clusters.table.find(value).is_none_or(|place| clusters.all[place as usize].is_optional)
                }
                _ => true,
            });
        }
        Ok(())
    }

    /// Turns a violation into a doubt if a delete with unknown outcome may explain it.
    fn doubt(&self, refusal: Objection, items: &[Item], carry: &Carry) -> Objection {
        let sees_absence = || items.iter().chain(&carry.pending).any(|item| item.act.seen() == Some(ABSENT));
        if self.clusters.may_delete && sees_absence() {
            return Objection::Undecided(OPEN_DELETE);
        }
        match refusal {
            Objection::Violation(mut proof) => {
                self.clusters.complete(&mut proof);
                Objection::Violation(proof)
            }
            undecided => undecided,
        }
    }

    fn sees_absence(&self, items: &[Item]) -> bool {
        let absence = self.clusters.table.find(ABSENT).map(|place| &self.clusters.all[place as usize]);
        absence.is_some_and(|cluster| cluster.next != NO_CLUSTER)
            || items.iter().any(|item| item.act.seen() == Some(ABSENT))
    }

    /// Checks the comparisons that found another value in an order for each last value.
    fn compare_for_each_last(&mut self) -> Result<(), Objection> {
        let last = self.zones.last_blocks();
        if last.len() > COMPARED_LAST_VALUES {
            return Err(Objection::Undecided("failed comparisons may tell which value is the last"));
        }
        for block in last {
            self.zones.order(&self.clusters.all, Some(block), &mut self.cluster_order.order);
            self.cluster_order.schedule(&mut self.clusters)?;
            self.clusters.differing.iter().try_for_each(|item| self.compare(item))?;
        }
        Ok(())
    }

    fn last_values(&mut self, items: &[Item], carry: &Carry, is_end: bool) -> Result<Vec<LastValue>, Objection> {
        self.clusters.gather(items, carry)?;
        if self.clusters.has_unseen_start() && carry.last.len() > 1 {
            return Err(Objection::Undecided("the value at the start is unknown"));
        }
        let last = if self.is_versioned(carry) {
            self.by_version()?
        } else {
            let last = self.by_zones()?;
            // The open delete may allow other orders, and other last values.
            if self.clusters.may_delete && self.sees_absence(items) {
                return Err(Objection::Undecided(OPEN_DELETE));
            }
            last
        };
        if !self.clusters.differing.is_empty() {
            if last.len() > 1 && !is_end {
                self.compare_for_each_last()?;
            } else {
                self.clusters.differing.iter().try_for_each(|item| self.compare(item))?;
            }
        }
        Ok(last)
    }

    /// Forgets operations on a key that is never idle, without which the verdict is the same:
    /// settled blocks, and reads that bound no block. No operation that is missing starts before
    /// `open_since`. Does nothing if zones do not decide the history.
    pub fn thin(&mut self, items: &mut Vec<Item>, carry: &mut Carry, open_since: i64) -> Result<(), Objection> {
        if !carry.is_plain() || carry.last.len() > 1 && carry.last.iter().any(|last| last.value.is_none()) {
            return Ok(());
        }
        carry.pending.extend(items.iter().filter(|item| item.is_optional()));
        items.retain(|item| !item.is_optional());
        let observed_until = match self.settle(items, carry, open_since) {
            Ok(observed_until) => observed_until,
            Err(objection) => {
                return match self.doubt(objection, items, carry) {
                    Objection::Undecided(_) => Ok(()),
                    violation => Err(violation),
                };
            }
        };
        let Self { clusters, settled, .. } = self;
        let place = |value: u64| clusters.table.find(value).map(|place| place as usize);
        let is_settled = |value: u64| place(value).is_some_and(|place| settled[place]);
        items.retain(|item| match item.act {
            Act::Write(value) | Act::Swap { to: value, .. } => !is_settled(value),
            _ if item.end >= open_since => true,
            Act::Differs(_) => false,
            Act::Read(value) => place(value).is_none_or(|place| {
                let Cluster { first_end, last_start, .. } = clusters.all[place];
                !settled[place] && [first_end.operation, last_start.operation].contains(&item.operation)
            }),
        });
        carry.pending.retain(|item| !item.act.written().is_some_and(is_settled));
        self.thin_last(&mut carry.last, observed_until);
        Ok(())
    }

    /// Checks the operations on a key that is not idle, and finds the settled clusters. Returns the
    /// time before which every observation was taken into account.
    fn settle(&mut self, items: &[Item], carry: &Carry, open_since: i64) -> Result<i64, Objection> {
        self.clusters.gather_busy(items, carry, open_since)?;
        if self.clusters.has_deletes || self.clusters.may_delete {
            return Err(Objection::Undecided("deletes"));
        }
        self.zones.check(&self.clusters)?;
        let observed_until = self.clusters.observed_until(items, open_since);
        self.zones.mark_settled(&self.clusters.all, observed_until, &mut self.settled);
        self.zones.order(&self.clusters.all, None, &mut self.cluster_order.order);
        self.cluster_order.schedule(&mut self.clusters)?;
        let mut ended = self.clusters.differing.iter().filter(|item| item.end < open_since);
        let is_certain =
            |item: &Item| if items.len() < FORGET_AT { self.compare(item) } else { self.find_value_within(item) };
        ended.try_for_each(is_certain)?;
        Ok(observed_until)
    }

    /// Forgets the values at the start whose blocks are settled.
    fn thin_last(&self, last: &mut Vec<LastValue>, observed_until: i64) {
        let Self { clusters, zones, settled, .. } = self;
        if let [LastValue { value: value @ None, .. }] = last.as_mut_slice() {
            if !clusters.has_unseen_start() {
                *value = clusters.all.iter().find(|cluster| cluster.is_carried).map(|cluster| cluster.value);
            } else if zones.has_ended(observed_until) {
                *value = Some(FORGOTTEN);
            }
        }
        last.retain(|last| {
            let place = last.value.and_then(|value| clusters.table.find(value));
            !place.is_some_and(|place| settled[place as usize])
        });
        if settled.contains(&true) && !last.iter().any(|last| last.value == Some(FORGOTTEN)) {
            last.push(LastValue::at(Some(FORGOTTEN), BEFORE_ALL));
        }
    }

    /// Whether versions order all clusters.
    fn is_versioned(&self, carry: &Carry) -> bool {
        let mut fresh = self.clusters.all.iter().filter(|cluster| !cluster.is_carried && !cluster.is_optional);
        carry.last.len() == 1 && fresh.all(|cluster| cluster.version != 0)
    }

    fn by_version(&mut self) -> Result<Vec<LastValue>, Objection> {
        let Self { clusters, cluster_order, .. } = self;
        cluster_order.order_by_version(&clusters.all);
        cluster_order.check_versions(&clusters.all)?;
        cluster_order.schedule(clusters)?;
        Ok(cluster_order.order.last().map(|&place| last_value(&clusters.all[place as usize])).into_iter().collect())
    }

    fn by_zones(&mut self) -> Result<Vec<LastValue>, Objection> {
        let Self { clusters, zones, cluster_order, .. } = self;
        if clusters.has_deletes {
            return Err(Objection::Undecided("deletes without versions"));
        }
        zones.check(clusters)?;
        if !clusters.differing.is_empty() {
            zones.order(&clusters.all, None, &mut cluster_order.order);
            cluster_order.schedule(clusters)?;
        }
        Ok(zones.last_values(&clusters.all))
    }

    /// Refutes a comparison that found another value although the value was there all the time.
    fn find_value_within(&self, item: &Item) -> Result<(), Objection> {
        let Act::Differs(value) = item.act else { return Ok(()) };
        let cluster = self.clusters.table.find(value).map(|place| &self.clusters.all[place as usize]);
        match cluster.filter(|cluster| !cluster.is_optional) {
            Some(cluster) if cluster.first_end.at < item.start && item.end < cluster.last_start.at => {
                Err(differs_within(item.operation, cluster).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks a comparison that found another value.
    fn compare(&self, item: &Item) -> Result<(), Objection> {
        self.find_value_within(item)?;
        if self.cluster_order.allows(&self.clusters.all, item) {
            return Ok(());
        }
        Err(Objection::Undecided("a failed comparison does not fit the quick order"))
    }
}

fn last_value(cluster: &Cluster) -> LastValue {
    LastValue {
        value: Some(cluster.value),
        version: cluster.version,
        writer: cluster.writer,
        first_end: cluster.first_end,
        last_start: cluster.last_start,
        used: Vec::new(),
    }
}

/// Proves that a comparison failed although the value was equal all the time.
fn differs_within(operation: usize, cluster: &Cluster) -> Proof {
    let (first, last) = (cluster.first_end.operation, cluster.last_start.operation);
    let text = explained![
        operation_name(operation),
        " did not find ",
        name(cluster.value),
        ", which was there all the time: ",
        operation_name(first),
        " before it and ",
        operation_name(last),
        " after it prove that",
    ];
    Proof::new([operation, first, last, cluster.writer], text)
}

/// Checks a window by search. `end` is a time between this window and the next one.
pub(crate) fn judge_by_search(items: &[Item], carry: &Carry, extent: Extent, end: i64) -> Judged {
    let problem = WindowSearch::new(items, carry);
    let mut model = problem.model();
    match problem.search(&mut model, extent) {
        Searched::Possible(finals) if finals.len() > LAST_VALUES => Judged::Unknown(format!(
            "{} values are possible after a window of {} operations",
            finals.len(),
            items.len()
        )),
        Searched::Possible(finals) => Judged::Passed(problem.carry_on(&model, &finals, carry, end)),
        Searched::Impossible => Judged::Violation,
        Searched::Unfinished => Judged::Unknown(format!(
            "the search in a window of {} operations reached its limit of {} configurations",
            items.len(),
            extent.limit
        )),
    }
}

/// Leaves out pending writes whose values no operation sees, and the failed comparisons that they
/// may explain. This may hide a violation, and never makes one.
fn without_idle_pending(mut all: Vec<Item>, carry: &Carry) -> Vec<Item> {
    let mut seen: Vec<u64> = all.iter().filter_map(|item| item.act.seen()).collect();
    seen.sort_unstable();
    let is_used = |operation: usize| carry.last.iter().any(|last| last.used.contains(&operation));
    let idle = |item: &Item| match item.act {
        Act::Write(value) if item.is_optional() && seen.binary_search(&value).is_err() => !is_used(item.operation),
        _ => false,
    };
    let idle_writes: Vec<(i64, Act)> =
        all.iter().filter(|item| idle(item)).map(|item| (item.start, item.act)).collect();
    all.retain(|item| match item.act {
        Act::Differs(value) => !idle_writes.iter().any(|(start, act)| *start <= item.end && *act != Act::Write(value)),
        _ => !idle(item),
    });
    all
}

/// A window as a search problem.
pub(crate) struct WindowSearch<'a> {
    /// The window's operations, and after them the pending ones.
    items: Vec<Item>,
    last: &'a [LastValue],
}

impl<'a> WindowSearch<'a> {
    pub fn new(items: &[Item], carry: &'a Carry) -> Self {
        let all = items.iter().chain(&carry.pending).copied();
        let items =
            if carry.pending.len() > PENDING { without_idle_pending(all.collect(), carry) } else { all.collect() };
        Self { items, last: &carry.last }
    }

    pub fn model(&self) -> Register {
        Register::new(&self.items, self.last.iter().filter_map(|last| last.value))
    }

    pub fn search(&self, model: &mut Register, extent: Extent) -> Searched {
        self.search_counting(model, extent).0
    }

    /// Searches, and returns the effort, too.
    pub fn search_counting(&self, model: &mut Register, extent: Extent) -> (Searched, Effort) {
        let interval =
            |item: &Item| CallInterval { start_ns: item.start, end_ns: (!item.is_optional()).then_some(item.end) };
        let intervals: Vec<CallInterval> = self.items.iter().map(interval).collect();
        let mut from = Vec::new();
        for last in self.last {
            let place = |operation: &usize| self.items.iter().position(|item| item.operation == *operation);
            let mut used: Vec<usize> = last.used.iter().filter_map(place).collect();
            used.sort_unstable();
            match last.value {
                Some(value) => from.push(FinalState { state: model.state(value), used }),
                None => {
                    let states = (0..model.values().len() as u32).chain([model.other_state()]);
                    from.extend(states.map(|state| FinalState { state, used: used.clone() }));
                }
            }
        }
        search_counting(model, &intervals, &from, extent)
    }

    /// Makes the carry of the next window.
    fn carry_on(&self, model: &Register, finals: &[FinalState], before: &Carry, end: i64) -> Carry {
        let last = finals.iter().map(|final_state| {
            let value = model.value(final_state.state);
            let mut last = LastValue::at(value, end);
            let mut writers = self.items.iter().filter(|item| value.is_some() && item.act.written() == value);
            if let (Some(writer), None) = (writers.next(), writers.next()) {
                (last.writer, last.version) = (writer.operation, writer.version);
            } else if let Some(same) = before.last.iter().find(|last| last.value == value) {
                (last.writer, last.version) = (same.writer, same.version);
            }
            if last.writer == NO_OPERATION {
                last.version = 0;
            }
            last.used = final_state.used.iter().map(|&place| self.items[place].operation).collect();
            last.used.sort_unstable();
            last
        });
        let mut carry = Carry { last: last.collect(), pending: before.pending.clone() };
        carry.settle();
        carry
    }
}
