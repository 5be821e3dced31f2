//! Checks of a load's settings before it is compiled.

use std::ops::RangeInclusive;

use experiment::plan::{self, Load, Rate};

use super::script::FEEDS;
use crate::schedules::{constant, poisson};
use crate::{Error, LoadOrder};

/// Checks the settings that schedules, timers and counts rely on.
pub fn check(orders: &LoadOrder) -> Result<(), Error> {
    let load = &orders.load;
    if load.feeds.len() > FEEDS {
        return Err(Error::Setting(format!(
            "a load may have at most {FEEDS} feeds, but this load has {}",
            load.feeds.len()
        )));
    }
    if orders.services.is_empty() {
        return Err(Error::Setting("a load needs a service".to_owned()));
    }
    let agents = load.populations().iter().map(|group| u64::from(group.agents)).sum::<u64>();
    if agents != u64::from(load.agents) || (!load.groups.is_empty() && load.connections.pipeline > 1) {
        return Err(Error::Setting(
            "the load's number of agents must be the sum of its groups; groups cannot be combined with `pipeline`"
                .to_owned(),
        ));
    }
    if load.connections.pipeline == 0 {
        return Err(Error::Setting("`pipeline` must be at least 1".to_owned()));
    }
    load.populations().iter().try_for_each(|population| check_population(population, orders))
}

fn check_population(load: &Load, orders: &LoadOrder) -> Result<(), Error> {
    if load.agents == 0 || load.sequences().next().is_none() {
        return Err(Error::Setting("a load needs at least one agent and one step".to_owned()));
    }
    let whole = &orders.load;
    let times = [
        load.ramp_s,
        whole.time_s,
        load.timeout_s,
        whole.drain_s,
        load.think_s,
        whole.reconnect_s,
        whole.reconnects.delay_s,
        orders.slot_s,
    ];
    if !times.iter().all(|time_s| time_s.is_finite() && *time_s >= 0.0) || load.timeout_s <= 0.0 || orders.slot_s <= 0.0
    {
        return Err(Error::Setting("a time of the load is negative, or `timeout` is 0".to_owned()));
    }
    if !load.agent_stages.iter().all(|stage| stage.over_s.is_finite() && stage.over_s > 0.0) {
        return Err(Error::Setting("each stage of `agents` needs a length above 0".to_owned()));
    }
    if load.agent_stages.iter().any(|stage| stage.from.max(stage.to) > load.agents) {
        return Err(Error::Setting("`agents` must be the largest number of its stages".to_owned()));
    }
    let pauses = load.steps.iter().filter_map(|step| step.think).chain(load.think);
    if !pauses.flat_map(plan::Pause::times_s).all(|time_s| time_s.is_finite() && time_s >= 0.0) {
        return Err(Error::Setting("a pause of the load is negative".to_owned()));
    }
    if !load.sequences().all(|steps| steps.iter().any(plan::Step::is_certain)) {
        return Err(Error::Setting("a cycle may have no operation: each step has `probability_pct`".to_owned()));
    }
    if let Some(conflict) = load.conflicts().next() {
        return Err(Error::Setting(conflict.to_string()));
    }
    rate(load)
}

fn rate(load: &Load) -> Result<(), Error> {
    let inside = |per_s: f64, rates: RangeInclusive<f64>| match rates.contains(&per_s) {
        true => Ok(()),
        false => Err(Error::Setting(format!(
            "`rate` must be from {} to {:e} operations/s or sessions/s",
            rates.start(),
            rates.end()
        ))),
    };
    match load.rate.as_ref().map(Rate::starts) {
        None => Ok(()),
        Some(Rate::Sessions { .. }) => {
            Err(Error::Setting("a rate of sessions cannot contain another rate of sessions".to_owned()))
        }
        Some(Rate::Constant(per_s)) => inside(*per_s, constant::RATES),
        Some(Rate::Poisson { poisson }) => inside(*poisson, poisson::RATES),
        Some(Rate::Replay { stretch, .. }) if stretch.is_finite() && *stretch > 0.0 => Ok(()),
        Some(Rate::Replay { .. }) => Err(Error::Setting("`stretch` must be a number above 0".to_owned())),
        Some(Rate::Stages(stages)) => {
            for per_s in stages.iter().flat_map(|stage| [stage.from, stage.to]) {
                inside(per_s, 0.0..=*constant::RATES.end())?;
            }
            let lasts = stages.iter().all(|stage| stage.over_s.is_finite() && stage.over_s > 0.0);
            let starts = stages.iter().any(|stage| stage.from > 0.0 || stage.to > 0.0);
            match lasts && starts {
                true => Ok(()),
                false => Err(Error::Setting(
                    "each stage of a rate needs a length above 0, and at least one stage a rate above 0".to_owned(),
                )),
            }
        }
    }
}
