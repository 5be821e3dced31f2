//! Records made up for the tests: a load that ramps up, crashes at 15 s and recovers.

use record::events::{Event, What};
use record::results::Trial;
use record::rows::{GeneratorSecond, OutcomeSlot, Sample};

use crate::series::{LatencySecond, Series};

const SLOT_S: f64 = 0.001;

/// Records of `seconds` seconds for a trial, with its faults.
pub fn series(trial: &Trial, seconds: u32) -> Series {
    let mut noise = Noise(trial.id.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)));
    let fault_s = trial.faults.first().map(|fault| fault.at_s);
    Series {
        trial: trial.id.clone(),
        outcomes: outcomes(seconds, fault_s, &mut noise),
        fine_outcomes: Vec::new(),
        latency: latency(seconds, fault_s, &mut noise),
        samples: samples(seconds, fault_s, &mut noise),
        generator: generator(seconds, &mut noise),
        events: events(trial),
        torn: Vec::new(),
    }
}

/// A little randomness that is the same in every run: xorshift64, Marsaglia 2003.
struct Noise(u64);

impl Noise {
    /// From -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    }

    fn around(&mut self, value: f64, share: f64) -> f64 {
        value * (1.0 + share * self.next())
    }
}

fn outcomes(seconds: u32, fault_s: Option<f64>, noise: &mut Noise) -> Vec<OutcomeSlot> {
    let mut slots = Vec::new();
    for index in 0..seconds * 1_000 {
        let at_s = f64::from(index) * SLOT_S;
        let after = fault_s.map(|fault_s| at_s - fault_s).filter(|after| *after >= 0.0);
        let share = match after {
            Some(after) if after < 0.002 => 1.0,
            Some(after) if after < 0.009 => 0.0,
            Some(after) if after < 0.12 => 0.3 + 0.7 * (after / 0.12),
            _ => (0.15 + at_s / 3.0).min(1.0),
        };
        let failed = matches!(after, Some(after) if (0.002..0.015).contains(&after));
        slots.push(OutcomeSlot {
            at_s,
            slot_s: SLOT_S,
            ok: noise.around(64.0 * share, 0.2).round() as u32,
            failed: if failed { 8 } else { 0 },
            timeout: 0,
            wrong: u32::from(matches!(after, Some(after) if (0.03..0.04).contains(&after))),
        });
    }
    slots.retain(|slot| slot.ok + slot.failed + slot.timeout + slot.wrong > 0);
    slots
}

fn latency(seconds: u32, fault_s: Option<f64>, noise: &mut Noise) -> Vec<LatencySecond> {
    let second = |second: u32| {
        let at_s = f64::from(second);
        let hit = fault_s.is_some_and(|fault_s| (at_s..at_s + 1.0).contains(&fault_s));
        LatencySecond {
            at_s,
            length_s: 1.0,
            p50_us: Some(noise.around(2_700.0, 0.05)),
            p90_us: Some(noise.around(4_000.0, 0.06)),
            p99_us: Some(noise.around(if hit { 21_000.0 } else { 6_900.0 }, 0.15)),
            max_us: Some(noise.around(if hit { 160_000.0 } else { 15_000.0 }, 0.4)),
        }
    };
    (0..seconds).map(second).collect()
}

fn samples(seconds: u32, fault_s: Option<f64>, noise: &mut Noise) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut rss = 40e6;
    // Seconds 20 and 21 are missing: a gap.
    for second in (1..=seconds).filter(|second| !matches!(second, 20..=22)) {
        let at_s = f64::from(second);
        rss += 0.9e6;
        if fault_s.is_some_and(|fault_s| (at_s - 1.0..at_s).contains(&fault_s)) {
            rss -= 9e6;
        }
        let process = |process: &str, user, system, rss: f64| Sample {
            at_s,
            host: "local".to_owned(),
            process: process.to_owned(),
            cpu_user_pct: Some(user),
            cpu_system_pct: Some(system),
            rss_bytes: Some(rss as u64),
            ..Sample::default()
        };
        samples.push(Sample {
            at_s,
            host: "local".to_owned(),
            cpu_user_pct: Some(noise.around(58.0, 0.05)),
            cpu_system_pct: Some(noise.around(36.0, 0.05)),
            cpu_iowait_pct: Some(noise.around(0.6, 1.0)),
            cpu_steal_pct: Some(noise.around(1.5, 1.0)),
            cpu_strangers_pct: Some(noise.around(1.0, 1.0)),
            load1: Some(4.0 * (1.0 - (-at_s / 60.0).exp()) + 0.4),
            load5: Some(4.0 * (1.0 - (-at_s / 300.0).exp()) + 0.5),
            load15: Some(4.0 * (1.0 - (-at_s / 900.0).exp()) + 0.6),
            io_wait_threads: Some(u64::from(second % 9 == 0)),
            memory_used_bytes: Some((1.4e9 + rss) as u64),
            disk_read_bytes: Some(0),
            disk_write_bytes: Some(noise.around(480_000.0, 0.5) as u64),
            net_rx_bytes: Some(noise.around(14.6e6, 0.03) as u64),
            net_tx_bytes: Some(noise.around(14.5e6, 0.03) as u64),
            psi_cpu_some_pct: Some(noise.around(82.0, 0.06)),
            psi_io_some_pct: Some(noise.around(0.5, 1.0)),
            psi_memory_some_pct: Some(0.0),
            ..Sample::default()
        });
        samples.push(process("server", noise.around(37.0, 0.05), noise.around(15.0, 0.05), rss));
        samples.push(process("generator", noise.around(19.0, 0.05), noise.around(20.0, 0.05), 21e6));
    }
    samples
}

fn generator(seconds: u32, noise: &mut Noise) -> Vec<GeneratorSecond> {
    let second = |second: u32| GeneratorSecond {
        at_s: f64::from(second),
        interval_s: 1.0,
        thread: 0,
        cpu_pct: noise.around(60.0, 0.06),
        late_us_p99: Some(noise.around(60.0, 0.4)),
        late_us_max: Some(noise.around(210.0, 0.8)),
        agents: (200 * second / 3).min(200),
        in_flight_mean: noise.around(f64::from((199 * second / 3).min(199)), 0.004),
        operations: 63_400,
        latency_sum_s: 199.0,
        cycles: 15_300,
        ..GeneratorSecond::default()
    };
    (1..=seconds).map(second).collect()
}

fn events(trial: &Trial) -> Vec<Event> {
    let event = |at_s, what| Event { at_s, what };
    let server = || ("local".to_owned(), "server".to_owned());
    let mut events = vec![
        event(-3.0, What::Clock { unix_s: 1_795_170_665.0 }),
        event(-2.0, What::ProcessUp { host: server().0, process: server().1, pid: 4_711 }),
    ];
    for fault in &trial.faults {
        let (name, on) = (fault.name.clone(), fault.on.clone());
        let begun = What::FaultBegun { fault: name, number: fault.number, kind: fault.kind.clone(), on };
        events.push(event(fault.at_s, begun));
        let line = "=SUPERVISOR REPORT==== child <name_server> terminated: kernel_oops".to_owned();
        let text = "SUPERVISOR REPORT".to_owned();
        let (host, process) = server();
        let wrote = What::Log { host, process, line, text, alarming: false, left_out: 0 };
        events.push(event(fault.at_s + 0.003, wrote));
    }
    events
}
