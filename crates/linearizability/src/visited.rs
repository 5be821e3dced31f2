//! Set of visited configurations of a search. Exact: it compares sets, not hashes.

/// Configurations: the linearized calls, the state, and the optional calls that were used.
///
/// `base` stands for the ranks below which all calls are linearized, and `done` has the bits above.
/// The number of its words is a function of `base`.
#[derive(Debug)]
pub(crate) struct Visited {
    /// Per configuration: base and state, words of `done`, words of `used`.
    arena: Vec<u64>,
    /// Upper half: hash without `used`. Lower half: position in the arena plus one, or 0.
    slots: Vec<u64>,
    count: usize,
}

const FIRST_SLOTS: usize = 256;

impl Visited {
    pub fn new() -> Self {
        Self { arena: Vec::new(), slots: Vec::new(), count: 0 }
    }

    /// Adds a configuration. Returns false if there is one with the same linearized calls and
    /// state, and no other optional calls.
    pub fn insert(&mut self, base: u32, state: u32, done: &[u64], used: &[u64]) -> bool {
        if self.count * 2 >= self.slots.len() {
            self.grow();
        }
        let header = u64::from(base) << 32 | u64::from(state);
        let hash = done.iter().fold(mix(header), |hash, word| mix(hash ^ word)) >> 32;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            if self.slots[slot] >> 32 == hash && self.covers(self.slots[slot], header, done, used) {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = hash << 32 | (self.arena.len() as u64 + 1);
        self.arena.push(header);
        self.arena.extend_from_slice(done);
        self.arena.extend_from_slice(used);
        self.count += 1;
        true
    }

    fn covers(&self, slot: u64, header: u64, done: &[u64], used: &[u64]) -> bool {
        let entry = &self.arena[(slot & u64::from(u32::MAX)) as usize - 1..];
        entry[0] == header
            && entry[1..=done.len()] == *done
            && entry[1 + done.len()..].iter().zip(used).all(|(fewer, more)| fewer & !more == 0)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FIRST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let mut slot = (entry >> 32) as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = entry;
        }
    }
}

fn mix(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 29
}
