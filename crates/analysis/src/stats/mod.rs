//! Numbers from numbers: each file one method, with its source. Nothing here knows a file, an experiment or a verdict.

pub(crate) mod latency_seconds;
pub(crate) mod littles_law;
#[cfg(test)]
pub(crate) mod made_load;
pub(crate) mod order;
pub(crate) mod outage;
pub(crate) mod quantiles;
pub(crate) mod steady_state;
pub(crate) mod timeline;
