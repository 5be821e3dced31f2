//! Speed of the engine: runs a closed loop or an open loop at a given rate against a service.
//! Prints operations, CPU, latency and lateness of each second. To be a benchmark, it must be run
//! beside another load generator against the same server.
//!
//! ```text
//! cargo run --release -p plimsoll-load --example speed -- \
//!     http 127.0.0.1:8080 get path=/ [agents] [seconds] [threads] [rate]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example is a program")]

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use experiment::plan::{Load, Rate, Step, Warmup};
use load::{LoadOrder, LoadPurpose};
use record::clock::Clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, service, call, with, rest @ ..] = arguments.as_slice() else {
        return Err(
            "usage: speed PROTOCOL SERVICE OPERATION KEY=VALUE[,KEY=VALUE] [AGENTS] [SECONDS] [THREADS] [RATE]".into(),
        );
    };
    let number = |place: usize, default: u32| rest.get(place).map_or(Ok(default), |text: &String| text.parse());
    let with: BTreeMap<String, String> = with
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let step = Step { call: call.clone(), name: call.clone(), with, ..Step::default() };
    let load = Load {
        agents: number(0, 64)?,
        time_s: f64::from(number(1, 5)?),
        drain_s: 1.0,
        warmup: Warmup::Seconds(0.0),
        rate: rest.get(3).map(|text| text.parse()).transpose()?.map(Rate::Constant),
        threads: Some(number(2, 1)?),
        steps: vec![step],
        ..Load::default()
    };
    let orders = LoadOrder {
        protocol: protocol.clone(),
        services: service.split(',').map(str::to_owned).collect(),
        load,
        purpose: LoadPurpose::Measure,
        seed: 1,
        tls: Default::default(),
        files: load::InputFiles::below("."),
        slot_s: 0.001,
        tether: None,
        hosts: Vec::new(),
        without_ring: std::env::var_os("WITHOUT_RING").is_some(),
        slice: None,
    };
    let (sink, intervals) = sync_channel(16);
    let running = load::start(orders, Clock::starting_in(Duration::from_millis(10)), sink)?;
    for interval in intervals {
        print(&interval);
    }
    println!("{:?}", running.join()?);
    Ok(())
}

fn print(interval: &load::ThreadInterval) {
    let second = &interval.generator;
    println!(
        "{:5.2} s thread {}: {} operations, {:.0} % CPU, {:.0} operations/CPU-second, in flight {:.1} (Little {:.1}), late p99 {:?} max {:?} us",
        interval.end_s,
        interval.thread,
        second.operations,
        second.cpu_pct,
        second.operations as f64 / (second.cpu_pct / 100.0 * second.interval_s).max(1e-9),
        second.in_flight_mean,
        second.latency_sum_s / second.interval_s.max(1e-9),
        second.late_us_p99,
        second.late_us_max,
    );
    for (operation, outcome, time, histogram) in interval.sheet.histograms() {
        println!(
            "        {operation}/{}/{time:?}: {} p50 {:.1} us p99 {:.1} us max {:.1} us",
            outcome.name(),
            histogram.len(),
            histogram.value_at_quantile(0.5) as f64 / 1e3,
            histogram.value_at_quantile(0.99) as f64 / 1e3,
            histogram.max() as f64 / 1e3,
        );
    }
    for attempts in interval.attempts.iter().filter(|attempts| attempts.result != "ok") {
        println!("        {}: {} {}", attempts.operation, attempts.count, attempts.result);
    }
    for notice in &interval.notices {
        println!("        {notice}");
    }
}
