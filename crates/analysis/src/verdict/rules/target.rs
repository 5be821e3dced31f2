//! Rules about the target: whether it was there, and the same, all the time. How well it did is not looked at.

use record::events::What;

use super::{Facts, Weighed};
use crate::versions;

pub(super) fn alarming_log(facts: &Facts<'_>) -> Weighed {
    let alarming = || facts.trial.said.iter().filter(|said| said.alarming);
    let first = alarming().next()?;
    let count: u64 = alarming().map(|said| said.count).sum();
    let more = match count {
        1 => String::new(),
        _ => format!(", and {} more such line{}", count - 1, if count == 2 { "" } else { "s" }),
    };
    Some((count as f64, format!("{} said at {:.1} s: \"{}\"{more}", first.host, first.at_s, first.line.trim())))
}

pub(super) fn lost_host(facts: &Facts<'_>) -> Weighed {
    let (name, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::HostDown { host, expected: false } => Some((host, event.at_s)),
        _ => None,
    })?;
    Some((1.0, format!("the host {name} was lost at {at_s:.1} s although nobody meant it to be")))
}

pub(super) fn lost_process(facts: &Facts<'_>) -> Weighed {
    let (name, how, at_s, last) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::ProcessDown { host, process, how, expected: false, last_lines } => Some((
            format!("{host}.{process}"),
            how,
            event.at_s,
            last_lines.iter().rfind(|line| !line.trim().is_empty()),
        )),
        _ => None,
    })?;
    let last = last.map(|line| format!("; it wrote last: \"{}\"", line.trim())).unwrap_or_default();
    Some((1.0, format!("the target's process {name} ended at {at_s:.1} s although nobody meant it to ({how}){last}")))
}

pub(super) fn lost_switch(facts: &Facts<'_>) -> Weighed {
    let (reason, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::SwitchLost { reason } => Some((reason, event.at_s)),
        _ => None,
    })?;
    Some((
        1.0,
        format!("the switch between the hosts was lost at {at_s:.1} s although nobody meant it to be: {reason}"),
    ))
}

pub(super) fn no_success(facts: &Facts<'_>) -> Weighed {
    facts.planned.load.as_ref()?;
    Some((f64::from(u8::from(facts.trial.outcomes.ok == 0)), "no operation succeeded".to_owned()))
}

/// Before the first fault only: what a fault does to the target's processes is what it is for.
pub(super) fn restarted_target(facts: &Facts<'_>) -> Weighed {
    let window = facts.window?;
    let until_s = window.first_fault_s.unwrap_or(window.until_s);
    let replaced = &facts.evidence.sampled.replaced;
    let during = || replaced.iter().filter(|row| row.at_s > 0.0 && row.at_s <= until_s);
    let first = during().next()?;
    let count: u64 = during().map(|row| row.count).sum();
    let (host, process, at_s) = (&first.host, &first.process, first.at_s);
    let many = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
    Some((
        count as f64,
        format!(
            "{many} of the target ended and came again although nobody ordered it, first {host}.{process} near {at_s:.0} s"
        ),
    ))
}

pub(super) fn versions_changed(facts: &Facts<'_>) -> Weighed {
    let change = versions::change(facts.planned, facts.evidence, facts.run.earlier)?;
    Some((1.0, change))
}
