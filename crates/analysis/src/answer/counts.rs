//! Counts that should be 0: failed calls, lost writes, wrong answers, differing keys. A table has
//! the words for each count. The findings of a single load and of several cases are made from the
//! table.

use record::results::Trial;
use text::{capital, code, listed, numbers};

use super::side_by_side::{DimensionSplit, by_value, dimension, names};
use crate::trial_groups::{FigureOf, Group, MedianRange, counted, operations};

/// A count that should be 0, and its words.
pub(super) struct Count {
    things: &'static str,
    happened: &'static str,
    figure: FigureOf,
    /// Number of `things` that were checked, and number of all `things`.
    checked: Option<[FigureOf; 2]>,
    /// Finding of a single load if the count is 0.
    none: Option<&'static str>,
    /// Returns the finding of several cases.
    side_by_side: fn(&Self, &[Group]) -> Option<String>,
}

/// Operations that failed or timed out.
pub(super) const FAILURES: Count = Count {
    things: "operations",
    happened: "failed",
    figure: |trial| counted(trial, |trial| trial.outcomes.failed + trial.outcomes.timeout),
    checked: Some([|trial| counted(trial, operations); 2]),
    none: None,
    side_by_side: Count::by_case,
};

/// Counts that the consistency checks give.
const INCONSISTENCIES: [Count; 4] = [
    Count {
        things: "acknowledged writes",
        happened: "were lost",
        figure: |trial| float(trial.consistency.lost_writes),
        // Results of earlier versions count all keys together.
        checked: Some([
            |trial| float(trial.consistency.acknowledged_checked.or(trial.consistency.checked)),
            |trial| float(trial.consistency.acknowledged),
        ]),
        none: Some("no acknowledged write was lost"),
        side_by_side: Count::by_case,
    },
    Count {
        things: "answers",
        happened: "were wrong",
        figure: |trial| float(trial.consistency.wrong),
        checked: None,
        none: None,
        side_by_side: Count::per_1000_cycles,
    },
    Count {
        things: "keys",
        happened: "differed between members at the end",
        figure: |trial| float(trial.consistency.diverged_keys),
        checked: None,
        none: None,
        side_by_side: Count::by_case,
    },
    Count {
        things: "keys",
        happened: "were not linearizable",
        figure: |trial| float(trial.consistency.not_linearizable),
        checked: Some([|trial| float(trial.consistency.linearizable_checked); 2]),
        none: None,
        side_by_side: Count::by_case,
    },
];

fn float(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

fn in_words(count: Option<MedianRange>) -> Option<String> {
    count.map(|count| count.text(numbers::median_count_in_words))
}

/// Returns the findings of the checks of a single load.
pub(super) fn of_load(group: &Group) -> impl Iterator<Item = String> {
    INCONSISTENCIES.iter().filter_map(|count| count.of_load(group))
}

/// Returns a sentence on each check that found something in several cases.
pub(super) fn inconsistencies(groups: &[Group]) -> Vec<String> {
    INCONSISTENCIES.iter().filter(|count| count.cases(groups) > 0).filter_map(|count| count.over(groups)).collect()
}

/// Returns a sentence on each check that found nothing in several cases.
pub(super) fn consistencies(groups: &[Group]) -> impl Iterator<Item = String> {
    INCONSISTENCIES.iter().filter(|count| count.cases(groups) == 0).filter_map(|count| count.over(groups))
}

/// Returns the number of calls of a load.
pub(super) fn all_calls(group: &Group) -> String {
    in_words(group.spread(|trial| counted(trial, operations))).unwrap_or_else(|| numbers::NONE.to_owned())
}

/// Returns a text such as `99 of 1,834,666 operations failed and 3 timed out`, with `before` in
/// front and with these `verbs`. Returns `None` if both counts are 0.
pub(super) fn failures(group: &Group, before: &str, counts: [FigureOf; 2], verbs: [&str; 2]) -> Option<String> {
    let counts = counts.map(|count| in_words(group.spread(count).filter(|count| count.most > 0.0)));
    let all = all_calls(group);
    let [fail, time_out] = verbs;
    Some(match counts {
        [Some(failed), None] => format!("{before}{failed} of {all} operations {fail}"),
        [Some(failed), Some(late)] => format!("{before}{failed} of {all} operations {fail} and {late} {time_out}"),
        [None, Some(late)] => format!("{before}{late} of {all} operations {time_out}"),
        [None, None] => return None,
    })
}

impl Count {
    /// Returns the number of cases with a count above 0.
    fn cases(&self, groups: &[Group]) -> usize {
        groups.iter().filter(|group| group.spread(self.figure).is_some_and(|spread| spread.most > 0.0)).count()
    }

    /// Returns the finding of a single load: `17 answers were wrong`.
    fn of_load(&self, group: &Group) -> Option<String> {
        let (things, happened) = (self.things, self.happened);
        let count = group.spread(self.figure)?;
        let [checked, all] = self.checked.map_or([None, None], |of| of.map(|of| in_words(group.spread(of))));
        let all = all.filter(|all| checked.as_ref() != Some(all));
        if count.most > 0.0 {
            let of = checked.map(|checked| format!(" of {checked}")).unwrap_or_default();
            let which = if all.is_some() { "checked " } else { "" };
            return Some(format!("{}{of} {which}{things} {happened}", count.text(numbers::median_count_in_words)));
        }
        let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
        Some(format!("{} ({}{of} checked)", self.none?, checked?))
    }

    /// Returns the finding of several cases in one sentence. `None` if no case has the count.
    pub(super) fn over(&self, groups: &[Group]) -> Option<String> {
        (self.side_by_side)(self, groups)
    }

    /// Returns a sentence on the cases in which the count is above 0, and those in which it is 0.
    /// If a dimension separates them, the sentence names its values, otherwise the worst case.
    fn by_case(&self, groups: &[Group]) -> Option<String> {
        let what = format!("{} {}", self.things, self.happened);
        let (group, trial, most) = worst(groups, self.figure)?;
        if most == 0.0 {
            return Some(format!("No {what} in any of the cases."));
        }
        let all = self.checked.and_then(|[checked, _]| checked(trial));
        let of = all.map(|all| format!(" of {}", numbers::median_count_in_words(all))).unwrap_or_default();
        let up_to = format!("up to {}{of}", numbers::median_count_in_words(most));
        Some(capital(&match DimensionSplit::best(groups, self.figure) {
            Some(split) => {
                let (dirty, clean) = (names(split.dimension, &split.dirty), names("", &split.clean));
                format!("{what} with {dirty} ({up_to}), none with {clean}.")
            }
            None => {
                let (some, all) = (self.cases(groups), groups.len());
                format!("{what} in {some} of {all} cases ({up_to}, with {}).", code(&group.name()))
            }
        }))
    }

    /// Returns wrong answers per 1,000 cycles by the values of a dimension. `None` if no answer was
    /// wrong.
    fn per_1000_cycles(&self, groups: &[Group]) -> Option<String> {
        if self.cases(groups) == 0 {
            return None;
        }
        let index = DimensionSplit::best(groups, self.figure).map_or(0, |split| split.index);
        let (mut dirty, mut clean) = (Vec::new(), Vec::new());
        for (value, of_value) in by_value(groups, index) {
            let name = names(dimension(groups, index), &[value]);
            let trials: Vec<&Trial> = of_value.into_iter().flat_map(Group::counting).collect();
            let wrong: u64 = trials.iter().map(|trial| trial.outcomes.wrong).sum();
            let cycles: Option<u64> = trials.iter().map(|trial| trial.consistency.cycles).sum();
            if wrong == 0 {
                let cycles = cycles.map(|cycles| format!(" in {} cycles", numbers::count_in_words(cycles)));
                clean.push(name + &cycles.unwrap_or_default());
            } else {
                let cycles = cycles.filter(|cycles| *cycles > 0);
                dirty.push((cycles.map(|cycles| 1_000.0 * wrong as f64 / cycles as f64), wrong, name));
            }
        }
        dirty.sort_by(|(a, ..), (b, ..)| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0)));
        let of = if dirty.iter().all(|(per_1000, ..)| per_1000.is_some()) { " per 1,000 cycles" } else { "" };
        let counts = dirty.into_iter().map(|(per_1000, wrong, name)| {
            let count = per_1000.map_or_else(|| numbers::count_in_words(wrong), numbers::number);
            format!("{count} with {name}")
        });
        let none = if clean.is_empty() { String::new() } else { format!("; none with {}", listed(&clean, "and")) };
        Some(format!("Wrong answers{of}: {}{none}.", listed(&counts.collect::<Vec<_>>(), "and")))
    }
}

/// Returns the trial with the largest value, and its group.
fn worst<'g>(groups: &'g [Group], figure: FigureOf) -> Option<(&'g Group<'g>, &'g Trial, f64)> {
    let trials = groups.iter().flat_map(|group| group.counting().map(move |trial| (group, trial)));
    let valued = trials.filter_map(|(group, trial)| Some((group, trial, figure(trial)?)));
    valued.reduce(|worst, next| if next.2 > worst.2 { next } else { worst })
}
