//! Axes: conversion of values to coordinates, and the positions of ticks.

/// Spacing of the values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    Linear,
    /// Logarithmic. Values at or below 0 have no coordinate.
    Log,
    /// Logarithmic in 1 / (1 - q) for a quantile q, so that each further nine takes the same width.
    Nines,
}

/// A range of values and its coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    pub spacing: Spacing,
    pub from: f64,
    pub to: f64,
    /// Coordinate of `from`.
    pub start: f64,
    /// Coordinate of `to`.
    pub end: f64,
}

impl Axis {
    /// Returns the coordinate of a value, or `None` if it has none. Clamps values outside the
    /// range.
    pub fn place(&self, value: f64) -> Option<f64> {
        let share = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Log | Spacing::Nines if value > 0.0 => (value / self.from).ln() / (self.to / self.from).ln(),
            Spacing::Log | Spacing::Nines => return None,
        };
        share.is_finite().then(|| self.start + share.clamp(0.0, 1.0) * (self.end - self.start))
    }
}

/// Returns ticks at 1, 2 or 5 times a power of ten within `from..=to`, about `count` of them at
/// most.
pub fn linear_ticks(from: f64, to: f64, count: usize) -> Vec<f64> {
    let step = step(to - from, count);
    if !(step.is_finite() && step > 0.0) {
        return vec![from];
    }
    let (first, last) = ((from / step - 1e-9).ceil() as i64, (to / step + 1e-9).floor() as i64);
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Returns the distance between [`linear_ticks`].
fn step(range: f64, count: usize) -> f64 {
    round_up(range / count.max(1) as f64)
}

/// Returns the next value that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Returns powers of ten within `from..=to`, and 2 and 5 times them if that gives at most `count`
/// ticks. For a range with fewer than three of these ticks, returns ticks at equal distances.
pub fn log_ticks(from: f64, to: f64, count: usize) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let tens = (first..=last).map(|power| 10_f64.powi(power));
    let mut fine: Vec<f64> = tens.clone().flat_map(|ten| [1.0, 2.0, 5.0].map(|factor| factor * ten)).collect();
    let mut tens: Vec<f64> = tens.collect();
    for ticks in [&mut fine, &mut tens] {
        ticks.retain(|tick| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(tick));
    }
    if fine.len() < 3 {
        return linear_ticks(from, to, count);
    }
    if fine.len() <= count {
        return fine;
    }
    if tens.len() < 2 {
        return fine.into_iter().step_by(2).collect();
    }
    let every = tens.len().div_ceil(count.max(1));
    tens.into_iter().step_by(every.max(1)).collect()
}

/// Returns the ticks 0 %, 50 %, 90 %, 99 % … as 1 / (1 - q).
pub fn nines_ticks(from: f64, to: f64) -> Vec<f64> {
    let ticks = [1.0, 2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7].into_iter();
    // With many nines, the tick at 50 % does not fit.
    ticks.filter(|tick| (from..=to).contains(tick) && (*tick != 2.0 || to < 1e4)).collect()
}

/// Returns the end of an axis from 0 that includes `largest` and ends on a tick.
pub fn ceiling(largest: f64, count: usize) -> f64 {
    if !(largest.is_finite() && largest > 0.0) {
        return 1.0;
    }
    let step = step(largest, count);
    (largest / step - 1e-9).ceil().max(1.0) * step
}

/// Returns the ends of a logarithmic axis around positive values: 1, 2 or 5 times a power of ten.
pub fn log_range(least: f64, most: f64) -> (f64, f64) {
    let power = 10_f64.powf(least.log10().floor());
    let below = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= least * (1.0 + 1e-9));
    let (from, to) = (below.unwrap_or(1.0) * power, round_up(most));
    if to > from { (from, to) } else { (from, from * 2.0) }
}
