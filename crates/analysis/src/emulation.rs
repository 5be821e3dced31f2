//! A trial on modelled hosts: its figures as they would be on the machines meant. It must not say whether the model holds.

use experiment::plan::Lab;
use record::results::{Emulated, Quantiles, Throughput, Trial};

/// The figures of a trial, rescaled by `lab.speed`; `None` where its hosts are real.
pub(crate) fn emulated(lab: &Lab, trial: &Trial) -> Option<Emulated> {
    if lab.hosts.is_empty() || !lab.is_emulated() {
        return None;
    }
    let mut profiles: Vec<String> = lab.hosts.iter().filter_map(|host| host.profile.clone()).collect();
    let mut seen = std::collections::BTreeSet::new();
    profiles.retain(|name| seen.insert(name.clone()));
    let periods = trial.hosts.iter().filter_map(|host| host.figures.as_ref()?.quota_period_s);
    Some(Emulated {
        speed: lab.speed,
        profiles,
        throughput: faster(&trial.throughput, lab.speed),
        latency_us: trial.latency_us.map(|latency_us| shorter(latency_us, lab.speed)),
        granularity_s: periods.reduce(f64::max),
    })
}

fn faster(throughput: &Throughput, speed: f64) -> Throughput {
    let scaled = |per_s: Option<f64>| per_s.map(|per_s| per_s / speed);
    Throughput {
        operations_per_s: scaled(throughput.operations_per_s),
        operations_per_s_ci95: throughput.operations_per_s_ci95.map(|range| range.map(|per_s| per_s / speed)),
        effective_samples: throughput.effective_samples,
        cycles_per_s: scaled(throughput.cycles_per_s),
        before_first_fault_per_s: scaled(throughput.before_first_fault_per_s),
    }
}

fn shorter(time_us: Quantiles, speed: f64) -> Quantiles {
    let scaled = |time_us: Option<f64>| time_us.map(|time_us| time_us * speed);
    Quantiles {
        p50: scaled(time_us.p50),
        p75: scaled(time_us.p75),
        p90: scaled(time_us.p90),
        p99: scaled(time_us.p99),
        p999: scaled(time_us.p999),
        max: scaled(time_us.max),
        mean: scaled(time_us.mean),
        count: time_us.count,
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::Host;
    use record::events::HostFigures;
    use record::results;

    use super::*;

    fn lab(speed: f64, profile: Option<&str>) -> Lab {
        let host = Host { name: "n1".into(), profile: profile.map(str::to_owned), ..Host::default() };
        Lab { hosts: vec![host.clone(), host], speed, ..Lab::default() }
    }

    fn trial() -> Trial {
        Trial {
            throughput: Throughput { operations_per_s: Some(100.0), ..Throughput::default() },
            latency_us: Some(Quantiles { p50: Some(4_000.0), count: 7, ..Quantiles::default() }),
            hosts: vec![results::Host {
                figures: Some(HostFigures { quota_period_s: Some(0.01), ..HostFigures::default() }),
                ..results::Host::default()
            }],
            ..Trial::default()
        }
    }

    #[test]
    fn real_hosts_are_not_emulated() {
        assert_eq!(emulated(&Lab { speed: 1.0, ..Lab::default() }, &trial()), None, "this machine");
        assert_eq!(emulated(&lab(1.0, None), &trial()), None, "virtual, but as they are");
        let mut real = lab(1.0, Some("raspberry-pi-2"));
        real.hosts.iter_mut().for_each(|host| host.ssh = Some("pi@10.0.0.11".into()));
        assert_eq!(emulated(&real, &trial()), None, "a profile of a real machine only says what it costs");
    }

    #[test]
    fn at_half_speed_twice_as_much_would_be_done_in_half_the_time() {
        let emulated = emulated(&lab(0.5, Some("raspberry-pi-2")), &trial()).unwrap();
        assert_eq!(emulated.throughput.operations_per_s, Some(200.0));
        let latency_us = emulated.latency_us.unwrap();
        assert_eq!((latency_us.p50, latency_us.p99, latency_us.count), (Some(2_000.0), None, 7));
        assert_eq!(emulated.profiles, ["raspberry-pi-2"]);
        assert_eq!(emulated.granularity_s, Some(0.01));
    }
}
