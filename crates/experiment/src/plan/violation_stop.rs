//! `load.stop_at_violation`: conditions of the check beside the load.

use crate::plan::check_context::CheckContext;
use crate::plan::load::{Load, Retry};
use crate::problem::Problem;
use crate::section::Section;

/// Checks that audited keys can be checked while the load runs.
pub(super) fn check(root: &Section<'_>, load: Option<&Load>, context: &mut CheckContext<'_>) {
    let (Some(section), Some(load)) = (root.section("load"), load.filter(|load| load.stop_at_violation)) else {
        return;
    };
    let place = section.place("stop_at_violation");
    let mut refuse = |what: &str, expected: &str, hint: &str| {
        context.problems.push(Problem::new(place, what).expected(expected).hint(hint));
    };
    if !load.all_steps().any(|step| step.audit) {
        let what = "`stop_at_violation` needs audited operations";
        refuse(
            what,
            "no step is audited",
            "write `audit = true` in steps that write keys, and in steps that read them",
        );
    }
    if load.populations().iter().any(|population| population.retry != Retry::FailFast) {
        let what = "`stop_at_violation` and `retry` exclude each other";
        let hint = "remove one of the two: a value that is sent several times fits several orders, so such keys are not checked";
        refuse(what, "operations are tried again", hint);
    }
    if root.table.entry("fleet").is_some() {
        let what = "`stop_at_violation` needs a load that one process makes";
        let hint = "remove [fleet], or the key: each generator knows its own operations only, and how far their clocks differ is known \
                    after the load; the check after the load covers fleets";
        refuse(what, "not with [fleet]", hint);
    }
    if root.table.entry("step").is_some() {
        let what = "`stop_at_violation` needs a target that keeps its data";
        let hint =
            "remove the key, or play the faults as [[fault]]: after a failed [[step]] the target starts without data";
        refuse(what, "not with [[step]]", hint);
    }
}
