//! The knee of a curve: the load from which more load no longer pays. It is Kleinrock's saturation
//! point (Queueing Systems II, 1976, section 4.12), where the two asymptotic bounds of throughput
//! meet (Lazowska, Zahorjan, Graham and Sevcik, Quantitative System Performance, 1984, chapter 5):
//! the line of light load, on which no operation waits for another, and the plateau, on which the
//! busiest resource is never idle.

use super::curve::{LoadMean, RepeatSpread};

/// Fewest loads that can show a line and a plateau.
pub(crate) const LEAST_LOADS: usize = 3;

/// Largest distance, as a share, at which a load counts as on the line or on the plateau. Repeats
/// that differ by more widen this distance up to `WIDEST`; beyond, a curve that still rises would
/// pass for level.
const TOLERANCE: f64 = 0.05;
const WIDEST: f64 = 0.15;

/// Standard errors between the highest and the lowest of about five equal means that chance exceeds
/// in 1 of 20 cases: Tukey's studentized range.
const RANGE: f64 = 3.7;

/// Division of the loads into line and plateau.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KneeSplit {
    /// Number of loads on the line, from the lightest load on.
    light: usize,
    /// Indices of the loads on the plateau.
    plateau: Vec<usize>,
}

impl KneeSplit {
    /// Finds line and plateau. Returns `None` with fewer than [`LEAST_LOADS`] loads, or if the
    /// curve does not bend within them: throughput still rises at the highest load, or is still on
    /// the line there.
    pub(crate) fn of(means: &[LoadMean], spread: Option<RepeatSpread>) -> Option<Self> {
        let best = peak(means).filter(|_| means.len() >= LEAST_LOADS)?;
        let nearly: Vec<f64> =
            means.iter().map(|mean| 1.0 - by_chance(mean, spread).clamp(TOLERANCE, WIDEST)).collect();
        let (mut light, mut steepest) = (0, 0.0_f64);
        for (mean, nearly) in means.iter().zip(&nearly) {
            steepest = steepest.max(mean.per_load());
            if mean.per_load() < nearly * steepest {
                break;
            }
            light += 1;
        }
        let plateau = (0..means.len()).filter(|&index| means[index].rate >= nearly[index] * means[best].rate);
        let bend = Self { light, plateau: plateau.collect() };
        let last = means.len() - 1;
        let rises = bend.plateau == [last];
        let within = bend.knee(means)? <= (1.0 - TOLERANCE) * means[last].load;
        (!rises && within).then_some(bend)
    }

    /// Returns the load at which line and plateau meet.
    pub(crate) fn knee(&self, means: &[LoadMean]) -> Option<f64> {
        let light = means.get(..self.light)?;
        // Least squares through the origin, because a load of zero has no throughput.
        let rates: f64 = light.iter().map(|mean| mean.rate * mean.load).sum();
        let loads: f64 = light.iter().map(|mean| mean.load * mean.load).sum();
        let plateau: f64 = self.plateau.iter().filter_map(|&index| means.get(index)).map(|mean| mean.rate).sum();
        let knee = plateau / self.plateau.len() as f64 / (rates / loads);
        (rates > 0.0 && knee.is_finite()).then_some(knee)
    }
}

/// Returns the mean throughput of the loads that differ from the best by no more than chance: the
/// highest of several equal loads is too high by chance. The limit is the same as on a plateau.
/// Without a spread only the best load counts.
pub(crate) fn peak_rate(means: &[LoadMean], spread: Option<RepeatSpread>) -> Option<f64> {
    let best = means[peak(means)?];
    let equal = means.iter().filter(|mean| mean.rate >= (1.0 - by_chance(mean, spread).min(WIDEST)) * best.rate);
    let (sum, count) = equal.fold((0.0, 0.0), |(sum, count), mean| (sum + mean.rate, count + 1.0));
    Some(sum / count)
}

/// Returns how far the highest of a few equal means may exceed this one by chance, as a share.
fn by_chance(mean: &LoadMean, spread: Option<RepeatSpread>) -> f64 {
    spread.map_or(0.0, |spread| RANGE * spread.relative / (mean.repeats as f64).sqrt())
}

/// Returns the index of the highest mean (the lowest load, if equal), or `None` if no load has
/// throughput.
pub(crate) fn peak(means: &[LoadMean]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, mean) in means.iter().enumerate() {
        if mean.rate > best.map_or(0.0, |best| means[best].rate) {
            best = Some(index);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::normal;

    const DOUBLING: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn curve(loads: &[f64], rate: impl Fn(f64) -> f64) -> Vec<LoadMean> {
        loads.iter().map(|&load| LoadMean { load, rate: rate(load), repeats: 1 }).collect()
    }

    fn knee(means: &[LoadMean], spread: Option<RepeatSpread>) -> Option<f64> {
        KneeSplit::of(means, spread)?.knee(means)
    }

    /// Throughput of N agents that think for `think_s` and are served by one of several servers in
    /// `service_s`, both exponential: the machine repairman model, solved by its balance equations
    /// (Lazowska et al., 1984, section 8; Kleinrock I, 1975, section 3.8).
    fn repairman(agents: f64, servers: f64, think_s: f64, service_s: f64) -> f64 {
        let (mut weight, mut all, mut served) = (1.0, 1.0, 0.0);
        for here in 1..=agents as u32 {
            let here = f64::from(here);
            weight *= (agents - here + 1.0) / think_s * service_s / here.min(servers);
            all += weight;
            served += weight * here.min(servers) / service_s;
        }
        served / all
    }

    fn within(found: Option<f64>, wanted: f64, share: f64) -> bool {
        found.is_some_and(|found| (found / wanted - 1.0).abs() <= share)
    }

    #[test]
    fn agents_without_thinking_saturate_at_the_server_count() {
        for servers in [1.0_f64, 3.0, 4.0, 12.0, 40.0] {
            let found = knee(&curve(&DOUBLING, |agents| agents.min(servers) / 0.01), None);
            assert!(within(found, servers, 1e-9), "{servers} servers: {found:?}");
        }
    }

    #[test]
    fn one_server_with_thinking_agents_saturates_at_the_ratio_of_times() {
        // N* = (Z + S) / S.
        for think_s in [0.03, 0.1, 0.3] {
            let found = knee(&curve(&DOUBLING, |agents| repairman(agents, 1.0, think_s, 0.01)), None);
            assert!(within(found, (think_s + 0.01) / 0.01, 0.06), "{think_s}: {found:?}");
        }
    }

    #[test]
    fn several_servers_saturate_in_proportion() {
        for servers in [2.0, 4.0, 8.0] {
            let found = knee(&curve(&DOUBLING, |agents| repairman(agents, servers, 0.03, 0.01)), None);
            assert!(within(found, servers * 4.0, 0.06), "{servers} servers: {found:?}");
        }
    }

    #[test]
    fn an_offered_rate_saturates_at_the_capacity() {
        let rates: Vec<f64> = (1..=12).map(|step| f64::from(step) * 500.0).collect();
        assert!(within(knee(&curve(&rates, |rate| rate.min(4_200.0)), None), 4_200.0, 0.01));
    }

    #[test]
    fn a_collapsing_curve_has_its_knee_before_the_collapse() {
        let found = knee(&curve(&DOUBLING, |n| if n <= 8.0 { n } else { 8.0 - n / 32.0 }), None);
        assert!(within(found, 8.0, 0.05), "{found:?}");
    }

    #[test]
    fn a_slow_first_agent_does_not_set_the_line() {
        let found = knee(&curve(&DOUBLING, |n| if n == 1.0 { 70.0 } else { 100.0 * n.min(16.0) }), None);
        assert!(within(found, 16.0, 0.02), "{found:?}");
    }

    #[test]
    fn a_curve_without_a_bend_has_no_knee() {
        assert_eq!(knee(&curve(&DOUBLING, |n| n), None), None, "linear");
        assert_eq!(knee(&curve(&DOUBLING, |n| n.powf(0.8)), None), None, "still rising at the highest load");
        let close: Vec<f64> = (60..70).map(f64::from).collect();
        assert_eq!(knee(&curve(&close, |n| n), None), None, "linear, with loads so close that they look level");
        assert_eq!(knee(&curve(&[1.0, 2.0], |_| 1.0), None), None, "two loads");
        let noisy = Some(RepeatSpread { relative: 0.3, degrees: 7 });
        assert_eq!(knee(&curve(&DOUBLING, |n| n.powf(0.5)), noisy), None, "noise does not make a rising curve level");
        assert_eq!(knee(&curve(&DOUBLING, |_| 0.0), None), None, "nothing gets through");
    }

    /// The plateau is the mean of the loads that cannot be told from the peak. The highest of many
    /// noisy loads alone would be too high.
    #[test]
    fn a_noisy_plateau_does_not_push_the_knee_up() {
        let mut random = fastrand::Rng::with_seed(7);
        let noise = 0.06;
        let spread = Some(RepeatSpread { relative: noise, degrees: 16 });
        let mut found = Vec::new();
        for _ in 0..200 {
            let mut means = curve(&DOUBLING, |n| 100.0 * n.min(4.0));
            for mean in &mut means {
                mean.rate *= 1.0 + noise / 3_f64.sqrt() * normal(&mut random);
                mean.repeats = 3;
            }
            found.push(knee(&means, spread).unwrap());
        }
        found.sort_by(f64::total_cmp);
        assert!((found[100] / 4.0 - 1.0).abs() < 0.02, "the median is {}", found[100]);
        assert!(found[10] > 3.6 && found[189] < 4.4, "nine of ten are within {} and {}", found[10], found[189]);
    }

    #[test]
    fn the_peak_is_the_lowest_of_equal_loads() {
        assert_eq!(peak(&curve(&DOUBLING, |n| n.min(4.0))), Some(2));
        assert_eq!(peak(&curve(&DOUBLING, |_| 0.0)), None);
        assert_eq!(peak(&[]), None);
    }
}
