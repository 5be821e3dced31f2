//! `lab.speed`: a trial in the lab's time. At half the speed everything lasts twice as long, and half as much happens in a
//! second. What the target is told by its parameters is the target's own affair.

use crate::plan::trial::Parts;
use crate::plan::{Fault, Load, Retry, TargetKind, Warmup, When};

/// Divides every duration by the lab's speed and multiplies every rate by it.
pub(super) fn apply(parts: &mut Parts) {
    let speed = parts.lab.speed;
    // What is wrong with a speed has been said.
    if speed <= 0.0 || (speed - 1.0).abs() < f64::EPSILON {
        return;
    }
    if let TargetKind::Started { within_s, .. } = &mut parts.target.kind {
        *within_s /= speed;
    }
    if let Some(load) = &mut parts.load {
        slow_load(load, speed);
    }
    for fault in &mut parts.faults {
        slow_fault(fault, speed);
    }
    for step in &mut parts.steps {
        step.within_s /= speed;
    }
}

fn slow_load(load: &mut Load, speed: f64) {
    for time_s in [
        &mut load.ramp_s,
        &mut load.time_s,
        &mut load.timeout_s,
        &mut load.drain_s,
        &mut load.think_s,
        &mut load.reconnect_s,
    ] {
        *time_s /= speed;
    }
    if let Warmup::Seconds(warmup_s) = &mut load.warmup {
        *warmup_s /= speed;
    }
    match &mut load.retry {
        Retry::FailFast => {}
        Retry::Wait { wait_s } | Retry::Tries { wait_s, .. } => *wait_s /= speed,
    }
    if let Some(rate) = &mut load.rate {
        rate.slow(speed);
    }
}

fn slow_fault(fault: &mut Fault, speed: f64) {
    match &mut fault.when {
        When::At(at_s) => *at_s /= speed,
        When::Every { first_s, every_s } => {
            *first_s /= speed;
            *every_s /= speed;
        }
        When::After { plus_s, .. } => *plus_s /= speed,
    }
    if let Some(for_s) = &mut fault.for_s {
        *for_s /= speed;
    }
}
