//! One operation with its arguments: a step of a cycle, a mix or the preparation. Checks a step
//! against the operations that the protocol knows, its expected answer (`expect`), the values that
//! later steps use (`keep`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalog::{Field, Operation};
use crate::keys::{self, Key, section};
use crate::manifest::TargetOperation;
use crate::pattern;
use crate::plan::answer_stream::{self, STREAM, StreamEnd};
use crate::plan::audited::{self, AUDITED, AuditAs};
use crate::plan::check_context::CheckContext;
use crate::plan::load::{is_one, is_zero, one};
use crate::plan::pause::{self, Pause, THINK};
use crate::plan::redirects::{self, FOLLOW};
use crate::plan::site;
use crate::pointer::{self, Pointer};
use crate::problem::{Problem, join_words, nearest_hint, nearest_name};
use crate::section::Section;
use crate::template::{Template, TemplatePart, WORDS, is_function_name, is_slot_name};
use crate::tree::{Node, TableEntry, TextSpan};

section! {
    /// One operation of a cycle, a mix or the preparation.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Step = OPERATION {
        call = required: Text => String,
            "Operation of the protocol; `plimsoll protocols NAME` lists them",
            ["do", "operation", "op", "method", "request"];
        name: Name => name: String = |step| step.text("name").or(step.text("call")).unwrap_or_default().to_owned(),
            "Name in records and reports; default: `call`";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Text => Option<String>,
            "Site of the load that the operation goes to, one of `load.sites`; default: the target", ["host", "server", "base_url"];
        with: Paths(&Template) => with: BTreeMap<String, String> = |step| values(step, "with", Node::as_written),
            "Arguments of the operation: templates", ["args", "arguments", "body"];
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: Map(&Template) => set: BTreeMap<String, String> = |step| values(step, "set", Node::as_written),
            "Values that are drawn once for the operation, each for {NAME} in `with` and `expect` of the same step",
            ["let", "vars", "variables"];
        expect: Paths(&Either(
            &[Template, Table(COMPARISON)],
            "a template or a comparison, such as \"200\" or { one_of = [\"200\", \"201\"] }",
        )) => expect: BTreeMap<String, Expected> = |step| values(step, "expect", expected),
            "Field of the answer, or FIELD/JSON/POINTER = expected value; an answer that contradicts it is `wrong`",
            ["assert", "check"];
        keep: Map(&Either(
            &[Text, Table(PART)],
            "\"request.FIELD\", \"answer.FIELD\" or { from = \"answer.FIELD\", matches = \"id=([0-9]+)\" }",
        )) => keep: BTreeMap<String, SlotContent> = |step| values(step, "keep", kept),
            "Slot = \"request.FIELD\", \"answer.FIELD\", or a place in one of them, \"answer.FIELD/JSON/POINTER\"; later templates of the same \
             cycle use {slot}", ["capture", "save", "extract"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow: FOLLOW => follow: Option<u32> = redirects::read,
            "Whether redirects are followed: true, or their largest number in a row; default: `follow` of the load or group",
            ["redirects", "follow_redirects", "allow_redirects", "max_redirects", "location"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: STREAM => stream: Option<StreamEnd> = answer_stream::read,
            "Whether the answer is read as a stream of messages, such as Server-Sent Events, and where it ends",
            ["sse", "events", "streaming"];
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        first_byte = "false": Boolean => bool,
            "Whether the time to the first byte of the answer is recorded; always recorded for a stream",
            ["ttfb", "time_to_first_byte", "starttransfer"];
        weight = "1": Whole { min: 1, max: 1_000_000 } => u32,
            "Frequency relative to the others' weights", ["share", "ratio", "percent"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        think: THINK => think: Option<Pause> = Pause::read,
            "Pause after this step; default: `think` of the load or group", ["pause", "sleep", "wait"];
        #[serde(default = "one", skip_serializing_if = "is_one")]
        repeat = "1": Whole { min: 1, max: 10_000 } => u32,
            "Number of times that it is done in a row; {repeat} counts them", ["times", "loop"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probability_pct: Positive => Option<f64>,
            "Share of cycles in which it is done, drawn for each cycle; default: all", ["probability", "chance"];
        every = "1": COUNT => u32, "Done only in cycles whose {seq} is a multiple of this";
        count = "1": COUNT, "Number of times; {seq} counts them", ["times", "repeat"];
        audit = "false": Either(
            &[Boolean, Table(AUDITED)],
            "true, or { effect = \"write\", key = \"…\", value = \"request.FIELD\" } where the protocol does not \
             know what it does",
        ) => audit: bool = |step| step.boolean("audit") || audited::read_audit(step).is_some(),
            "Whether operations go to history.jsonl, and their keys are read back after the run";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        units: Either(
            &[Whole { min: 1, max: 1_000_000_000 }, Text],
            "a number such as 500, or its place in the answer: \"answer.FIELD/JSON/POINTER\"",
        ) => Option<UnitAmount>,
            "Units of work of an `ok` operation, such as documents: a fixed number, or a number or the length of an \
             array in its answer", ["documents", "docs", "records"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parts: Text => Option<String>,
            "Status of each part of an `ok` answer: \"answer.FIELD/JSON/POINTER\" in which `*` is any name or number; \
             parts not from 200 to 299 have failed, and did no units", ["items"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        => audit_as: Option<AuditAs> = audited::read_audit,
            "Effect of an audited operation, if its protocol does not know it";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => follows: bool = |_| false,
            "Whether it continues the sequence of a mix to which the step before it belongs";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => once: bool = |_| false, "Whether each agent does it once, before its cycles";
        #[serde(default, skip_serializing_if = "is_zero")]
        => at_once: u32 = |_| 0, "Most operations of its `parallel` that are open at once; 0 for a single operation";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => beside: bool = |_| false, "Whether it belongs to the same `parallel` as the step before it";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        => program: Option<MemberProgram> = |_| None,
            "Program on the member's host, if the target has one of this name";
    }
}

/// A program that the target names as an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberProgram {
    /// The program and its arguments, with placeholders: `{ARGUMENT}`, and those that the member's
    /// host fills in.
    pub run: Vec<String>,
    /// Standard input of the program, with the same placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

section! {
    const COMPARISON {
        ..PLAIN_COMPARISON: matches, contains, one_of, lua;
        not: Either(
            &[Template, Table(PLAIN_COMPARISON)],
            "a template or a comparison, such as \"0\" or { contains = \"error\" }",
        ), "Value that it must not be: a template, or comparisons that must all fail", ["is_not"];
    }
}

section! {
    const PLAIN_COMPARISON {
        matches: Text,
            "Regular expression that matches somewhere in it; `^` and `$` are its ends",
            ["match", "regex", "regexp", "pattern"];
        contains: Template, "Text that it contains: a template", ["includes"];
        one_of: List(&Template), "Texts, one of which it equals: templates", ["any_of", "oneOf", "in"];
        lua: Text, "Function of the load's script that must not return nil or false for it";
    }
}

section! {
    const PART {
        from = required: Text,
            "Source of the part: \"request.FIELD\", \"answer.FIELD\", or a place in one of them, \
             \"answer.FIELD/JSON/POINTER\"",
            ["of", "field"];
        matches = required: Text,
            "Regular expression: keeps its group, or the whole match if it has none",
            ["match", "regex", "regexp", "pattern"];
    }
}

/// Names that the templates of a step may use.
pub(super) struct Scope<'a> {
    /// Slots that earlier steps keep. For each such step, the number N if it keeps the slot in
    /// every Nth cycle, or 0 if a draw decides.
    pub slots: &'a BTreeMap<String, Vec<u32>>,
    /// Reason why there are no slots here, if there can be none.
    pub no_slots: Option<&'static str>,
    /// Whether an agent does the step.
    pub by_agent: bool,
}

/// Reads a step.
pub(super) fn read(section: &Section<'_>, scope: &Scope<'_>, context: &mut CheckContext<'_>) -> Step {
    // Reads with all keys: steps of a mix and of the preparation get the defaults of `every` and
    // `weight`.
    let step = Step::read(&Section { keys: OPERATION, ..*section });
    let every = step.every;
    let called = find(section, context);
    if let Some(called) = called {
        arguments(section, called, context);
        check_fields(section, called, context);
        check_captures(section, called, context);
        audited::check_audit(section, called, context);
        check_units(section, called, context);
    }
    let slots = with_set_values(section, scope, context);
    let scope = &Scope { slots: &slots, ..*scope };
    for entry in section.entries("set") {
        template(&entry.node, every, scope, context);
    }
    for entry in section.entries("with") {
        template(&entry.node, every, scope, context);
    }
    for entry in section.entries("expect") {
        check_value(&entry.node, every, scope, context);
    }
    for entry in section.entries("keep") {
        slot_name(&entry, context);
        check_kept(&entry, context);
    }
    audited::check_templates(section, every, scope, context);
    site::check_step(section, context);
    if let Some(node) = section.node("probability_pct").filter(|node| node.number().is_some_and(|pct| pct > 100.0)) {
        let problem = Problem::new(&node.place, "a probability is at most 100 percent");
        context.problems.push(problem.expected("percent of the cycles"));
    }
    pause::check(section, context);
    redirects::check(section, context);
    answer_stream::check(section, context);
    let program = called.and_then(|called| called.own);
    let program = program.map(|own| MemberProgram { run: own.run.clone(), stdin: own.stdin.clone() });
    Step { program, ..step }
}

/// Returns the slots that templates of the step may use: those of the scope, and the step's own
/// values. Reports names that earlier steps keep.
fn with_set_values(
    section: &Section<'_>,
    scope: &Scope<'_>,
    context: &mut CheckContext<'_>,
) -> BTreeMap<String, Vec<u32>> {
    let mut slots = scope.slots.clone();
    for entry in section.entries("set") {
        slot_name(&entry, context);
        if slots.insert(entry.key.clone(), vec![1]).is_some() {
            let what = format!("`{}` is also kept by an earlier step", entry.key);
            context.problems.push(Problem::new(&entry.key_place, what).expected("another name"));
        }
    }
    slots
}

/// An operation of the protocol, or a program that the target names. A program has the same kind of
/// answer as the protocol's only operation.
#[derive(Clone, Copy)]
pub(super) struct CalledOperation<'a> {
    pub operation: &'static Operation,
    own: Option<&'a TargetOperation>,
}

impl<'a> CalledOperation<'a> {
    pub fn name(self) -> &'a str {
        self.own.map_or(self.operation.name, |own| &own.name)
    }

    fn takes(self, argument: &str) -> bool {
        self.own.map_or_else(|| has_field(self.operation.takes, argument), |own| own.takes.contains_key(argument))
    }

    fn nearest(self, argument: &str) -> Option<String> {
        match self.own {
            Some(own) => nearest_hint(argument, own.takes.keys().map(String::as_str)),
            None => nearest_hint(argument, names(self.operation.takes)),
        }
    }
}

/// Returns the values of a table with free keys. Values of a wrong type are left out.
fn values<T>(section: &Section<'_>, key: &str, read: impl Fn(&Node) -> Option<T>) -> BTreeMap<String, T> {
    section.entries(key).into_iter().filter_map(|entry| Some((entry.key, read(&entry.node)?))).collect()
}

fn find<'a>(section: &Section<'_>, context: &mut CheckContext<'a>) -> Option<CalledOperation<'a>> {
    let (call, protocol) = (section.text("call")?, context.protocol?);
    let own = context.operations.iter().find(|own| own.name == call);
    if let Some((own, operation)) = own.zip(protocol.operations.first()) {
        return Some(CalledOperation { operation, own: Some(own) });
    }
    let found = protocol.operations.iter().find(|operation| operation.name == call);
    if found.is_none() {
        let known = protocol.operations.iter().map(|operation| operation.name);
        let hint = nearest_hint(call, known.chain(context.operations.iter().map(|own| own.name.as_str())));
        let what = format!("the protocol `{}` has no operation `{call}`", protocol.name);
        context.problems.push(Problem::absent(section.place("call"), what).expected("unknown operation").maybe(hint));
    }
    found.map(|operation| CalledOperation { operation, own: None })
}

/// Whether a field of that name exists.
fn has_field(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| is_named(field.name, name))
}

/// Whether the field has that name; `header.*` takes any suffix.
fn is_named(field: &str, name: &str) -> bool {
    match field.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => field == name,
    }
}

/// Returns the names of the fields, for hints.
fn names(fields: &'static [Field]) -> impl Iterator<Item = &'static str> {
    fields.iter().map(|field| field.name)
}

fn arguments(section: &Section<'_>, called: CalledOperation<'_>, context: &mut CheckContext<'_>) {
    let given = section.entries("with");
    let heading = if section.has("with") { section.place("with") } else { section.place("call") };
    let known: Vec<NamedArgument<'_>> = match called.own {
        Some(own) => own.takes.iter().map(|(name, help)| NamedArgument { name, help, required: true }).collect(),
        None => called.operation.takes.iter().map(NamedArgument::from).collect(),
    };
    arguments_of(&format!("`{}`", called.name()), &known, &given, heading, &mut context.problems);
}

/// An argument that an operation or a fault takes.
pub(super) struct NamedArgument<'a> {
    name: &'a str,
    help: &'a str,
    required: bool,
}

impl<'a> From<&'a Field> for NamedArgument<'a> {
    fn from(field: &'a Field) -> Self {
        Self { name: field.name, help: field.help, required: field.required }
    }
}

/// Reports arguments that `what` does not know, and missing required ones.
pub(super) fn arguments_of(
    what: &str,
    fields: &[NamedArgument<'_>],
    given: &[TableEntry],
    heading: &TextSpan,
    problems: &mut Vec<Problem>,
) {
    let known: Vec<&str> = fields.iter().map(|field| field.name).filter(|name| *name != "*").collect();
    let mut meant = Vec::new();
    for entry in given.iter().filter(|entry| !fields.iter().any(|field| is_named(field.name, &entry.key))) {
        meant.extend(nearest_name(&entry.key, known.iter().copied()));
        let of_file =
            entry.key.strip_suffix(".file").filter(|key| fields.iter().any(|field| is_named(field.name, key)));
        let hint = match of_file {
            Some(key) => format!("the bytes of a file are a placeholder: {key} = \"{{file:photo.jpg}}\""),
            None => nearest_hint(&entry.key, known.iter().copied()).unwrap_or_else(|| "it takes nothing".to_owned()),
        };
        let problem = Problem::absent(&entry.key_place, format!("{what} takes no `{}`", entry.key));
        problems.push(problem.expected("unknown argument").hint(hint));
    }
    // A misspelt argument is not reported as missing as well.
    let mut missing: Vec<&NamedArgument<'_>> = fields.iter().filter(|field| field.required).collect();
    missing.retain(|field| !meant.contains(&field.name) && given.iter().all(|entry| entry.key != field.name));
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|field| format!("`{}`", field.name)).collect();
        let names = join_words(&names, "and");
        let help: Vec<String> = missing.iter().map(|field| format!("{}: {}", field.name, field.help)).collect();
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let problem = Problem::absent(heading, format!("{what} needs {names}"));
        problems.push(problem.expected(format!("{names} {verb} missing")).hint(help.join("; ")));
    }
}

fn slot_name(entry: &TableEntry, context: &mut CheckContext<'_>) {
    let name = entry.key.as_str();
    if WORDS.contains(&name) {
        let problem = Problem::new(&entry.key_place, format!("a slot cannot be called `{name}`"));
        context.problems.push(problem.expected(format!("{{{name}}} is a built-in placeholder")));
    } else if !is_slot_name(name) {
        let problem = Problem::new(&entry.key_place, format!("`{name}` is not a name for a slot"));
        context.problems.push(problem.expected("small letters, digits and `_`, a letter first"));
    }
}

/// Checks a template and every name in it.
pub(super) fn template(node: &Node, every: u32, scope: &Scope<'_>, context: &mut CheckContext<'_>) {
    let Some(text) = node.text() else { return };
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            let place = node.inside(error.at);
            context.problems.push(Problem::new(&place, error.what).expected("in this template").hint(error.hint));
            return;
        }
    };
    for part in template.all_parts() {
        let problem = match part {
            TemplatePart::Slot(slot) => match scope.slots.get(slot) {
                None => Some(unknown_slot(slot, node, scope)),
                Some(kept) if kept.iter().all(|kept| !every.is_multiple_of(*kept)) => {
                    let kept = kept.iter().min().copied().unwrap_or(1);
                    let (what, hint) = match kept {
                        0 => ("`probability_pct`".to_owned(), "let a step that is always done keep it".to_owned()),
                        _ => (format!("`every = {kept}`"), format!("give this step `every = {kept}` too")),
                    };
                    let what =
                        format!("`{slot}` is kept by a step with {what}, and this step is done in other cycles too");
                    Some(Problem::new(&placeholder(node, slot), what).expected("not always there").hint(hint))
                }
                Some(_) => None,
            },
            TemplatePart::Feed { feed, .. } if !context.feeds.contains(feed) => {
                let what = format!("there is no feed `{feed}`");
                Some(Problem::absent(&placeholder(node, &format!("feed.{feed}")), what).expected("unknown feed").hint(
                    nearest_hint(feed, context.feeds.iter().map(String::as_str)).unwrap_or_else(|| {
                        "a feed is a file of records: [[load.feed]] with `name` and `file`".to_owned()
                    }),
                ))
            }
            TemplatePart::Script(name) if !context.has_script => {
                Some(no_script(&placeholder(node, &format!("lua.{name}"))))
            }
            TemplatePart::Agent(_) | TemplatePart::Copy(_) | TemplatePart::Repeat(_) if !scope.by_agent => Some(
                Problem::new(&placeholder(node, word_of(part)), "no agent does the preparation")
                    .expected("there is no agent here")
                    .hint("use {seq}, which counts the repetitions: `count = 200` and \"agent-{seq}\""),
            ),
            _ => None,
        };
        context.problems.extend(problem);
    }
}

/// Returns the name of a placeholder that only agents can fill in.
fn word_of(part: &TemplatePart) -> &'static str {
    match part {
        TemplatePart::Copy(_) => "copy",
        TemplatePart::Repeat(_) => "repeat",
        _ => "agent",
    }
}

/// Returns the place of `{word` in a template.
pub(super) fn placeholder(node: &Node, word: &str) -> TextSpan {
    let text = node.text().unwrap_or_default();
    let found =
        text.match_indices(&format!("{{{word}")).map(|(at, _)| at + 1).find(|at| !text[..*at - 1].ends_with('{'));
    found.map_or_else(|| node.place.clone(), |at| node.inside(at..at + word.len()))
}

/// Returns the problem of a script function in a load without a script.
fn no_script(place: &TextSpan) -> Problem {
    Problem::absent(place, "this load has no script")
        .expected("no script for the function")
        .hint("[load] script = \"values.lua\": a file of functions, relative to the experiment")
}

fn unknown_slot(slot: &str, node: &Node, scope: &Scope<'_>) -> Problem {
    let place = placeholder(node, slot);
    let problem =
        Problem::absent(&place, format!("nothing called `{slot}` is kept before this step")).expected("unknown slot");
    if let Some(near) =
        nearest_name(slot, scope.slots.keys().map(String::as_str).chain(["agent", "copy", "repeat", "seq"]))
    {
        return problem.hint(format!("did you mean {{{near}}}?"));
    }
    match scope.no_slots {
        Some(why) => problem.hint(why),
        None => problem.hint(format!(
            "an earlier step of this cycle has to keep it: keep = {{ {slot} = \"request.FIELD\" }} or \"answer.FIELD\""
        )),
    }
}

/// Condition on a field of an answer, or on a place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expected {
    /// Equality with the text that this template gives.
    Text(String),
    /// A comparison.
    Compared(TextCondition),
}

/// Formats the expectation for readers: `= hello`, `contains "a" and not = b`.
impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = match self {
            Self::Text(text) => return write!(out, "= {text}"),
            Self::Compared(condition) => condition,
        };
        let word = |word: &str, text: &Option<String>| text.as_ref().map(|text| format!("{word} {text:?}"));
        let parts = [
            word("matches", &condition.matches),
            word("contains", &condition.contains),
            condition.one_of.as_ref().map(|texts| format!("is one of {texts:?}")),
            word("passes", &condition.lua),
            condition.not.as_ref().map(|not| format!("not {not}")),
        ];
        out.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// Conditions on a text; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextCondition {
    /// A regular expression that matches somewhere in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// A template; the text contains its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Templates; the text equals the result of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<String>>,
    /// A function of the load's script that accepts the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lua: Option<String>,
    /// A template that the text must not equal, or a comparison of which no part may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Expected>>,
}

/// Content of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SlotContent {
    /// `request.FIELD`, `answer.FIELD`, `request.FIELD/JSON/POINTER` or
    /// `answer.FIELD/JSON/POINTER`.
    Whole(String),
    /// A part of a text.
    Part {
        /// Source of the text, as in [`SlotContent::Whole`].
        from: String,
        /// A regular expression: its group is kept, or the whole match if it has no group.
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

impl From<&str> for SlotContent {
    fn from(what: &str) -> Self {
        Self::Whole(what.to_owned())
    }
}

impl From<String> for SlotContent {
    fn from(what: String) -> Self {
        Self::Whole(what)
    }
}

/// Units of work that an operation does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UnitAmount {
    /// A fixed number.
    Fixed(u64),
    /// `answer.FIELD/JSON/POINTER`: a number in the answer, or an array whose length is the number.
    Told(String),
}

/// Reads a value of `expect`. Returns `None` for a wrong type, which has been reported.
fn expected(node: &Node) -> Option<Expected> {
    let Some(table) = node.table() else { return node.as_written().map(Expected::Text) };
    Some(Expected::Compared(TextCondition {
        matches: table.text("matches").map(ToOwned::to_owned),
        contains: table.get("contains").and_then(Node::as_written),
        one_of: table.get("one_of").and_then(Node::list).map(|list| list.iter().filter_map(Node::as_written).collect()),
        lua: table.text("lua").map(ToOwned::to_owned),
        not: table.get("not").and_then(expected).map(Box::new),
    }))
}

/// Reads a value of `keep`. Returns `None` as [`expected`] does.
fn kept(node: &Node) -> Option<SlotContent> {
    let Some(table) = node.table() else { return node.as_written().map(SlotContent::Whole) };
    Some(SlotContent::Part { from: table.text("from")?.to_owned(), matches: table.text("matches")?.to_owned() })
}

/// Checks that the answer has the fields of `expect`.
fn check_fields(section: &Section<'_>, called: CalledOperation<'_>, context: &mut CheckContext<'_>) {
    let comparisons = keys::find(section.keys, "expect").map(|key| key.kind.below()).unwrap_or_default();
    for entry in &section.entries("expect") {
        let wrong = not_a_comparison(entry, comparisons, called.operation).or_else(|| not_a_field(entry, called));
        context.problems.extend(wrong);
    }
}

/// Returns the problem of a misspelt comparison: `{ matchs = "…" }` would be read as the field
/// `body.matchs`.
fn not_a_comparison(entry: &TableEntry, comparisons: &'static [Key], operation: &'static Operation) -> Option<Problem> {
    let (compared, word) = entry.key.rsplit_once('.')?;
    let (field, place) = pointer::split(compared);
    let is_written_apart = entry.key_place.text().trim_matches(['"', '\'']) == word;
    if !is_written_apart || !has_field(operation.answers, field) {
        return None;
    }
    let words = || comparisons.iter().map(|key| key.name);
    let may_be_meant =
        place.is_none() && has_field(operation.answers, &entry.key) && nearest_name(word, words()).is_none();
    (!may_be_meant).then(|| {
        let hint = nearest_hint(word, words()).unwrap_or_default();
        let hint = match nearest_name(word, words()) {
            Some(_) => hint,
            None => format!("{hint}; a place in it is a JSON pointer: \"{compared}/{word}\""),
        };
        let problem = Problem::absent(&entry.key_place, format!("`{compared}` has no comparison `{word}`"));
        problem.expected("unknown comparison").hint(hint)
    })
}

fn not_a_field(entry: &TableEntry, called: CalledOperation<'_>) -> Option<Problem> {
    let (field, place) = pointer::split(&entry.key);
    let operation = called.operation;
    if !has_field(operation.answers, field) {
        let what = format!("the answer to `{}` has no `{field}`", called.name());
        let by_dots = field.split_once('.').filter(|(first, _)| has_field(operation.answers, first));
        let hint = match by_dots {
            Some((first, rest)) => {
                Some(format!("a place in `{first}` is a JSON pointer: \"{first}/{}\"", rest.replace('.', "/")))
            }
            None => nearest_hint(field, names(operation.answers)),
        };
        return Some(Problem::absent(&entry.key_place, what).expected("unknown field").maybe(hint));
    }
    let error = Pointer::parse(place?).err()?;
    Some(Problem::new(&entry.key_place, error.what).expected("not a JSON pointer"))
}

/// Checks every template and regular expression in an expected value.
fn check_value(node: &Node, every: u32, scope: &Scope<'_>, context: &mut CheckContext<'_>) {
    let Some(table) = node.table() else {
        template(node, every, scope, context);
        return;
    };
    if table.entries.is_empty() {
        let problem = Problem::absent(&node.place, "this comparison is empty").expected("an empty table");
        context.problems.push(problem.hint("the comparisons are `matches`, `contains`, `one_of` and `lua`"));
    }
    for entry in &table.entries {
        match entry.key.as_str() {
            "matches" => context.problems.extend(not_a_pattern(&entry.node, usize::MAX)),
            "lua" => context.problems.extend(not_a_function(&entry.node, context.has_script)),
            "contains" | "not" => check_value(&entry.node, every, scope, context),
            "one_of" => {
                let list = entry.node.list();
                if list.is_some_and(<[Node]>::is_empty) {
                    let problem = Problem::absent(&entry.node.place, "`one_of` has no texts");
                    context.problems.push(problem.expected("an empty list").hint("list the allowed texts"));
                }
                list.unwrap_or_default().iter().for_each(|node| template(node, every, scope, context));
            }
            _ => {}
        }
    }
}

/// Returns the problem of a regular expression. It may have at most `most` groups.
fn not_a_pattern(node: &Node, most: usize) -> Option<Problem> {
    const HINT: &str = "classes such as \\d are ASCII's; in single quotes backslashes are written as they are: '\\d+'";
    match pattern::groups(node.text()?) {
        Ok(groups) if groups > most => {
            let problem = Problem::new(&node.place, format!("a slot keeps one group, and this has {groups}"));
            Some(problem.expected("several groups").hint("write a group that is not kept as (?:…)"))
        }
        Ok(_) => None,
        Err(error) => {
            let problem = Problem::new(&node.inside(error.at), format!("not a regular expression: {}", error.what));
            Some(problem.expected("in this regular expression").hint(HINT))
        }
    }
}

/// Returns the problem of the name of a function in the load's script.
fn not_a_function(node: &Node, has_script: bool) -> Option<Problem> {
    let name = node.text()?;
    if !has_script {
        return Some(no_script(&node.place));
    }
    (!is_function_name(name)).then(|| {
        Problem::new(&node.place, format!("`{name}` is not the name of a function")).expected("letters, digits and `_`")
    })
}

/// Checks an entry of `keep`, as far as it does not depend on the operation.
fn check_kept(entry: &TableEntry, context: &mut CheckContext<'_>) {
    let matches = entry.node.table().and_then(|part| part.get("matches"));
    context.problems.extend(matches.and_then(|node| not_a_pattern(node, 1)));
}

/// Checks that the request and the answer have the fields of `keep`.
fn check_captures(section: &Section<'_>, called: CalledOperation<'_>, context: &mut CheckContext<'_>) {
    for entry in &section.entries("keep") {
        let node = entry.node.table().map_or(Some(&entry.node), |part| part.get("from"));
        context.problems.extend(node.and_then(|node| not_a_part(node, section, called)));
    }
}

/// Returns the problem of a `request.FIELD` or `answer.FIELD`, each with an optional JSON pointer.
/// `None` if there is no problem.
pub(super) fn not_a_part(node: &Node, section: &Section<'_>, called: CalledOperation<'_>) -> Option<Problem> {
    const FORM: &str = "write \"request.FIELD\" or \"answer.FIELD\"";
    let text = node.text()?;
    match text.split_once('.') {
        Some(("request", field)) => not_a_request_part(node, field, section, called),
        Some(("answer", field)) => {
            let (field, place) = pointer::split(field);
            let end = "answer.".len() + field.len();
            if !has_field(called.operation.answers, field) {
                let what = format!("the answer to `{}` has no `{field}`", called.name());
                let problem = Problem::absent(&node.inside("answer.".len()..end), what).expected("unknown field");
                return Some(problem.maybe(nearest_hint(field, names(called.operation.answers))));
            }
            let error = Pointer::parse(place?).err()?;
            let at = node.inside(end + error.at.start..end + error.at.end);
            Some(Problem::new(&at, error.what).expected("not a JSON pointer"))
        }
        _ => Some(
            Problem::new(&node.place, "this cannot be kept")
                .expected("neither a request's field nor an answer's")
                .hint(FORM),
        ),
    }
}

/// Returns the problem of a request's `FIELD` or `FIELD/JSON/POINTER`, or `None`.
pub(super) fn not_a_request_part(
    node: &Node,
    part: &str,
    section: &Section<'_>,
    called: CalledOperation<'_>,
) -> Option<Problem> {
    let (field, pointer) = pointer::split(part);
    let end = "request.".len() + field.len();
    let place = node.inside("request.".len()..end);
    if !called.takes(field) {
        let problem =
            Problem::absent(&place, format!("`{}` takes no `{field}`", called.name())).expected("unknown argument");
        return Some(problem.maybe(called.nearest(field)));
    }
    let Some(sent) = section.entries("with").into_iter().find(|with| with.key == field) else {
        let problem = Problem::absent(&place, format!("this step sends no `{field}`")).expected("nothing to keep");
        return Some(problem.hint(format!("give `{field}` in this step's `with`")));
    };
    let pointer = pointer?;
    if let Err(error) = Pointer::parse(pointer) {
        let at = node.inside(end + error.at.start..end + error.at.end);
        return Some(Problem::new(&at, error.what).expected("not a JSON pointer"));
    }
    // Another mistake in the template is reported at the template.
    let example = Template::parse(&sent.node.as_written()?).ok()?.example();
    let what = match serde_json::from_str::<serde_json::Value>(&example) {
        Ok(json) if json.pointer(pointer).is_some() => return None,
        Ok(_) => format!("the JSON of `{field}` has no such place"),
        Err(_) => format!("`{field}` is not JSON, with 1 for each placeholder: {example}"),
    };
    let problem = Problem::absent(&node.inside(end..end + pointer.len()), what).expected("a place in the request");
    Some(problem.related(&sent.node.place, "what is sent"))
}

/// Checks that the answer has the fields in `units` and `parts`.
fn check_units(section: &Section<'_>, called: CalledOperation<'_>, context: &mut CheckContext<'_>) {
    for key in ["units", "parts"] {
        let Some((node, text)) = section.node(key).and_then(|node| Some((node, node.text()?))) else { continue };
        let place = text.find('/').map(|at| &text[at..]).unwrap_or_default();
        let has_any = place.split('/').any(|step| step == "*");
        let about = |what: String, why: &str, hint: &str| {
            Some(Problem::new(&node.place, what).expected(why.to_owned()).hint(hint.to_owned()))
        };
        context.problems.extend(if !text.starts_with("answer.") {
            about(
                format!("`{key}` is a field of the answer"),
                "a place in the answer",
                "write \"answer.FIELD/JSON/POINTER\", such as \"answer.body/items\"",
            )
        } else if key == "parts" && !has_any {
            about(
                "this names one place, and an answer has several parts".to_owned(),
                "`*` is missing",
                "write `*` for any name or number: \"answer.body/items/*/*/status\"",
            )
        } else if key == "units" && has_any {
            about(
                "the number of units must be in one place".to_owned(),
                "`*` means several places",
                "remove it: the length of an array is counted; the status of each part belongs in `parts`",
            )
        } else {
            not_a_part(node, section, called)
        });
    }
}
