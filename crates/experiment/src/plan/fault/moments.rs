//! When faults begin: `at`, `every`, `after`; and whether that is while there is a load. The clock itself is the
//! conductor's.

use super::seconds;
use crate::catalog::Heals;
use crate::duration;
use crate::nearest;
use crate::plan::trial::Scene;
use crate::plan::{Fault, When};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Place;

const HINT: &str = "`at = \"90s\"` once, `every = \"30s\"` again and again, or `after = \"fault.NAME.healed\"`";

/// Reads when a fault begins.
pub(super) fn read(section: &Section<'_>, names: &[&str], scene: &mut Scene<'_>) -> Option<When> {
    if section.has("after") {
        for key in ["at", "every"].into_iter().filter(|key| section.has(key)) {
            let problem = Problem::new(section.place(key), format!("`after` and `{key}` exclude each other"));
            scene
                .problems
                .push(problem.expected("by the clock").related(section.place("after"), "by another fault").hint(HINT));
        }
        return after(section, names, scene);
    }
    match (section.has("every"), section.has("at")) {
        (true, at) => {
            let every_s = section.seconds("every")?;
            let first_s = if at { section.seconds("at")? } else { every_s };
            Some(When::Every { first_s, every_s })
        }
        (false, true) => section.seconds("at").map(When::At),
        (false, false) => {
            let place = section.node("name").map_or(section.place, |node| &node.place);
            let problem = Problem::absent(place, "nothing says when this fault begins");
            scene.problems.push(problem.expected("none of `at`, `every`, `after`").hint(HINT));
            None
        }
    }
}

/// `fault.NAME.healed` or `fault.NAME.begun`, perhaps with ` + 5s`.
fn after(section: &Section<'_>, names: &[&str], scene: &mut Scene<'_>) -> Option<When> {
    let node = section.node("after")?;
    let text = node.text()?;
    let (event, plus) = text.split_once('+').map_or((text, None), |(event, plus)| (event, Some(plus)));
    let plus_s = match plus.map(duration::parse_s) {
        None => 0.0,
        Some(Ok(plus_s)) => plus_s,
        Some(Err(error)) => {
            let place = node.inside(event.len() + 1..text.len());
            let problem = Problem::new(&place, "this is not a duration").expected("such as \"fault.x.healed + 5s\"");
            scene.problems.push(problem.hint(error.to_string()));
            return None;
        }
    };
    let event = event.trim();
    let parts = event.strip_prefix("fault.").and_then(|rest| rest.rsplit_once('.'));
    let Some((name, moment @ ("healed" | "begun"))) = parts else {
        let problem = Problem::new(&node.place, "this is nothing a fault can follow");
        scene.problems.push(problem.expected("\"fault.NAME.healed\" or \"fault.NAME.begun\""));
        return None;
    };
    let place = node.inside(6..6 + name.len());
    if section.text("name") == Some(name) {
        scene.problems.push(Problem::new(&place, "a fault cannot follow itself").expected("itself").hint(HINT));
        return None;
    }
    if !names.contains(&name) {
        let problem = Problem::absent(&place, format!("there is no fault called `{name}`")).expected("unknown fault");
        let others = names.iter().copied().filter(|other| section.text("name") != Some(other));
        scene.problems.push(problem.maybe(nearest::hint(name, others)));
        return None;
    }
    Some(When::After { fault: name.to_owned(), healed: moment == "healed", plus_s })
}

/// Whether each fault begins at all, and before the load ends.
pub(super) fn check(
    sections: &[Section<'_>],
    faults: &[Fault],
    heals: &[Option<Heals>],
    end: Option<&(f64, Place)>,
    has_load: bool,
    scene: &mut Scene<'_>,
) {
    for (section, fault) in sections.iter().zip(faults) {
        if matches!(fault.when, When::Every { .. }) && !has_load {
            let problem = Problem::new(section.place("every"), "this fault would come back for ever");
            scene.problems.push(problem.expected("there is no load to end it").hint("add [load], or use `at`"));
        }
        let begins = match begins(fault, faults, heals, faults.len()) {
            Ok(begins_s) => begins_s,
            Err(never) => {
                let what = match never {
                    Never::Heals(name) => {
                        format!("`{name}` is not healed before the trial ends, so this fault never begins")
                    }
                    Never::Ends => "these faults wait for each other for ever".to_owned(),
                };
                let problem = Problem::new(section.place("after"), what).expected("waits for what never comes");
                scene.problems.push(problem.hint("give the other fault `for`, or follow its `begun`"));
                continue;
            }
        };
        if let (Some(begins_s), Some((end_s, place))) = (begins, end)
            && begins_s >= *end_s
        {
            let key = ["at", "every", "after"].into_iter().find(|key| section.has(key)).unwrap_or("name");
            scene.problems.push(
                Problem::new(section.place(key), format!("the fault `{}` begins when the load is over", fault.name))
                    .expected(format!("{} after load start", seconds(begins_s)))
                    .related(place, format!("the load ends after {}", seconds(*end_s)))
                    .hint("times count from load start, the ramp included; with a short --set load.time=…, set the fault's time too"),
            );
        }
    }
}

enum Never {
    /// It waits for this fault to be healed.
    Heals(String),
    /// It waits for a fault that waits for it.
    Ends,
}

/// When a fault begins for the first time; `None` where that is not known.
fn begins(fault: &Fault, faults: &[Fault], heals: &[Option<Heals>], depth: usize) -> Result<Option<f64>, Never> {
    let (name, healed, plus_s) = match &fault.when {
        When::At(at_s) => return Ok(Some(*at_s)),
        When::Every { first_s, .. } => return Ok(Some(*first_s)),
        When::After { fault, healed, plus_s } => (fault, *healed, *plus_s),
    };
    if depth == 0 {
        return Err(Never::Ends);
    }
    let Some(index) = faults.iter().position(|other| other.name == *name) else { return Ok(None) };
    let other = &faults[index];
    let Some(other_s) = begins(other, faults, heals, depth - 1)? else { return Ok(None) };
    let lasts_s = match (healed, heals[index], other.for_s) {
        (false, _, _) | (true, Some(Heals::ByItself), _) => Some(0.0),
        (true, Some(Heals::AfterFor), None) => return Err(Never::Heals(name.clone())),
        (true, _, for_s) => for_s,
    };
    Ok(lasts_s.map(|lasts_s| other_s + lasts_s + plus_s))
}
