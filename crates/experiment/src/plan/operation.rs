//! One operation with its arguments: a step of a cycle, a mix or the preparation, held against what the protocol
//! knows. It must not order operations; slots that earlier steps keep are handed in.

use std::collections::BTreeMap;

use crate::catalog::{Field, Operation};
use crate::nearest;
use crate::plan::Step;
use crate::plan::audit;
use crate::plan::expectation;
use crate::plan::trial::Scene;
use crate::problem::Problem;
use crate::section::Section;
use crate::template::{Part, Template, WORDS, is_slot_name};
use crate::tree::{Entry, Node, Place};

/// What the templates of a step may use.
pub(super) struct Scope<'a> {
    /// Slots that earlier steps keep, and for each such step in every how-manieth cycle.
    pub slots: &'a BTreeMap<String, Vec<u32>>,
    /// Why there are no slots here, if there can be none.
    pub no_slots: Option<&'static str>,
    /// Whether an agent does it.
    pub by_agent: bool,
}

/// Reads a step.
pub(super) fn read(section: &Section<'_>, scope: &Scope<'_>, scene: &mut Scene<'_>) -> Step {
    let call = section.text("call").unwrap_or_default();
    let every = section.whole("every").unwrap_or(1);
    let operation = find(section, scene);
    if let Some(operation) = operation {
        arguments(section, operation, scene);
        expectation::check_fields(section, operation, scene);
        expectation::check_captures(section, operation, scene);
        audit::check(section, operation, scene);
    }
    for entry in section.entries("with") {
        template(&entry.node, every, scope, scene);
    }
    for entry in section.entries("expect") {
        expectation::check_value(&entry.node, every, scope, scene);
    }
    for entry in section.entries("keep") {
        slot_name(&entry, scene);
        expectation::check_kept(&entry, scene);
    }
    let audit_as = audit::read(section, every, scope, scene);
    Step {
        call: call.to_owned(),
        name: section.text("name").unwrap_or(call).to_owned(),
        with: values(section, "with", Node::as_written),
        expect: values(section, "expect", expectation::expected),
        keep: values(section, "keep", expectation::kept),
        weight: section.whole("weight").unwrap_or(1),
        every,
        audit: section.boolean("audit") || audit_as.is_some(),
        audit_as,
    }
}

/// The values of a table with free keys; what is of a wrong type is left out.
fn values<T>(section: &Section<'_>, key: &str, read: impl Fn(&Node) -> Option<T>) -> BTreeMap<String, T> {
    section.entries(key).into_iter().filter_map(|entry| Some((entry.key, read(&entry.node)?))).collect()
}

fn find(section: &Section<'_>, scene: &mut Scene<'_>) -> Option<&'static Operation> {
    let (call, protocol) = (section.text("call")?, scene.protocol?);
    let found = protocol.operations.iter().find(|operation| operation.name == call);
    if found.is_none() {
        let hint = nearest::hint(call, protocol.operations.iter().map(|operation| operation.name));
        let what = format!("the protocol `{}` has no operation `{call}`", protocol.name);
        scene.problems.push(Problem::absent(section.place("call"), what).expected("unknown operation").maybe(hint));
    }
    found
}

/// Whether a field of that name exists.
pub(super) fn has_field(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| is_named(field, name))
}

/// Whether the field goes by that name; `header.*` takes any suffix.
fn is_named(field: &Field, name: &str) -> bool {
    match field.name.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => field.name == name,
    }
}

/// Names of the fields, for hints.
pub(super) fn names(fields: &'static [Field]) -> impl Iterator<Item = &'static str> {
    fields.iter().map(|field| field.name)
}

fn arguments(section: &Section<'_>, operation: &'static Operation, scene: &mut Scene<'_>) {
    let given = section.entries("with");
    let heading = if section.has("with") { section.place("with") } else { section.place("call") };
    let fields: Vec<&Field> = operation.takes.iter().collect();
    arguments_of(&format!("`{}`", operation.name), &fields, &given, heading, &mut scene.problems);
}

/// Arguments that `what` does not know, and required ones that are not given.
pub(super) fn arguments_of(
    what: &str,
    fields: &[&'static Field],
    given: &[Entry],
    heading: &Place,
    problems: &mut Vec<Problem>,
) {
    let known: Vec<&str> = fields.iter().map(|field| field.name).filter(|name| *name != "*").collect();
    let mut meant = Vec::new();
    for entry in given.iter().filter(|entry| !fields.iter().any(|field| is_named(field, &entry.key))) {
        meant.extend(nearest::name(&entry.key, known.iter().copied()));
        let hint = nearest::hint(&entry.key, known.iter().copied()).unwrap_or_else(|| "it takes nothing".to_owned());
        let problem = Problem::absent(&entry.key_place, format!("{what} takes no `{}`", entry.key));
        problems.push(problem.expected("unknown argument").hint(hint));
    }
    // An argument that is misspelt is not said to be missing as well.
    let is_missing = |field: &&&Field| {
        field.required && !meant.contains(&field.name) && given.iter().all(|entry| entry.key != field.name)
    };
    let missing: Vec<&&Field> = fields.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|field| format!("`{}`", field.name)).collect();
        let names = nearest::listed(&names, "and");
        let help: Vec<String> = missing.iter().map(|field| format!("{}: {}", field.name, field.help)).collect();
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let problem = Problem::absent(heading, format!("{what} needs {names}"));
        problems.push(problem.expected(format!("{names} {verb} missing")).hint(help.join("; ")));
    }
}

fn slot_name(entry: &Entry, scene: &mut Scene<'_>) {
    let name = entry.key.as_str();
    if WORDS.contains(&name) {
        let problem = Problem::new(&entry.key_place, format!("a slot cannot be called `{name}`"));
        scene.problems.push(problem.expected(format!("{{{name}}} means something else")));
    } else if !is_slot_name(name) {
        let problem = Problem::new(&entry.key_place, format!("`{name}` is not a name for a slot"));
        scene.problems.push(problem.expected("small letters, digits and `_`, a letter first"));
    }
}

/// Checks a template and everything it names.
pub(super) fn template(node: &Node, every: u32, scope: &Scope<'_>, scene: &mut Scene<'_>) {
    let Some(text) = node.text() else { return };
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            let place = node.inside(error.at);
            scene.problems.push(Problem::new(&place, error.what).expected("in this template").hint(error.hint));
            return;
        }
    };
    for part in &template.parts {
        let problem = match part {
            Part::Slot(slot) => match scope.slots.get(slot) {
                None => Some(unknown_slot(slot, node, scope)),
                Some(kept) if kept.iter().all(|kept| !every.is_multiple_of(*kept)) => {
                    let kept = kept.iter().min().copied().unwrap_or(1);
                    let what = format!(
                        "`{slot}` is kept by a step with `every = {kept}`, and this step is done in other cycles too"
                    );
                    Some(
                        Problem::new(&placeholder(node, slot), what)
                            .expected("not always there")
                            .hint(format!("give this step `every = {kept}` too")),
                    )
                }
                Some(_) => None,
            },
            Part::Feed { feed, .. } if !scene.feeds.contains(feed) => {
                let what = format!("there is no feed `{feed}`");
                Some(
                    Problem::absent(&placeholder(node, &format!("feed.{feed}")), what)
                        .expected("unknown feed")
                        .hint(nearest::hint(feed, scene.feeds.iter().map(String::as_str)).unwrap_or_else(|| {
                            "a feed is a CSV file: [[load.feed]] with `name` and `file`".to_owned()
                        })),
                )
            }
            Part::Script(name) if !scene.has_script => Some(no_script(&placeholder(node, &format!("lua.{name}")))),
            Part::Agent(_) if !scope.by_agent => Some(
                Problem::new(&placeholder(node, "agent"), "no agent does the preparation")
                    .expected("there is no agent here")
                    .hint("use {seq}, which counts the repetitions: `count = 200` and \"agent-{seq}\""),
            ),
            _ => None,
        };
        scene.problems.extend(problem);
    }
}

/// Where `{word` stands in a template.
pub(super) fn placeholder(node: &Node, word: &str) -> Place {
    let text = node.text().unwrap_or_default();
    let found =
        text.match_indices(&format!("{{{word}")).map(|(at, _)| at + 1).find(|at| !text[..*at - 1].ends_with('{'));
    found.map_or_else(|| node.place.clone(), |at| node.inside(at..at + word.len()))
}

/// Something asks a script, and there is none.
pub(super) fn no_script(place: &Place) -> Problem {
    Problem::absent(place, "this load has no script")
        .expected("a function of what")
        .hint("[load] script = \"values.lua\": a file of functions, relative to the experiment")
}

fn unknown_slot(slot: &str, node: &Node, scope: &Scope<'_>) -> Problem {
    let place = placeholder(node, slot);
    let problem =
        Problem::absent(&place, format!("nothing called `{slot}` is kept before this step")).expected("unknown slot");
    if let Some(near) = nearest::name(slot, scope.slots.keys().map(String::as_str).chain(["agent", "seq"])) {
        return problem.hint(format!("did you mean {{{near}}}?"));
    }
    match scope.no_slots {
        Some(why) => problem.hint(why),
        None => problem.hint(format!(
            "an earlier step of this cycle has to keep it: keep = {{ {slot} = \"request.FIELD\" }} or \"answer.FIELD\""
        )),
    }
}
