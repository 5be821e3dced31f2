//! Rules about losses without a fault: generators, hosts, processes, the switch.

use experiment::plan::GENERATOR_ROLE;
use record::events::What;

use super::{Evaluation, RuleInput};

pub(super) fn generator_lost(facts: &RuleInput<'_>) -> Evaluation {
    let (name, heard_s, reason) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::GeneratorLost { generator, heard_s, reason } => Some((generator, heard_s, reason)),
        _ => None,
    })?;
    let fleet = facts.planned.fleet.as_ref();
    let number = fleet.and_then(|fleet| (1..=fleet.generators).find(|number| fleet.name(*number) == *name));
    let host = fleet.zip(number).and_then(|(fleet, number)| fleet.host(number));
    let on = host.map_or_else(String::new, |host| format!(" on {host}"));
    Some((1.0, format!("generator {name}{on} was lost at {heard_s:.1} s: {reason}")))
}

pub(super) fn lost_host(facts: &RuleInput<'_>) -> Evaluation {
    let (name, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::HostDown { host, expected: false } => Some((host, event.at_s)),
        _ => None,
    })?;
    Some((1.0, format!("the host {name} was lost at {at_s:.1} s without a fault")))
}

pub(super) fn lost_process(facts: &RuleInput<'_>) -> Evaluation {
    let (name, how, at_s, last) = facts.evidence.events.iter().find_map(|event| match &event.what {
        // The rule `generator_lost` covers generators.
        What::ProcessDown { process, .. } if facts.planned.fleet.is_some() && process == GENERATOR_ROLE => None,
        What::ProcessDown { host, process, how, expected: false, last_lines } => Some((
            format!("{host}.{process}"),
            how,
            event.at_s,
            last_lines.iter().rfind(|line| !line.trim().is_empty()),
        )),
        _ => None,
    })?;
    let last = last.map(|line| format!("; it wrote last: \"{}\"", line.trim())).unwrap_or_default();
    Some((1.0, format!("the target's process {name} ended at {at_s:.1} s without a fault ({how}){last}")))
}

pub(super) fn lost_switch(facts: &RuleInput<'_>) -> Evaluation {
    let (reason, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::SwitchLost { reason } => Some((reason, event.at_s)),
        _ => None,
    })?;
    Some((1.0, format!("the switch between the hosts was lost at {at_s:.1} s without a fault: {reason}")))
}
