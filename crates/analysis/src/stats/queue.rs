//! Response times of a queue in front of one server with random arrivals and a constant service
//! time (M/D/1). Theory gives the long run. Simulation of many loads in virtual time gives the
//! range for a load of limited length (D. V. Lindley, "The theory of queues with a single server",
//! Mathematical Proceedings of the Cambridge Philosophical Society 48, 1952).

use fastrand::Rng;

/// Number of simulated loads. Another load falls outside the range of the simulated loads with a
/// chance of 2 in this number. Unit tests, which are built without optimization, simulate fewer.
const LOADS: usize = if cfg!(test) { 100 } else { 2_000 };

/// Smallest and largest readings of a perfect instrument over many loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueueRange {
    /// Requests served in the measured part.
    pub served: [f64; 2],
    /// Mean response time, seconds.
    pub mean_s: [f64; 2],
    /// Median response time, seconds.
    pub p50_s: [f64; 2],
    /// 99 % quantile of response time, seconds.
    pub p99_s: [f64; 2],
}

/// Simulates loads of this rate on a server with this service time. The server begins empty, and
/// requests that end between `from_s` and `until_s` are measured.
pub(crate) fn fixed_service(rate_per_s: f64, service_s: f64, [from_s, until_s]: [f64; 2]) -> QueueRange {
    let mut random = Rng::with_seed(1);
    let nothing = [f64::INFINITY, f64::NEG_INFINITY];
    let mut range = QueueRange { served: nothing, mean_s: nothing, p50_s: nothing, p99_s: nothing };
    let mut times_s: Vec<f64> = Vec::new();
    for _ in 0..LOADS {
        times_s.clear();
        let (mut at_s, mut free_s) = (0.0, 0.0);
        loop {
            at_s -= (1.0 - random.f64()).ln() / rate_per_s;
            free_s = f64::max(free_s, at_s) + service_s;
            if free_s >= until_s {
                break;
            }
            if free_s >= from_s {
                times_s.push(free_s - at_s);
            }
        }
        if times_s.is_empty() {
            continue;
        }
        let count = times_s.len();
        widen(&mut range.served, count as f64);
        widen(&mut range.mean_s, times_s.iter().sum::<f64>() / count as f64);
        widen(&mut range.p50_s, nth(&mut times_s, 0.5));
        widen(&mut range.p99_s, nth(&mut times_s, 0.99));
    }
    range
}

fn nth(times_s: &mut [f64], share: f64) -> f64 {
    let rank = (share * times_s.len() as f64).ceil() as usize;
    *times_s.select_nth_unstable_by(rank.max(1) - 1, f64::total_cmp).1
}

fn widen(range: &mut [f64; 2], value: f64) {
    *range = [range[0].min(value), range[1].max(value)];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F. Pollaczek 1930: the mean wait is `rho / 2 (1 - rho)` services.
    #[test]
    fn the_mean_matches_theory() {
        for rho in [0.3, 0.5, 0.7] {
            let service_s = 0.004;
            let found = fixed_service(rho / service_s, service_s, [1.0, 60.0]);
            let truth_s = service_s * (1.0 + rho / (2.0 * (1.0 - rho)));
            let [low, high] = found.mean_s;
            assert!(low < truth_s && truth_s < high, "{rho}: {truth_s} and {found:?}");
            assert!(high / low < 1.6, "a minute tells the mean: {found:?}");
            let per_s = found.served.map(|count| count / 59.0 * service_s);
            assert!(per_s[0] < rho && rho < per_s[1] && per_s[1] / per_s[0] < 1.4, "{per_s:?}");
        }
    }

    /// A. K. Erlang 1909: 1 in 2 requests finds a half-used server free.
    #[test]
    fn a_free_server_causes_no_wait() {
        let found = fixed_service(100.0, 0.004, [1.0, 30.0]);
        assert!((found.p50_s[0] - 0.004).abs() < 1e-12, "6 in 10 find it free: {found:?}");
        assert!(found.p99_s[0] > 0.008 && found.p99_s[1] < 0.04, "{found:?}");
    }
}
