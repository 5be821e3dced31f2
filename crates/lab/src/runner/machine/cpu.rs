//! The score of a core: how many rounds of a fixed piece of work it does in a second. The work is arithmetic on whole
//! numbers and scattered access to a table that fits into a second-level cache, because that is what servers do most; no
//! vector unit and no main memory is measured. Changing it makes every recorded score worthless.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Of 8 bytes each: 256 KiB.
const TABLE: usize = 1 << 15;
const STEPS: u32 = 1 << 14;
/// The best of a few short attempts is the one that was disturbed least.
const ATTEMPTS: u32 = 5;
const ATTEMPT: Duration = Duration::from_millis(200);

/// Rounds/s of one core, in about a second.
#[must_use]
pub fn score() -> f64 {
    let mut work = Work::new();
    (0..ATTEMPTS).map(|_| work.rounds_per_s(ATTEMPT)).fold(0.0, f64::max)
}

/// Rounds/s of so many threads together.
pub fn score_of_all(threads: usize) -> Option<f64> {
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let name = format!("score-{number}");
            std::thread::Builder::new().name(name).spawn_scoped(scope, || Work::new().rounds_per_s(ATTEMPT * ATTEMPTS))
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        // All are waited for, also if one could not be started.
        let scores: Vec<Option<f64>> = running.into_iter().map(|thread| thread.ok()?.join().ok()).collect();
        scores.into_iter().sum()
    })
}

struct Work {
    table: Vec<u64>,
    state: u64,
}

impl Work {
    fn new() -> Self {
        let mut work = Self { table: vec![0; TABLE], state: 0x9e37_79b9_7f4a_7c15 };
        // Fills the cache, and raises the clock of a core that was asleep.
        for _ in 0..64 {
            work.round();
        }
        work
    }

    fn round(&mut self) {
        for _ in 0..STEPS {
            // Marsaglia's xorshift64*, and what it finds at two places of the table.
            self.state ^= self.state >> 12;
            self.state ^= self.state << 25;
            self.state ^= self.state >> 27;
            let drawn = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d);
            let (from, to) = ((drawn >> 49) as usize % TABLE, (drawn >> 34) as usize % TABLE);
            let mixed = self.table[from].rotate_left(7).wrapping_add(drawn);
            self.table[to] = if mixed & 1 == 0 { mixed } else { mixed ^ self.state };
        }
        black_box(&self.table);
    }

    fn rounds_per_s(&mut self, within: Duration) -> f64 {
        let begin = Instant::now();
        let mut rounds = 0_u32;
        while begin.elapsed() < within {
            self.round();
            rounds += 1;
        }
        f64::from(rounds) / begin.elapsed().as_secs_f64()
    }
}
