//! Hash table from values to numbers of clusters, made to be emptied often.

/// Stands for no cluster.
pub(crate) const NO_CLUSTER: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct ValueTable {
    /// Power of two in number, at least half of them empty.
    slots: Vec<(u64, u32)>,
}

impl ValueTable {
    /// Empties the table, and makes room for `count` values.
    pub fn reset(&mut self, count: usize) {
        self.slots.clear();
        self.slots.resize((count.max(4) * 2).next_power_of_two(), (0, NO_CLUSTER));
    }

    /// Adds a value, unless it is there already: then returns its cluster.
    pub fn insert(&mut self, value: u64, cluster: u32) -> Option<u32> {
        let slot = self.slot(value);
        let there = self.slots[slot].1;
        if there != NO_CLUSTER {
            return Some(there);
        }
        self.slots[slot] = (value, cluster);
        None
    }

    /// Returns the cluster of a value.
    pub fn find(&self, value: u64) -> Option<u32> {
        let cluster = self.slots[self.slot(value)].1;
        (cluster != NO_CLUSTER).then_some(cluster)
    }

    fn slot(&self, value: u64) -> usize {
        let mask = self.slots.len() - 1;
        let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (product >> 32) as usize & mask;
        while self.slots[slot].1 != NO_CLUSTER && self.slots[slot].0 != value {
            slot = (slot + 1) & mask;
        }
        slot
    }
}
