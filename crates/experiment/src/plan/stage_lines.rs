//! Stages of a rate or of a number of agents: straight lines that follow each other in time.

use crate::duration::show;
use crate::keys::{self, Key};
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, TomlTable};

/// Words on stages of a kind.
pub(super) struct StageKind {
    /// Keys of a stage: `from`, `to` and `over`, or `at` and `for`.
    pub keys: &'static [Key],
    /// Examples of stages.
    pub forms: &'static str,
    /// Report of a negative value, and what is expected.
    pub negative: [&'static str; 2],
    /// Report of a stage that both changes and stays.
    pub both: &'static str,
}

/// A stage: a value that changes evenly or stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StageLine {
    pub from: f64,
    pub to: f64,
    /// Duration of the stage, seconds.
    pub over_s: f64,
}

/// Reads the stages of a list, and reports those that are longer than the load.
pub(super) fn read(
    section: &Section<'_>,
    list: &[Node],
    kind: &StageKind,
    context: &mut CheckContext<'_>,
) -> Option<Vec<StageLine>> {
    let mut lines: Vec<StageLine> = Vec::new();
    for item in list {
        let part = Section { table: item.table()?, keys: kind.keys, place: &item.place };
        let last = lines.last().map_or(0.0, |line| line.to);
        lines.push(line(&part, last, kind, context));
    }
    too_long(section, &lines, list, context);
    Some(lines)
}

/// Whether every stage stays at 0. A stage without a value has its own report.
pub(super) fn are_at_zero(list: &[Node], lines: &[StageLine]) -> bool {
    let has_value = |table: &TomlTable| table.get("at").or_else(|| table.get("to")).is_some();
    let have_values = list.iter().all(|item| item.table().is_some_and(has_value));
    have_values && lines.iter().all(|line| line.from <= 0.0 && line.to <= 0.0)
}

/// Reads a stage. Wrong values are reported and become 0. By default a stage starts at the final
/// value of the stage before.
fn line(part: &Section<'_>, last: f64, kind: &StageKind, context: &mut CheckContext<'_>) -> StageLine {
    let values = ["from", "to", "at"].into_iter().filter_map(|key| part.node(key));
    for node in values.filter(|node| node.number().is_some_and(|value| value < 0.0)) {
        let [what, expected] = kind.negative;
        context.problems.push(Problem::new(&node.place, what).expected(expected));
    }
    let has = |keys: &[&str]| keys.iter().any(|key| part.has(key));
    // Unknown keys are reported by the shape check.
    let is_known = part.table.entries.iter().all(|entry| keys::find(kind.keys, &entry.key).is_some());
    let lacking = |context: &mut CheckContext<'_>, key: &str| {
        if !is_known {
            return;
        }
        let problem = Problem::absent(part.place, format!("this stage needs `{key}`"));
        context.problems.push(problem.expected(format!("`{key}` is missing")).hint(kind.forms));
    };
    match (has(&["at", "for"]), has(&["from", "to", "over"])) {
        (true, true) => {
            let problem = Problem::new(part.place, kind.both);
            context.problems.push(problem.expected("has both").hint(kind.forms));
        }
        (true, false) => ["at", "for"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(context, key)),
        (false, true) => ["to", "over"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(context, key)),
        (false, false) => lacking(context, "to"),
    }
    let at = part.number("at");
    StageLine {
        from: at.or_else(|| part.number("from")).unwrap_or(last),
        to: at.or_else(|| part.number("to")).unwrap_or(0.0),
        over_s: part.number("for").or_else(|| part.number("over")).unwrap_or(0.0),
    }
}

/// Reports stages that `time` cuts off. They would never be played, and the user would wait for
/// them.
fn too_long(section: &Section<'_>, lines: &[StageLine], list: &[Node], context: &mut CheckContext<'_>) {
    let Some(time_s) = section.number("time") else { return };
    let mut ends_s = 0.0;
    for (line, node) in lines.iter().zip(list) {
        ends_s += line.over_s;
        // Sums of decimal fractions are not exact.
        if ends_s > time_s * (1.0 + 1e-9) {
            let all_s: f64 = lines.iter().map(|line| line.over_s).sum();
            context.problems.push(
                Problem::new(&node.place, "the stages are longer than the load")
                    .expected(format!("ends after {}", show(ends_s)))
                    .related(section.place("time"), "the whole load")
                    .hint(format!("all stages take {}: write that as `time`, or leave some out", show(all_s))),
            );
            return;
        }
    }
}
