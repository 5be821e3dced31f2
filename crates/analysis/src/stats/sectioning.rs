//! Confidence interval of a figure of a time series. The series is cut into ten batches, and the
//! spread of the batches' figures gives the standard error (sectioning; B. Schmeiser, "Batch size
//! effects in the analysis of simulation output", Operations Research 30, 1982).
//!
//! If each batch resembles the previous one, the error grows like that of the mean of an
//! autoregressive series, by `(1 + ρ) / (1 − ρ)`. The estimated autocorrelation of ten values is
//! too low on average, by `(1 + 4ρ) / 10` (F. H. C. Marriott and J. A. Pope, "Bias in the
//! estimation of autocorrelations", Biometrika 41, 1954), which is corrected. Batches that resemble
//! each other also show less of their own spread: Student's t has `9 (1 − ρ) / (1 + ρ)` degrees of
//! freedom, at least one. A variance that is estimated from few correlated observations needs
//! larger critical values than its limit (E. Lazarus, D. J. Lewis, J. H. Stock and M. W. Watson,
//! "HAR inference", Journal of Business and Economic Statistics 36, 2018). The interval from five
//! batches twice as long is used if it is wider.

use super::quantiles::mean;
use super::student::quantile_of_t;

pub(crate) const BATCHES: usize = 10;

/// Shortest time that has an interval, seconds: batches of less than a second resemble each other
/// more than ten values can show.
pub(crate) const SHORTEST_S: f64 = 10.0;

/// Largest autocorrelation of batches that is assumed. It leaves one degree of freedom.
const MOST_ALIKE: f64 = 0.8;

/// Returns the 95 % interval of the long-run mean of a series, from this series alone. Returns
/// `None` if a batch would be empty.
pub(crate) fn mean_ci95(series: &[f64]) -> Option<[f64; 2]> {
    let centre = mean(series).filter(|_| series.len() >= BATCHES)?;
    let [ten, five] = [BATCHES, BATCHES / 2]
        .map(|count| batches(series, count).filter_map(mean).map(|mean| mean - centre).collect::<Vec<f64>>());
    let half = half_width(&ten, &five)?;
    Some([centre - half, centre + half])
}

/// Cuts a series into this many parts whose lengths differ by at most one.
pub(crate) fn batches<T>(series: &[T], count: usize) -> impl Iterator<Item = &[T]> {
    (0..count).map(move |batch| &series[batch * series.len() / count..(batch + 1) * series.len() / count])
}

/// Returns half of the 95 % interval of a figure. The input is the deviation of each batch's figure
/// from that of the whole, in time order: for ten batches, and for five batches twice as long.
pub(crate) fn half_width(ten: &[f64], five: &[f64]) -> Option<f64> {
    let alike = autocorrelation(ten);
    let inflation = (1.0 + alike) / (1.0 - alike);
    let freedom = ((ten.len() as f64 - 1.0) / inflation).max(1.0);
    let of_ten = quantile_of_t(0.975, freedom)? * standard_error(ten) * inflation.sqrt();
    let of_five = quantile_of_t(0.975, five.len() as f64 - 1.0)? * standard_error(five);
    Some(of_ten.max(of_five))
}

fn standard_error(deviations: &[f64]) -> f64 {
    let count = deviations.len() as f64;
    let squares: f64 = deviations.iter().map(|off| off * off).sum();
    (squares / (count * (count - 1.0))).sqrt()
}

/// Returns the autocorrelation of neighbours, from 0 to [`MOST_ALIKE`].
fn autocorrelation(deviations: &[f64]) -> f64 {
    let squares: f64 = deviations.iter().map(|off| off * off).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let count = deviations.len() as f64;
    let found = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
    ((count * found + 1.0) / (count - 4.0)).clamp(0.0, MOST_ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    /// Share of 150 series whose interval contains the true mean, 0.
    fn coverage(count: usize, phi: f64, spread: impl Fn(usize) -> f64) -> f64 {
        let mut random = fastrand::Rng::with_seed(20);
        let mut held = 0;
        for _ in 0..150 {
            let noise = autoregressive(&mut random, count, phi);
            let series: Vec<f64> = noise.iter().enumerate().map(|(at, value)| value * spread(at)).collect();
            let [low, high] = mean_ci95(&series).unwrap();
            held += u32::from(low <= 0.0 && 0.0 <= high);
        }
        f64::from(held) / 150.0
    }

    /// Series of 10 and 30 s in bins of 100 ms. In 150 series a share of 0.93 has a standard error
    /// of 0.02.
    #[test]
    fn intervals_of_short_correlated_series_contain_the_mean() {
        for (count, phi) in [(100, 0.0), (100, 0.8), (100, 0.95), (300, 0.95)] {
            let covered = coverage(count, phi, |_| 1.0);
            println!("{count} bins, φ = {phi}: {covered}");
            assert!((0.88..=0.995).contains(&covered), "{count} bins, φ = {phi}: {covered}");
        }
        let uneven = coverage(300, 0.5, |at| if (at / 30) % 2 == 0 { 0.01 } else { 0.08 });
        assert!((0.9..=0.995).contains(&uneven), "unequal spread: {uneven}");
    }

    #[test]
    fn constant_series_are_exact_and_short_series_unknown() {
        assert_eq!(mean_ci95(&[7.0; 50]), Some([7.0, 7.0]));
        assert_eq!(mean_ci95(&[7.0; 9]), None);
        assert_eq!(mean_ci95(&[]), None);
    }

    #[test]
    fn correlated_batches_leave_one_degree_of_freedom() {
        let rising: Vec<f64> = (0..10).map(|batch| f64::from(batch) - 4.5).collect();
        // Standard error of ten: √(82.5 / 90); inflation of ρ = 0.8: 3; the 97.5 % quantile of t
        // with one degree of freedom: 12.706.
        let half = half_width(&rising, &[-4.0, -2.0, 0.0, 2.0, 4.0]).unwrap();
        assert!((half / (12.706 * 3.0 * (82.5_f64 / 90.0).sqrt()) - 1.0).abs() < 1e-3, "{half}");
    }

    #[test]
    fn autocorrelation_is_corrected_and_the_wider_interval_counts() {
        // ρ = 0.3, corrected 4 / 6: inflation 5, and 1.8 degrees of freedom.
        let ten = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0];
        let half = half_width(&ten, &[0.0; 5]).unwrap();
        assert!((half / 3.5739 - 1.0).abs() < 1e-3, "{half}");
        let five = [4.0, -4.0, 4.0, -4.0, 0.0].map(|off| 2.0 * off);
        let half = half_width(&ten, &five).unwrap();
        assert!((half / (2.776 * (256.0_f64 / 20.0).sqrt()) - 1.0).abs() < 1e-3, "{half}");
    }
}
