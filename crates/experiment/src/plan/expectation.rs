//! What a step says of its answer: what it has to be (`expect`), and what of it later steps may use (`keep`). It must not know any
//! protocol: which fields an answer has, the catalog says.

use serde::{Deserialize, Serialize};

use crate::catalog::Operation;
use crate::keys::{self, Key};
use crate::nearest;
use crate::pattern;
use crate::plan::operation::{self, Scope, has_field, names};
use crate::plan::trial::Scene;
use crate::pointer::{self, Pointer};
use crate::problem::Problem;
use crate::section::Section;
use crate::template::is_function_name;
use crate::tree::{Entry, Node};

/// What a field of an answer, or a place in it, has to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expected {
    /// Exactly what this template is filled to.
    Text(String),
    /// All that this says.
    Compared(Comparison),
}

/// Ways to look at a text; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// A regular expression that matches somewhere in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// A template; the text that it has in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Templates; the texts of which it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<String>>,
    /// A function of the load's script that says yes to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lua: Option<String>,
    /// What it must not be; of a comparison, nothing may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Expected>>,
}

/// What a slot keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Kept {
    /// `request.FIELD`, `answer.FIELD` or `answer.FIELD/JSON/POINTER`.
    Whole(String),
    /// A part of it.
    Part {
        /// As [`Kept::Whole`].
        from: String,
        /// A regular expression: its group is kept, or all that it matches if it has none.
        matches: String,
    },
}

impl From<&str> for Expected {
    fn from(template: &str) -> Self {
        Self::Text(template.to_owned())
    }
}

impl From<String> for Expected {
    fn from(template: String) -> Self {
        Self::Text(template)
    }
}

impl From<&str> for Kept {
    fn from(what: &str) -> Self {
        Self::Whole(what.to_owned())
    }
}

impl From<String> for Kept {
    fn from(what: String) -> Self {
        Self::Whole(what)
    }
}

/// Reads a value of `expect`; `None` for what is of a wrong type, which has been reported.
pub(super) fn expected(node: &Node) -> Option<Expected> {
    let Some(table) = node.table() else { return node.as_written().map(Expected::Text) };
    Some(Expected::Compared(Comparison {
        matches: table.text("matches").map(ToOwned::to_owned),
        contains: table.get("contains").and_then(Node::as_written),
        one_of: table.get("one_of").and_then(Node::list).map(|list| list.iter().filter_map(Node::as_written).collect()),
        lua: table.text("lua").map(ToOwned::to_owned),
        not: table.get("not").and_then(expected).map(Box::new),
    }))
}

/// Reads a value of `keep`; `None` as for [`expected`].
pub(super) fn kept(node: &Node) -> Option<Kept> {
    let Some(table) = node.table() else { return node.as_written().map(Kept::Whole) };
    Some(Kept::Part { from: table.text("from")?.to_owned(), matches: table.text("matches")?.to_owned() })
}

/// Holds the fields that a step expects something of against those that the answer has.
pub(super) fn check_fields(section: &Section<'_>, operation: &'static Operation, scene: &mut Scene<'_>) {
    let comparisons = keys::find(section.keys, "expect").map(|key| key.kind.below()).unwrap_or_default();
    let wrong =
        |entry: &Entry| not_a_comparison(entry, comparisons, operation).or_else(|| not_a_field(entry, operation));
    scene.problems.extend(section.entries("expect").iter().filter_map(wrong));
}

/// `{ matchs = "…" }` would be read as the field `body.matchs`.
fn not_a_comparison(entry: &Entry, comparisons: &'static [Key], operation: &'static Operation) -> Option<Problem> {
    let (compared, word) = entry.key.rsplit_once('.')?;
    let (field, place) = pointer::split(compared);
    let is_written_apart = entry.key_place.text().trim_matches(['"', '\'']) == word;
    if !is_written_apart || !has_field(operation.answers, field) {
        return None;
    }
    let words = || comparisons.iter().map(|key| key.name);
    let may_be_meant =
        place.is_none() && has_field(operation.answers, &entry.key) && nearest::name(word, words()).is_none();
    (!may_be_meant).then(|| {
        let hint = nearest::hint(word, words()).unwrap_or_default();
        let hint = match nearest::name(word, words()) {
            Some(_) => hint,
            None => format!("{hint}; a place in it is a JSON pointer: \"{compared}/{word}\""),
        };
        let problem = Problem::absent(&entry.key_place, format!("`{compared}` is compared by no `{word}`"));
        problem.expected("unknown comparison").hint(hint)
    })
}

fn not_a_field(entry: &Entry, operation: &'static Operation) -> Option<Problem> {
    let (field, place) = pointer::split(&entry.key);
    if !has_field(operation.answers, field) {
        let what = format!("the answer to `{}` has no `{field}`", operation.name);
        let by_dots = field.split_once('.').filter(|(first, _)| has_field(operation.answers, first));
        let hint = match by_dots {
            Some((first, rest)) => {
                Some(format!("a place in `{first}` is a JSON pointer: \"{first}/{}\"", rest.replace('.', "/")))
            }
            None => nearest::hint(field, names(operation.answers)),
        };
        return Some(Problem::absent(&entry.key_place, what).expected("unknown field").maybe(hint));
    }
    let error = Pointer::parse(place?).err()?;
    Some(Problem::new(&entry.key_place, error.what).expected("not a JSON pointer"))
}

/// Checks what a field is held against: every template and regular expression in it.
pub(super) fn check_value(node: &Node, every: u32, scope: &Scope<'_>, scene: &mut Scene<'_>) {
    let Some(table) = node.table() else {
        operation::template(node, every, scope, scene);
        return;
    };
    if table.entries.is_empty() {
        let problem = Problem::absent(&node.place, "this comparison compares nothing").expected("an empty table");
        scene.problems.push(problem.hint("there are `matches`, `contains`, `one_of` and `lua`"));
    }
    for entry in &table.entries {
        match entry.key.as_str() {
            "matches" => scene.problems.extend(not_a_pattern(&entry.node, usize::MAX)),
            "lua" => scene.problems.extend(not_a_function(&entry.node, scene.has_script)),
            "contains" | "not" => check_value(&entry.node, every, scope, scene),
            "one_of" => {
                let list = entry.node.list();
                if list.is_some_and(<[Node]>::is_empty) {
                    let problem = Problem::absent(&entry.node.place, "nothing is one of no texts");
                    scene.problems.push(problem.expected("an empty list").hint("list what it may be"));
                }
                list.unwrap_or_default().iter().for_each(|node| operation::template(node, every, scope, scene));
            }
            _ => {}
        }
    }
}

/// What is wrong with a regular expression that may have so many groups.
fn not_a_pattern(node: &Node, most: usize) -> Option<Problem> {
    const HINT: &str = "classes such as \\d are ASCII's; in single quotes backslashes are written as they are: '\\d+'";
    match pattern::groups(node.text()?) {
        Ok(groups) if groups > most => {
            let problem = Problem::new(&node.place, format!("a slot keeps one group, and this has {groups}"));
            Some(problem.expected("several groups").hint("a group that is not to be kept is written (?:…)"))
        }
        Ok(_) => None,
        Err(error) => {
            let problem = Problem::new(&node.inside(error.at), format!("not a regular expression: {}", error.what));
            Some(problem.expected("in this regular expression").hint(HINT))
        }
    }
}

/// What is wrong with the name of a function of the load's script.
fn not_a_function(node: &Node, has_script: bool) -> Option<Problem> {
    let name = node.text()?;
    if !has_script {
        return Some(operation::no_script(&node.place));
    }
    (!is_function_name(name)).then(|| {
        Problem::new(&node.place, format!("`{name}` is not the name of a function")).expected("letters, digits and `_`")
    })
}

/// Checks what a step keeps, as far as that does not depend on its operation.
pub(super) fn check_kept(entry: &Entry, scene: &mut Scene<'_>) {
    let matches = entry.node.table().and_then(|part| part.get("matches"));
    scene.problems.extend(matches.and_then(|node| not_a_pattern(node, 1)));
}

/// Holds what a step keeps against the fields that its request and its answer have.
pub(super) fn check_captures(section: &Section<'_>, operation: &'static Operation, scene: &mut Scene<'_>) {
    let wrong = |entry: &Entry| {
        let node = entry.node.table().map_or(Some(&entry.node), |part| part.get("from"));
        not_a_part(node?, section, operation)
    };
    scene.problems.extend(section.entries("keep").iter().filter_map(wrong));
}

/// What is wrong with `request.FIELD`, `answer.FIELD` or `answer.FIELD/JSON/POINTER`.
pub(super) fn not_a_part(node: &Node, section: &Section<'_>, operation: &'static Operation) -> Option<Problem> {
    const FORM: &str = "write \"request.FIELD\" or \"answer.FIELD\"";
    let text = node.text()?;
    match text.split_once('.') {
        Some(("request", field)) => not_a_request_part(node, field, section, operation),
        Some(("answer", field)) => {
            let (field, place) = pointer::split(field);
            let end = "answer.".len() + field.len();
            if !has_field(operation.answers, field) {
                let what = format!("the answer to `{}` has no `{field}`", operation.name);
                let problem = Problem::absent(&node.inside("answer.".len()..end), what).expected("unknown field");
                return Some(problem.maybe(nearest::hint(field, names(operation.answers))));
            }
            let error = Pointer::parse(place?).err()?;
            let at = node.inside(end + error.at.start..end + error.at.end);
            Some(Problem::new(&at, error.what).expected("not a JSON pointer"))
        }
        _ => Some(Problem::new(&node.place, "this is nothing that can be kept").expected("a field of what").hint(FORM)),
    }
}

fn not_a_request_part(
    node: &Node,
    field: &str,
    section: &Section<'_>,
    operation: &'static Operation,
) -> Option<Problem> {
    let place = node.inside("request.".len().."request.".len() + field.len());
    if !has_field(operation.takes, field) {
        let problem =
            Problem::absent(&place, format!("`{}` takes no `{field}`", operation.name)).expected("unknown argument");
        return Some(match pointer::split(field) {
            (first, Some(_)) if has_field(operation.takes, first) => {
                problem.hint("a place in it can be told of an answer only")
            }
            _ => problem.maybe(nearest::hint(field, names(operation.takes))),
        });
    }
    section.entries("with").iter().all(|with| with.key != field).then(|| {
        Problem::absent(&place, format!("this step sends no `{field}`"))
            .expected("nothing to keep")
            .hint(format!("give `{field}` in this step's `with`"))
    })
}
