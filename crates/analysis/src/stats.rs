//! Numbers from numbers: each file one method, with its source. Nothing here knows a file, an experiment or a verdict.

pub(crate) mod bootstrap;
pub(crate) mod change_points;
pub(crate) mod clopper_pearson;
pub(crate) mod crossing;
pub(crate) mod curve;
pub(crate) mod effective_samples;
pub(crate) mod flat;
pub(crate) mod holm;
pub(crate) mod knee;
pub(crate) mod latency_seconds;
pub(crate) mod level_shift;
pub(crate) mod littles_law;
#[cfg(test)]
pub(crate) mod made_load;
pub(crate) mod noncentral_t;
pub(crate) mod order;
pub(crate) mod outage;
pub(crate) mod quantiles;
pub(crate) mod ratio;
pub(crate) mod significance;
pub(crate) mod steady_state;
pub(crate) mod student;
pub(crate) mod timeline;
pub(crate) mod usl;
