//! Pauses of agents between operations: of a fixed length, or drawn from a distribution.

use std::f64::consts::TAU;

use experiment::plan::{Load, Pause, Step};
use fastrand::Rng;
use wire::values::mix;

use super::NS_PER_S;

/// Longest pause, seconds: 100 days.
const LONGEST_S: f64 = 8_640_000.0;

/// Pause of an agent after an operation of one step, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepPause {
    Fixed(u64),
    /// Drawn evenly from `pause_ns` ± `spread_pct` percent. Without a spread, agents that had to
    /// wait together would continue in step.
    Spread {
        pause_ns: u64,
        spread_pct: f64,
    },
    Uniform {
        from_ns: f64,
        to_ns: f64,
    },
    Normal {
        mean_ns: f64,
        deviation_ns: f64,
    },
    Exponential {
        mean_ns: f64,
    },
}

impl StepPause {
    /// Returns the pause after the step, or after operations of a load if the step has none.
    pub fn after(step: &Step, load: &Load) -> Self {
        let is_own = step.think.is_some() || load.think.is_some();
        match load.pause_after(step) {
            Pause::Fixed(pause_s) if load.think_spread_pct > 0.0 && !is_own => {
                Self::Spread { pause_ns: ns(pause_s) as u64, spread_pct: load.think_spread_pct }
            }
            Pause::Fixed(pause_s) => Self::Fixed(ns(pause_s) as u64),
            Pause::Uniform { uniform: [from_s, to_s] } => Self::Uniform { from_ns: ns(from_s), to_ns: ns(to_s) },
            Pause::Normal { normal: [mean_s, deviation_s] } => {
                Self::Normal { mean_ns: ns(mean_s), deviation_ns: ns(deviation_s) }
            }
            Pause::Exponential { exponential } => Self::Exponential { mean_ns: ns(exponential) },
        }
    }

    /// Returns the end of a pause that begins at `now_ns`.
    #[inline]
    pub fn until_ns(self, now_ns: u64, random: &mut Rng) -> u64 {
        let pause_ns = match self {
            Self::Fixed(pause_ns) => pause_ns,
            // The time in nanoseconds serves as random seed: it differs from agent to agent.
            Self::Spread { pause_ns, spread_pct } => spread_ns(pause_ns, spread_pct, mix(now_ns)),
            _ => self.draw_ns(random),
        };
        now_ns.saturating_add(pause_ns)
    }

    #[cold]
    fn draw_ns(self, random: &mut Rng) -> u64 {
        let drawn_ns = match self {
            Self::Fixed(pause_ns) | Self::Spread { pause_ns, .. } => return pause_ns,
            Self::Uniform { from_ns, to_ns } => from_ns + (to_ns - from_ns) * random.f64(),
            // G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates",
            // 1958.
            Self::Normal { mean_ns, deviation_ns } => {
                let length = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                mean_ns + deviation_ns * length * (TAU * random.f64()).cos()
            }
            Self::Exponential { mean_ns } => -mean_ns * (1.0 - random.f64()).ln(),
        };
        drawn_ns.clamp(0.0, LONGEST_S * NS_PER_S as f64).round() as u64
    }
}

/// Converts seconds to whole nanoseconds.
fn ns(time_s: f64) -> f64 {
    (time_s.clamp(0.0, LONGEST_S) * NS_PER_S as f64).round()
}

/// Returns a pause drawn evenly from `pause_ns` ± `spread_pct` percent. `draw` supplies the random
/// bits.
pub fn spread_ns(pause_ns: u64, spread_pct: f64, draw: u64) -> u64 {
    let drawn = (draw >> 11) as f64 / (1_u64 << 53) as f64;
    (pause_ns as f64 * (1.0 + spread_pct / 100.0 * (2.0 * drawn - 1.0))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns many pauses of the step's kind, in seconds, sorted.
    fn pauses(step: Option<Pause>, load: &Load) -> Vec<f64> {
        let step = Step { think: step, ..Step::default() };
        let pause = StepPause::after(&step, load);
        let mut random = Rng::with_seed(7);
        let pause = |now_ns: u64| (pause.until_ns(now_ns, &mut random) - now_ns) as f64 / 1e9;
        let mut pauses: Vec<f64> = (0..20_000).map(pause).collect();
        pauses.sort_by(f64::total_cmp);
        pauses
    }

    /// Returns the mean and the share of pauses below `below_s`.
    fn mean_and_share(pauses: &[f64], below_s: f64) -> (f64, f64) {
        let share = pauses.partition_point(|pause_s| *pause_s < below_s) as f64 / pauses.len() as f64;
        (pauses.iter().sum::<f64>() / pauses.len() as f64, share)
    }

    #[test]
    fn pauses_follow_their_distribution() {
        let uniform = pauses(Some(Pause::Uniform { uniform: [1.0, 3.0] }), &Load::default());
        assert!(uniform[0] >= 1.0 && *uniform.last().unwrap() <= 3.0);
        let normal = pauses(Some(Pause::Normal { normal: [2.0, 0.5] }), &Load::default());
        let exponential = pauses(Some(Pause::Exponential { exponential: 2.0 }), &Load::default());
        // P(N < µ + σ) = 0.841, P(E < µ) = 1 − 1/e.
        for (pauses, mean_s, below_s, share) in
            [(uniform, 2.0, 1.5, 0.25), (normal, 2.0, 2.5, 0.841), (exponential, 2.0, 2.0, 0.632)]
        {
            let found = mean_and_share(&pauses, below_s);
            assert!((found.0 - mean_s).abs() < 0.06 && (found.1 - share).abs() < 0.015, "{found:?}");
        }
    }

    #[test]
    fn normal_pauses_are_never_negative() {
        let pauses = pauses(Some(Pause::Normal { normal: [1.0, 2.0] }), &Load::default());
        let (_, below) = mean_and_share(&pauses, 1e-9);
        assert!((below - 0.309).abs() < 0.015, "a normal draw is below µ − σ / 2 in 31 %: {below}");
    }

    #[test]
    fn a_step_has_its_own_pause_or_that_of_the_load() {
        let load = Load { think_s: 2.0, ..Load::default() };
        assert_eq!(pauses(None, &load)[0], 2.0);
        assert_eq!(*pauses(Some(Pause::Fixed(0.0)), &load).last().unwrap(), 0.0);
        let drawn = Load { think: Some(Pause::Uniform { uniform: [4.0, 5.0] }), ..Load::default() };
        assert!(pauses(None, &drawn)[0] >= 4.0);
    }

    #[test]
    fn pauses_are_drawn_evenly_around_the_think_time() {
        let load = Load { think_s: 0.001, think_spread_pct: 50.0, ..Load::default() };
        let pauses = pauses(None, &load);
        assert!(pauses.iter().all(|pause_s| (0.0005..0.0015).contains(pause_s)));
        let (mean_s, below) = mean_and_share(&pauses, 0.00075);
        assert!((mean_s - 0.001).abs() < 1e-5 && (below - 0.25).abs() < 0.02, "{mean_s} {below}");
    }
}
