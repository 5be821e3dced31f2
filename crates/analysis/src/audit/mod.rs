//! What the histories of audited keys and the members' tables say about the data: each file one check. It must not know how either
//! came about.

mod divergence;
mod lost_writes;
pub(crate) mod pooled;

use experiment::plan::{self, WhenFailed};
use record::events::What;
use record::replicas::Replica;
use record::results::{Consistency, Outcomes, ReplicaTable};

use crate::evidence::Evidence;
use divergence::divergence;
use lost_writes::lost_writes;

/// What all checks found in a trial whose operations ended so, and which had so many full cycles.
pub(crate) fn consistency(
    planned: &plan::Trial,
    evidence: &Evidence,
    outcomes: &Outcomes,
    full_cycles: Option<u64>,
) -> Consistency {
    let lost = lost_writes(&evidence.history, &evidence.replicas);
    let diverged = divergence(&evidence.replicas);
    let expects = planned.load.as_ref().is_some_and(|load| load.steps.iter().any(|step| !step.expect.is_empty()));
    // Each of these has ended a cycle, too.
    let ends_at_wrong = planned.load.as_ref().is_some_and(|load| load.when_failed == WhenFailed::NextCycle);
    let broken = outcomes.failed + outcomes.timeout + if ends_at_wrong { outcomes.wrong } else { 0 };
    Consistency {
        checked: lost.as_ref().map(|lost| lost.checked),
        wrong: expects.then_some(outcomes.wrong),
        cycles: full_cycles.map(|full| full + broken),
        lost_writes: lost.as_ref().map(|lost| lost.lost),
        lost_examples: lost.map(|lost| lost.examples).unwrap_or_default(),
        diverged_keys: diverged.as_ref().map(|diverged| diverged.keys),
        diverged_differing: diverged.as_ref().map(|diverged| diverged.differing),
        diverged_missing: diverged.as_ref().map(|diverged| diverged.missing),
        diverged_examples: diverged.map(|diverged| diverged.examples).unwrap_or_default(),
        replicas: evidence.replicas.iter().map(table).collect(),
        replicas_settled: evidence.events.iter().rev().find_map(|event| match event.what {
            What::Replicas { settled, .. } => Some(settled),
            _ => None,
        }),
        linearizable: "not checked".to_owned(),
    }
}

fn table(replica: &Replica) -> ReplicaTable {
    ReplicaTable {
        name: replica.member.clone(),
        records: replica.holds.as_ref().ok().map(|table| table.len() as u64),
        failed: replica.holds.as_ref().err().cloned(),
    }
}

#[cfg(test)]
mod tests;
