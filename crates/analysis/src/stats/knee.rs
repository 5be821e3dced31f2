//! The knee of a curve: the load from which more load stops paying. It is Kleinrock's saturation point (Queueing Systems II, 1976,
//! section 4.12), where the two asymptotic bounds of throughput meet (Lazowska, Zahorjan, Graham and Sevcik, Quantitative System
//! Performance, 1984, chapter 5): the line of light load, on which nobody waits for anybody, and the plateau, on which the busiest
//! part never rests. It must not know what the load is, nor resample.

use super::curve::{Mean, Spread};

/// A line and a plateau need at least so many loads.
pub(crate) const LEAST_LOADS: usize = 3;

/// What is within this of a line or a plateau is on it; repeats that differ by more widen it, but only so far: beyond, a curve that
/// still rises would pass for level.
const TOLERANCE: f64 = 0.05;
const WIDEST: f64 = 0.15;

/// The highest of some five equal means is above the others by less than so many of their standard errors, in 19 of 20 cases: Tukey's
/// studentized range.
const RANGE: f64 = 3.7;

/// Which loads make the line and which the plateau.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bend {
    /// So many of the lowest loads are on the line.
    light: usize,
    /// Places of the loads on the plateau.
    plateau: Vec<usize>,
}

impl Bend {
    /// Finds both. `None` with fewer than [`LEAST_LOADS`] loads, or where the curve does not bend within them: throughput still
    /// rises at the highest load, or is on the line there.
    pub(crate) fn of(means: &[Mean], spread: Option<Spread>) -> Option<Self> {
        let best = peak(means).filter(|_| means.len() >= LEAST_LOADS)?;
        let by_chance =
            |mean: &Mean| spread.map_or(0.0, |spread| RANGE * spread.relative / (mean.repeats as f64).sqrt());
        let tolerance = |mean: &Mean| by_chance(mean).clamp(TOLERANCE, WIDEST);
        let per_load = |mean: &Mean| mean.rate / mean.load;
        let mut steepest = 0.0_f64;
        let light = means.iter().take_while(|mean| {
            steepest = steepest.max(per_load(mean));
            per_load(mean) >= (1.0 - tolerance(mean)) * steepest
        });
        let light = light.count();
        let level = |mean: &Mean| mean.rate >= (1.0 - tolerance(mean)) * means[best].rate;
        let plateau: Vec<usize> = (0..means.len()).filter(|&index| level(&means[index])).collect();
        let bend = Self { light, plateau };
        let last = means.len() - 1;
        let rises = bend.plateau == [last];
        let within = bend.knee(means)? <= (1.0 - TOLERANCE) * means[last].load;
        (!rises && within).then_some(bend)
    }

    /// Where line and plateau meet.
    pub(crate) fn knee(&self, means: &[Mean]) -> Option<f64> {
        let light = means.get(..self.light)?;
        // Least squares through the origin, because no load has no throughput.
        let rates: f64 = light.iter().map(|mean| mean.rate * mean.load).sum();
        let loads: f64 = light.iter().map(|mean| mean.load * mean.load).sum();
        let plateau: f64 = self.plateau.iter().filter_map(|&index| means.get(index)).map(|mean| mean.rate).sum();
        let knee = plateau / self.plateau.len() as f64 / (rates / loads);
        (rates > 0.0 && knee.is_finite()).then_some(knee)
    }
}

/// The place of the highest mean, the lowest load of equal ones; `None` where nothing got through.
pub(crate) fn peak(means: &[Mean]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, mean) in means.iter().enumerate() {
        if mean.rate > best.map_or(0.0, |best| means[best].rate) {
            best = Some(index);
        }
    }
    best
}

#[cfg(test)]
mod tests;
