//! Whether the settings of a load make sense by themselves, and times as the engine counts them. It must not look at steps, nor at
//! this machine.

use std::ops::RangeInclusive;

use experiment::plan::{Load, Rate};

use super::script::NS_PER_S;
use crate::schedules::{constant, poisson};
use crate::{Error, Orders};

/// Longest time of a timer: 100 days.
const LONGEST_S: f64 = 8_640_000.0;

/// Checks what a schedule, a timer or a count cannot do without.
pub fn check(orders: &Orders) -> Result<(), Error> {
    let load = &orders.load;
    if orders.services.is_empty() {
        return Err(Error::Setting("a load needs a service to go to".to_owned()));
    }
    if load.agents == 0 || load.steps.is_empty() {
        return Err(Error::Setting("a load needs at least one agent and one step".to_owned()));
    }
    let times = [load.ramp_s, load.time_s, load.timeout_s, load.drain_s, load.think_s, load.reconnect_s, orders.slot_s];
    if !times.iter().all(|time_s| time_s.is_finite() && *time_s >= 0.0) || load.timeout_s <= 0.0 || orders.slot_s <= 0.0
    {
        return Err(Error::Setting("a time of the load is negative, or `timeout` is 0".to_owned()));
    }
    if load.rate.is_some() && load.think_s > 0.0 {
        return Err(Error::Setting(
            "`think` and `rate` exclude each other: a pause belongs to a closed loop".to_owned(),
        ));
    }
    if load.rate.is_none() && load.backlog.is_some() {
        return Err(Error::Setting("`backlog` belongs to an open loop: without `rate` nothing waits".to_owned()));
    }
    rate(load)
}

fn rate(load: &Load) -> Result<(), Error> {
    let inside = |per_s: f64, rates: RangeInclusive<f64>| match rates.contains(&per_s) {
        true => Ok(()),
        false => {
            Err(Error::Setting(format!("`rate` is from {} to {:e} operations/s here", rates.start(), rates.end())))
        }
    };
    match &load.rate {
        None => Ok(()),
        Some(Rate::Constant(per_s)) => inside(*per_s, constant::RATES),
        Some(Rate::Poisson { poisson }) => inside(*poisson, poisson::RATES),
        Some(Rate::Replay { stretch, .. }) if stretch.is_finite() && *stretch > 0.0 => Ok(()),
        Some(Rate::Replay { .. }) => {
            Err(Error::Setting("a recorded schedule cannot be stretched like that".to_owned()))
        }
        Some(Rate::Stages(stages)) => {
            for per_s in stages.iter().flat_map(|stage| [stage.from, stage.to]) {
                inside(per_s, 0.0..=*constant::RATES.end())?;
            }
            let lasts = stages.iter().all(|stage| stage.over_s.is_finite() && stage.over_s > 0.0);
            let starts = stages.iter().any(|stage| stage.from > 0.0 || stage.to > 0.0);
            match lasts && starts {
                true => Ok(()),
                false => Err(Error::Setting("stages of a rate have a length, and one at least a rate".to_owned())),
            }
        }
    }
}

/// A time in nanoseconds.
pub fn ns(time_s: f64) -> u64 {
    (time_s.clamp(0.0, LONGEST_S) * NS_PER_S as f64).round() as u64
}
