//! Delay of operations by other processes and the hypervisor, and how far it can have changed their
//! figures.
//!
//! A thread that could run but does not, because others run, delays the operations that wait for
//! it. Summed over threads and divided by the rate, this is the mean delay of an operation.
//! Operations queued behind it wait too: the delay of a thread that runs or waits to run for the
//! share `u` of its time reaches `1 / (1 − u)` operations (the sensitivity of a queue's wait to its
//! service time), but no more than are in flight. In a closed loop, throughput falls by the share
//! of the mean delay in an agent's cycle (Little's law). A virtual host that its own CPU quota
//! stops does not wait for other processes: they delay its threads by no more than the unused part
//! of the quota.
//!
//! **Quantiles.** A thread waits for the time slice of another thread, so few operations are
//! delayed, by milliseconds each. Let a share `s` of them be delayed by `d`, independently of their
//! other latency, with `s × d` the mean delay. Then `G(t) = (1 − s) F(t) + s F(t − d)` for the
//! distributions `G` as measured and `F` without delay. The equation is solved for `F` from its low
//! end (deconvolution with a distribution of two points); `F(t)` is at most `G(t + d)`. The effect
//! is the largest over slices `d` from 2 ms to the lateness of the generator's own timers, at least
//! 4 ms.

use experiment::plan;
use hdrhistogram::Histogram;
use record::results::{DelayEffect, Trial};
use record::rows::THIS_MACHINE;

use crate::operations::LoadLog;
use crate::sampled::{HostSums, Sampled};
use crate::stats::quantiles::largest;

/// Assumed lengths of another thread's time slice, nanoseconds. Slices after the first
/// [`COMMON_SLICES`] are used only up to the lateness of the generator's timers.
const SLICES_NS: [u64; 6] = [2_000_000, 4_000_000, 8_000_000, 16_000_000, 32_000_000, 64_000_000];
const COMMON_SLICES: usize = 2;

/// Largest share of delayed operations for which the equation is solved: from a half on, errors of
/// `F` do not decay from slice to slice. If more operations are delayed, all count as delayed by
/// the mean.
const LARGEST_SHARE: f64 = 1.0 / 3.0;

/// Smallest number of operations that a delay reaches: an operation in a queue is delayed together
/// with at least one other.
const QUEUED: f64 = 2.0;

/// CPU use from which a host has no idle time, percent. A closed loop then loses all of the delayed
/// time, because CPU time is the limit.
const FULL_PCT: f64 = 95.0;

/// Largest run delay of a single thread, percent.
const ONE_THREAD_PCT: f64 = 100.0;

/// Share of the due operations that must end for a load to count as carried in full.
const AS_ASKED: f64 = 0.99;

/// Returns the delay by other processes and its effect, or `None` if their CPU time is unknown or
/// no operation ended.
pub(crate) fn delay_effect(
    load: &plan::Load,
    trial: &Trial,
    log: &LoadLog,
    sampled: &Sampled,
    threads: u32,
    due: Option<(u64, u64)>,
) -> Option<DelayEffect> {
    let per_s = trial.throughput.operations_per_s.filter(|per_s| *per_s > 0.0)?;
    let stolen = stolen_share(sampled);
    let generator_pct = generator_pct(trial, threads, stolen);
    let target = target_delay(sampled, stolen);
    if generator_pct.is_none() && target.is_none() {
        return None;
    }
    let in_flight = per_s * trial.latency_us.as_ref()?.mean? / 1e6;
    let busy_pct = trial.generator.cpu_pct.unwrap_or(0.0) + trial.generator.run_delay_pct.unwrap_or(0.0);
    let delays = [generator_pct.map(|pct| (pct, busy_pct)), target.map(|target| (target.delay_pct, target.busy_pct))];
    let [of_generator, of_target] = delays.map(|delay| {
        let Some((delay_pct, busy_pct)) = delay else { return 0.0 };
        let idle = (1.0 - busy_pct / 100.0).max(0.01);
        delay_pct / 100.0 * (1.0 / idle).max(QUEUED).min(in_flight).max(1.0)
    });
    let operation_s = (of_generator + of_target) / per_s;
    let throughput_pct = match due {
        Some((due, ended)) if ended as f64 >= AS_ASKED * due as f64 => 0.0,
        Some((due, ended)) => {
            let lost_pct = generator_pct.unwrap_or(0.0) + target.map_or(0.0, |target| target.delay_pct);
            lost_pct.min(100.0 * (1.0 - ended as f64 / due as f64))
        }
        None => {
            let is_full = sampled.hosts.iter().any(|host| host.busy_pct.value().is_some_and(|pct| pct >= FULL_PCT));
            let lost = match is_full {
                true => [generator_pct, target.map(|target| target.longest_pct)].map(|pct| pct.unwrap_or(0.0) / 100.0),
                false => [of_generator, of_target].map(|reached| reached / load.mean_agents().max(1.0)),
            };
            let [by_generator, by_target] = lost.map(|lost| 1.0 - lost.min(1.0));
            100.0 * (1.0 - by_generator * by_target)
        }
    };
    let latency = log.ok_latency();
    let late_ns = trial.generator.late_us_p99.unwrap_or(f64::INFINITY) * 1e3;
    let longer = SLICES_NS[COMMON_SLICES..].iter().take_while(|slice_ns| **slice_ns as f64 <= late_ns).count();
    let slices_ns = &SLICES_NS[..COMMON_SLICES + longer];
    let measured = latency.as_ref().map(Distribution::of);
    let own = trial.latency_us.as_ref()?;
    let quantiles = [(0.5, own.p50), (0.9, own.p90), (0.95, own.p95), (0.99, own.p99), (0.999, own.p999)];
    let [p50_pct, p90_pct, p95_pct, p99_pct, p999_pct] = quantiles.map(|(q, quantile)| {
        let measured = measured.as_ref().filter(|_| quantile.is_some())?;
        Some(measured.risen_pct(q, operation_s * 1e9, slices_ns))
    });
    Some(DelayEffect {
        generator_pct,
        target_pct: target.map(|target| target.delay_pct),
        operation_us: operation_s * 1e6,
        throughput_pct,
        p50_pct,
        p90_pct,
        p95_pct,
        p99_pct,
        // The p99 of timer lateness misses the rarest delays, so p99.9 counts as risen by at least
        // as much as p99.
        p999_pct: p999_pct.map(|pct| pct.max(p99_pct.unwrap_or(0.0))),
    })
}

/// Returns the time for which other processes prevented the generator's threads from running,
/// percent, summed over threads. Without run delay, their CPU time is used.
fn generator_pct(trial: &Trial, threads: u32, stolen: f64) -> Option<f64> {
    let generator = &trial.generator;
    let waited_pct = match (generator.preempted_pct, generator.run_delay_pct) {
        (Some(pct), _) => pct,
        (None, None) => trial.machine.strangers_cpu_pct?,
        (None, Some(_)) => return None,
    };
    Some(f64::from(threads) * (waited_pct + stolen * generator.cpu_pct.unwrap_or(0.0)))
}

/// Returns the share of a thread's running time that the hypervisor takes, on the machine with the
/// largest share.
fn stolen_share(sampled: &Sampled) -> f64 {
    let known = sampled.hosts.iter().filter_map(|host| host.steal_pct.value().zip(host.busy_pct.value()));
    let stolen = known.filter(|(steal_pct, _)| *steal_pct > 0.0);
    largest(stolen.map(|(steal_pct, busy_pct)| steal_pct / (steal_pct + busy_pct))).unwrap_or(0.0)
}

/// Time for which other processes prevented the target's threads from running, percent, summed over
/// threads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TargetDelay {
    /// Total over all hosts.
    delay_pct: f64,
    /// Delay on the host where it is largest. A cluster without idle time loses this share of its
    /// capacity, whatever its number of hosts.
    longest_pct: f64,
    /// Time for which the busiest thread ran or waited to run, for any reason.
    busy_pct: f64,
}

/// Returns the target's delay by other processes, or `None` if it is unknown.
fn target_delay(sampled: &Sampled, stolen: f64) -> Option<TargetDelay> {
    let machine = sampled.host(THIS_MACHINE);
    let hosts: Vec<(f64, f64)> =
        sampled.hosts.iter().filter_map(|host| target_delay_on(host, machine, stolen)).collect();
    Some(TargetDelay {
        delay_pct: hosts.iter().map(|(pct, _)| pct).sum(),
        longest_pct: largest(hosts.iter().map(|(pct, _)| *pct))?,
        busy_pct: largest(hosts.iter().map(|(_, busy_pct)| *busy_pct))?,
    })
}

/// Returns the target's delay by other processes on a host, and the time for which its busiest
/// thread ran or waited to run; percent. `machine` runs the virtual hosts.
fn target_delay_on(host: &HostSums, machine: Option<&HostSums>, stolen: f64) -> Option<(f64, f64)> {
    let own_busy_pct = host.target_busy_pct()?;
    let (strangers_pct, others_pct) = match (host.strangers_pct.value(), machine) {
        (Some(strangers_pct), _) => (strangers_pct, host.busy_pct.value()? - own_busy_pct),
        (None, Some(machine)) => (machine.strangers_pct.value()?, machine.busy_pct.value()?),
        (None, None) => return None,
    };
    // A waiting thread's core is either stopped by the host's own quota, or in use.
    let throttled = host.throttled_pct.value().unwrap_or(0.0) / 100.0;
    let stopped_pct = 100.0 * throttled + (1.0 - throttled) * others_pct;
    let share = if stopped_pct > 0.0 { ((1.0 - throttled) * strangers_pct / stopped_pct).clamp(0.0, 1.0) } else { 0.0 };
    let busiest_pct = host.busiest_thread_pct().unwrap_or(0.0);
    let run_delay_pct = host.target_run_delay_pct();
    let waited_pct = match run_delay_pct {
        // The threads also wait for each other. Other processes lower their capacity by no more
        // than their own share of CPU time.
        Some(pct) if pct > ONE_THREAD_PCT && host.strangers_pct.value().is_some() => {
            (pct * share).min(100.0 * strangers_pct / (strangers_pct + own_busy_pct).max(f64::EPSILON))
        }
        // On a host that its quota stops, other processes can have taken no more than the unused
        // part of the quota.
        Some(pct) if throttled > 0.0 => (pct * share).min(100.0 - host.busy_pct.value()?.min(100.0)),
        Some(pct) => pct * share,
        None => strangers_pct,
    };
    Some((waited_pct + stolen * busiest_pct, busiest_pct + run_delay_pct.unwrap_or(0.0)))
}

/// Distribution of latencies, by the buckets of a histogram.
struct Distribution<'a> {
    times: &'a Histogram<u64>,
    /// Upper end of each bucket, nanoseconds, and the share of latencies up to this end.
    steps: Vec<(u64, f64)>,
}

impl<'a> Distribution<'a> {
    fn of(times: &'a Histogram<u64>) -> Self {
        let (all, mut below) = (times.len() as f64, 0);
        let steps = times.iter_recorded().map(|bucket| {
            below += bucket.count_at_value();
            (bucket.value_iterated_to(), below as f64 / all)
        });
        Self { times, steps: steps.collect() }
    }

    /// Returns the percentage by which a quantile can have risen because of a mean delay.
    fn risen_pct(&self, q: f64, delay_ns: f64, slices_ns: &[u64]) -> f64 {
        let quantile_ns = self.times.value_at_quantile(q) as f64;
        let shares = slices_ns.iter().map(|slice_ns| (delay_ns / *slice_ns as f64, *slice_ns));
        let solvable = shares.filter(|(share, _)| *share <= LARGEST_SHARE);
        let solved = solvable.map(|(share, slice_ns)| self.quantile_without(q, share, slice_ns) as f64);
        let without_ns = solved.reduce(f64::min).unwrap_or(quantile_ns - delay_ns).clamp(0.0, quantile_ns);
        if quantile_ns > 0.0 { 100.0 * (quantile_ns - without_ns) / quantile_ns } else { 0.0 }
    }

    /// Returns the share of latencies up to `time_ns`.
    fn share(&self, time_ns: u64) -> f64 {
        let above = self.steps.partition_point(|(step_ns, _)| *step_ns <= time_ns);
        above.checked_sub(1).and_then(|last| self.steps.get(last)).map_or(0.0, |(_, share)| *share)
    }

    /// Returns the quantile as it was before the share `share` of latencies was delayed by one
    /// slice.
    fn quantile_without(&self, q: f64, share: f64, slice_ns: u64) -> u64 {
        let first = self.steps.partition_point(|(time_ns, _)| self.share_without(*time_ns, share, slice_ns) < q);
        self.steps.get(first).map_or(0, |(time_ns, _)| *time_ns)
    }

    /// Returns the share of latencies up to `time_ns` before such a delay.
    fn share_without(&self, time_ns: u64, share: f64, slice_ns: u64) -> f64 {
        let (mut factor, mut sum, mut at_ns) = (1.0 / (1.0 - share), 0.0, Some(time_ns));
        while let Some(now_ns) = at_ns.filter(|_| factor.abs() > 1e-6) {
            sum += factor * self.share(now_ns);
            factor *= -share / (1.0 - share);
            at_ns = now_ns.checked_sub(slice_ns);
        }
        // A delay lengthens a latency by no more than one slice.
        sum.min(self.share(time_ns.saturating_add(slice_ns)))
    }
}

#[cfg(test)]
mod tests {
    use record::results::{Generator, Quantiles, Throughput};
    use record::rows::Sample;

    use super::*;
    use crate::synthetic;

    fn risen_pct(times: &Histogram<u64>, q: f64, delay_ns: f64, slices_ns: &[u64]) -> f64 {
        Distribution::of(times).risen_pct(q, delay_ns, slices_ns)
    }

    fn times(of: impl Iterator<Item = f64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        of.for_each(|ms| histogram.record((ms * 1e6) as u64).unwrap());
        histogram
    }

    /// Times of 1 ms plus an exponential tail of 10 ms. A share of them is longer by `more_ms`.
    fn exponential(share: f64, more_ms: f64) -> Histogram<u64> {
        let mut random = fastrand::Rng::with_seed(7);
        times((0..40_000).map(|_| {
            let own = 1.0 - 10.0 * (1.0 - random.f64()).ln();
            own + if random.f64() < share { more_ms } else { 0.0 }
        }))
    }

    #[test]
    fn the_bound_covers_the_rise_of_a_quantile() {
        for (share, more_ms) in [(0.05, 4.0), (0.02, 16.0), (0.2, 2.0), (0.3, 8.0)] {
            let (without, with) = (exponential(0.0, 0.0), exponential(share, more_ms));
            for q in [0.5, 0.9, 0.99] {
                let [without, delayed] = [&without, &with].map(|times| times.value_at_quantile(q) as f64);
                let risen = 100.0 * (delayed - without) / delayed;
                let at_most = risen_pct(&with, q, share * more_ms * 1e6, &SLICES_NS);
                assert!(risen <= at_most + 1.5, "{share} {more_ms} ms, {q}: {risen} % of at most {at_most} %");
            }
        }
        assert_eq!(risen_pct(&exponential(0.0, 0.0), 0.99, 0.0, &SLICES_NS), 0.0);
    }

    #[test]
    fn a_tail_far_beyond_the_delays_does_not_move() {
        let stalled = times((0..1_000).map(|number| if number < 900 { 10.0 } else { 1_300.0 }));
        assert!(risen_pct(&stalled, 0.99, 0.5e6, &SLICES_NS) < 1.0);
        let fast = times((0..1_000).map(|number| 0.5 + f64::from(number) / 1e3));
        assert!(risen_pct(&fast, 0.9, 0.5e6, &SLICES_NS) > 10.0, "a p90 of 1.3 ms suffers from delays of 0.5 ms");
    }

    /// A trial at 1,000/s with 10 agents that wait 10 ms each, and a generator that others delayed
    /// for this part of the time.
    fn delayed(preempted_pct: f64, run_delay_pct: f64) -> Trial {
        Trial {
            throughput: Throughput { operations_per_s: Some(1_000.0), ..Throughput::default() },
            latency_us: Some(Quantiles { p50: Some(10_000.0), mean: Some(10_000.0), ..Quantiles::default() }),
            generator: Generator {
                cpu_pct: Some(10.0),
                run_delay_pct: Some(run_delay_pct),
                preempted_pct: Some(preempted_pct),
                ..Generator::default()
            },
            ..Trial::default()
        }
    }

    fn effect(trial: &Trial, due: Option<(u64, u64)>) -> Option<DelayEffect> {
        delay_effect(&synthetic::load(10, 20.0), trial, &LoadLog::default(), &Sampled::default(), 1, due)
    }

    #[test]
    fn only_waiting_agents_and_missed_rates_lose_throughput() {
        // Two operations wait for a mostly idle thread: 2 × 20 ms in each second. All ten wait for
        // a thread without time left.
        for (run_delay_pct, due, throughput_pct) in [
            (2.0, None, 0.4),
            (90.0, None, 2.0),
            (70.0, None, 1.0),
            (2.0, Some((20_000, 19_800)), 0.0),
            (2.0, Some((20_000, 19_700)), 1.5),
            (2.0, Some((20_000, 10_000)), 2.0),
        ] {
            let found = effect(&delayed(2.0, run_delay_pct), due).unwrap();
            assert!((found.throughput_pct - throughput_pct).abs() < 1e-9, "{found:?}");
            assert!(run_delay_pct > 2.0 || (found.operation_us - 40.0).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn agents_on_a_full_machine_lose_the_whole_delay() {
        for (user_pct, lost_pct) in [(94.0, 1.0), (95.0, 7.0)] {
            let mut sampled = Sampled::over(0.0, 10.0);
            sampled.add(&Sample { cpu_user_pct: Some(user_pct), ..sample("n1", "", 0.0) });
            let log = LoadLog::default();
            let found = delay_effect(&synthetic::load(10, 20.0), &delayed(7.0, 7.0), &log, &sampled, 1, None);
            assert_eq!(found.unwrap().throughput_pct.round(), lost_pct);
        }
    }

    fn sample(host: &str, process: &str, user_pct: f64) -> Sample {
        Sample {
            at_s: 1.0,
            host: host.to_owned(),
            process: process.to_owned(),
            cpu_user_pct: Some(user_pct),
            cpu_system_pct: Some(0.0),
            ..Sample::default()
        }
    }

    #[test]
    fn delay_of_unknown_origin_has_no_effect() {
        let mut trial = delayed(2.0, 2.0);
        trial.generator.preempted_pct = None;
        assert_eq!(effect(&trial, None), None, "whose it was is not known");
        trial.generator.run_delay_pct = None;
        assert_eq!(effect(&trial, None), None);
        trial.machine.strangers_cpu_pct = Some(7.0);
        assert_eq!(effect(&trial, None).and_then(|effect| effect.generator_pct), Some(7.0), "as much as they used");
    }

    #[test]
    fn the_targets_delay_counts_the_share_of_other_processes() {
        assert_eq!(target_delay(&Sampled::over(0.0, 10.0), 0.0), None);
        for (strangers_pct, run_delay_pct, delay_pct) in [
            // Others ran for 40 %, strangers for a quarter of that.
            (10.0, 8.0, 2.0),
            (0.0, 8.0, 0.0),
            // Never more than there was.
            (80.0, 8.0, 8.0),
            (5.0, 96.0, 12.0),
            // 64 threads wait for each other: of 25 % that ran, a fifth was not theirs.
            (5.0, 480.0, 20.0),
        ] {
            let mut sampled = Sampled::over(0.0, 10.0);
            sampled.add(&Sample { cpu_strangers_pct: Some(strangers_pct), ..sample("n1", "", 60.0) });
            let server = sample("n1", "server", 20.0);
            sampled.add(&Sample { run_delay_pct: Some(run_delay_pct), busiest_thread_pct: Some(40.0), ..server });
            let target = target_delay(&sampled, 0.0).unwrap();
            assert_eq!((target.delay_pct, target.busy_pct), (delay_pct, 40.0 + run_delay_pct));
        }
    }

    #[test]
    fn throttling_is_not_delay_by_other_processes() {
        for (busy_pct, throttled_pct, delay_pct) in [
            (90.0, None, 40.0),
            (90.0, Some(75.0), 400.0 * (0.25 * 3.0) / (75.0 + 0.25 * 30.0)),
            (99.5, Some(75.0), 0.5),
        ] {
            let mut sampled = Sampled::over(0.0, 10.0);
            sampled.add(&Sample { cpu_strangers_pct: Some(3.0), ..sample(THIS_MACHINE, "", 30.0) });
            for host in ["pi1", "pi2"] {
                sampled.add(&Sample { cpu_throttled_pct: throttled_pct, ..sample(host, "", busy_pct) });
                sampled.add(&Sample { run_delay_pct: Some(400.0), ..sample(host, "member", busy_pct) });
            }
            let target = target_delay(&sampled, 0.0).unwrap();
            assert_eq!(target.delay_pct, 2.0 * target.longest_pct, "two hosts");
            assert!((target.longest_pct - delay_pct).abs() < 1e-9, "{target:?} and not {delay_pct}");
        }
    }

    #[test]
    fn steal_is_a_share_of_running_time() {
        for (steal_pct, user_pct, share) in [(0.0, 0.0, 0.0), (2.0, 8.0, 0.2)] {
            let mut sampled = Sampled::over(0.0, 10.0);
            sampled.add(&Sample { cpu_steal_pct: Some(steal_pct), ..sample("n1", "", user_pct) });
            assert_eq!(stolen_share(&sampled), share);
        }
    }
}
