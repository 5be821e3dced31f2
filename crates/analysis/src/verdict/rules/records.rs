//! Rules about the records: whether they are whole. They must not look at what is in them.

use record::events::{Ending, Event, Phase, What};

use super::{Facts, Weighed};

pub(super) fn cut_off(facts: &Facts<'_>) -> Weighed {
    let last_s = facts.evidence.last_s().unwrap_or(0.0);
    let why = |reason: Option<&str>| reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let reason = match facts.evidence.ending() {
        Some((Ending::Done, _)) => return None,
        Some((Ending::Interrupted, reason)) => format!("it was interrupted at {last_s:.1} s{}", why(reason)),
        Some((Ending::Failed, reason)) => format!("it failed at {last_s:.1} s{}", why(reason)),
        None => format!("its records end in the middle, at {last_s:.1} s"),
    };
    Some((1.0, reason))
}

pub(super) fn records_disagree(facts: &Facts<'_>) -> Weighed {
    // A trial that was cut off has written one of the two further than the other.
    facts.evidence.ending()?;
    let outcomes = facts.trial.outcomes;
    let logged = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong;
    let rows = facts.evidence.slots.iter();
    let counted: u64 =
        rows.map(|slot| [slot.ok, slot.failed, slot.timeout, slot.wrong].map(u64::from).iter().sum::<u64>()).sum();
    let what = format!("load.hlog holds {logged} operations and outcomes.csv {counted}: one of them is incomplete");
    Some((logged.abs_diff(counted) as f64, what))
}

pub(super) fn torn_records(facts: &Facts<'_>) -> Weighed {
    // Without an ending it is no wonder that they are torn.
    facts.evidence.ending()?;
    let torn = &facts.evidence.torn;
    Some((torn.len() as f64, format!("the last line was cut off in {}", torn.join(", "))))
}

pub(super) fn unread_keys(facts: &Facts<'_>) -> Weighed {
    let (keys, unread) = facts.evidence.events.iter().rev().find_map(|event| match event.what {
        What::Audit { keys, unread } => Some((keys, unread)),
        _ => None,
    })?;
    Some((unread as f64, format!("{unread} of {} audited keys could not be read back", keys + unread)))
}

pub(super) fn unaudited_member(facts: &Facts<'_>) -> Weighed {
    let silent =
        facts.evidence.replicas.iter().filter_map(|replica| Some((&replica.member, replica.holds.as_ref().err()?)));
    let unexpected: Vec<_> = silent.filter(|(member, _)| !was_taken_down(&facts.evidence.events, member)).collect();
    let (member, reason) = unexpected.first()?;
    let more = match unexpected.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some((unexpected.len() as f64, format!("the member {member} could not be audited: {reason}{more}")))
}

/// Whether a fault had taken a host, or what ran on it, down when members were asked.
fn was_taken_down(events: &[Event], host: &str) -> bool {
    let before = events.iter().take_while(|event| event.what != What::Phase { phase: Phase::Stopping });
    let (mut down, mut lost) = (false, false);
    for event in before {
        match &event.what {
            What::HostUp { host: name, .. } | What::ProcessUp { host: name, .. } if name == host => {
                (down, lost) = (false, false)
            }
            What::HostDown { host: name, expected } if name == host => (down, lost) = (*expected, !expected),
            // With a host that nobody meant to lose its processes go as well, and that is expected of them.
            What::ProcessDown { host: name, expected: true, .. } if name == host => down = !lost,
            _ => {}
        }
    }
    down
}

pub(super) fn unsettled_replicas(facts: &Facts<'_>) -> Weighed {
    let settled = facts.trial.consistency.replicas_settled?;
    let what = "what members held still changed when they were asked for the last time".to_owned();
    Some((f64::from(u8::from(!settled)), what))
}
