//! `[[fault]]` of a trial: what is broken, of what the lab can break, and when. How each fault looks in charts and how
//! it heals comes from the catalog here, so that nobody behind the plan has to ask for it.

use std::collections::BTreeMap;

use crate::catalog::{self, Field, Heals};
use crate::duration;
use crate::nearest;
use crate::plan::operation;
use crate::plan::trial::Scene;
use crate::plan::{Fault, When};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Place;

mod moments;
mod victims;

pub(super) use victims::Victims;

/// Reads all faults. `end` is the end of the load, and where the file says so.
pub(super) fn read(
    root: &Section<'_>,
    victims: &Victims<'_>,
    end: Option<&(f64, Place)>,
    scene: &mut Scene<'_>,
) -> Vec<Fault> {
    let sections = root.sections("fault");
    let names: Vec<&str> = sections.iter().filter_map(|section| section.text("name")).collect();
    let mut faults = Vec::new();
    let mut heals = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        if let Some(name) = section.text("name")
            && let Some(first) = sections[..index].iter().find(|other| other.text("name") == Some(name))
        {
            scene.problems.push(
                Problem::new(section.place("name"), format!("two faults are called `{name}`"))
                    .expected("the second")
                    .related(first.place("name"), "the first")
                    .hint("paths and other faults speak of a fault by its name"),
            );
        }
        let kind = kind(section, scene);
        if let Some(kind) = kind {
            arguments(section, kind, scene);
            healing(section, kind, scene);
        }
        victims.check(section, kind, scene);
        let when = moments::read(section, &names, scene);
        heals.push(kind.map(|kind| kind.heals));
        faults.push(fault(section, kind, when));
    }
    moments::check(&sections, &faults, &heals, end, root.has("load"), scene);
    faults
}

fn fault(section: &Section<'_>, kind: Option<&'static catalog::Fault>, when: Option<When>) -> Fault {
    let with: BTreeMap<_, _> =
        section.entries("with").iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
    Fault {
        name: section.text("name").unwrap_or_default().to_owned(),
        kind: section.text("kind").unwrap_or_default().to_owned(),
        on: section.text("on").unwrap_or_default().to_owned(),
        with,
        // Reported where it is missing.
        when: when.unwrap_or(When::At(0.0)),
        for_s: section.seconds("for"),
        // 0 stands for the trial's own, which is not known yet.
        seed: section.whole("seed").unwrap_or(0),
        label: kind.map_or_else(String::new, |kind| kind.label.to_owned()),
        colour: kind.map_or_else(String::new, |kind| kind.colour.to_owned()),
        standing: false,
    }
}

fn kind(section: &Section<'_>, scene: &mut Scene<'_>) -> Option<&'static catalog::Fault> {
    let name = section.text("kind")?;
    let found = scene.catalog.faults.iter().copied().find(|fault| fault.name == name);
    if found.is_none() {
        let hint = nearest::hint(name, scene.catalog.faults.iter().map(|fault| fault.name));
        let problem = Problem::absent(section.place("kind"), format!("there is no fault of kind `{name}`"));
        scene.problems.push(problem.expected("unknown kind").maybe(hint));
    }
    found
}

/// `with`: the kind's arguments, and for a call those of the operation.
fn arguments(section: &Section<'_>, kind: &'static catalog::Fault, scene: &mut Scene<'_>) {
    let given = section.entries("with");
    let takes_call = kind.takes.iter().any(|field| field.name == "call");
    let call = given.iter().find(|entry| entry.key == "call" && takes_call);
    let operations = scene.protocol.map(|protocol| protocol.operations).unwrap_or_default();
    let operation = call.and_then(|call| operations.iter().find(|known| Some(known.name) == call.node.text()));
    if let (Some(call), None, Some(protocol)) = (call, operation, scene.protocol) {
        let name = call.node.text().unwrap_or_default();
        let what = format!("the protocol `{}` has no operation `{name}`", protocol.name);
        let hint = nearest::hint(name, operations.iter().map(|operation| operation.name));
        scene.problems.push(Problem::absent(&call.node.place, what).expected("unknown operation").maybe(hint));
        return;
    }
    let takes_port = kind.takes.iter().any(|field| field.name == "port");
    for entry in given.iter().filter(|entry| entry.key == "port" && takes_port) {
        let refused = entry.node.text().and_then(|name| scene.ports.refuse(name, &entry.node.place));
        scene.problems.extend(refused);
    }
    // What a call takes beside `call` is the operation's affair; while that is not known, anything.
    let own = kind.takes.iter().filter(|field| field.name != "*" || operation.is_none());
    let fields: Vec<&Field> = own.chain(operation.map(|operation| operation.takes).unwrap_or_default()).collect();
    let heading = if section.has("with") { section.place("with") } else { section.place("kind") };
    let before = scene.problems.len();
    operation::arguments_of(&format!("a fault of kind `{}`", kind.name), &fields, &given, heading, &mut scene.problems);
    // A misspelt argument would only be said to be missing as well.
    if let (Some(check), true) = (kind.check, scene.problems.len() == before) {
        values(section, kind, check, heading, scene);
    }
}

/// What the kind itself finds wrong with the values.
fn values(
    section: &Section<'_>,
    kind: &'static catalog::Fault,
    check: catalog::Check,
    heading: &Place,
    scene: &mut Scene<'_>,
) {
    let given = section.entries("with");
    let with = given.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
    for wrong in check(&with) {
        let entry = given.iter().find(|entry| Some(entry.key.as_str()) == wrong.argument);
        let place = entry.map_or(heading, |entry| &entry.node.place);
        let problem = Problem::new(place, format!("{}: {}", kind.name, wrong.what));
        scene.problems.push(problem.expected("not possible").maybe(wrong.hint));
    }
}

fn healing(section: &Section<'_>, kind: &catalog::Fault, scene: &mut Scene<'_>) {
    if section.has("for") && kind.heals == Heals::ByItself {
        scene.problems.push(
            Problem::new(section.place("for"), format!("a fault of kind `{}` heals by itself", kind.name))
                .expected("there is nothing to undo")
                .hint("remove `for`"),
        );
    }
}

/// A time in messages.
fn seconds(seconds: f64) -> String {
    duration::show(seconds)
}
