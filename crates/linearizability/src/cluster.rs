//! Clusters: each value with its write and its reads, for histories in which each value is written
//! once.

use crate::carry::{Carry, LastValue, NO_OPERATION, Witness};
use crate::operation::{ABSENT, Act, BEFORE_ALL, Item, NEVER};
use crate::proof::{Objection, Proof};
use crate::value_table::{NO_CLUSTER, ValueTable};

const REPEATED: &str = "a value is written more than once";

/// A value with its write and the operations that saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    pub value: u64,
    /// Version plus one, or 0 without a version.
    pub version: u64,
    /// Read that told the version, if the write did not.
    pub version_by: usize,
    pub writer: usize,
    /// Start of the write.
    pub start: i64,
    /// Least end of its operations.
    pub first_end: Witness,
    /// Greatest start of its operations.
    pub last_start: Witness,
    /// Value that the write replaced, if the write compared.
    pub from: Option<u64>,
    /// Cluster that a compare-and-set made from this one.
    pub next: u32,
    /// Cluster from which a compare-and-set made this one.
    pub previous: u32,
    /// Whether its write may never have happened.
    pub is_optional: bool,
    /// Whether the outcome of its write is unknown. Somebody may have seen it nevertheless.
    pub is_unknown: bool,
    /// Whether several writes with unknown outcome have the value.
    pub is_ambiguous: bool,
    /// Whether it began before the window.
    pub is_carried: bool,
    /// Whether the write of the value from which it was made may be missing.
    pub is_held: bool,
}

/// The clusters of a window.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    pub all: Vec<Cluster>,
    pub table: ValueTable,
    /// Whether an operation deletes. The clusters of absence are then not in the table.
    pub has_deletes: bool,
    /// Whether a delete with unknown outcome is open.
    pub may_delete: bool,
    /// Reads of absence, if there are deletes.
    pub absent_reads: Vec<Item>,
    /// Comparisons that found another value.
    pub differing: Vec<Item>,
    /// A last value that nobody has seen yet and that may be anything.
    anything: Option<LastValue>,
    links: Vec<(u64, u32, Item)>,
    /// Time since which writes may be missing, because they have not ended.
    open_since: Option<i64>,
}

impl Clusters {
    /// Fills the clusters with the operations on a key that is not idle. Writes that start at
    /// `open_since` or later may be missing, so operations that end then are left out as
    /// observations.
    pub fn gather_busy(&mut self, items: &[Item], carry: &Carry, open_since: i64) -> Result<(), Objection> {
        self.open_since = Some(open_since);
        let result = self.gather(items, carry);
        self.open_since = None;
        result
    }

    /// Fills the clusters with a window.
    pub fn gather(&mut self, items: &[Item], carry: &Carry) -> Result<(), Objection> {
        self.clear(items.len() + carry.pending.len() + carry.last.len());
        self.has_deletes = items.iter().any(|item| item.act.written() == Some(ABSENT));
        self.may_delete = carry.pending.iter().any(|item| item.act.written() == Some(ABSENT));
        for last in &carry.last {
            self.add_last(last)?;
        }
        for item in items {
            if let Some(value) = item.act.written() {
                self.add_write(value, item, false)?;
            }
        }
        for item in &carry.pending {
            match item.act.written() {
                Some(value) if value != ABSENT => self.add_write(value, item, true)?,
                _ => {}
            }
        }
        for item in items {
            match item.act {
                Act::Read(ABSENT) if self.has_deletes => self.absent_reads.push(*item),
                Act::Read(_) if self.may_lack_write(item.end) => {}
                Act::Read(value) => {
                    self.see(value, item)?;
                }
                Act::Differs(_) => self.differing.push(*item),
                Act::Write(_) | Act::Swap { .. } => {}
            }
        }
        while let Some((from, to, item)) = self.links.pop() {
            // An operation without an answer took effect before somebody saw its value.
            let end = item.end.min(self.all[to as usize].first_end.at);
            if self.may_lack_write(end) {
                self.all[to as usize].is_held = true;
            } else {
                self.link(from, to, &item)?;
            }
        }
        Ok(())
    }

    /// Whether the write of a value that was seen before `end` may be missing.
    fn may_lack_write(&self, end: i64) -> bool {
        self.open_since.is_some_and(|open_since| end >= open_since)
    }

    /// Returns the least start of an observation that was left out, or `open_since`.
    pub fn observed_until(&self, items: &[Item], open_since: i64) -> i64 {
        let left_out = items.iter().filter(|item| item.end >= open_since && item.act.seen().is_some());
        let held = self.all.iter().filter(|cluster| cluster.is_held).map(|cluster| cluster.start);
        left_out.map(|item| item.start).chain(held).fold(open_since, i64::min)
    }

    fn clear(&mut self, size: usize) {
        self.all.clear();
        self.table.reset(size);
        self.absent_reads.clear();
        self.differing.clear();
        self.links.clear();
        self.anything = None;
    }

    fn add_last(&mut self, last: &LastValue) -> Result<(), Objection> {
        let Some(value) = last.value else {
            self.anything = Some(last.clone());
            return Ok(());
        };
        self.add(Cluster {
            value,
            version: last.version,
            version_by: NO_OPERATION,
            writer: last.writer,
            start: BEFORE_ALL,
            first_end: last.first_end,
            last_start: last.last_start,
            from: None,
            next: NO_CLUSTER,
            previous: NO_CLUSTER,
            is_optional: false,
            is_unknown: false,
            is_ambiguous: false,
            is_carried: true,
            is_held: false,
        })
    }

    fn add_write(&mut self, value: u64, item: &Item, is_optional: bool) -> Result<(), Objection> {
        let from = match item.act {
            Act::Swap { from, .. } => Some(from),
            _ => None,
        };
        if let Some(from) = from
            && !is_optional
        {
            self.links.push((from, self.all.len() as u32, *item));
        }
        let operation = item.operation;
        self.add(Cluster {
            value,
            version: item.version,
            version_by: NO_OPERATION,
            writer: operation,
            start: item.start,
            first_end: Witness { at: item.end, operation },
            last_start: Witness { at: item.start, operation },
            from,
            next: NO_CLUSTER,
            previous: NO_CLUSTER,
            is_optional,
            is_unknown: is_optional,
            is_ambiguous: false,
            is_carried: false,
            is_held: false,
        })
    }

    fn add(&mut self, cluster: Cluster) -> Result<(), Objection> {
        let is_tombstone = cluster.value == ABSENT && self.has_deletes;
        if !is_tombstone && let Some(other) = self.table.insert(cluster.value, self.all.len() as u32) {
            let other = &mut self.all[other as usize];
            if !(cluster.is_optional && other.is_optional) {
                return Err(Objection::Undecided(REPEATED));
            }
            other.is_ambiguous = true;
            return Ok(());
        }
        self.all.push(cluster);
        Ok(())
    }

    /// Adds an operation that saw a value. Returns the value's cluster.
    fn see(&mut self, value: u64, item: &Item) -> Result<u32, Objection> {
        let place = self.place_of(value, item)?;
        let cluster = &mut self.all[place as usize];
        if cluster.is_ambiguous {
            return Err(Objection::Undecided(REPEATED));
        }
        let operation = item.operation;
        if item.end < cluster.first_end.at {
            cluster.first_end = Witness { at: item.end, operation };
        }
        if item.start > cluster.last_start.at {
            cluster.last_start = Witness { at: item.start, operation };
        }
        if let Act::Read(_) = item.act
            && item.version != 0
        {
            if cluster.version == 0 {
                (cluster.version, cluster.version_by) = (item.version, operation);
            } else if cluster.version != item.version {
                return Err(Proof::of_versions(operation, cluster).into());
            }
        }
        if std::mem::take(&mut cluster.is_optional)
            && let Some(from) = cluster.from
        {
            let act = Act::Swap { from, to: value };
            let (operation, start, version) = (cluster.writer, cluster.start, cluster.version);
            self.links.push((from, place, Item { operation, start, end: NEVER, act, version }));
        }
        Ok(place)
    }

    fn place_of(&mut self, value: u64, item: &Item) -> Result<u32, Objection> {
        if let Some(place) = self.table.find(value) {
            return Ok(place);
        }
        if let Some(last) = self.anything.take() {
            self.add_last(&LastValue { value: Some(value), ..last })?;
            return Ok(self.all.len() as u32 - 1);
        }
        Err(Proof::of_unwritten(value, item.operation).into())
    }

    /// Joins the cluster that a compare-and-set made to the one that it was made from.
    fn link(&mut self, from: u64, to: u32, item: &Item) -> Result<(), Objection> {
        if from == ABSENT && self.has_deletes {
            return Ok(());
        }
        let place = self.see(from, item)?;
        let other = std::mem::replace(&mut self.all[place as usize].next, to);
        if other != NO_CLUSTER {
            let (first, second) = (self.all[other as usize].writer, item.operation);
            return Err(Proof::of_fork(from, first, second).into());
        }
        self.all[to as usize].previous = place;
        Ok(())
    }

    /// Adds an operation that saw the value, for each write of a proof with unknown outcome, and
    /// one that told its version.
    pub fn complete(&self, proof: &mut Proof) {
        let mut length = 0;
        while proof.core.len() > length {
            length = proof.core.len();
            for cluster in &self.all {
                if !proof.core.contains(&cluster.writer) {
                    continue;
                }
                proof.add(cluster.version_by);
                if cluster.is_unknown {
                    let next = self.all.get(cluster.next as usize).filter(|_| cluster.first_end.at == NEVER);
                    proof.add(next.map_or(cluster.first_end.operation, |next| next.writer));
                }
            }
        }
    }

    /// Whether a value that nobody has seen yet may have been there at the start.
    pub fn has_unseen_start(&self) -> bool {
        self.anything.is_some()
    }
}
