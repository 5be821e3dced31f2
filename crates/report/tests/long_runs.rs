//! What is held of a long trial does not grow with what was recorded in each second of it. All allocations of this process are counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::System;
use std::path::Path;

use hdrhistogram::Histogram;
use record::folder::TrialFolder;
use record::hlog;
use record::rows::{CsvWriter, GeneratorSecond, Sample};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HOSTS: usize = 4;

/// Somewhat longer than what is held as it was sampled: more than a gigabyte when a histogram of each second was kept.
const SECONDS: u32 = 4_400;

/// All that may be held of a second: its quantiles and the generator's row, twice, as a list grows by doubling.
const BYTES_OF_SECOND: usize = 600;

fn record(folder: &Path, seconds: u32) -> TrialFolder {
    let trial = TrialFolder::at(folder);
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
    trial
}

#[test]
fn a_trial_of_hours_is_held_in_a_few_megabytes() {
    let folder = std::env::temp_dir().join(format!("plimsoll-long-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let seconds = SECONDS;
    let trial = record(&folder, seconds);
    let region = Region::new(ALLOCATOR);
    let series = report::read_series(&trial).unwrap();
    let change = region.change();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(series.latency.len(), seconds as usize);
    // Two rows for each of at most 2,000 stretches, and one that was begun.
    assert!(series.samples.len() <= HOSTS * 2 * 2_001, "{}", series.samples.len());
    let held = change.bytes_allocated - change.bytes_deallocated;
    let of_samples = 2 * series.samples.len() * (size_of::<Sample>() + 8);
    assert!(held <= seconds as usize * BYTES_OF_SECOND + of_samples, "{held} bytes are held");
    // Histograms are decoded one by one into the same memory: nothing of their size is allocated for each.
    assert!(change.allocations < seconds as usize * 40, "{} allocations", change.allocations);
}
