//! Operations that prove that a guarantee was broken: in words, and to draw.

use linearizability::Proof;
use record::events::HistoryEntry;
use record::results::{ConsistencyProof, ProvingOperation};

use super::shortened;
use crate::client_history::{ClientHistory, KeyOperations};

/// Largest number of proofs of a guarantee, and of operations in a proof.
pub(super) const PROOFS: usize = 3;
const OPERATIONS: usize = 40;

/// Returns the positions of a proof's operations, by start.
fn by_start(key: &KeyOperations<'_>, proof: &Proof) -> Vec<usize> {
    let mut places = proof.core.clone();
    places.sort_by(|one, other| start_s(key.lines[*one]).total_cmp(&start_s(key.lines[*other])));
    places
}

fn start_s(line: &HistoryEntry) -> f64 {
    line.start_s.unwrap_or(line.at_s)
}

/// Says which operations on a key prove a violation.
pub(super) fn example(key: &KeyOperations<'_>, proof: &Proof) -> String {
    let told: Vec<String> = by_start(key, proof).into_iter().map(|place| in_words(key.lines[place])).collect();
    format!("{}: {}", key.name(), told.join(", then "))
}

/// Returns a proof to draw. The explanation refers to its operations by their numbers, from 1.
pub(super) fn proof(
    guarantee: &str,
    history: &ClientHistory<'_>,
    key: &KeyOperations<'_>,
    proof: &Proof,
) -> ConsistencyProof {
    let places = by_start(key, proof);
    let number = |place: usize| places.iter().position(|known| *known == place).map_or(0, |number| number + 1);
    let value = |value: u64| {
        let text = usize::try_from(value).ok().and_then(|value| history.values.get(value));
        text.map_or_else(|| "another value".to_owned(), |text| quoted(text))
    };
    ConsistencyProof {
        guarantee: guarantee.to_owned(),
        key: key.name(),
        explanation: proof.explanation.with_names(|place| format!("operation {}", number(place)), value),
        left_out: places.len().saturating_sub(OPERATIONS) as u64,
        operations: places.iter().take(OPERATIONS).map(|place| operation(key.lines[*place])).collect(),
    }
}

fn operation(line: &HistoryEntry) -> ProvingOperation {
    ProvingOperation {
        agent: line.agent,
        did: did(line),
        start_s: start_s(line),
        end_s: line.applied.is_some().then_some(line.at_s),
    }
}

/// Returns a name of an operation: `agent 3's read at 1.500 s`.
pub(crate) fn name(line: &HistoryEntry) -> String {
    let what = match line.effect.as_str() {
        "cas" => "compare-and-set",
        "remove" => "removal",
        "add_to_set" => "addition",
        "members" => "read",
        other => other,
    };
    format!("{}'s {what} at {:.3} s", client(line), start_s(line))
}

fn client(line: &HistoryEntry) -> String {
    line.agent.map_or_else(|| "the preparation".to_owned(), |agent| format!("agent {agent}"))
}

/// Returns a value in quotes, shortened.
pub(crate) fn quoted(value: &str) -> String {
    format!("\"{}\"", shortened(value))
}

/// Says who did what, and when.
fn in_words(line: &HistoryEntry) -> String {
    let (who, what, start_s) = (client(line), did(line), start_s(line));
    match line.applied {
        Some(_) => format!("{who} {what} ({start_s:.6} to {:.6} s)", line.at_s),
        None => format!("{who} {what} (from {start_s:.6} s, result unknown)"),
    }
}

/// Says what an operation did and saw.
fn did(line: &HistoryEntry) -> String {
    let quoted = |value: &Option<String>| value.as_deref().map(quoted);
    match (line.effect.as_str(), quoted(&line.value)) {
        ("read", Some(value)) => format!("read {value}"),
        ("read", None) => "found nothing".to_owned(),
        ("write", value) => format!("wrote {}", value.unwrap_or_default()),
        ("cas", value) => {
            let from = quoted(&line.from).unwrap_or_else(|| "nothing".to_owned());
            match (line.applied, quoted(&line.found)) {
                (Some(false), Some(found)) => format!("expected {from} and found {found}"),
                (Some(false), None) => format!("did not find {from}"),
                _ => format!("replaced {from} by {}", value.unwrap_or_default()),
            }
        }
        ("add_to_set", value) => format!("added {}", value.unwrap_or_default()),
        ("members", _) => format!("read {}", line.value.as_deref().map(shortened).unwrap_or_default()),
        ("enqueue", value) => format!("enqueued {}", value.unwrap_or_default()),
        ("dequeue", Some(value)) => format!("dequeued {value}"),
        ("dequeue", None) if line.applied.is_none() => "dequeued".to_owned(),
        ("dequeue", None) => "found the queue empty".to_owned(),
        _ => "removed it".to_owned(),
    }
}
