//! Wrong answers in words: with which modes there were any, for 1,000 cycles, and with which none in how many cycles. It must not say that a
//! mode gives none: only that none was seen.

use super::side_by_side::{dimension, names, split, values_of};
use super::{capital, listed};
use crate::facts::{Figure, Group};
use crate::numbers;

/// What the trials of one value of a dimension say together.
struct Seen {
    name: String,
    wrong: u64,
    /// Cycles that ended, full or not; `None` where they were not counted.
    cycles: Option<u64>,
}

/// In one sentence; `None` where nothing was expected, or no answer was wrong.
pub fn sentence(groups: &[Group]) -> Option<String> {
    let wrong: Figure = |trial| trial.consistency.wrong.map(|count| count as f64);
    groups.iter().find(|group| group.spread(wrong).is_some_and(|wrong| wrong.most > 0.0))?;
    let index = split(groups, wrong).map_or(0, |split| split.index);
    let seen: Vec<Seen> = values_of(groups, index).into_iter().map(|name| seen(groups, index, name)).collect();
    let named = |one: &Seen| names(dimension(groups, index), std::slice::from_ref(&one.name));
    let (mut dirty, clean): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|one| one.wrong > 0);
    dirty.sort_by(|a, b| b.per_1000().unwrap_or(0.0).total_cmp(&a.per_1000().unwrap_or(0.0)));
    let counts: Vec<String> = dirty.iter().map(|one| format!("{} with {}", one.rate(), named(one))).collect();
    let of = if dirty.iter().all(|one| one.per_1000().is_some()) { " for 1,000 cycles" } else { "" };
    let mut text = format!("wrong answers{of}: {}", listed(&counts));
    let none: Vec<String> = clean.iter().map(|one| format!("{}{}", named(one), one.in_cycles())).collect();
    if !none.is_empty() {
        text.push_str(&format!("; none with {}", listed(&none)));
    }
    Some(capital(&format!("{text}.")))
}

fn seen(groups: &[Group], index: usize, name: String) -> Seen {
    let own = || groups.iter().filter(|group| group.labels.get(index).is_some_and(|label| label.1 == name));
    let trials = || own().flat_map(Group::usable);
    let wrong = trials().map(|trial| trial.outcomes.wrong).sum();
    let cycles: Option<u64> = trials().map(|trial| trial.consistency.cycles).sum();
    Seen { wrong, cycles, name }
}

impl Seen {
    fn per_1000(&self) -> Option<f64> {
        self.cycles.filter(|cycles| *cycles > 0).map(|cycles| 1_000.0 * self.wrong as f64 / cycles as f64)
    }

    fn rate(&self) -> String {
        match self.per_1000() {
            Some(rate) => numbers::number(rate),
            None => numbers::count_in_words(self.wrong),
        }
    }

    fn in_cycles(&self) -> String {
        self.cycles.map_or_else(String::new, |cycles| format!(" in {} cycles", numbers::count_in_words(cycles)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use experiment::plan::Plan;
    use record::results::Results;

    use crate::words::answer;
    use crate::{Input, example};

    fn input<'a>(results: &'a Results, plan: &'a Plan) -> Input<'a> {
        Input { results, plan, environment: None, folder: String::new(), trials: Vec::new() }
    }

    /// Four modes at two rates of the link: dirty ones give wrong answers, in so many of 1,000 cycles of each of two trials.
    pub(crate) fn modes() -> (Plan, Results) {
        let rates: &[&str] = &["1gbit", "5mbit"];
        let modes = ["sync_dirty", "async_dirty", "transaction", "sync_transaction"];
        let plan = example::plan(&modes, &[("lab.port.distribution.rate", rates)], 2);
        let mut results = example::results(&plan);
        for trial in &mut results.trials {
            let wrong = match (trial.variant.as_deref(), trial.point["lab.port.distribution.rate"].as_str()) {
                (Some("async_dirty"), Some("5mbit")) => 20,
                (Some("async_dirty"), _) => 4,
                (Some("transaction"), Some("5mbit")) => 2,
                _ => 0,
            };
            (trial.cycles, trial.outcomes.wrong, trial.consistency.wrong) = (Some(1_000), wrong, Some(wrong));
            trial.consistency.cycles = Some(1_000);
            trial.wrong_per_1000_cycles = Some(wrong as f64);
        }
        (plan, results)
    }

    #[test]
    fn modes_that_gave_wrong_answers_are_told_from_those_that_gave_none() {
        let (plan, mut results) = modes();
        let said = answer(&results, &plan);
        let words = "Wrong answers for 1,000 cycles: 12 with `async_dirty` and 1 with `transaction`; none with `sync_dirty` in 4,000 \
                 cycles and `sync_transaction` in 4,000 cycles.";
        assert!(said.contains(words), "{said}");
        let table = crate::tables::named("outcomes", &input(&results, &plan)).expect("a table");
        let row = &table.rows[3];
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(cells[..3], ["async_dirty", "5mbit", "2,000"]);
        assert_eq!((cells[6], cells[8]), ("40", "20"));
        // Without counted cycles the answers are counted.
        results.trials.iter_mut().for_each(|trial| (trial.cycles, trial.consistency.cycles) = (None, None));
        let said = answer(&results, &plan);
        assert!(
            said.contains("Wrong answers: 48 with `async_dirty` and 4 with `transaction`; none with `sync_dirty` and"),
            "{said}"
        );
        results.trials.iter_mut().for_each(|trial| (trial.outcomes.wrong, trial.consistency.wrong) = (0, Some(0)));
        assert!(
            !answer(&results, &plan).contains("rong answers")
                && crate::tables::named("outcomes", &input(&results, &plan)).is_none()
        );
    }

    #[test]
    fn of_variants_that_nobody_looked_into_nothing_is_said() {
        let (plan, mut results) = modes();
        for trial in &mut results.trials {
            trial.consistency.diverged_keys = match trial.variant.as_deref() {
                Some("async_dirty") => Some(3),
                Some("transaction") => Some(0),
                _ => None,
            };
        }
        let said = answer(&results, &plan);
        assert!(
            said.contains(
                "Keys differed between members in the end with `async_dirty` (up to 3), none with `transaction`."
            ),
            "{said}"
        );
    }
}
