//! Rules about the measured part: whether it is long, steady and rich enough for what it is to show.

use super::{Facts, Weighed};
use crate::refusals;

pub(super) fn few_operations(facts: &Facts<'_>) -> Weighed {
    let (timeline, window) = (facts.timeline?, facts.window?);
    let (from, until) = (timeline.slot_of(window.from_s), timeline.slot_of(window.until_s));
    let ended = timeline.ok().between(from, until)
        + timeline.failed().between(from, until)
        + timeline.wrong().between(from, until);
    Some((ended as f64, format!("only {ended} operations ended in the measured part; at least 100 are needed")))
}

pub(super) fn no_steady_state(facts: &Facts<'_>) -> Weighed {
    let steady = facts.window?.steady?;
    let what = facts.trial.steady.as_ref().and_then(|steady| steady.unsteady.as_deref()).unwrap_or("throughput");
    let reason = format!("{what} never became steady: still changing when the load ended or broke");
    Some((f64::from(u8::from(!steady)), reason))
}

pub(super) fn short_measurement(facts: &Facts<'_>) -> Weighed {
    let window = facts.window?;
    let length = window.length_s();
    let what = if window.from_s > 0.0 { "left to measure after the warm-up" } else { "measured" };
    Some((length, format!("only {length:.1} s were {what}; at least 5 s are needed")))
}

pub(super) fn quantile_refused(facts: &Facts<'_>) -> Weighed {
    let refused = refusals::asked_in_vain(facts.run.plan?, facts.trial);
    let first = refused.first()?;
    let more = match refused.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    Some((refused.len() as f64, format!("{first}{more}")))
}
