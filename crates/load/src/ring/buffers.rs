//! The buffers that a ring receives into: the kernel takes them one after the other, and they are given back in any order. It must not
//! hand out a buffer that the kernel may write to.
#![expect(unsafe_code, reason = "the kernel reads and writes memory by address; the second home of unsafe code")]

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Number of the group that they are, in their ring.
pub const GROUP: u16 = 0;
/// Bytes of each. A short answer touches the first page only, and a long one comes in pieces.
const SIZE: usize = 16 * 1024;
/// From one to the next: some cache lines more, so that the beginnings of all, which every answer touches, do not fall into the same few
/// sets of the processor's caches.
const STRIDE: usize = SIZE + 5 * 64;
/// Fewest and most buffers; between, as many as connections. So a target that floods few connections does not keep the thread long, and
/// those of many connections are soon used again, while the cache still has them.
const COUNT: (usize, usize) = (64, 128);

/// Buffers, and the entries by which the kernel knows those that are free.
pub struct Buffers {
    /// Entries first, then the buffers themselves.
    memory: *mut u8,
    count: u16,
    /// Buffers that the kernel was given so far, modulo 2^16.
    tail: u16,
    /// Whose bytes may be looked at, a bit each.
    taken: Vec<bool>,
}

// SAFETY: nothing else knows the memory but the kernel.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Buffers for so many connections, all of them free.
    pub fn new(connections: usize) -> io::Result<Self> {
        let (fewest, most) = COUNT;
        let count = connections.clamp(fewest, most).next_power_of_two();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: memory of our own, wherever there is room.
        let memory = unsafe { mmap_anonymous(null_mut(), bytes_of(count), access, MapFlags::PRIVATE)? };
        let mut buffers = Self { memory: memory.cast(), count: count as u16, tail: 0, taken: vec![true; count] };
        for buffer in 0..buffers.count {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// Where the entries are.
    pub fn address(&self) -> u64 {
        self.memory as u64
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The kernel has written into the buffer, and will not again until it is given back.
    pub fn taken(&mut self, buffer: u16) {
        if let Some(taken) = self.taken.get_mut(usize::from(buffer)) {
            *taken = true;
        }
    }

    /// The first so many bytes of a buffer that the kernel has written into.
    pub fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        if self.taken.get(usize::from(buffer)) != Some(&true) {
            return &[];
        }
        // SAFETY: within the mapping, initialised (mapped memory is zero at first), and the kernel's again only after `give_back`, which
        // needs the buffers for itself.
        unsafe { std::slice::from_raw_parts(self.start_of(buffer), length.min(SIZE)) }
    }

    /// The kernel may write into the buffer again.
    pub fn give_back(&mut self, buffer: u16) {
        match self.taken.get_mut(usize::from(buffer)) {
            Some(taken) if *taken => *taken = false,
            _ => return,
        }
        let entries: *mut BufRingEntry = self.memory.cast();
        let place = usize::from(self.tail & (self.count - 1));
        let start = self.start_of(buffer) as u64;
        // SAFETY: within the mapping. The kernel looks at an entry only once the tail, which is stored after it, is beyond it; an entry's
        // own fields do not overlap with the tail.
        unsafe {
            let entry = &mut *entries.add(place);
            entry.set_addr(start);
            entry.set_len(SIZE as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }

    fn start_of(&self, buffer: u16) -> *mut u8 {
        let offset = entries_bytes(usize::from(self.count)) + usize::from(buffer % self.count) * STRIDE;
        self.memory.wrapping_add(offset)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody has an address in it any more.
        let _ = unsafe { munmap(self.memory.cast(), bytes_of(usize::from(self.count))) };
    }
}

/// In whole pages and more.
fn entries_bytes(count: usize) -> usize {
    (count * size_of::<BufRingEntry>()).next_multiple_of(SIZE)
}

fn bytes_of(count: usize) -> usize {
    entries_bytes(count) + count * STRIDE
}
