//! Mistakes that are found only when an experiment's load is compiled and the load's files are
//! read, and the places of the mistakes in the text.

use std::sync::Arc;

use crate::overlay;
use crate::plan::reading::named;
use crate::problem::{Problem, Problems};
use crate::source::{self, Source};
use crate::tree::{Node, TextSpan, TomlTable};

/// A part of a trial that cannot be played, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub part: TrialPart,
    /// Description of the mistake.
    pub reason: String,
    /// Whether the load can be played, but perhaps not as the author meant it.
    pub is_note: bool,
}

/// A part of a trial that can be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialPart {
    /// The address of the target's service.
    Service,
    /// The site with this name.
    Site(String),
    /// The certificates and names of TLS.
    Tls,
    /// The feed with this name.
    Feed(String),
    /// The load's script.
    Script,
    /// A recorded schedule, by its file.
    Schedule(String),
    /// An argument of a step.
    Argument {
        /// The step's name.
        step: String,
        /// The argument's name.
        argument: String,
        /// The argument's value.
        text: String,
    },
    /// The step with this name.
    Step(String),
    /// Any other part of the load.
    Load,
}

/// Converts the mistakes to problems with places in the text.
#[must_use]
pub fn located(source: &Source, sets: &[String], mistakes: &[Mistake]) -> Problems {
    let file = Arc::new(source.clone());
    let (base, mut ignored) = source::parse(&file);
    let layers = overlay::layers(base, &named(sets), &mut ignored);
    let settings = layers.settings(&mut ignored);
    let start = TextSpan::new(&file, 0, 0..0);
    let mut problems = Vec::new();
    for mistake in mistakes {
        let place = settings.iter().find_map(|setting| place(&setting.tree, &mistake.part));
        let problem = Problem::new(&place.unwrap_or_else(|| start.clone()), &mistake.reason);
        problems.push(problem.expected("cannot be played"));
    }
    Problems::new(problems, false)
}

fn place(trial: &TomlTable, part: &TrialPart) -> Option<TextSpan> {
    let load = trial.table("load");
    let value = |table: &TomlTable, key: &str| table.get(key).map(|node| node.place.clone());
    let key = |table: &TomlTable, key: &str| table.entry(key).map(|entry| entry.key_place.clone());
    let found = match part {
        TrialPart::Service => value(trial.table("target")?, "url"),
        TrialPart::Site(name) => value(load?.table("sites")?, name),
        TrialPart::Tls => key(trial.table("target")?, "tls"),
        TrialPart::Script => value(load?, "script"),
        TrialPart::Feed(name) => {
            let mut feeds = load?.tables("feed").filter(|(_, feed)| feed.text("name") == Some(name));
            feeds.find_map(|(_, feed)| value(feed, "file"))
        }
        TrialPart::Schedule(file) => {
            let rates = groups(load?).filter_map(|group| group.table("rate")?.get("replay"));
            rates.filter(|replay| replay.text() == Some(file)).map(|replay| replay.place.clone()).next()
        }
        TrialPart::Step(name) => {
            steps(trial).find(|step| is_named(step, name)).and_then(|step| value(step, "call").or(value(step, "name")))
        }
        TrialPart::Argument { step: name, argument, text } => {
            let mut own = steps(trial).filter(|step| is_named(step, name));
            own.find_map(|step| argument_place(step, argument, text))
                .or_else(|| place(trial, &TrialPart::Step(name.clone())))
        }
        TrialPart::Load => None,
    };
    found.or_else(|| key(trial, "load"))
}

/// Returns the load itself and its groups.
fn groups(load: &TomlTable) -> impl Iterator<Item = &TomlTable> {
    std::iter::once(load).chain(load.tables("group").map(|(_, group)| group))
}

fn steps(trial: &TomlTable) -> impl Iterator<Item = &TomlTable> {
    let of_group = |group| ["on_start", "cycle", "mix"].into_iter().flat_map(move |key| TomlTable::tables(group, key));
    let of_load = trial.table("load").into_iter().flat_map(groups).flat_map(of_group);
    let entries = of_load.chain(trial.tables("prepare")).map(|(_, step)| step);
    let steps = entries.flat_map(|entry| std::iter::once(entry).chain(entry.tables("steps").map(|(_, step)| step)));
    steps.flat_map(|step| std::iter::once(step).chain(step.tables("parallel").map(|(_, step)| step)))
}

fn is_named(step: &TomlTable, name: &str) -> bool {
    step.text("name").or(step.text("call")) == Some(name)
}

fn argument_place(step: &TomlTable, argument: &str, text: &str) -> Option<TextSpan> {
    let given = step.table("with")?.flattened();
    let node: Option<&Node> = given.iter().find(|entry| entry.key == argument).map(|entry| &entry.node);
    node.filter(|node| node.as_written().is_none_or(|written| written == text)).map(|node| node.place.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_found_where_it_was_written() {
        let text = r#"
[target]
url = "http://h/"
tls = { ca = "no.pem" }
[load]
script = "s.lua"
rate = { replay = "a.csv" }
[[load.feed]]
name = "f"
file = "f.csv"
[[load.cycle]]
call = "get"
with = { path = "/a" }
[[load.cycle]]
call = "get"
with = { path = "/b", header.x = "y" }
[[prepare]]
name = "first"
call = "post"
with = { path = "c" }
"#;
        let source = Source { name: "e.toml".into(), text: text.into() };
        let argument = |step: &str, argument: &str, text: &str| TrialPart::Argument {
            step: step.into(),
            argument: argument.into(),
            text: text.into(),
        };
        for (part, underlined) in [
            (TrialPart::Service, "\"http://h/\""),
            (TrialPart::Tls, "tls"),
            (TrialPart::Script, "\"s.lua\""),
            (TrialPart::Schedule("a.csv".into()), "\"a.csv\""),
            (TrialPart::Feed("f".into()), "\"f.csv\""),
            (argument("get", "path", "/b"), "\"/b\""),
            (argument("get", "header.x", "y"), "\"y\""),
            (argument("first", "path", "c"), "\"c\""),
            (argument("first", "body", "?"), "\"post\""),
            (TrialPart::Step("first".into()), "\"post\""),
            (TrialPart::Feed("none".into()), "load"),
        ] {
            let mistake = Mistake { part: part.clone(), reason: "no".into(), is_note: false };
            let problems = located(&source, &[], &[mistake]);
            assert_eq!(problems.as_slice()[0].place.text(), underlined, "{part:?}");
        }
        let set = ["load.script=t.lua".to_owned()];
        let problems =
            located(&source, &set, &[Mistake { part: TrialPart::Script, reason: "no".into(), is_note: false }]);
        assert_eq!(problems.as_slice()[0].place.source.name, "--set");
    }
}
