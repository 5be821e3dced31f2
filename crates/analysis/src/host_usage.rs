//! Resource use of the hosts and of the load-generating machine over the load, from `samples.csv`.

use std::collections::BTreeSet;

use record::events::{Event, HostFigures, What};
use record::results::{Host, Machine};
use record::rows::THIS_MACHINE;

use crate::sampled::{HostSums, RunningMean, Sampled};

/// Returns every host of the lab, in the lab's order, and then any other sampled host. In a lab,
/// the load-generating machine is left out.
pub(crate) fn hosts(events: &[Event], sampled: &Sampled) -> Vec<Host> {
    let mut names: Vec<&str> = ups(events).map(|(name, ..)| name).collect();
    let is_lab = is_lab(events);
    names.extend(sampled.hosts.iter().map(|host| host.name.as_str()).filter(|name| !(is_lab && *name == THIS_MACHINE)));
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().map(|name| with_figures(host(name, sampled.host(name)), events)).collect()
}

/// Returns name, kind, profile and figures from each `HostUp` event. A rebooted host appears more
/// than once.
fn ups(events: &[Event]) -> impl Iterator<Item = (&str, &str, Option<&String>, &HostFigures)> {
    events.iter().filter_map(|event| match &event.what {
        What::HostUp { host, kind, profile, is } => Some((host.as_str(), kind.as_str(), profile.as_ref(), is)),
        _ => None,
    })
}

/// Whether the target ran on hosts other than the load-generating machine.
fn is_lab(events: &[Event]) -> bool {
    ups(events).any(|(_, kind, ..)| kind != THIS_MACHINE)
}

/// Adds the properties that the host had when it first came up.
fn with_figures(host: Host, events: &[Event]) -> Host {
    let found = ups(events).find(|(name, ..)| *name == host.name);
    let Some((_, kind, profile, figures)) = found else { return host };
    Host { kind: Some(kind.to_owned()), profile: profile.cloned(), figures: Some(figures.clone()), ..host }
}

fn host(name: &str, sums: Option<&HostSums>) -> Host {
    let name = name.to_owned();
    let Some(sums) = sums else { return Host { name, ..Host::default() } };
    let (pressure, delay) = (sums.io_pressure_pct.value(), sums.io_delay_pct.value());
    let source = pressure.map(|_| "pressure").or_else(|| delay.map(|_| "delay accounting"));
    Host {
        name,
        cpu_pct: sums.busy_pct.value(),
        target_cpu_pct: sums.target_busy_pct(),
        busiest_thread_pct: sums.busiest_thread_pct(),
        io_blocked_pct: pressure.or(delay),
        io_blocked_source: source.map(str::to_owned),
        throttled_pct: sums.throttled_pct.value(),
        run_delay_pct: sums.run_delay_pct.value().or_else(|| sums.target_run_delay_pct()),
        load1_max: sums.load1_max,
        load1_own_max: sums.load1_own_max,
        load5_max: sums.load5_max,
        load15_max: sums.load15_max,
        oom_kills: sums.oom_kills,
        io_wait_threads: sums.io_wait_threads,
        rss_max_bytes: sums.target_rss_max_bytes().map(|bytes| bytes as u64),
        disk_write_bytes: sums.disk_write_bytes,
        net_bytes: sums.net_bytes,
        ..Host::default()
    }
}

/// Returns the figures of the load-generating machine as a whole: the means over its rows that have
/// the figure. Without a lab it is the only host.
pub(crate) fn machine(events: &[Event], sampled: &Sampled) -> Machine {
    let is_lab = is_lab(events);
    let hosts = sampled.hosts.iter().filter(|host| !is_lab || host.name == THIS_MACHINE);
    let figures: [fn(&HostSums) -> RunningMean; 3] =
        [|host| host.iowait_pct, |host| host.steal_pct, |host| host.strangers_pct];
    let [iowait_pct, steal_pct, strangers_cpu_pct] =
        figures.map(|figure| hosts.clone().map(figure).reduce(RunningMean::with).and_then(|mean| mean.value()));
    Machine { iowait_pct, steal_pct, strangers_cpu_pct, ..shares(events) }
}

/// Returns the shares of the machine's CPU time from the trial's last `CpuShares` event.
fn shares(events: &[Event]) -> Machine {
    let last = events.iter().rev().find(|event| matches!(event.what, What::CpuShares { .. }));
    let Some(What::CpuShares {
        target_processes,
        other_processes,
        not_judged,
        short_lived_cpu_pct,
        programs_cpu_pct,
        target_cpu_pct,
    }) = last.map(|event| event.what.clone())
    else {
        return Machine::default();
    };
    Machine {
        target_processes,
        other_processes,
        not_judged,
        short_lived_cpu_pct,
        programs_cpu_pct,
        target_cpu_pct,
        ..Machine::default()
    }
}

#[cfg(test)]
mod tests {
    use record::events::ProcessShare;
    use record::rows::Sample;

    use super::*;
    use crate::sampled::GENERATOR;

    fn sample(at_s: f64, host: &str, process: &str) -> Sample {
        Sample { at_s, host: host.into(), process: process.into(), ..Sample::default() }
    }

    fn memory(at_s: f64, process: &str, bytes: u64) -> Sample {
        Sample { rss_bytes: Some(bytes), ..sample(at_s, "n1", process) }
    }

    #[test]
    fn host_figures_are_means_maxima_or_sums() {
        let whole = |at_s: f64, cpu: f64, load: f64| Sample {
            cpu_user_pct: Some(cpu),
            cpu_system_pct: Some(10.0),
            load1: Some(load),
            io_delay_pct: Some(30.0 * load),
            disk_write_bytes: Some(100),
            net_rx_bytes: Some(5),
            net_tx_bytes: Some(7),
            ..sample(at_s, "n1", "")
        };
        let process = |at_s: f64, name: &str, cpu: f64| Sample {
            cpu_user_pct: Some(cpu),
            rss_bytes: Some(1_000),
            run_delay_pct: Some(3.0),
            busiest_thread_pct: Some(cpu * 4.0),
            ..sample(at_s, "n1", name)
        };
        let samples = [
            whole(1.0, 20.0, 0.5),
            process(1.0, "server", 10.0),
            process(1.05, "proxy", 5.0),
            process(1.0, GENERATOR, 70.0),
            whole(2.0, 40.0, 1.5),
            process(2.0, "server", 20.0),
            sample(1.0, "n2", ""),
            whole(9.0, 99.0, 99.0),
        ];
        let hosts = hosts(&[], &during(&samples, 2.0));
        assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
        let host = &hosts[0];
        assert_eq!((host.cpu_pct, host.target_cpu_pct), (Some(40.0), Some(17.5)));
        assert_eq!((host.load1_max, host.load5_max), (Some(1.5), None));
        assert_eq!(host.busiest_thread_pct, Some(60.0), "of the server, the generator left out");
        assert_eq!((host.io_blocked_pct, host.io_blocked_source.as_deref()), (Some(30.0), Some("delay accounting")));
        assert_eq!((host.rss_max_bytes, host.disk_write_bytes, host.net_bytes), (Some(2_000), Some(200), Some(24)));
        assert_eq!(host.run_delay_pct, Some(4.5), "of the target's processes, where the host has none");
        assert_eq!(hosts[1], Host { name: "n2".into(), ..Host::default() }, "what was not sampled is null");
    }

    /// Every 5 s the kernel moves the average towards the number of threads that run or wait.
    #[test]
    fn own_load_average_excludes_waiting_threads() {
        let series = |waiting_at: fn(f64) -> f64| {
            let mut load1 = 0.0;
            let samples: Vec<Sample> = (0..300)
                .map(|second| {
                    let at_s = f64::from(second);
                    if second % 5 == 0 {
                        let kept = (-5.0_f64 / 60.0).exp();
                        load1 = load1 * kept + (1.0 + waiting_at(at_s)) * (1.0 - kept);
                    }
                    let run_delay_pct = Some(waiting_at(at_s) * 100.0);
                    Sample { load1: Some(load1), run_delay_pct, ..sample(at_s, "n1", "") }
                })
                .collect();
            let host = &hosts(&[], &during(&samples, 300.0))[0];
            (host.load1_max.unwrap(), host.load1_own_max.unwrap())
        };
        for (waiting_at, raw, own) in [
            ((|_| 0.0) as fn(f64) -> f64, 1.0, 1.0),
            (|_| 7.0, 7.9, 1.0),
            // A rush of two minutes, in which 15 threads wait.
            (|at_s| if (60.0..180.0).contains(&at_s) { 15.0 } else { 0.0 }, 13.9, 1.0),
        ] {
            let (load1_max, load1_own_max) = series(waiting_at);
            assert!((load1_max - raw).abs() < 0.2, "{load1_max}, not {raw}");
            // The average moves every 5 s, the delay every second.
            assert!((load1_own_max - own).abs() < 1.2, "{load1_own_max}, not {own}");
        }
    }

    #[test]
    fn own_load_average_needs_run_delay() {
        let samples = [1.0, 2.0].map(|at_s| Sample { load1: Some(3.0), ..sample(at_s, "n1", "") });
        let host = &hosts(&[], &during(&samples, 2.0))[0];
        assert_eq!((host.load1_max, host.load1_own_max), (Some(3.0), None));
    }

    #[test]
    fn pressure_takes_precedence_over_delay_accounting() {
        let waits = Sample { psi_io_some_pct: Some(40.0), io_delay_pct: Some(130.0), ..sample(1.0, "n1", "") };
        let host = &hosts(&[], &during(&[waits], 2.0))[0];
        assert_eq!((host.io_blocked_pct, host.io_blocked_source.as_deref()), (Some(40.0), Some("pressure")));
        let silent = &hosts(&[], &during(&[sample(1.0, "n1", "")], 2.0))[0];
        assert_eq!((silent.io_blocked_pct, &silent.io_blocked_source), (None, &None));
    }

    #[test]
    fn machine_figures_are_means_of_the_samples() {
        let samples = [(1.0, Some(2.0)), (2.0, Some(4.0)), (3.0, None)]
            .map(|(at_s, cpu_steal_pct)| Sample { cpu_steal_pct, ..sample(at_s, "n1", "") });
        let machine = machine(&[], &during(&samples, 10.0));
        assert_eq!(machine, Machine { steal_pct: Some(3.0), ..Machine::default() });
    }

    #[test]
    fn the_machine_lists_processes_with_their_cpu_shares() {
        let [one, two, three] = [1, 2, 3].map(|pid| ProcessShare { name: "a".into(), pid, cpu_pct: 1.0 });
        let (target_processes, other_processes) = (vec![one], vec![two, three]);
        let not_judged = Some("why".to_owned());
        let what = What::CpuShares {
            target_processes: target_processes.clone(),
            other_processes: other_processes.clone(),
            not_judged: not_judged.clone(),
            short_lived_cpu_pct: Some(1.0),
            programs_cpu_pct: Some(2.0),
            target_cpu_pct: Some(3.0),
        };
        let machine = machine(&[Event { at_s: 3.0, what }], &Sampled::default());
        let (short_lived_cpu_pct, programs_cpu_pct, target_cpu_pct) = (Some(1.0), Some(2.0), Some(3.0));
        let expected = Machine {
            target_processes,
            other_processes,
            not_judged,
            short_lived_cpu_pct,
            programs_cpu_pct,
            target_cpu_pct,
            ..Machine::default()
        };
        assert_eq!(machine, expected);
    }

    #[test]
    fn lab_hosts_and_the_machine_are_separate() {
        let events = [(-1.0, "n1", 4), (-1.0, "n2", 4), (9.0, "n1", 2)].map(|(at_s, host, cores)| Event {
            at_s,
            what: What::HostUp {
                host: host.into(),
                kind: "netns".into(),
                profile: Some("raspberry-pi-2".into()),
                is: HostFigures { cores: Some(cores), ..HostFigures::default() },
            },
        });
        let samples = [
            Sample { cpu_steal_pct: Some(2.0), ..sample(1.0, THIS_MACHINE, "") },
            Sample { cpu_throttled_pct: Some(80.0), oom_kills: Some(1), ..sample(1.0, "n1", "") },
            Sample { cpu_steal_pct: Some(50.0), ..sample(1.0, "n1", "") },
        ];
        let found = hosts(&events, &during(&samples, 10.0));
        assert_eq!(
            found.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(),
            ["n1", "n2"],
            "n2 was never sampled"
        );
        assert_eq!((found[0].throttled_pct, found[0].oom_kills), (Some(80.0), Some(1)));
        assert_eq!(found[0].figures.as_ref().and_then(|figures| figures.cores), Some(4), "as it first came up");
        assert_eq!(found[1].kind.as_deref(), Some("netns"));
        assert_eq!(machine(&events, &during(&samples, 10.0)).steal_pct, Some(2.0));
    }

    /// The samples of a load that ends at `until_s`.
    fn during(samples: &[Sample], until_s: f64) -> Sampled {
        let mut sampled = Sampled::over(0.0, until_s);
        samples.iter().for_each(|sample| sampled.add(sample));
        sampled.settle();
        sampled
    }

    fn released(samples: &[Sample], at_s: f64, within_s: f64) -> Option<u64> {
        during(samples, 99.0).memory_released_bytes(at_s, within_s)
    }

    #[test]
    fn released_memory_is_the_largest_total_fall() {
        let samples = [
            memory(4.0, "server", 900),
            memory(4.5, "server", 1_000),
            memory(4.5, "proxy", 50),
            memory(4.5, GENERATOR, 7_000),
            memory(5.5, "server", 400),
            memory(5.5, "proxy", 60),
            memory(6.5, "server", 300),
            memory(6.5, "proxy", 60),
            memory(20.0, "server", 1),
        ];
        assert_eq!(released(&samples, 5.0, 5.0), Some(690));
        assert_eq!(released(&samples, 4.5, 0.5), Some(0), "it grew");
        assert_eq!(released(&samples, 4.0, 5.0), None, "nothing before");
        assert_eq!(released(&samples, 8.0, 5.0), None, "nothing after");
        assert_eq!(released(&[], 5.0, 5.0), None);
    }
}
