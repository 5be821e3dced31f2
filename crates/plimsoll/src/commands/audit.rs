//! `plimsoll audit FILE`: whether a history that another program wrote is linearizable.

use std::fmt::Write as _;

use linearizability::{
    ForeignHistory, ForeignObject, ForeignSettings, HistoryErrors, InitialValue, Linearizability, ObjectOperations,
    OperationLines, Proof, is_jepsen_log, read_jepsen, read_jepsen_log,
};
use text::numbers::plural;

use crate::commands::imports;
use crate::exit::{Exit, Failure};
use crate::{cli, output};

/// Most objects whose violations are shown.
const SHOWN_OBJECTS: usize = 5;
/// Most operations of a proof that are shown.
const SHOWN_OPERATIONS: usize = 40;
/// Longest line of the history that is shown whole, characters.
const SHOWN_LINE: usize = 160;

/// Checks a history, and prints the verdict with its proofs.
pub fn run(arguments: &cli::AuditedHistory) -> Result<Exit, Failure> {
    let shown = arguments.file.display().to_string();
    let bytes = imports::unpacked_source(&arguments.file, "head -n 1000000 FILE | plimsoll audit -")?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        bad(&shown, &format!("line {line}: the text is not in UTF-8"))
    })?;
    refuse_own_history(&shown, &text)?;
    let history = read(&text).map_err(|errors| bad(&shown, &errors.to_string()))?;
    let initial = match arguments.initial.as_deref().map(|name| (name, history.value_of(name))) {
        None => InitialValue::Absent,
        Some((_, Some(value))) => InitialValue::Value(value),
        Some((name, None)) => return Err(bad_initial(&shown, name)),
    };
    let settings = ForeignSettings { initial, any_order: arguments.any_order };
    let verdicts: Vec<Linearizability> = history.objects.iter().map(|object| object.check(settings)).collect();
    let lines: Vec<&str> = text.lines().collect();
    let (said, exit) = JudgedHistory { shown: &shown, history: &history, verdicts: &verdicts, lines: &lines }.said();
    output::text(&said)?;
    Ok(exit)
}

/// Reads a history in the format that its beginning shows.
fn read(text: &str) -> Result<ForeignHistory, HistoryErrors> {
    // In Jepsen's own histories, a read of nil tells nothing.
    if is_jepsen_log(text) { read_jepsen_log(text) } else { read_jepsen(text, true) }
}

fn bad(shown: &str, errors: &str) -> Failure {
    let named: Vec<String> = errors.lines().map(|error| format!("{shown}: {error}")).collect();
    Failure::Bad {
        what: named.join("\n"),
        remedy: "expected a history of Jepsen in edn, or a log of etcd as Porcupine's tests read them; \
                 `plimsoll audit --help` lists the operations"
            .to_owned(),
    }
}

/// Refuses a run's `history.jsonl`: the verdict also depends on what the run's other files tell.
fn refuse_own_history(shown: &str, text: &str) -> Result<(), Failure> {
    if !text.trim_start().starts_with("{\"") {
        return Ok(());
    }
    Err(Failure::Bad {
        what: format!("{shown}: line 1: JSON, and no history in edn"),
        remedy: "a run's history.jsonl is checked by `plimsoll analyze DIR`, and written in edn by \
                 `plimsoll export DIR --history jepsen`"
            .to_owned(),
    })
}

fn bad_initial(shown: &str, name: &str) -> Failure {
    Failure::Bad {
        what: format!("no operation of {shown} has the value {name} of --initial"),
        remedy: "write the value as the history does; without --initial, registers have no value at first".to_owned(),
    }
}

struct JudgedHistory<'h> {
    shown: &'h str,
    history: &'h ForeignHistory,
    /// One for each object.
    verdicts: &'h [Linearizability],
    /// Lines of the file.
    lines: &'h [&'h str],
}

impl JudgedHistory<'_> {
    /// Returns the verdict on the whole history in words, and the exit.
    fn said(&self) -> (String, Exit) {
        let objects = || self.history.objects.iter().zip(self.verdicts);
        let violations: Vec<(&ForeignObject, &Proof)> = objects()
            .filter_map(|(object, verdict)| match verdict {
                Linearizability::Violation(proof) => Some((object, proof)),
                _ => None,
            })
            .collect();
        let undecided: Vec<String> = objects()
            .filter_map(|(object, verdict)| match verdict {
                Linearizability::Unknown { why } => Some(format!("  {}: {why}\n", name(object))),
                _ => None,
            })
            .collect();
        let operations = self.history.objects.iter().map(|object| object.lines.len()).sum();
        let kind = self.history.objects.first().map_or("object", kind);
        let of = format!("{} on {}", plural(operations, "operation"), plural(self.verdicts.len(), kind));
        let (verdict, exit) = match (violations.len(), undecided.len()) {
            (0, 0) => ("linearizable".to_owned(), Exit::Well),
            (0, count) => (format!("undecided ({})", plural(count, kind)), Exit::Inconclusive),
            (count, _) => (format!("not linearizable ({})", plural(count, kind)), Exit::Violated),
        };
        let mut said = format!("{}: {of}: {verdict}\n", self.shown);
        for (object, proof) in violations.iter().take(SHOWN_OBJECTS) {
            self.add_proof(object, proof, &mut said);
        }
        if violations.len() > SHOWN_OBJECTS {
            let _ = writeln!(said, "\nand {} more", plural(violations.len() - SHOWN_OBJECTS, kind));
        }
        said.extend(undecided.into_iter().take(SHOWN_OBJECTS));
        (said, exit)
    }

    fn add_proof(&self, object: &ForeignObject, proof: &Proof, said: &mut String) {
        let number = |place: usize| proof.core.iter().position(|known| *known == place).map_or(0, |number| number + 1);
        let explanation = proof.explanation.with_names(
            |place| format!("operation {}", number(place)),
            |value| format!("value {}", self.history.value_name(value)),
        );
        let _ = writeln!(said, "\n{}: {explanation}", name(object));
        for &place in proof.core.iter().take(SHOWN_OPERATIONS) {
            let lines = object.lines[place];
            let _ = writeln!(said, "  operation {}: {}", number(place), self.excerpt(lines));
        }
        if proof.core.len() > SHOWN_OPERATIONS {
            let _ = writeln!(said, "  and {}", plural(proof.core.len() - SHOWN_OPERATIONS, "more operation"));
        }
    }

    /// Returns the numbers of an operation's lines, and the line with the answer.
    fn excerpt(&self, lines: OperationLines) -> String {
        let told = lines.end.unwrap_or(lines.start);
        let line = self.lines.get(told - 1).copied().unwrap_or_default().trim();
        let short: String = line.chars().take(SHOWN_LINE).collect();
        let more = if short.len() < line.len() { "…" } else { "" };
        match lines.end {
            Some(end) if end != lines.start => format!("lines {} and {end}: {short}{more}", lines.start),
            _ => format!("line {}: {short}{more}", lines.start),
        }
    }
}

fn kind(object: &ForeignObject) -> &'static str {
    match object.operations {
        ObjectOperations::Register(_) => "register",
        ObjectOperations::Set(_) => "set",
        ObjectOperations::Queue(_) => "queue",
    }
}

fn name(object: &ForeignObject) -> String {
    object.key.as_ref().map_or_else(|| kind(object).to_owned(), |key| format!("{} {key}", kind(object)))
}
