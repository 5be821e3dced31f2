//! Memory test: the memory of a long trial's series does not grow with the amount of data per
//! second. Counts all allocations of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::System;
use std::path::Path;

use experiment::plan::{self, Load, Plan, Trial};
use hdrhistogram::Histogram;
use record::folder::RunFolder;
use record::hlog;
use record::rows::{CsvWriter, GeneratorSecond, Sample};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HOSTS: usize = 4;

/// Slightly longer than a trial whose samples are kept as recorded. A histogram per second would
/// take more than a gigabyte.
const SECONDS: u32 = 4_400;

/// Limit of memory per second: its quantiles, twice, and the generator's row. Each counts double,
/// because a list grows by doubling.
const BYTES_OF_SECOND: usize = 800;

/// Limit of allocations per second, mostly for names of hosts.
const ALLOCATIONS_OF_SECOND: usize = 100;

fn record(out: &Path, seconds: u32) -> (RunFolder, Plan) {
    let load = Load { agents: 1, time_s: f64::from(seconds), ..Load::default() };
    let trial = Trial { id: "001".to_owned(), repeat: 1, load: Some(load), ..Trial::default() };
    let plan = Plan { format: plan::FORMAT, title: "Hours".to_owned(), trials: vec![trial], ..Plan::default() };
    let folder = RunFolder::create(out, &plan.title, record::clock::calendar()).unwrap();
    record::checked_file::write_json(&folder.plan(), &plan).unwrap();
    let trial = folder.trial("001");
    std::fs::create_dir_all(trial.path()).unwrap();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 2).unwrap();
    (1..200).for_each(|value| histogram.record(value * 70_000).unwrap());
    let mut log = hlog::HlogWriter::create(&trial.load_hlog(), 1e9).unwrap();
    let mut samples = CsvWriter::<Sample>::create(&trial.samples()).unwrap();
    let mut generator = CsvWriter::<GeneratorSecond>::create(&trial.generator()).unwrap();
    for second in 0..seconds {
        let at_s = f64::from(second) + 1.0;
        for tag in ["get/ok/latency", "get/ok/service"] {
            log.write(tag, f64::from(second), 1.0, &histogram).unwrap();
        }
        for host in 0..HOSTS {
            let row = Sample { at_s, host: format!("n{host}"), cpu_user_pct: Some(at_s % 7.0), ..Sample::default() };
            samples.write(&row).unwrap();
        }
        generator.write(&GeneratorSecond { at_s, interval_s: 1.0, ..GeneratorSecond::default() }).unwrap();
    }
    log.flush().unwrap();
    samples.flush().unwrap();
    generator.flush().unwrap();
    (folder, plan)
}

#[test]
fn a_trial_of_hours_is_held_in_a_few_megabytes() {
    let out = fixture::TestDir::new();
    let seconds = SECONDS;
    let (folder, plan) = record(&out, seconds);
    let region = Region::new(ALLOCATOR);
    let run = analysis::analyze_to_draw(&folder).unwrap();
    let input = report::read(&folder, &run, &plan).unwrap();
    let change = region.change();
    let series = &input.trials[0];
    assert_eq!(series.latency.len(), seconds as usize);
    // Two rows for each of at most 2,000 stretches, and one stretch that is still open.
    assert!(series.samples.len() <= HOSTS * 2 * 2_001, "{}", series.samples.len());
    let held = change.bytes_allocated - change.bytes_deallocated;
    let of_samples = 2 * series.samples.len() * (size_of::<Sample>() + 8);
    assert!(held <= seconds as usize * BYTES_OF_SECOND + of_samples, "{held} bytes are held");
    // Histograms are decoded one by one into the same memory, so none is allocated.
    assert!(change.allocations < seconds as usize * ALLOCATIONS_OF_SECOND, "{} allocations", change.allocations);
}
