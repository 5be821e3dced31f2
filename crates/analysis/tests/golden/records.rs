//! The golden folder's records, written with the writers of `record` from a simulation. They must
//! not change.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use record::checked_file::{write_json, write_whole};
use record::environment::{Cpu, Environment, Limits, RunFolderDisk};
use record::events::{By, Ending, Event, Outcome, Phase, What};
use record::folder::{RunFolder, TrialFolder};
use record::hlog::{self, Tag, Time};
use record::lines;
use record::rows::{self, Attempts, GeneratorSecond, OutcomeSlot, Sample};

use crate::plan::{EXPERIMENT, plan, texts};
use crate::simulation::{ABORTED, AGENTS, CRASH_S, Done, LOST_WITHIN_S, PREPARED, Simulation, TIME_S, micros};

/// Memory that the server releases when it crashes.
pub const RELEASED_BYTES: u64 = 5_242_880;

const UNIX_S: [f64; 2] = [1_795_170_667.25, 1_795_170_684.75];

/// Writes the whole folder, except `analysis.json`. The second trial's files end in the middle of a
/// line.
pub fn make(folder: &RunFolder) {
    let _ = std::fs::remove_dir_all(folder.path());
    std::fs::create_dir_all(folder.path()).unwrap();
    let plan = plan();
    write_whole(&folder.experiment(), EXPERIMENT.as_bytes()).unwrap();
    write_json(&folder.plan(), &plan).unwrap();
    folder.write_environment(&environment()).unwrap();
    for (number, trial) in plan.trials.iter().enumerate() {
        let files = folder.create_trial(&trial.id).unwrap();
        let lost_within_s = if number == 0 { 0.0 } else { LOST_WITHIN_S };
        Simulation::run(trial.seed, lost_within_s).write(&files, UNIX_S[number]);
        if number == 1 {
            let mut paths = vec![files.load_hlog(), files.outcomes(), files.attempts(), files.samples()];
            paths.extend([files.generator(), files.events(), files.history()]);
            paths.iter().for_each(|path| cut_off(path));
        }
    }
}

/// Removes the second half of a file's last line, as SIGKILL or a power cut does.
fn cut_off(path: &std::path::Path) {
    let bytes = std::fs::read(path).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    std::fs::write(path, &bytes[..(last + bytes.len()) / 2]).unwrap();
}

fn environment() -> Environment {
    Environment {
        plimsoll: Some("0.1.0".into()),
        targets: texts(&[("vsns", "1.0.0")]),
        os: Some("Debian GNU/Linux 12 (bookworm)".into()),
        kernel: Some("6.1.0-18-amd64".into()),
        cpu: Cpu {
            model: Some("Made-up CPU at 2.0 GHz".into()),
            architecture: Some("x86_64".into()),
            cores: Some(2),
            ..Cpu::default()
        },
        memory_bytes: Some(8 << 30),
        virtualisation: Some("none".into()),
        cgroup_version: Some(1),
        clocksource: Some("tsc".into()),
        limits: Limits {
            open_files: Some(1_048_576),
            ephemeral_ports: Some([32_768, 60_999]),
            accept_queue: Some(4_096),
            ..Limits::default()
        },
        disk: RunFolderDisk {
            device: Some("/dev/sda1".into()),
            file_system: Some("ext4".into()),
            ..RunFolderDisk::default()
        },
        ..Environment::default()
    }
}

impl Simulation {
    fn write(&self, files: &TrialFolder, unix_s: f64) {
        self.write_log(files, unix_s);
        self.write_slots(files);
        self.write_attempts(files);
        self.write_generator(files);
        write_samples(files);
        write_events(files, unix_s, self.history.iter().filter(|line| line.by == By::Audit).count() as u64);
        let mut history = lines::JsonLinesWriter::create(&files.history()).unwrap();
        self.history.iter().for_each(|line| history.write(line).unwrap());
        std::fs::write(files.logs().join("local.server.log"), "vsns listens on 127.0.0.1:7001\ncrash: kernel_oops\n")
            .unwrap();
    }

    fn seconds(&self) -> u32 {
        self.done.iter().map(|done| done.at_s).fold(0.0, f64::max).ceil() as u32
    }

    fn write_log(&self, files: &TrialFolder, unix_s: f64) {
        let mut log = hlog::HlogWriter::create(&files.load_hlog(), unix_s).unwrap();
        for second in 0..self.seconds() {
            let mut times: BTreeMap<Tag, Histogram<u64>> = BTreeMap::new();
            for done in self.done.iter().filter(|done| done.at_s.floor() == f64::from(second)) {
                for (time, less_s) in [(Time::Latency, 0.0), (Time::Service, 0.000_02)] {
                    let tag = Tag { operation: done.operation.into(), outcome: done.outcome, time };
                    let histogram =
                        times.entry(tag).or_insert_with(|| Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap());
                    histogram.record(((done.at_s - done.from_s - less_s).max(1e-9) * 1e9) as u64).unwrap();
                }
            }
            for (tag, histogram) in times {
                log.write(&tag.to_string(), f64::from(second), 1.0, &histogram).unwrap();
            }
        }
        log.flush().unwrap();
    }

    fn write_slots(&self, files: &TrialFolder) {
        let mut slots: BTreeMap<u32, OutcomeSlot> = BTreeMap::new();
        for done in &self.done {
            let number = (done.at_s * 1e3).floor() as u32;
            let slot = slots.entry(number).or_insert(OutcomeSlot {
                at_s: f64::from(number) / 1e3,
                slot_s: 0.001,
                ..OutcomeSlot::default()
            });
            if done.outcome == Outcome::Ok { slot.ok += 1 } else { slot.failed += 1 }
        }
        let mut rows = rows::CsvWriter::create(&files.outcomes()).unwrap();
        slots.values().for_each(|slot| rows.write(slot).unwrap());
    }

    fn write_attempts(&self, files: &TrialFolder) {
        let mut rows = rows::CsvWriter::create(&files.attempts()).unwrap();
        for second in 0..self.seconds() {
            let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
            for done in self.done.iter().filter(|done| done.at_s.floor() == f64::from(second)) {
                let result = if done.outcome == Outcome::Ok { "ok" } else { "connection closed" };
                *counts.entry((done.operation, result)).or_default() += 1;
            }
            for ((operation, result), count) in counts {
                let at_s = f64::from(second + 1);
                rows.write(&Attempts { at_s, operation: operation.into(), result: result.into(), count }).unwrap();
            }
        }
    }

    fn write_generator(&self, files: &TrialFolder) {
        let mut rows = rows::CsvWriter::create(&files.generator()).unwrap();
        for second in 0..self.seconds() {
            let (from_s, at_s) = (f64::from(second), f64::from(second + 1));
            let ended: Vec<&Done> = self.done.iter().filter(|done| (from_s..at_s).contains(&done.at_s)).collect();
            let open_s = |done: &Done| (done.at_s.min(at_s) - done.from_s.max(from_s)).max(0.0);
            rows.write(&GeneratorSecond {
                at_s,
                interval_s: 1.0,
                thread: 0,
                cpu_pct: 41.0 + f64::from(second % 3),
                run_delay_pct: None,
                late_us_p99: (second < 1).then_some(38.0),
                late_us_max: (second < 1).then_some(85.0),
                agents: AGENTS,
                in_flight_mean: micros(self.done.iter().map(open_s).sum()),
                operations: ended.len() as u64,
                latency_sum_s: micros(ended.iter().map(|done| done.at_s - done.from_s).sum()),
                cycles: self.cycles.iter().filter(|cycle_s| (from_s..at_s).contains(*cycle_s)).count() as u64,
                connects: if second == 0 { u64::from(AGENTS) } else { 0 } + if second == 5 { ABORTED } else { 0 },
                connect_failures: 0,
                dropped: 0,
                due: None,
                received_bytes: None,
                feed_wait_s: None,
                feed_bytes: None,
                feed_records: None,
                feed_read_pct: None,
                pushed_messages: None,
            })
            .unwrap();
        }
    }
}

fn write_samples(files: &TrialFolder) {
    let mut rows = rows::CsvWriter::create(&files.samples()).unwrap();
    for second in 0..=11_u32 {
        let at_s = f64::from(second) + 0.25;
        let busy = if (1..=10).contains(&second) { 1.0 } else { 0.1 };
        let grown = 40_000_000 + u64::from(second) * 1_048_576;
        let rss = if second >= 5 { grown - RELEASED_BYTES - 1_048_576 } else { grown };
        let host = Sample {
            at_s,
            host: "local".into(),
            cpu_user_pct: Some(60.0 * busy),
            cpu_system_pct: Some(15.0 * busy),
            cpu_iowait_pct: Some(0.5),
            cpu_steal_pct: Some(0.25),
            cpu_strangers_pct: Some(1.5),
            load1: Some(1.0 + f64::from(second) / 10.0),
            load5: Some(0.5),
            load15: Some(0.25),
            io_wait_threads: Some(0),
            memory_used_bytes: Some(2 << 30),
            memory_available_bytes: Some(6 << 30),
            disk_read_bytes: Some(0),
            disk_write_bytes: Some(40_960),
            net_rx_bytes: Some((600_000.0 * busy) as u64),
            net_tx_bytes: Some((600_000.0 * busy) as u64),
            psi_cpu_some_pct: Some(12.5 * busy),
            ..Sample::default()
        };
        let process = |process: &str, user: f64, rss: u64| Sample {
            at_s,
            host: "local".into(),
            process: process.into(),
            cpu_user_pct: Some(user * busy),
            cpu_system_pct: Some(4.0 * busy),
            run_delay_pct: Some(2.0 * busy),
            rss_bytes: Some(rss),
            threads: Some(24),
            fds: Some(220),
            ..Sample::default()
        };
        for row in [host, process("server", 38.0, rss), process("generator", 17.0, 9_000_000)] {
            rows.write(&row).unwrap();
        }
    }
}

fn write_events(files: &TrialFolder, unix_s: f64, keys: u64) {
    let (host, process) = ("local".to_owned(), "server".to_owned());
    let says = |names: u64| serde_json::json!({ "names": names, "restarts": if names > 100 { 1 } else { 0 } });
    let phase = |phase| What::Phase { phase };
    let events = [
        (0.0, What::Clock { unix_s }),
        (-2.5, phase(Phase::Starting)),
        (-2.25, What::ProcessUp { host: host.clone(), process: process.clone(), pid: 4_711 }),
        (-1.0, phase(Phase::Preparing)),
        (-0.5, What::Inspected { when: "before_load".into(), says: says(PREPARED) }),
        (0.0, phase(Phase::Load)),
        (CRASH_S, What::FaultBegun { fault: "oops".into(), number: 1, kind: "call".into(), on: "local".into() }),
        (
            CRASH_S + 0.009,
            What::Log {
                host: host.clone(),
                process: process.clone(),
                line: "crash: kernel_oops".into(),
                text: "crash".into(),
                alarming: false,
                left_out: 0,
            },
        ),
        (TIME_S, phase(Phase::Draining)),
        (TIME_S + 0.25, What::Inspected { when: "after_load".into(), says: says(PREPARED + keys) }),
        (TIME_S + 0.5, phase(Phase::Auditing)),
        (TIME_S + 1.0, What::Audit { keys, unread: 0, skipped: 0 }),
        (TIME_S + 1.0, phase(Phase::Stopping)),
        (
            TIME_S + 1.25,
            What::ProcessDown { host, process, how: "exit 0".into(), expected: true, last_lines: Vec::new() },
        ),
        (TIME_S + 1.25, What::Ended { how: Ending::Done, reason: None }),
    ];
    let mut writer = lines::JsonLinesWriter::create(&files.events()).unwrap();
    for (at_s, what) in events {
        writer.write(&Event { at_s, what }).unwrap();
    }
}
