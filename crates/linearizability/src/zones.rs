//! Linearizability of a register whose values are written once, after Gibbons and Korach, "Testing
//! shared memories" (1997): sorting decides it.
//!
//! A block is a cluster, or a chain of clusters that compare-and-set made from each other. It is
//! contiguous in every linearization. Block A must precede block B if an operation of A ended
//! before one of B started: if the least end of A is less than the greatest start of B. A history
//! is linearizable if this order has no cycle. A cycle of any length contains two blocks that must
//! precede each other: take the block with the least end of all in the cycle. It precedes every
//! block that has a predecessor in the cycle, and so its own predecessor.

use crate::carry::{LastValue, Witness};
use crate::cluster::{Cluster, Clusters};
use crate::explanation::explained;
use crate::operation::BEFORE_ALL;
use crate::proof::{Objection, Proof, name, operation_name};
use crate::value_table::NO_CLUSTER;

/// A chain of clusters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    first: u32,
    last: u32,
    /// Least end, and the cluster of its operation.
    end: Witness,
    end_cluster: u32,
    /// Greatest start, and the cluster of its operation.
    start: Witness,
    start_cluster: u32,
}

/// Buffers of the method.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    blocks: Vec<Block>,
    /// Numbers of blocks, sorted by the least end.
    forward: Vec<u32>,
}

impl Zones {
    /// Checks the clusters of a window.
    pub fn check(&mut self, clusters: &Clusters) -> Result<(), Objection> {
        self.make_blocks(clusters)?;
        self.compare_blocks(&clusters.all)
    }

    fn make_blocks(&mut self, clusters: &Clusters) -> Result<(), Objection> {
        self.blocks.clear();
        let all = &clusters.all;
        let mut in_blocks = 0;
        for (place, cluster) in all.iter().enumerate() {
            if cluster.is_optional || cluster.previous != NO_CLUSTER {
                continue;
            }
            let block = chain(all, place as u32, &mut in_blocks)?;
            self.blocks.push(block);
        }
        let sure = all.iter().filter(|cluster| !cluster.is_optional).count();
        if in_blocks == sure {
            return Ok(());
        }
        if clusters.has_unseen_start() {
            return Err(Objection::Undecided("the initial value is unknown"));
        }
        Err(ring(all).into())
    }

    fn compare_blocks(&mut self, all: &[Cluster]) -> Result<(), Objection> {
        let blocks = &self.blocks;
        let is_forward = |block: &Block| block.end.at < block.start.at;
        self.forward.clear();
        self.forward.extend((0..blocks.len() as u32).filter(|&block| is_forward(&blocks[block as usize])));
        self.forward.sort_unstable_by_key(|&block| blocks[block as usize].end.at);
        for pair in self.forward.windows(2) {
            let (first, second) = (&blocks[pair[0] as usize], &blocks[pair[1] as usize]);
            if second.end.at < first.start.at {
                return Err(conflict(all, first, second).into());
            }
        }
        for block in blocks.iter().filter(|block| !is_forward(block)) {
            let after = self.forward.partition_point(|&other| blocks[other as usize].end.at < block.start.at);
            let Some(&zone) = after.checked_sub(1).and_then(|place| self.forward.get(place)) else { continue };
            let zone = &blocks[zone as usize];
            if block.end.at < zone.start.at {
                return Err(conflict(all, zone, block).into());
            }
        }
        Ok(())
    }

    /// Lists the clusters in an order that fits, if the check passed. `last` is a block that
    /// precedes no other block, and shall be the last one.
    pub fn order(&self, all: &[Cluster], last: Option<u32>, into: &mut Vec<u32>) {
        // A block without a zone happens at an instant: the latest one outside of all zones.
        let mut keys: Vec<(i64, bool, u32)> = Vec::with_capacity(self.blocks.len());
        for (number, block) in self.blocks.iter().enumerate() {
            let is_forward = block.end.at < block.start.at;
            let mut at = block.end.at;
            if !is_forward {
                let after = self.forward.partition_point(|&zone| self.blocks[zone as usize].end.at < at);
                let zone = after.checked_sub(1).map(|place| &self.blocks[self.forward[place] as usize]);
                if let Some(zone) = zone.filter(|zone| at < zone.start.at) {
                    at = zone.end.at;
                }
            }
            if last == Some(number as u32) {
                at = i64::MAX;
            }
            keys.push((at, is_forward, number as u32));
        }
        keys.sort_unstable();
        into.clear();
        for (_, _, number) in keys {
            let mut place = self.blocks[number as usize].first;
            while place != NO_CLUSTER {
                into.push(place);
                place = all[place as usize].next;
            }
        }
    }

    /// Marks the clusters of blocks that no operation may see any more, and that order no other
    /// block any more. No observation that is missing starts before `open_since`.
    ///
    /// If some other block must come after block A, and has ended once by now, then an operation
    /// that sees A and starts later is a violation. A may be forgotten if it and everything that it
    /// must come after are settled: no remaining block ended before A's last start.
    pub fn mark_settled(&self, all: &[Cluster], open_since: i64, settled: &mut Vec<bool>) {
        let ended = self.blocks.iter().enumerate().filter(|(_, block)| block.end.at < open_since);
        let (greatest, second, owner) = two_greatest(ended.map(|(number, block)| (number, block.start.at)));
        let is_dead = |number: usize, block: &Block| {
            let limit = if number == owner { second } else { greatest };
            block.end.at < limit && block.start.at < open_since && block.end.at < open_since
        };
        let is_free = |block: &Block| !all[block.first as usize].is_held;
        let blocks = self.blocks.iter().enumerate();
        let (mut dead, live): (Vec<&Block>, Vec<&Block>) = {
            let (dead, live): (Vec<_>, Vec<_>) =
                blocks.partition(|(number, block)| is_dead(*number, block) && is_free(block));
            let strip = |blocks: Vec<(usize, _)>| blocks.into_iter().map(|(_, block)| block).collect();
            (strip(dead), strip(live))
        };
        let mut least_end = live.iter().map(|block| block.end.at).min().unwrap_or(i64::MAX);
        loop {
            let count = dead.len();
            let mut kept_end = i64::MAX;
            dead.retain(|block| {
                let is_kept = block.start.at <= least_end;
                if !is_kept {
                    kept_end = kept_end.min(block.end.at);
                }
                is_kept
            });
            least_end = least_end.min(kept_end);
            if dead.len() == count {
                break;
            }
        }
        settled.clear();
        settled.resize(all.len(), false);
        for block in dead {
            let mut place = block.first;
            while place != NO_CLUSTER {
                settled[place as usize] = true;
                place = all[place as usize].next;
            }
        }
    }

    /// Whether some block has ended once before a time.
    pub fn has_ended(&self, time: i64) -> bool {
        self.blocks.iter().any(|block| block.end.at < time && block.end.at != BEFORE_ALL)
    }

    /// Lists the values that may be the last one.
    pub fn last_values(&self, all: &[Cluster]) -> Vec<LastValue> {
        self.last_blocks().into_iter().map(|block| self.blocks[block as usize].last_value(all)).collect()
    }

    /// Lists the blocks that precede no other block.
    pub fn last_blocks(&self) -> Vec<u32> {
        let starts = self.blocks.iter().map(|block| block.start.at).enumerate();
        let (greatest, second, owner) = two_greatest(starts);
        let is_last = |number: usize| {
            let limit = if number == owner { second } else { greatest };
            self.blocks[number].end.at >= limit
        };
        (0..self.blocks.len()).filter(|&number| is_last(number)).map(|number| number as u32).collect()
    }
}

impl Block {
    fn last_value(&self, all: &[Cluster]) -> LastValue {
        let cluster = &all[self.last as usize];
        LastValue {
            value: Some(cluster.value),
            version: cluster.version,
            writer: cluster.writer,
            first_end: self.end,
            last_start: self.start,
            used: Vec::new(),
        }
    }
}

/// Returns the two greatest times, and the number of the greatest one.
fn two_greatest(times: impl Iterator<Item = (usize, i64)>) -> (i64, i64, usize) {
    let (mut greatest, mut second, mut owner) = (BEFORE_ALL, BEFORE_ALL, usize::MAX);
    for (number, time) in times {
        if time > greatest || owner == usize::MAX {
            second = greatest;
            (greatest, owner) = (time, number);
        } else {
            second = second.max(time);
        }
    }
    (greatest, second, owner)
}

/// Makes the block that begins with a cluster. Its clusters must follow each other in time.
fn chain(all: &[Cluster], first: u32, count: &mut usize) -> Result<Block, Objection> {
    let cluster = &all[first as usize];
    let mut block = Block {
        first,
        last: first,
        end: cluster.first_end,
        end_cluster: first,
        start: Witness { at: cluster.start, operation: cluster.writer },
        start_cluster: first,
    };
    let mut place = first;
    loop {
        let cluster = &all[place as usize];
        *count += 1;
        if cluster.start > block.start.at {
            block.start = Witness { at: cluster.start, operation: cluster.writer };
            block.start_cluster = place;
        }
        if cluster.first_end.at < block.start.at && !cluster.is_carried {
            let late = &all[block.start_cluster as usize];
            let mut proof = Proof::of_order(
                (cluster.first_end, cluster),
                (block.start, late),
                "compare-and-set made the former from the latter",
            );
            add_links(&mut proof, all, block.start_cluster, place);
            return Err(proof.into());
        }
        if cluster.last_start.at > block.start.at {
            (block.start, block.start_cluster) = (cluster.last_start, place);
        }
        if cluster.first_end.at < block.end.at {
            (block.end, block.end_cluster) = (cluster.first_end, place);
        }
        block.last = place;
        place = cluster.next;
        if place == NO_CLUSTER {
            return Ok(block);
        }
    }
}

/// Adds the writes after `from` up to `to` to a proof: they show that the clusters are one block.
fn add_links(proof: &mut Proof, all: &[Cluster], from: u32, to: u32) {
    let mut place = to;
    while place != from && place != NO_CLUSTER {
        proof.add(all[place as usize].writer);
        place = all[place as usize].previous;
    }
}

/// Proves that each of two blocks must precede the other.
fn conflict(all: &[Cluster], one: &Block, other: &Block) -> Proof {
    let named = |witness: Witness| operation_name(witness.operation);
    let value = |cluster: u32| name(all[cluster as usize].value);
    let (ended, before) = (" ended with ", " before ");
    let explanation = explained![
        named(one.end),
        ended,
        value(one.end_cluster),
        before,
        named(other.start),
        " on ",
        value(other.start_cluster),
        " started, and ",
        named(other.end),
        ended,
        value(other.end_cluster),
        before,
        named(one.start),
        " on ",
        value(one.start_cluster),
        " started: neither value can come first",
    ];
    let mut operations = Vec::new();
    for block in [one, other] {
        operations.extend([block.end.operation, block.start.operation]);
        operations.extend([block.end_cluster, block.start_cluster].map(|cluster| all[cluster as usize].writer));
    }
    let mut proof = Proof::new(operations, explanation);
    for block in [one, other] {
        // One of these walks reaches its aim, the other one the start of the chain.
        let (early, late) = (block.end_cluster, block.start_cluster);
        let is_before = |from: u32, to: u32| {
            let mut place = to;
            while place != from && place != NO_CLUSTER {
                place = all[place as usize].previous;
            }
            place == from
        };
        if is_before(early, late) {
            add_links(&mut proof, all, early, late);
        } else {
            add_links(&mut proof, all, late, early);
        }
    }
    proof
}

/// Proves that compare-and-set operations made their values from each other in a circle.
fn ring(all: &[Cluster]) -> Proof {
    let mut is_reached = vec![false; all.len()];
    for place in (0..all.len()).filter(|&place| all[place].previous == NO_CLUSTER) {
        let mut next = place as u32;
        while next != NO_CLUSTER {
            is_reached[next as usize] = true;
            next = all[next as usize].next;
        }
    }
    let mut members = Vec::new();
    if let Some(start) = is_reached.iter().position(|reached| !reached) {
        let mut place = start;
        while members.is_empty() || place != start {
            members.push(all[place].writer);
            place = all[place].next as usize;
        }
    }
    Proof::new(members, explained!["compare-and-set operations made their values from each other in a circle"])
}
