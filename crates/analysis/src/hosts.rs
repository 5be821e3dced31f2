//! Hosts and the machine over the load, from the samples of each second. It must not fill in what was not sampled.

use record::results::{Host, Machine};
use record::rows::Sample;

use crate::stats::order::{largest, mean};

/// `process` of the generator's own row.
pub(crate) const GENERATOR: &str = "generator";

/// Samples of one moment may lie this far apart.
const SAME_MOMENT_S: f64 = 0.25;

/// The samples whose second lies (for the most part) in the load.
pub(crate) fn during(samples: &[Sample], until_s: f64) -> Vec<&Sample> {
    samples.iter().filter(|sample| (0.5..=until_s + 0.5).contains(&sample.at_s)).collect()
}

/// Every host that was sampled, in the order of its first sample.
pub(crate) fn hosts(samples: &[&Sample]) -> Vec<Host> {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.host.as_str()) {
            names.push(&sample.host);
        }
    }
    names.into_iter().map(|name| host(name, samples)).collect()
}

fn host(name: &str, samples: &[&Sample]) -> Host {
    let of_host: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.host == name).collect();
    let whole: Vec<&Sample> = of_host.iter().copied().filter(|sample| sample.process.is_empty()).collect();
    let target: Vec<&Sample> = of_host.iter().copied().filter(|sample| is_target(sample)).collect();
    let total =
        |value: fn(&Sample) -> Option<u64>| whole.iter().filter_map(|sample| value(sample)).reduce(|a, b| a + b);
    let highest = |value: fn(&Sample) -> Option<f64>| largest(whole.iter().filter_map(|sample| value(sample)));
    Host {
        name: name.to_owned(),
        cpu_pct: mean_of(&whole, busy_pct),
        target_cpu_pct: mean(&sums(&target, busy_pct)),
        throttled_pct: None,
        run_delay_pct: mean_of(&whole, |sample| sample.run_delay_pct)
            .or_else(|| mean(&sums(&target, |sample| sample.run_delay_pct))),
        load1_max: highest(|sample| sample.load1),
        load5_max: highest(|sample| sample.load5),
        load15_max: highest(|sample| sample.load15),
        io_wait_threads: whole.iter().filter_map(|sample| sample.io_wait_threads).max(),
        rss_max_bytes: largest(sums(&target, |sample| sample.rss_bytes.map(|bytes| bytes as f64)))
            .map(|bytes| bytes as u64),
        disk_write_bytes: total(|sample| sample.disk_write_bytes),
        net_bytes: total(|sample| match (sample.net_rx_bytes, sample.net_tx_bytes) {
            (None, None) => None,
            (received, sent) => Some(received.unwrap_or(0) + sent.unwrap_or(0)),
        }),
        watts: None,
        watts_source: None,
    }
}

/// The machine as a whole: the mean over all hosts' own rows that have a figure.
pub(crate) fn machine(samples: &[&Sample]) -> Machine {
    let whole: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.process.is_empty()).collect();
    Machine {
        iowait_pct: mean_of(&whole, |sample| sample.cpu_iowait_pct),
        steal_pct: mean_of(&whole, |sample| sample.cpu_steal_pct),
        strangers_cpu_pct: mean_of(&whole, |sample| sample.cpu_strangers_pct),
    }
}

/// Largest fall of the target's resident memory, all its processes together, from the last sample before `at_s` to the lowest
/// within `within_s` after it; 0 if it grew, `None` if it was not sampled on both sides.
pub(crate) fn memory_released_bytes(samples: &[Sample], at_s: f64, within_s: f64) -> Option<u64> {
    let target: Vec<&Sample> = samples.iter().filter(|sample| is_target(sample)).collect();
    let moments = moments(&target, |sample| sample.rss_bytes.map(|bytes| bytes as f64));
    let before = moments.iter().rfind(|(moment_s, _)| *moment_s < at_s)?.1;
    let after = moments.iter().filter(|(moment_s, _)| *moment_s >= at_s && *moment_s <= at_s + within_s);
    let lowest = after.map(|(_, bytes)| *bytes).min_by(f64::total_cmp)?;
    Some((before - lowest).max(0.0) as u64)
}

fn is_target(sample: &Sample) -> bool {
    !sample.process.is_empty() && sample.process != GENERATOR
}

fn busy_pct(sample: &Sample) -> Option<f64> {
    match (sample.cpu_user_pct, sample.cpu_system_pct) {
        (None, None) => None,
        (user, system) => Some(user.unwrap_or(0.0) + system.unwrap_or(0.0)),
    }
}

fn mean_of(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    mean(&samples.iter().filter_map(|sample| value(sample)).collect::<Vec<_>>())
}

fn sums(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    moments(samples, value).into_iter().map(|(_, sum)| sum).collect()
}

/// Each moment and the sum of a figure over the processes sampled then, in time order.
fn moments(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut figures: Vec<(f64, f64)> =
        samples.iter().filter_map(|sample| Some((sample.at_s, value(sample)?))).collect();
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut moments: Vec<(f64, f64)> = Vec::new();
    for (at_s, figure) in figures {
        match moments.last_mut() {
            Some((moment_s, sum)) if at_s - *moment_s < SAME_MOMENT_S => *sum += figure,
            _ => moments.push((at_s, figure)),
        }
    }
    moments
}

#[cfg(test)]
mod tests;
