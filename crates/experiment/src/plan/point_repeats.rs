//! `[sweep] repeat`: different numbers of repeats for some points of a sweep.

use crate::keys::{self, section};
use crate::plan::gates::{self, MetricNames};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{TableEntry, TomlTable};
use crate::trial_setting::TrialSetting;

section! {
    const POINT_REPEATS {
        repeat = required: Whole { min: 1, max: 1000 }, "Trials of each point that has these values";
    }
}

/// Returns the repeats of each setting: those of the last entry that names its point, or the
/// file's. `--set repeat=1` replaces all of them.
pub(super) fn read(
    root: &Section<'_>,
    settings: &[TrialSetting],
    names: &MetricNames<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<u32> {
    let mut repeats = vec![root.get("repeat").unwrap_or(1); settings.len()];
    let is_from_set = root.node("repeat").is_some_and(|node| node.place.rank > 0);
    let Some(sweep) = root.table.table("sweep") else { return repeats };
    for (node, table) in sweep.tables("repeat") {
        let section = Section { table, keys: POINT_REPEATS, place: &node.place };
        let chosen = chosen(table);
        if chosen.is_empty() {
            let problem = Problem::absent(&node.place, "this entry of `repeat` names no point").expected("no values");
            problems.push(problem.hint(
                "such as { \"load.agents\" = 1, repeat = 4 }; `repeat` at the top of the file is for all points",
            ));
        }
        problems.extend(chosen.iter().filter_map(|entry| gates::chosen(entry, names)));
        let Some(count) = section.get("repeat").filter(|_| !is_from_set) else { continue };
        let asked = chosen.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
        for (_, repeats) in settings.iter().zip(&mut repeats).filter(|(setting, _)| gates::is_asked(setting, &asked)) {
            *repeats = count;
        }
    }
    repeats
}

/// Returns the variant and the swept values that an entry names.
fn chosen(table: &TomlTable) -> Vec<TableEntry> {
    let mut chosen = table.clone();
    chosen.entries.retain(|entry| keys::find(POINT_REPEATS, &entry.key).is_none());
    chosen.flattened()
}
