//! Open loop with independent random starts, like the starts of many users: a Poisson process.
//!
//! Time is divided into cells of length 1 / rate. The number of operations in a cell is drawn from
//! the Poisson distribution of mean 1, and the start of each operation within the cell is drawn
//! evenly. Cells are independent of each other, so the result is a Poisson process (J. F. C.
//! Kingman, "Poisson Processes", 1993, sections 2.1 and 2.4). Both draws follow from the seed and
//! the cell's index (a counter-based generator: J. K. Salmon and others, "Parallel random numbers:
//! as easy as 1, 2, 3", 2011), so each cell can be computed by itself.
//!
//! Cells are dealt to agents in turn. Each further operation of a cell goes to another agent: the
//! agent index advances by the golden section of the number of agents. So operations that start
//! close together belong to different agents, and an agent's next operation is many cells away. If
//! each agent had its own Poisson process, operations would wait for their agent while other agents
//! are idle, and the target's latency would seem longer.

use wire::values::mix;

use super::constant::EvenTimes;
use super::{Due, Schedule, joins_ns};

/// Range of rates, in operations per second. A cell is long enough for all its operations to start
/// at different nanoseconds.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e7;

/// Maximum number of operations in a cell. More operations have a probability below 2⁻⁶⁴, less than
/// the resolution of a 64-bit draw.
const MOST: usize = 20;

/// Separates the draws of this schedule from all other draws of the trial.
const SEED: u64 = 0x506f_6973_736f_6e21;

/// An open loop of random starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    agents: u32,
    /// Borders of the cells.
    borders: EvenTimes,
    ramp_ns: u64,
    end_ns: u64,
    seed: u64,
    /// Distance, in agents, between the agents of consecutive operations of a cell.
    stride: u64,
    /// Bounds on a cell's draw. A cell has an operation with index i if its draw is below
    /// `below[i]`.
    below: [u64; MOST],
}

impl Poisson {
    /// Creates a schedule with a mean of `rate_per_s` operations per second over all agents, which
    /// join over the ramp.
    pub fn new(agents: u32, rate_per_s: f64, ramp_ns: u64, end_ns: u64, seed: u64) -> Self {
        let agents = agents.max(1);
        let golden = (f64::from(agents) * 0.618_033_988_749_894_9).round();
        Self {
            agents,
            borders: EvenTimes::new(rate_per_s.clamp(*RATES.start(), *RATES.end())),
            ramp_ns,
            end_ns,
            seed: mix(seed ^ SEED),
            stride: golden as u64 % u64::from(agents),
            below: below(),
        }
    }

    /// Returns the cell that contains the time.
    fn cell_of(&self, at_ns: u64) -> u64 {
        let next = self.borders.number_from(at_ns.saturating_add(1));
        u64::try_from(next.saturating_sub(1)).unwrap_or(u64::MAX)
    }

    fn draw(&self, cell: u64) -> u64 {
        mix(self.seed ^ mix(cell))
    }

    /// Returns the start of the cell's operation with index `place`, if the cell has one.
    fn start_ns(&self, cell: u64, place: usize) -> Option<u64> {
        let draw = self.draw(cell);
        if draw >= self.below[place] {
            return None;
        }
        let from_ns = self.borders.at_ns(u128::from(cell));
        let length_ns = self.borders.at_ns(u128::from(cell) + 1) - from_ns;
        let count = self.below.iter().take_while(|below| draw < **below).count();
        // Starts are drawn from a range that is shorter by the number of further operations. The
        // k-th start (from 0) is then moved by k ns, so that no two operations start in the same
        // nanosecond.
        let room = u128::from(length_ns.saturating_sub(count as u64 - 1).max(1));
        let mut places = [u64::MAX; MOST];
        for (number, place) in places.iter_mut().take(count).enumerate() {
            let drawn = mix(draw ^ mix(number as u64 + 1));
            *place = u64::try_from((u128::from(drawn) * room) >> 64).unwrap_or(0);
        }
        places[..count].sort_unstable();
        Some(from_ns.saturating_add(places[place]).saturating_add(place as u64))
    }

    /// Returns the agent's first start at `from_ns` or later.
    fn first_from(&self, agent: u32, from_ns: u64) -> u64 {
        let from_ns = from_ns.max(joins_ns(agent, self.agents, self.ramp_ns));
        let agents = u64::from(self.agents);
        let from = self.cell_of(from_ns);
        let mut first: Option<(u64, u64)> = None;
        // Number of cells to the agent's next cell, for operations with index `place`.
        let mut ahead = (u64::from(agent) + agents - from % agents) % agents;
        for place in 0..MOST {
            let mut cell = from.saturating_add(ahead);
            // Within a cell, an operation with a lower index starts earlier.
            while first.is_none_or(|(known, _)| cell < known) && cell < u64::MAX - agents {
                if let Some(at_ns) = self.start_ns(cell, place)
                    && at_ns >= from_ns
                {
                    first = Some((cell, at_ns));
                    break;
                }
                cell += agents;
            }
            ahead = if ahead >= self.stride { ahead - self.stride } else { ahead + agents - self.stride };
        }
        first.map_or(u64::MAX, |(_, at_ns)| at_ns)
    }
}

/// Returns the probabilities that a cell has an operation with index 0, 1, 2, …, in units of 2⁻⁶⁴.
/// These are the tails of the Poisson distribution of mean 1.
fn below() -> [u64; MOST] {
    // Summed from the smallest term, so that the far tail stays precise.
    const TERMS: usize = 40;
    let mut terms = [0.0; TERMS];
    let mut term = (-1.0_f64).exp();
    for (number, place) in terms.iter_mut().enumerate() {
        *place = term;
        term /= number as f64 + 1.0;
    }
    let mut below = [0; MOST];
    let mut tail: f64 = terms[MOST + 1..].iter().rev().sum();
    for place in (0..MOST).rev() {
        tail += terms[place + 1];
        below[place] = (tail * 2.0_f64.powi(64)) as u64;
    }
    below
}

impl Schedule for Poisson {
    fn first_ns(&self, agent: u32) -> u64 {
        self.first_from(agent, 0)
    }

    fn next_ns(&self, agent: u32, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.first_from(agent, intended_ns.saturating_add(1))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Takes time in proportion to the number of operations.
    fn due(&self, agent: u32, from_ns: u64, until_ns: u64, take: &mut dyn FnMut(Due)) {
        // An agent without further starts is asked from the end of time on. It needs no search.
        if from_ns >= until_ns {
            return;
        }
        let mut at_ns = self.first_from(agent, from_ns);
        while at_ns < until_ns {
            take(Due::one(at_ns));
            at_ns = self.first_from(agent, at_ns + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests for a Poisson process: counts, gaps and independence, each compared with its
    //! distribution, with fixed seeds. Bounds are at least four standard deviations, so that they
    //! are meaningful without a search for seeds.

    use super::super::tests::{S, all_starts, due, starts};
    use super::*;

    fn mean_and_variance(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        (mean, variance)
    }

    /// Counts the starts in each window of length `window_ns`.
    fn counts(starts: &[u64], window_ns: u64, windows: u64) -> Vec<f64> {
        let mut counts = vec![0.0; windows as usize];
        for at in starts {
            if let Some(count) = counts.get_mut((at / window_ns) as usize) {
                *count += 1.0;
            }
        }
        counts
    }

    #[test]
    fn the_table_matches_the_poisson_distribution() {
        let below = below();
        let share = |place: usize| below[place] as f64 / 2.0_f64.powi(64);
        // P(N > 0) = 1 - 1/e, P(N > 1) = 1 - 2/e, P(N > 2) = 1 - 2.5/e. The mean is the sum of all
        // tails.
        for (place, expected) in
            [(0, 0.632_120_558_8), (1, 0.264_241_117_7), (2, 0.080_301_397_1), (9, 1.114_254_783e-7)]
        {
            assert!((share(place) / expected - 1.0).abs() < 1e-8, "{place}: {}", share(place));
        }
        assert!(((0..MOST).map(share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(below.is_sorted_by(|one, next| one > next) && below[MOST - 1] > 0);
    }

    #[test]
    fn mean_and_variance_match_the_rate_in_any_window() {
        for (agents, rate, seed) in [(1, 1000.0, 1), (2, 1000.0, 2), (7, 333.3, 3), (64, 5000.0, 4), (300, 100.0, 5)] {
            let all = all_starts(&Poisson::new(agents, rate, 0, 60 * S, seed), agents);
            let total = rate * 60.0;
            assert!((all.len() as f64 - total).abs() < 4.0 * total.sqrt(), "{} of {total}", all.len());
            // Windows of less than a cell, a few cells, many cells.
            for cells in [0.3, 2.5, 40.0] {
                let window_ns = (cells / rate * 1e9) as u64;
                let windows = 60 * S / window_ns;
                let (mean, variance) = mean_and_variance(&counts(&all, window_ns, windows));
                let expected = window_ns as f64 * rate / 1e9;
                let sure = (windows as f64).sqrt();
                assert!((mean - expected).abs() < 4.5 * expected.sqrt() / sure, "{cells} cells: mean {mean}");
                // Variance of the sample variance of a Poisson count: (mean + 2 mean²) / windows.
                let spread = (expected + 2.0 * expected * expected).sqrt() / sure;
                assert!((variance - expected).abs() < 4.5 * spread, "{cells} cells: variance {variance} of {expected}");
            }
        }
    }

    #[test]
    fn gaps_are_exponential_and_uncorrelated() {
        let all = all_starts(&Poisson::new(20, 2000.0, 0, 60 * S, 11), 20);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9 * 2000.0).collect();
        let count = gaps.len() as f64;
        // Kolmogorov–Smirnov statistic: 1.95 is exceeded once in a thousand cases.
        let mut sorted = gaps.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let distance = sorted.iter().enumerate().map(|(rank, gap)| (rank as f64 / count - (1.0 - (-gap).exp())).abs());
        let distance = distance.fold(0.0, f64::max);
        assert!(distance * count.sqrt() < 1.95, "{distance} of {count}");
        // Consecutive gaps are uncorrelated.
        let (mean, variance) = mean_and_variance(&gaps);
        let together = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / count;
        assert!((together / variance).abs() < 4.0 / count.sqrt(), "{}", together / variance);
    }

    #[test]
    fn starts_depend_only_on_the_seed() {
        let of = |seed: u64| Poisson::new(5, 700.0, 0, 3 * S, seed);
        assert_eq!(all_starts(&of(1), 5), all_starts(&of(1), 5));
        assert_ne!(all_starts(&of(1), 5), all_starts(&of(2), 5));
        // A caller that begins in the middle gets the same starts.
        let own = starts(&of(1), 3);
        let later: Vec<u64> = due(&of(1), 3, S, 2 * S).iter().map(|due| due.first_ns).collect();
        assert_eq!(later, own.into_iter().filter(|at| (S..2 * S).contains(at)).collect::<Vec<_>>());
    }

    #[test]
    fn starts_close_together_belong_to_different_agents() {
        // With a separate Poisson process for each agent, 1 - exp(-0.1) = 9.5 % of gaps would be
        // below a tenth of the agent's mean.
        let agents = 100;
        let schedule = Poisson::new(agents, 1000.0, 0, 100 * S, 9);
        let short_ns = u64::from(agents) * S / 1000 / 10;
        let (mut gaps, mut short) = (0, 0);
        for agent in 0..agents {
            let own = starts(&schedule, agent);
            gaps += own.len();
            short += own.windows(2).filter(|pair| pair[1] - pair[0] < short_ns).count();
        }
        assert!(gaps > 90_000 && (short as f64) < 0.01 * gaps as f64, "{short} of {gaps}");
    }

    #[test]
    fn a_ramp_only_delays_when_agents_join() {
        let (all, ramped) = (Poisson::new(4, 80.0, 0, 2 * S, 3), Poisson::new(4, 80.0, S, 2 * S, 3));
        for agent in 0..4 {
            let joins_ns = S * u64::from(agent) / 4;
            let expected: Vec<u64> = starts(&all, agent).into_iter().filter(|at| *at >= joins_ns).collect();
            assert_eq!(starts(&ramped, agent), expected, "agent {agent}");
        }
    }

    #[test]
    fn the_fastest_and_the_slowest_rate() {
        let fast = Poisson::new(1, 1e7, 0, S / 1000, 1);
        let count = starts(&fast, 0).len() as f64;
        assert!((count - 1e4).abs() < 4.0 * 100.0, "{count}");
        let slow = Poisson::new(3, 1e-6, 0, u64::MAX, 1);
        assert!((0..3).all(|agent| slow.next_ns(agent, slow.first_ns(agent), 0) > 0));
    }
}
