//! Timers in a hierarchical timing wheel. Each timer has a fixed place in memory, so setting a
//! timer takes a few stores.
//!
//! After G. Varghese and T. Lauck, "Hashed and hierarchical timing wheels" (1987), scheme 7. A
//! timer cannot be cancelled, and moving it takes a search. When a timer fires, the caller decides
//! whether the timer still has a purpose, and sets the timer again if it fired early.

/// Logarithm of the tick: 2^14 ns = 16.4 µs. Timers of the same tick may fire in any order, but
/// none fires before its exact time.
const TICK_BITS: u32 = 14;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
/// Number of levels. 256^5 ticks are 208 days; a timer that is due later fires after 208 days.
const LEVELS: usize = 5;
/// End of a slot's list.
const NONE: u32 = u32::MAX;
/// Marks a timer that is not set.
const UNSET: u32 = u32::MAX - 1;

/// A wheel of timers numbered from 0.
#[derive(Debug)]
pub struct Wheel {
    /// Current tick. All timers of earlier ticks have fired.
    tick: u64,
    levels: [WheelLevel; LEVELS],
    timers: Vec<WheelTimer>,
    /// Time before which no timer is due.
    soonest_ns: u64,
    /// Whether a timer is due at exactly `soonest_ns`.
    is_exact: bool,
}

#[derive(Debug, Clone, Copy)]
struct WheelTimer {
    due_ns: u64,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct WheelLevel {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
}

impl WheelLevel {
    /// Returns the first occupied slot from `from` on.
    fn next_occupied(&self, from: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for word in from / 64..self.occupied.len() {
            let bits = self.occupied[word] & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    fn take(&mut self, slot: usize) -> u32 {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.heads[slot], NONE)
    }
}

impl Wheel {
    /// Creates a wheel for timers 0 to `timers` - 1, none of them set.
    pub fn new(timers: usize) -> Self {
        Self {
            tick: 0,
            levels: [WheelLevel { heads: [NONE; SLOTS], occupied: [0; SLOTS / 64] }; LEVELS],
            timers: vec![WheelTimer { due_ns: 0, next: UNSET }; timers],
            soonest_ns: u64::MAX,
            is_exact: false,
        }
    }

    /// Sets the timer with index `timer`. A timer that is set already is moved.
    pub fn set(&mut self, timer: u32, due_ns: u64) {
        if self.timers[timer as usize].next != UNSET {
            self.remove(timer);
        }
        self.timers[timer as usize].due_ns = due_ns;
        self.place(timer);
        if due_ns <= self.soonest_ns {
            self.soonest_ns = due_ns;
            self.is_exact = true;
        }
    }

    /// Returns a time before which no timer is due, or the maximum if no timer is set.
    pub fn soonest_ns(&self) -> u64 {
        self.soonest_ns
    }

    /// Whether a timer is due at exactly [`Self::soonest_ns`]. Otherwise that time is only a lower
    /// bound.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Removes a timer that is due by `now_ns`. Returns the timer's index and due time.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        if now_ns < self.soonest_ns {
            return None;
        }
        loop {
            if let Some(fired) = self.pop_from_current_slot(now_ns) {
                return Some(fired);
            }
            if !self.advance(now_ns >> TICK_BITS) {
                (self.soonest_ns, self.is_exact) = self.find_soonest();
                return None;
            }
        }
    }

    /// Removes a timer that is set.
    #[cold]
    fn remove(&mut self, timer: u32) {
        // A timer that was overdue, or farther away than the wheel reaches, is in another slot than
        // its due time says.
        let due_tick = self.timers[timer as usize].due_ns >> TICK_BITS;
        let own = (0..LEVELS).map(|level| (level, (due_tick >> (SLOT_BITS as usize * level)) as usize % SLOTS));
        let all = (0..LEVELS).flat_map(|level| (0..SLOTS).map(move |slot| (level, slot)));
        for (level, slot) in own.chain(all) {
            let (mut before, mut next) = (NONE, self.levels[level].heads[slot]);
            while next != NONE && next != timer {
                (before, next) = (next, self.timers[next as usize].next);
            }
            if next == timer {
                self.unlink(level, slot, (before, timer));
                self.is_exact = false;
                return;
            }
        }
    }

    /// Removes a timer from the list of a slot, in which it comes after `before`.
    fn unlink(&mut self, level: usize, slot: usize, (before, timer): (u32, u32)) {
        let next = std::mem::replace(&mut self.timers[timer as usize].next, UNSET);
        match before {
            NONE if next == NONE => drop(self.levels[level].take(slot)),
            NONE => self.levels[level].heads[slot] = next,
            _ => self.timers[before as usize].next = next,
        }
    }

    fn place(&mut self, timer: u32) {
        let farthest = self.tick | ((1 << (SLOT_BITS as usize * LEVELS)) - 1);
        let due_tick = (self.timers[timer as usize].due_ns >> TICK_BITS).clamp(self.tick, farthest);
        // The level is the position of the highest digit (base 256) in which the due tick and the
        // current tick differ.
        let differs = (due_tick ^ self.tick) | 1;
        let level = ((63 - differs.leading_zeros()) / SLOT_BITS) as usize;
        let slot = (due_tick >> (SLOT_BITS as usize * level)) as usize % SLOTS;
        let level = &mut self.levels[level];
        self.timers[timer as usize].next = std::mem::replace(&mut level.heads[slot], timer);
        level.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn pop_from_current_slot(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        let slot = self.tick as usize % SLOTS;
        let mut before = NONE;
        let mut timer = self.levels[0].heads[slot];
        while timer != NONE {
            let WheelTimer { due_ns, next } = self.timers[timer as usize];
            if due_ns <= now_ns {
                self.unlink(0, slot, (before, timer));
                return Some((timer, due_ns));
            }
            before = timer;
            timer = next;
        }
        None
    }

    /// Moves to the next tick at which a timer may be due, at most to `target`. Returns false if
    /// there is no such tick.
    fn advance(&mut self, target: u64) -> bool {
        while let Some((level, slot, tick)) = self.next_occupied() {
            if tick > target {
                break;
            }
            if level == 0 && tick == self.tick {
                // The remaining timers of the current slot are due later in this tick.
                return false;
            }
            self.tick = tick;
            if level == 0 {
                return true;
            }
            let mut timer = self.levels[level].take(slot);
            while timer != NONE {
                let next = self.timers[timer as usize].next;
                self.place(timer);
                timer = next;
            }
            if self.levels[0].heads[tick as usize % SLOTS] != NONE {
                return true;
            }
        }
        self.tick = self.tick.max(target);
        false
    }

    /// Returns the next occupied slot: its level, index in the level, and first tick.
    fn next_occupied(&self) -> Option<(usize, usize, u64)> {
        self.levels.iter().enumerate().find_map(|(number, level)| {
            let shift = SLOT_BITS as usize * number;
            let current = (self.tick >> shift) as usize % SLOTS;
            let slot = level.next_occupied(current)?;
            let above = self.tick >> shift >> SLOT_BITS << SLOT_BITS;
            Some((number, slot, (above | slot as u64) << shift))
        })
    }

    fn find_soonest(&self) -> (u64, bool) {
        let Some((level, slot, tick)) = self.next_occupied() else { return (u64::MAX, false) };
        if level > 0 {
            return (tick << TICK_BITS, false);
        }
        let mut soonest = u64::MAX;
        let mut timer = self.levels[0].heads[slot];
        while timer != NONE {
            let WheelTimer { due_ns, next } = self.timers[timer as usize];
            soonest = soonest.min(due_ns);
            timer = next;
        }
        (soonest, true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pop_all(wheel: &mut Wheel, now_ns: u64) -> BTreeSet<(u32, u64)> {
        std::iter::from_fn(|| wheel.pop(now_ns)).collect()
    }

    #[test]
    fn timers_fire_when_due_and_not_before() {
        let hour = 3_600_000_000_000;
        for due_ns in [
            0,
            1,
            16_383,
            16_384,
            4_194_304,
            4_194_305,
            10_000_000,
            1_073_741_824,
            10_000_000_000,
            hour,
            365 * 24 * hour,
        ] {
            let mut wheel = Wheel::new(1);
            wheel.set(0, due_ns);
            if due_ns > 0 {
                assert_eq!(wheel.pop(due_ns - 1), None, "{due_ns}");
                assert!(wheel.soonest_ns() <= due_ns);
                assert!(wheel.soonest_ns() >= due_ns.saturating_sub(1) || due_ns > 4_194_304, "{due_ns}");
            }
            assert_eq!(wheel.pop(due_ns), Some((0, due_ns)), "{due_ns}");
            assert_eq!(wheel.pop(u64::MAX), None);
            assert_eq!((wheel.soonest_ns(), wheel.is_exact()), (u64::MAX, false));
        }
    }

    #[test]
    fn a_timer_set_in_the_past_fires_at_once() {
        let mut wheel = Wheel::new(2);
        assert_eq!(wheel.pop(5_000_000_000), None);
        wheel.set(1, 7);
        assert_eq!(wheel.pop(5_000_000_000), Some((1, 7)));
    }

    #[test]
    fn a_timer_that_is_set_is_moved() {
        let mut wheel = Wheel::new(3);
        for due_ns in [30_000_000_000, 5, 400 * 86_400_000_000_000, 1_000_000] {
            (0..3).for_each(|timer| wheel.set(timer, due_ns + u64::from(timer)));
        }
        assert_eq!(pop_all(&mut wheel, u64::MAX).len(), 3);
        assert_eq!(wheel.soonest_ns(), u64::MAX);
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(
            steps in prop::collection::vec((prop::collection::vec((0_u32..40, 0_u32..44), 0..6), 0_u32..40), 1..60)
        ) {
            let mut wheel = Wheel::new(40);
            let mut set: BTreeSet<(u32, u64)> = BTreeSet::new();
            let mut now_ns = 0_u64;
            for (timers, pause) in steps {
                for (timer, magnitude) in timers {
                    let due_ns = now_ns + (1_u64 << magnitude) - 1 + u64::from(timer);
                    wheel.set(timer, due_ns);
                    set.retain(|(known, _)| *known != timer);
                    set.insert((timer, due_ns));
                }
                prop_assert!(set.iter().all(|(_, due_ns)| wheel.soonest_ns() <= *due_ns));
                // A caller that spins until this time waits for a real timer.
                prop_assert!(!wheel.is_exact() || set.iter().any(|(_, due_ns)| wheel.soonest_ns() == *due_ns));
                now_ns += 1_u64 << pause;
                let due: BTreeSet<(u32, u64)> = set.iter().copied().filter(|(_, due_ns)| *due_ns <= now_ns).collect();
                prop_assert_eq!(pop_all(&mut wheel, now_ns), due.clone());
                set.retain(|timer| !due.contains(timer));
            }
        }
    }
}
