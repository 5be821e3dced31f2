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
mod tests {
    use super::*;

    fn means(rate: impl Fn(f64) -> f64, loads: &[f64]) -> Vec<Mean> {
        loads.iter().map(|&load| Mean { load, rate: rate(load), repeats: 1 }).collect()
    }

    const DOUBLED: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    #[test]
    fn a_level_of_eight_halves_the_share_of_sixteen_and_is_four_fifths_at_ten() {
        // X = 100 min(N, 8): per unit 100 up to 8, then 800 / N, which is 80 at 10.
        let found = flat_until(&means(|load| 100.0 * load.min(8.0), &DOUBLED));
        assert!((found.unwrap_or(0.0) - 10.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_sharp_corner_between_two_loads_is_found_an_eighth_too_early_at_most() {
        // Four fifths are reached at 1.25 times the corner.
        for corner in [4.5, 5.0, 6.0, 7.0, 7.9] {
            let found = flat_until(&means(|load| load.min(corner), &DOUBLED)).unwrap_or(0.0) / (1.25 * corner);
            assert!((0.875..1.0001).contains(&found), "{corner}: {found}");
        }
    }

    #[test]
    fn what_never_falls_is_flat_beyond_the_sweep() {
        assert_eq!(flat_until(&means(|load| 7.0 * load, &DOUBLED)), Some(f64::INFINITY));
    }

    #[test]
    fn what_stops_altogether_was_flat_until_the_load_before() {
        let found = flat_until(&means(|load| if load > 4.0 { 0.0 } else { load }, &DOUBLED));
        assert!((found.unwrap_or(0.0) - 4.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_load_or_no_throughput_says_nothing() {
        assert_eq!(flat_until(&means(|load| load, &[1.0])), None);
        assert_eq!(flat_until(&means(|_| 0.0, &DOUBLED)), None);
    }
}
