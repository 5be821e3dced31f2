//! Drawings of the proofs that a guarantee on the data was broken: the operations of the clients,
//! and the faults of the trial behind them.

use record::results::{ConsistencyProof, Fault, ProvingOperation, Results, Trial};

use crate::charts::fault_label;
use crate::drawing::chart::{Ink, Mark};
use crate::drawing::operation_lanes::{LaneOperation, OperationLanes};
use crate::{ReportInput, drawing};

/// Most proofs on the page.
const SHOWN: usize = 4;

/// Returns a drawing for each of the first proofs.
pub fn proofs(input: &ReportInput) -> Vec<OperationLanes> {
    let counting = record::results::counting(&input.results.trials);
    let all = counting.into_iter().flat_map(|trial| trial.consistency.proofs.iter().map(move |proof| (trial, proof)));
    all.take(SHOWN)
        .enumerate()
        .map(|(number, (trial, proof))| drawing_of(number, trial, proof, input.results))
        .collect()
}

fn drawing_of(number: usize, trial: &Trial, proof: &ConsistencyProof, results: &Results) -> OperationLanes {
    let broken = match proof.guarantee.as_str() {
        "linearizable" => "not linearizable".to_owned(),
        other => format!("without {other}"),
    };
    let of_trial = if results.trials.len() > 1 { format!(", trial {}", trial.id) } else { String::new() };
    let mut note = format!("{}.", capitalized(&proof.explanation));
    if proof.left_out > 0 {
        note.push_str(&format!(" {} more operations belong to it.", proof.left_out));
    }
    note.push_str(" Long times are drawn shorter.");
    OperationLanes {
        id: format!("proof-{}", number + 1),
        title: format!("Key {}: {broken}{of_trial}", proof.key),
        note,
        operations: proof.operations.iter().enumerate().map(|(place, one)| lane_operation(place, one)).collect(),
        marks: trial.faults.iter().filter(|fault| fault.failed.is_none()).map(mark).collect(),
    }
}

fn capitalized(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().into_iter().flat_map(char::to_uppercase).chain(characters).collect()
}

fn lane_operation(place: usize, one: &ProvingOperation) -> LaneOperation {
    let ink = match one.did.split(' ').next() {
        Some("read" | "found") => Ink::Two,
        Some("wrote") => Ink::One,
        Some("removed") => Ink::Four,
        _ => Ink::Three,
    };
    let unknown = if one.end_s.is_none() { ", result unknown" } else { "" };
    LaneOperation {
        client: one.agent.map_or_else(|| "preparation".to_owned(), |agent| format!("agent {agent}")),
        label: format!("{}: {}{unknown}", place + 1, one.did),
        ink,
        start_s: one.start_s,
        end_s: one.end_s,
    }
}

fn mark(fault: &Fault) -> Mark {
    Mark {
        until: fault.healed_s,
        colours: Some(drawing::legible(&fault.colour)),
        ..Mark::new(fault.at_s, fault_label(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn each_proof_is_drawn_with_the_faults_of_its_trial() {
        let (plan, mut results) = example::one_crash();
        assert!(proofs(&ReportInput::without_records(&results, &plan)).is_empty());
        results.trials[0].consistency = example::violated();
        let drawn = proofs(&ReportInput::without_records(&results, &plan));
        let titles: Vec<&str> = drawn.iter().map(|lanes| lanes.title.as_str()).collect();
        assert_eq!(titles, ["Key s/k-7: not linearizable", "Key s/k-7: without read your writes"]);
        assert_eq!(drawn[0].marks.len(), results.trials[0].faults.len());
        assert!(drawn[0].note.starts_with("Operation 1 ended with \"7-1\""), "{}", drawn[0].note);
        assert!(drawn[0].operations[3].label.ends_with(", result unknown"));
    }
}
