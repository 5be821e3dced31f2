//! Earliest times of clusters whose order is known: from versions, or from zones.
//!
//! Each cluster begins when its write takes effect. In an order, the earliest time of a cluster is
//! the greatest start among its write and all operations of the clusters before it. The order fits
//! the history if no operation ended before the earliest time of its cluster.

use crate::carry::Witness;
use crate::cluster::{Cluster, Clusters};
use crate::explanation::explained;
use crate::operation::{ABSENT, Act, BEFORE_ALL, Item};
use crate::proof::{Proof, name, operation_name};

/// Reason of a violation in an order that versions give.
const BY_VERSION: &str = "the former has the higher version";

/// Clusters in order with their earliest times.
#[derive(Debug, Default)]
pub(crate) struct ClusterOrder {
    /// Places of the clusters, in order.
    pub order: Vec<u32>,
    times: Vec<i64>,
}

/// Lower bound of the times, with the cluster of the operation that gives it.
#[derive(Debug, Clone, Copy)]
struct Floor {
    witness: Witness,
    cluster: u32,
}

impl Floor {
    fn raise(&mut self, at: i64, operation: usize, cluster: u32) {
        if at > self.witness.at {
            *self = Self { witness: Witness { at, operation }, cluster };
        }
    }
}

impl ClusterOrder {
    /// Orders the clusters by version. A carried cluster comes first.
    pub fn order_by_version(&mut self, all: &[Cluster]) {
        self.order.clear();
        self.order.extend((0..all.len() as u32).filter(|&place| !all[place as usize].is_optional));
        self.order.sort_unstable_by_key(|&place| {
            let cluster = &all[place as usize];
            (!cluster.is_carried, cluster.version)
        });
    }

    /// Checks what the versions say about each other and about compare-and-set.
    pub fn check_versions(&self, all: &[Cluster]) -> Result<(), Proof> {
        for pair in self.order.windows(2) {
            let (before, after) = (&all[pair[0] as usize], &all[pair[1] as usize]);
            let (earlier, later) = (operation_name(before.writer), operation_name(after.writer));
            if before.version >= after.version && before.version != 0 {
                let text = explained![later, " did not get a higher version than ", earlier, " before it"];
                return Err(Proof::new([before.writer, after.writer], text));
            }
            if let Some(from) = after.from
                && from != before.value
            {
                let (from, value) = (name(from), name(before.value));
                let but = ", but the version before it is ";
                let text = explained![later, " replaced ", from, but, value, " of ", earlier];
                let source = all.iter().find(|cluster| Some(cluster.value) == after.from);
                let writers = [before.writer, after.writer].into_iter().chain(source.map(|cluster| cluster.writer));
                return Err(Proof::new(writers, text));
            }
        }
        Ok(())
    }

    /// Computes the earliest times.
    ///
    /// A read of an absent key goes to the latest absence that begins before the read ends. That
    /// is the weakest bound for the clusters after it: the times only grow, so a read that needs an
    /// earlier absence needs it in every linearization.
    pub fn schedule(&mut self, clusters: &mut Clusters) -> Result<(), Proof> {
        let mut reads = std::mem::take(&mut clusters.absent_reads);
        reads.sort_unstable_by_key(|item| item.end);
        let result = self.schedule_with(&clusters.all, &reads);
        clusters.absent_reads = reads;
        result
    }

    fn schedule_with(&mut self, all: &[Cluster], reads: &[Item]) -> Result<(), Proof> {
        self.times.clear();
        let mut floor = Floor { witness: Witness { at: BEFORE_ALL, operation: usize::MAX }, cluster: 0 };
        let mut open_reads = reads;
        let mut position = 0;
        while position < self.order.len() {
            let place = self.order[position];
            let cluster = &all[place as usize];
            floor.raise(cluster.start, cluster.writer, place);
            if cluster.first_end.at < floor.witness.at && !cluster.is_carried {
                return Err(self.late(all, place, floor));
            }
            self.times.push(floor.witness.at);
            let is_absence = cluster.value == ABSENT;
            if is_absence && let Some(read) = open_reads.first().filter(|read| read.end < floor.witness.at) {
                return Err(early_absence(read, floor, all, place));
            }
            floor.raise(cluster.last_start.at, cluster.last_start.operation, place);
            if is_absence {
                open_reads = self.fill_absence(all, position, open_reads, &mut floor);
            }
            position += 1;
        }
        match open_reads.first() {
            // Without any absence.
            Some(read) => Err(Proof::of_unwritten(ABSENT, read.operation)),
            None => Ok(()),
        }
    }

    /// Gives an absence the reads that end before the next absence can begin. Returns the others.
    fn fill_absence<'r>(&self, all: &[Cluster], position: usize, reads: &'r [Item], floor: &mut Floor) -> &'r [Item] {
        let following = &self.order[position + 1..];
        let next = following.iter().position(|&place| all[place as usize].value == ABSENT);
        let between = &following[..next.unwrap_or(following.len())];
        let mut limit = floor.witness.at;
        for &place in between {
            let cluster = &all[place as usize];
            limit = limit.max(cluster.start).max(cluster.last_start.at);
        }
        if let Some(next) = next {
            limit = limit.max(all[following[next] as usize].start);
        }
        let mut taken = 0;
        for read in reads {
            if next.is_some() && read.end >= limit.max(floor.witness.at) {
                break;
            }
            floor.raise(read.start, read.operation, self.order[position]);
            taken += 1;
        }
        &reads[taken..]
    }

    /// Proves that an operation of a cluster ended before its earliest time.
    fn late(&self, all: &[Cluster], place: u32, floor: Floor) -> Proof {
        let (before, after) = (&all[place as usize], &all[floor.cluster as usize]);
        Proof::of_order((before.first_end, before), (floor.witness, after), BY_VERSION)
    }

    /// Whether the comparison has a moment at which the value differs, in this schedule.
    pub fn allows(&self, all: &[Cluster], item: &Item) -> bool {
        let Act::Differs(value) = item.act else { return true };
        let first = self.times.partition_point(|&time| time < item.start).saturating_sub(1);
        let last = self.times.partition_point(|&time| time <= item.end);
        // Without a known value at the start, the value before the first cluster may be any.
        if self.times.first().is_none_or(|&time| item.start <= time) {
            return true;
        }
        self.order[first..last].iter().any(|&place| all[place as usize].value != value)
    }
}

/// Proves that a key was absent before anything could have deleted it.
fn early_absence(read: &Item, floor: Floor, all: &[Cluster], place: u32) -> Proof {
    let (read, writer) = (read.operation, all[place as usize].writer);
    let text = explained![
        operation_name(read),
        " found the key absent and ended before ",
        operation_name(floor.witness.operation),
        " started: ",
        operation_name(writer),
        " could not have taken effect",
    ];
    Proof::new([read, writer, floor.witness.operation, all[floor.cluster as usize].writer], text)
}
