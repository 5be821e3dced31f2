//! Simulated histories of an experiment: how often a change is found if there is none, or if the
//! later runs are slower.

use analysis::noise::autoregressive;
use record::results::{Results, Throughput, Trial};

use super::{Bench, Job, Rows, at_least, at_most, row};

const THROUGHPUT: &str = "throughput.operations_per_s";

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for runs in [20, 40] {
        for phi in [0.0, 0.3, 0.5, 0.7] {
            jobs.push(Box::new(move |bench| course(bench, runs, phi, 0.0)));
        }
        jobs.push(Box::new(move |bench| course(bench, runs, 0.0, 0.2)));
    }
    jobs
}

/// Simulates histories of runs with a spread of 5 % and autocorrelation `phi`. The second half of
/// the runs is slower by the share `less`.
fn course(bench: &Bench<'_>, runs: usize, phi: f64, less: f64) -> Rows {
    // In correlated runs, false changes are found more often. docs/results.md has the rates.
    let alarms = match phi {
        _ if phi > 0.6 => 0.25,
        _ if phi > 0.4 => 0.15,
        _ if phi > 0.0 => 0.1,
        _ => 0.05,
    };
    let goal = if less > 0.0 { at_least(0.9) } else { at_most(alarms) };
    let asked = "a change is found";
    let by = if less > 0.0 { format!(", {:.0} % less from the middle on", 100.0 * less) } else { String::new() };
    let setting = format!("{runs} runs, AR {phi}{by}");
    let mut random = bench.random(&setting);
    let mut found = row("history", &setting, asked, goal);
    for _ in 0..bench.replicates(40) {
        let series = autoregressive(&mut random, runs, phi);
        let results: Vec<Results> = series
            .iter()
            .enumerate()
            .map(|(run, value)| {
                let level = if run >= runs / 2 { 1.0 - less } else { 1.0 };
                let per_s = Some(1_000.0 * level * (1.0 + 0.05 * value));
                let throughput = Throughput { operations_per_s: per_s, ..Throughput::default() };
                let trial = Trial { id: "001".to_owned(), repeat: 1, throughput, ..Trial::default() };
                Results {
                    format: record::results::FORMAT,
                    title: "Simulated".to_owned(),
                    trials: vec![trial],
                    ..Results::default()
                }
            })
            .collect();
        let course = bench.course(&results, THROUGHPUT)?;
        found.count(Some(course.series.iter().any(|series| !series.changes.is_empty())));
    }
    Ok(vec![found])
}
