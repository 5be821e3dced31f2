//! What `plimsoll check` prints: the trials of a plan in their order, what happens when in each of them, and how long
//! all of it will take. It plans nothing and runs nothing.

use std::fmt::Write as _;

use crate::plan::{Plan, Trial};
use crate::quantity::grouped;

mod clock;
mod estimate;
mod listing;
mod traits;

/// The plan, for a person; ends with a newline.
#[must_use]
pub fn print(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = writeln!(text, "{}", plan.title);
    if !plan.asks.is_empty() {
        let _ = writeln!(text, "  {}", plan.asks);
    }
    text.push('\n');
    text.push_str(&listing::trials(plan));
    for group in groups(plan) {
        text.push('\n');
        text.push_str(&group.print(plan));
    }
    text.push('\n');
    let _ = writeln!(text, "{}", estimate::total(plan));
    text
}

/// Trials in which the same happens at the same times.
struct Group<'a> {
    clock: Vec<String>,
    trials: Vec<&'a Trial>,
}

fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trial in plan.possible() {
        let clock = clock::lines(trial);
        match groups.iter_mut().find(|group| group.clock == clock) {
            Some(group) => group.trials.push(trial),
            None => groups.push(Group { clock, trials: vec![trial] }),
        }
    }
    groups
}

impl Group<'_> {
    fn print(&self, plan: &Plan) -> String {
        let ids: Vec<&str> = self.trials.iter().map(|trial| trial.id.as_str()).collect();
        let mut text = match ids.as_slice() {
            _ if plan.find.is_some() => format!("{}\n", self.search(plan)),
            [only] => format!("trial {only}\n"),
            ids if ids.len() == plan.trials.len() => "each trial\n".to_owned(),
            ids => format!("trials {}\n", listing::runs(ids)),
        };
        for line in traits::lines(&self.trials).iter().chain(&self.clock) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

impl Group<'_> {
    /// The searches whose trials these are.
    fn search(&self, plan: &Plan) -> String {
        if self.trials.len() == plan.possible().len() {
            return "each trial".to_owned();
        }
        let name = |trial: &&Trial| {
            let parts = [trial.variant.clone(), trial.surviving.clone()];
            parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        };
        format!("each trial of: {}", self.trials.iter().map(name).collect::<Vec<_>>().join("; "))
    }
}

/// A value without the quotes of a text.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// `13,000`
fn thousands(number: u64) -> String {
    grouped(&number.to_string())
}

#[cfg(test)]
mod tests {
    use super::{listing, thousands};

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn ids_are_run_together() {
        assert_eq!(listing::runs(&["001", "002", "003", "007", "009", "010"]), "001–003, 007 and 009–010");
    }
}
