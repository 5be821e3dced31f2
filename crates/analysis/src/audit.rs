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
mod tests {
    //! Canaries: a write that was planted as lost and a divergence that was planted must be found in records on disk, and nothing where
    //! nothing was planted.

    use std::path::PathBuf;

    use record::events::{By, Event, History, Outcome};
    use record::folder::TrialFolder;
    use record::lines::Writer;
    use record::replicas::{self, Held, Table};
    use record::results::Trust;

    use super::*;
    use crate::made_up;

    /// A trial folder of its own for one test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plimsoll-audit-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const KEYS: usize = 500;

    /// Three members with 500 cases, each created and modified by its agent; `spoil` changes what they hold in the end.
    fn played(name: &str, spoil: impl FnOnce(&mut Vec<Replica>)) -> record::results::Trial {
        let scratch = Scratch::new(name);
        let folder = TrialFolder::at(&scratch.0);
        let mut history = Writer::create(&folder.history()).unwrap();
        for key in 0..KEYS {
            for version in 1..=2 {
                let line = History {
                    at_s: (2 * key + version) as f64 / 100.0,
                    by: By::Load,
                    agent: Some(1),
                    effect: "write".to_owned(),
                    space: String::new(),
                    key: format!("case-{key}"),
                    value: Some(format!("{{\"party\": \"p{key}\", \"n\": {version}}}")),
                    outcome: Outcome::Ok,
                    applied: Some(true),
                };
                history.write(&line).unwrap();
            }
        }
        history.flush().unwrap();
        let held =
            |key: usize| Held { value: format!("{{\"party\": \"p{key}\", \"n\": 2}}"), version: Some("2".to_owned()) };
        let table: Table = (0..KEYS).map(|key| (format!("case-{key}"), held(key))).collect();
        let mut members: Vec<Replica> =
            (2..=4).map(|number| Replica { member: format!("n{number}"), holds: Ok(table.clone()) }).collect();
        spoil(&mut members);
        replicas::write(&folder.replicas(), &members).unwrap();
        let mut events = Writer::create(&folder.events()).unwrap();
        let said = [What::Audit { keys: KEYS as u64, unread: 0 }, What::Replicas { rounds: 2, settled: true }];
        for what in said {
            events.write(&Event { at_s: 21.0, what }).unwrap();
        }
        events.flush().unwrap();
        crate::trial(&made_up::trial(made_up::load(10, 20.0)), &folder).unwrap()
    }

    fn table_of(replica: &mut Replica) -> &mut Table {
        replica.holds.as_mut().unwrap()
    }

    #[test]
    fn members_that_agree_with_each_other_and_the_clients_have_nothing_to_hide() {
        let found = played("clean", |_| {}).consistency;
        assert_eq!((found.checked, found.lost_writes, found.diverged_keys), (Some(500), Some(0), Some(0)));
        assert_eq!(
            (found.diverged_differing, found.diverged_missing, found.replicas_settled),
            (Some(0), Some(0), Some(true))
        );
        assert_eq!(found.replicas.iter().map(|table| table.records).collect::<Vec<_>>(), [Some(500); 3]);
    }

    #[test]
    fn a_planted_lost_write_is_found() {
        let found = played("lost", |members| {
            // The change of one case is gone everywhere, another case altogether.
            for member in members {
                table_of(member).get_mut("case-7").unwrap().value = "{\"party\": \"p7\", \"n\": 1}".to_owned();
                table_of(member).remove("case-11");
            }
        });
        let found = found.consistency;
        assert_eq!((found.lost_writes, found.diverged_keys), (Some(2), Some(0)));
        assert_eq!(found.lost_examples, ["case-11", "case-7"]);
    }

    #[test]
    fn a_planted_divergence_is_found() {
        let found = played("diverged", |members| {
            table_of(&mut members[1]).get_mut("case-7").unwrap().version = Some("1".to_owned());
            table_of(&mut members[2]).remove("case-11");
            table_of(&mut members[2]).insert("case-left-over".to_owned(), Held::default());
        });
        let found = found.consistency;
        assert_eq!((found.lost_writes, found.diverged_keys), (Some(0), Some(3)));
        assert_eq!((found.diverged_differing, found.diverged_missing), (Some(1), Some(2)));
        let expected = [
            "case-11: n2 and n3 version 2, n4 nothing",
            "case-7: n2 and n4 version 2, n3 version 1",
            "case-left-over: n2 and n3 nothing, n4 \"\"",
        ];
        assert_eq!(found.diverged_examples, expected);
    }

    #[test]
    fn a_member_that_could_not_be_asked_is_a_reason_and_no_silence() {
        let trial = played("silent", |members| members[1].holds = Err("hook `audit` failed: exit 7".to_owned()));
        assert_eq!(trial.consistency.diverged_keys, Some(0));
        assert_eq!(trial.consistency.replicas[1].failed.as_deref(), Some("hook `audit` failed: exit 7"));
        assert!(trial.verdict.is >= Trust::Suspect);
        let named = |reason: &String| reason == "the member n3 could not be audited: hook `audit` failed: exit 7";
        assert!(trial.verdict.reasons.iter().any(named), "{:?}", trial.verdict.reasons);
        let alone = played("alone", |members| members.truncate(1));
        assert_eq!(alone.consistency.diverged_keys, None, "nobody to differ from");
    }

    #[test]
    fn cycles_that_broke_are_among_those_that_wrong_answers_are_held_against() {
        let mut planned = made_up::trial(made_up::load(1, 10.0));
        let outcomes = Outcomes { ok: 500, failed: 3, timeout: 2, wrong: 5, ..Outcomes::default() };
        // A wrong answer ends its cycle only where that was asked for; else it is in one of the 90.
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, Some(90)).cycles, Some(95));
        planned.load.as_mut().unwrap().when_failed = WhenFailed::NextCycle;
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, Some(90)).cycles, Some(100));
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, None).cycles, None, "nobody counted");
    }
}
