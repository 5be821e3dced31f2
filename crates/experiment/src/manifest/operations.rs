//! `[[operation]]`: programs of a target that its clients run on the members, each with a name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Manifest, PLACEHOLDERS, check_text, no_program};
use crate::keys::section;
use crate::problem::Problem;
use crate::section::Section;
use crate::template::is_slot_name;
use crate::tree::Node;

/// Name of the protocol that runs programs. [`OWN`] is the name of its only operation.
const PROTOCOL: &str = "command";
const OWN: &str = "run";

section! {
    /// `[[operation]]`: a program that clients can use as an operation.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TargetOperation = OPERATION {
        name = required: Name => String, "Name in experiments", ["call"];
        help: Text => String, "Description, one line";
        run = required: ARGUMENTS => Vec<String>,
            "Program and arguments, with the placeholders of the member's process and {ARGUMENT} for each that it \
             takes",
            ["command", "cmd", "exec"];
        stdin: Text => Option<String>, "Standard input of the program, with the same placeholders";
        takes: Map(&Text) => BTreeMap<String, String>, "Arguments, all required, each with a one-line description",
            ["with", "args", "arguments"];
        on = "member": Choice(&["member"]), "Place where it runs: the host of the member that the agent connects to";
    }
}

/// Reads the sections and reports their problems.
pub(super) fn read(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<TargetOperation> {
    let mut operations: Vec<TargetOperation> = Vec::new();
    for section in root.sections("operation") {
        let operation = TargetOperation::read(&section);
        let name = operation.name.as_str();
        if operations.iter().any(|known| known.name == name) {
            let problem = Problem::new(section.place("name"), format!("two operations are called `{name}`"));
            problems.push(problem.expected("the second"));
        }
        if name == OWN {
            let problem = Problem::new(section.place("name"), format!("`{OWN}` is the protocol's own operation"));
            problems.push(problem.expected("taken").hint("it runs any program, beside the clients"));
        }
        problems.extend(no_program(&section));
        for entry in section.entries("takes") {
            if !is_slot_name(&entry.key) || PLACEHOLDERS.contains(&entry.key.as_str()) {
                let problem = Problem::new(&entry.key_place, format!("an argument cannot be called `{}`", entry.key));
                let problem = problem.expected("small letters, digits and `_`, a letter first");
                problems.push(problem.hint(format!("{} have another meaning in `run`", PLACEHOLDERS.join(", "))));
            }
        }
        operations.push(operation);
    }
    operations
}

/// Checks the operations against the rest of the manifest: the protocol must run programs, and
/// clients must connect to the members.
pub(super) fn check(root: &Section<'_>, manifest: &Manifest, known: &[String], problems: &mut Vec<Problem>) {
    let (sections, about) = (root.sections("operation"), root.section("about"));
    let Some((first, about)) = sections.first().zip(about) else { return };
    if manifest.about.protocol != PROTOCOL {
        let what =
            format!("[[operation]] names programs, and clients of this target speak `{}`", manifest.about.protocol);
        let problem = Problem::new(first.place, what).expected("for the protocol `command`");
        problems.push(problem.related(about.place("protocol"), "another protocol"));
    } else if manifest.about.service_role() != manifest.about.members {
        let what = "operations run on members, but clients connect to something in front of them";
        let problem = Problem::new(first.place, what).expected("clients do not connect to members");
        problems.push(problem.related(about.place("service"), "there").hint("leave out `service`"));
    }
    for section in &sections {
        let takes = section.entries("takes");
        for entry in takes.iter().filter(|entry| manifest.parameters.contains_key(&entry.key)) {
            let problem = Problem::new(&entry.key_place, format!("`{}` is a parameter of the target", entry.key));
            problems.push(problem.expected("an argument as well").hint("give the argument another name"));
        }
        let known: Vec<String> = known.iter().cloned().chain(takes.into_iter().map(|entry| entry.key)).collect();
        let texts = section.node("run").and_then(Node::list).unwrap_or_default().iter().chain(section.node("stdin"));
        texts.for_each(|node| check_text(node, &known, problems));
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::{Manifest, parse};
    use crate::source::Source;

    const CREW: &str = include_str!("../../tests/known/targets/crew/target.toml");

    fn read(text: &str) -> Result<Manifest, Vec<String>> {
        let source = Source { name: "target.toml".to_owned(), text: text.to_owned() };
        parse("crew", &source).map_err(|problems| problems.as_slice().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn command_clients_use_the_members() {
        let manifest = read(CREW).unwrap();
        assert_eq!((manifest.about.service.as_str(), manifest.about.members.as_str()), ("node", "node"));
        assert_eq!(
            (manifest.operations[0].takes.len(), manifest.private.as_slice()),
            (2, &["/etc/crew".to_owned()][..])
        );
    }

    #[test]
    fn each_mistake_is_reported_at_its_position() {
        for (from, to, told) in [
            ("name  = \"note\"", "name  = \"run\"", "target.toml:20:9: `run` is the protocol's own operation"),
            ("{value}", "{valu}", "target.toml:22:38: there is no placeholder {valu}"),
            ("takes = { key", "takes = { host = \"x\", key", "target.toml:23:11: an argument cannot be called `host`"),
            ("takes = { key", "takes = { size = \"x\", key", "target.toml:23:11: `size` is a parameter of the target"),
            (
                "protocol = \"command\"",
                "protocol = \"http\"",
                "target.toml:19:1: [[operation]] names programs, and clients of this target speak `http`",
            ),
            ("\"/etc/crew\"", "\"/etc\"", "target.toml:1:12: `/etc` cannot be private: many programs have files there"),
            (
                "\"/etc/crew\"",
                "\"/etc/crew\", \"/etc/crew/x\"",
                "target.toml:1:25: `/etc/crew/x` is private with `/etc/crew` already",
            ),
        ] {
            assert!(CREW.contains(from), "{from}");
            let problems = read(&CREW.replacen(from, to, 1)).unwrap_err();
            assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
        }
    }
}
