//! Session guarantees: whether each client saw its own writes, and whether what it read never went
//! back. They are weaker than linearizability, and a client notices by itself that they are broken.

use linearizability::{Guarantee, check_sessions};
use record::results::ConsistencyProof;

use super::proofs::{PROOFS, proof};
use crate::client_history::ClientHistory;

/// Result of the check.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SessionCheck {
    /// Number of reads that returned an older value than the client's last write.
    pub missed_own_writes: u64,
    /// Number of reads that returned an older value than an earlier read of the client.
    pub went_back: u64,
    /// Operations that prove it, for the first few reads.
    pub proofs: Vec<ConsistencyProof>,
}

/// Checks each key of a history. Returns `None` if no key can be checked.
pub(super) fn sessions(history: &ClientHistory<'_>, clock_error_ns: i64) -> Option<SessionCheck> {
    let mut found = None;
    for key in history.keys.iter().filter(|key| key.is_checkable()) {
        let found: &mut SessionCheck = found.get_or_insert_default();
        for violation in check_sessions(&key.operations, clock_error_ns) {
            let (count, name) = match violation.guarantee {
                Guarantee::ReadYourWrites => (&mut found.missed_own_writes, "read your writes"),
                Guarantee::MonotonicReads => (&mut found.went_back, "monotonic reads"),
            };
            *count += 1;
            if found.proofs.iter().filter(|proof| proof.guarantee == name).count() < PROOFS {
                found.proofs.push(proof(name, history, key, &violation.proof));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use record::events::HistoryEntry;

    use super::*;

    fn line(agent: u32, effect: &str, value: &str, at_s: f64) -> HistoryEntry {
        HistoryEntry {
            at_s,
            start_s: Some(at_s - 0.5),
            agent: Some(agent),
            effect: effect.to_owned(),
            key: "k".to_owned(),
            value: Some(value.to_owned()),
            applied: Some(true),
            ..HistoryEntry::default()
        }
    }

    fn counts(lines: &[HistoryEntry]) -> Option<(u64, u64)> {
        sessions(&ClientHistory::of(lines), 0).map(|found| (found.missed_own_writes, found.went_back))
    }

    #[test]
    fn reads_that_break_a_guarantee_are_counted() {
        let writes = [line(1, "write", "a", 1.0), line(2, "write", "b", 2.0)];
        let with = |reads: &[HistoryEntry]| counts(&[&writes, reads].concat());
        assert_eq!(counts(&writes), None, "nobody read");
        assert_eq!(with(&[line(2, "read", "b", 3.0), line(3, "read", "a", 4.0)]), Some((0, 0)), "other clients");
        assert_eq!(with(&[line(2, "read", "a", 3.0)]), Some((1, 0)));
        assert_eq!(with(&[line(3, "read", "b", 3.0), line(3, "read", "a", 4.0)]), Some((0, 1)));
        assert_eq!(
            with(&[line(2, "read", "b", 3.0), line(2, "read", "a", 4.0), line(2, "read", "a", 5.0)]),
            Some((2, 2))
        );
    }

    #[test]
    fn a_broken_guarantee_is_explained() {
        let lines = [line(1, "write", "a", 1.0), line(2, "write", "b", 2.0), line(2, "read", "a", 3.0)];
        let found = sessions(&ClientHistory::of(&lines), 0).unwrap();
        assert_eq!(found.proofs[0].guarantee, "read your writes");
        assert_eq!(
            found.proofs[0].explanation,
            "operation 3 returned \"a\", but operation 2 of the same client had written the newer \"b\""
        );
    }
}
