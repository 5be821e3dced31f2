//! Analysis of records: quantiles, outages, checks and verdicts. This crate reads a run folder
//! through `record` and returns values. It must not write, print, or query the machine on which it
//! runs.

pub mod answer;
mod arrivals;
mod audit;
mod checks;
mod claims;
pub mod client_history;
mod compare;
mod comparisons;
mod cost;
mod delays;
mod demanded_hosts;
mod disturbances;
mod evidence;
mod exercise_results;
mod faults;
mod fleet;
mod generator;
mod history;
mod host_usage;
mod late_starts;
mod latency_series;
mod live_collections;
mod live_consistency;
mod load_groups;
mod load_window;
mod members;
mod metrics;
pub mod noise;
mod operations;
mod plausibility;
mod programs;
mod run;
mod safe_load;
mod sampled;
mod scaling;
mod so_far;
mod stats;
mod sweep_stops;
#[cfg(test)]
mod synthetic;
mod target_metrics;
mod trial;
pub mod trial_groups;
pub mod truths;
mod units;
mod verdict;
mod versions;

pub use compare::compare;
pub use comparisons::{CompareOptions, InterimLook, level_of_look};
pub use history::{USUAL, history};
pub use latency_series::{LatencySecond, LatencySeries};
pub use live_consistency::{LiveConsistency, LiveViolation};
pub use metrics::{metric, metric_paths};
pub use run::{AnalyzedRun, analyze, analyze_to_draw};
pub use safe_load::{finished, judged_words};
pub use so_far::trial_so_far;
pub use sweep_stops::stops_sweep;
pub use trial::trial;
pub use verdict::{Rule, Threshold, rules};

/// An error that prevents the analysis of records.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder has no plan, so it is not a run folder.
    #[error("{} is not a run folder: it has no plan.json", .0.display())]
    NotARun(std::path::PathBuf),
    /// The folder cannot be listed.
    #[error("cannot list the trials: {0}")]
    List(std::io::Error),
    /// The runs cannot be compared.
    #[error("{what}\n  {hint}")]
    Incomparable {
        /// Reason.
        what: String,
        /// Suggested remedy.
        hint: String,
    },
    /// A record cannot be read, or is damaged elsewhere than at its end.
    #[error(transparent)]
    Read(#[from] record::ReadError),
}
