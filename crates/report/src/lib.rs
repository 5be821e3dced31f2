//! From results to one page and a few words. It reads what the analysis left in the run folder, and must neither judge anew
//! nor invent: what was not measured is said to be so.

mod calendar;
mod charts;
pub mod compared;
mod drawing;
mod facts;
pub mod numbers;
mod page;
mod recovery;
mod search_charts;
mod series;
mod sheets;
mod sweep_charts;
mod tables;
pub mod words;

use experiment::plan::Plan;
use record::environment::Environment;
use record::folder::RunFolder;
use record::results::Results;

pub use page::contents::{Listed, contents};
pub use page::page;
pub use series::{LatencySecond, Series, read_latency, read_series};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A record is there and cannot be read.
    #[error(transparent)]
    Record(#[from] record::ReadError),
    /// A template of ours is broken.
    #[error("the page's template `{template}`: {reason}")]
    Template {
        /// Which.
        template: &'static str,
        /// What the template engine said.
        reason: String,
    },
}

/// All that the page shows.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    /// `analysis.json`.
    pub results: &'a Results,
    /// The plan that was played.
    pub plan: &'a Plan,
    /// What it ran on; `None` if nobody wrote that down.
    pub environment: Option<Environment>,
    /// Name of the run folder, without the way to it; empty if there is none.
    pub folder: String,
    /// What was recorded each second, for each trial that has records.
    pub trials: Vec<Series>,
}

/// Reads what the page needs beyond results and plan: the environment and every trial's records.
///
/// # Errors
/// If a record is there and cannot be read. A missing one is an empty one.
pub fn read<'a>(folder: &RunFolder, results: &'a Results, plan: &'a Plan) -> Result<Input<'a>, Error> {
    let trials =
        results.trials.iter().map(|trial| read_series(&folder.trial(&trial.id))).collect::<Result<Vec<_>, _>>()?;
    let name = folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Input { results, plan, environment: folder.read_environment()?, folder: name, trials })
}

#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;
