//! Statistical methods: one method per file, or a few on one subject, each with its published
//! source. Modules in this folder must not know files, experiments or verdicts.

pub(crate) mod baseline;
pub(crate) mod blocks;
pub(crate) mod bootstrap;
pub(crate) mod change_points;
pub(crate) mod curve;
pub(crate) mod effective_samples;
pub(crate) mod knee;
pub(crate) mod latency_seconds;
pub(crate) mod level;
pub(crate) mod level_shift;
pub(crate) mod moderated;
pub(crate) mod outage;
pub(crate) mod quantile_batches;
pub(crate) mod quantiles;
pub(crate) mod queue;
pub(crate) mod sectioning;
pub(crate) mod shares;
pub(crate) mod significance;
pub(crate) mod slow_phases;
pub(crate) mod steady_state;
pub(crate) mod student;
pub(crate) mod timeline;
pub(crate) mod trend;
pub(crate) mod usl;
pub(crate) mod usual_failures;
