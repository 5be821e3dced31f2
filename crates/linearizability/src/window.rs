//! Verdict on a window of one key's history: a part of it at whose ends no operation was open.

use crate::carry::{Carry, LastValue, NO_OPERATION};
use crate::cluster::{Cluster, Clusters};
use crate::cluster_order::ClusterOrder;
use crate::operation::{ABSENT, Act, Item};
use crate::proof::{Objection, Proof, name, operation_name};
use crate::register::Register;
use crate::search::{CallInterval, Effort, Extent, FinalState, Searched, search_counting};
use crate::value_table::NO_CLUSTER;
use crate::zones::Zones;

/// Most last values that a window may pass on.
const LAST_VALUES: usize = 256;

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
    timeline: ClusterOrder,
}

impl QuickCheck {
    /// Checks a window by sorting. Passes the carry on to the next window.
    pub fn judge(&mut self, items: &[Item], carry: &mut Carry) -> Result<(), Objection> {
        if !carry.is_plain() {
            return Err(Objection::Undecided("an operation with unknown outcome may have taken effect"));
        }
        let last = self.last_values(items, carry).map_err(|refusal| self.doubt(refusal, items, carry))?;
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

    fn last_values(&mut self, items: &[Item], carry: &Carry) -> Result<Vec<LastValue>, Objection> {
        self.clusters.gather(items, carry)?;
        if self.clusters.has_unseen_start() && carry.last.len() > 1 {
            return Err(Objection::Undecided("the value at the start is unknown"));
        }
        let last = if self.is_versioned(carry) {
            self.by_version()?
        } else {
            let last = self.by_zones()?;
            // With the open delete, there may be other orders, and other last values.
            if self.clusters.may_delete && self.sees_absence(items) {
                return Err(Objection::Undecided(OPEN_DELETE));
            }
            last
        };
        if !self.clusters.differing.is_empty() {
            if last.len() > 1 {
                return Err(Objection::Undecided("a failed comparison may tell which value is the last"));
            }
            self.compare()?;
        }
        Ok(last)
    }

    /// Whether versions order all clusters.
    fn is_versioned(&self, carry: &Carry) -> bool {
        let mut fresh = self.clusters.all.iter().filter(|cluster| !cluster.is_carried && !cluster.is_optional);
        carry.last.len() == 1 && fresh.all(|cluster| cluster.version != 0)
    }

    fn by_version(&mut self) -> Result<Vec<LastValue>, Objection> {
        let Self { clusters, timeline, .. } = self;
        timeline.order_by_version(&clusters.all);
        timeline.check_versions(&clusters.all)?;
        timeline.schedule(clusters)?;
        Ok(timeline.order.last().map(|&place| last_value(&clusters.all[place as usize])).into_iter().collect())
    }

    fn by_zones(&mut self) -> Result<Vec<LastValue>, Objection> {
        let Self { clusters, zones, timeline } = self;
        if clusters.has_deletes {
            return Err(Objection::Undecided("deletes without versions"));
        }
        zones.check(clusters)?;
        if !clusters.differing.is_empty() {
            zones.order(&clusters.all, &mut timeline.order);
            timeline.schedule(clusters)?;
        }
        Ok(zones.last_values(&clusters.all))
    }

    /// Checks the comparisons that found another value.
    fn compare(&self) -> Result<(), Objection> {
        let clusters = &self.clusters;
        for item in &clusters.differing {
            let Act::Differs(value) = item.act else { continue };
            let cluster = clusters.table.find(value).map(|place| &clusters.all[place as usize]);
            if let Some(cluster) = cluster.filter(|cluster| !cluster.is_optional)
                && cluster.first_end.at < item.start
                && item.end < cluster.last_start.at
            {
                return Err(differs_within(item.operation, cluster).into());
            }
            if !self.timeline.allows(&clusters.all, item) {
                return Err(Objection::Undecided("a failed comparison does not fit the quick order"));
            }
        }
        Ok(())
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
    let text = format!(
        "operation {operation} did not find {}, which was there all the time: {} before it and {} after it prove that",
        name(cluster.value),
        operation_name(first),
        operation_name(last)
    );
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

/// A window as a search problem.
pub(crate) struct WindowSearch<'a> {
    /// The window's operations, and after them the pending ones.
    items: Vec<Item>,
    last: &'a [LastValue],
}

impl<'a> WindowSearch<'a> {
    pub fn new(items: &[Item], carry: &'a Carry) -> Self {
        Self { items: items.iter().chain(&carry.pending).copied().collect(), last: &carry.last }
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
