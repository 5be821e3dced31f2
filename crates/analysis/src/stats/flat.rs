//! Up to which load each unit of it gets as much done as at the lightest: where throughput per agent, or per host, begins to fall. It must
//! not know what the load is, nor resample.
//!
//! Between measured loads the logarithm of throughput per unit is taken to change evenly with that of the load: exact on the two
//! asymptotes of a closed system, where it is constant, and where it falls as one over the load (Lazowska, Zahorjan, Graham and
//! Sevcik, Quantitative System Performance, 1984, chapter 5). A sharp corner between two loads is cut: with doubled loads it comes out up to
//! an eighth too early.

use super::curve::Mean;

/// Throughput per unit that is at least this share of that at the lightest load is as much.
pub(crate) const AS_MUCH: f64 = 0.8;

/// The highest load at which throughput per unit of load is at least [`AS_MUCH`] of that at the lightest; infinite if it is at the highest
/// measured load. `None` with fewer than two loads, or without throughput at the lightest.
pub(crate) fn flat_until(means: &[Mean]) -> Option<f64> {
    let (first, _) = means.split_first().filter(|(first, rest)| first.rate > 0.0 && !rest.is_empty())?;
    let share = |mean: &Mean| mean.rate / mean.load / (first.rate / first.load);
    let last = means.iter().rposition(|mean| share(mean) >= AS_MUCH)?;
    let Some(next) = means.get(last + 1) else { return Some(f64::INFINITY) };
    let (here, there) = (share(&means[last]), share(next));
    // Where nothing gets through any more, its logarithm is minus infinity, and the way there is 0.
    let way = (here / AS_MUCH).ln() / (here / there).ln();
    Some((means[last].load.ln() + way * (next.load / means[last].load).ln()).exp())
}

#[cfg(test)]
mod tests;
