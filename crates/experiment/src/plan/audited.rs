//! Effect of an operation on a key (`audit`), for the consistency checks: what the file says,
//! checked against what the protocol knows.

use serde::{Deserialize, Serialize};

use crate::catalog::Effect;
use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::operation::{CalledOperation, Scope, not_a_part, not_a_request_part, placeholder, template};
use crate::pointer::{self, Pointer};
use crate::problem::Problem;
use crate::section::Section;
use crate::template::{Template, TemplatePart};
use crate::tree::{Node, TableEntry, TextSpan};

section! {
    const AUDITED {
        effect = required: Choice(&["write", "remove", "read", "cas"]),
            "Effect of the operation on the key; `cas` is a compare-and-set", ["does", "kind", "type"];
        key = (unless keys): Template, "Key: a template, without random numbers", ["id", "name"];
        keys: Text,
            "Instead of `key`, the keys of a request that changes many: \"request.FIELD/JSON/POINTER\", in which `*` \
             is any name or number. The field is JSON lines; each line with that place names a key, and in a write the \
             next line is the value", ["ids"];
        value: Text,
            "Value that a write sends, \"request.FIELD\", or a read returns, \"answer.FIELD\", or a place in it: \
             \"request.body/value\"; of a `cas` the new value, also as a template; not with `keys`", ["to"];
        from: Text,
            "Value that a `cas` expects: \"request.FIELD\", a place in it, or a template without random numbers; \
             default: none, it expects that the key is absent", ["expects", "old", "compare"];
        succeeded: Text,
            "Place in the answer that tells whether a `cas` found the expected value: \"answer.FIELD\"; it did not if \
             the place is absent, empty, `0`, `false` or `null`; default: an `ok` answer says that it did",
            ["swapped", "applied"];
        found: Text,
            "Value that a `cas` found instead of the expected one, if its answer tells: \"answer.FIELD\"", ["actual"];
        version: Text,
            "Version of the value in the answer, a whole number that grows with each write of the key: \"answer.FIELD\"",
            ["revision", "mod_revision"];
        space: Template, "Space of the key: a template; default: the empty one";
    }
}

/// `audit = { … }`: the effect of an operation on a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAs {
    /// Effect on the key.
    pub effect: AuditEffect,
    /// A template for the key's space; empty without one.
    #[serde(default)]
    pub space: String,
    /// A template that gives the same text each time it is filled in; empty if there are `keys`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `request.FIELD/JSON/POINTER`: the place of a key in each line of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// `request.FIELD` of a write, `answer.FIELD` of a read, or a place in one of them; of a
    /// compare-and-set also a template. `None` with `keys`.
    pub value: Option<String>,
    /// Value that a compare-and-set expects: `request.FIELD`, a place in it, or a template. `None`
    /// if it expects no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// `answer.FIELD` that tells whether a compare-and-set found the expected value; `None` if
    /// each `ok` answer says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<String>,
    /// `answer.FIELD` with the value that a compare-and-set found instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// `answer.FIELD` with the version of the value, which orders the writes of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Effect of an operation on a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditEffect {
    /// Sets the key to the value in the request.
    #[default]
    Write,
    /// Removes the key.
    Remove,
    /// Reads the key; its value is in the answer.
    Read,
    /// Sets the key to a new value if it has the expected one: a compare-and-set.
    Cas,
}

impl AuditAs {
    /// Returns the texts in which values of the preparation are filled in.
    pub(super) fn templates(&mut self) -> impl Iterator<Item = &mut String> {
        let is_cas = self.effect == AuditEffect::Cas;
        [&mut self.key, &mut self.space].into_iter().chain(&mut self.from).chain(self.value.as_mut().filter(|_| is_cas))
    }
}

/// Reads `audit = { … }`. Returns `None` for a plain `true` or `false`, and for an incomplete
/// table.
pub(super) fn read_audit(section: &Section<'_>) -> Option<AuditAs> {
    let audit = section.section("audit")?;
    let keys: Option<String> = audit.get("keys");
    let key = if keys.is_some() { String::new() } else { audit.get("key")? };
    Some(AuditAs {
        effect: audit.get("effect")?,
        space: audit.get("space").unwrap_or_default(),
        key,
        keys,
        value: audit.get("value"),
        from: audit.get("from"),
        succeeded: audit.get("succeeded"),
        found: audit.get("found"),
        version: audit.get("version"),
    })
}

/// Checks the templates of `audit = { … }`.
pub(super) fn check_templates(section: &Section<'_>, every: u32, scope: &Scope<'_>, context: &mut CheckContext<'_>) {
    let Some(audit) = section.section("audit") else { return };
    let is_cas = audit.get("effect") == Some(AuditEffect::Cas);
    let values = ["from", "value"].into_iter().filter(|_| is_cas).filter_map(|key| audit.table.entry(key));
    let values = values.filter(|entry| !is_request_part(&entry.node));
    for entry in ["space", "key"].into_iter().filter_map(|key| audit.table.entry(key)).chain(values) {
        template(&entry.node, every, scope, context);
        reproducible(entry, context);
    }
}

/// Whether a value of a compare-and-set is a part of the request, and no template.
fn is_request_part(node: &Node) -> bool {
    node.text().is_some_and(|text| text.starts_with("request."))
}

/// Reports random values in a key or value. Each template draws its own random numbers, so the text
/// would differ from the one in the request.
fn reproducible(entry: &TableEntry, context: &mut CheckContext<'_>) {
    let Some(Ok(template)) = entry.node.text().map(Template::parse) else { return };
    let drawn = template.all_parts().into_iter().find_map(|part| match part {
        TemplatePart::Bytes(_) => Some(("bytes", ":…")),
        TemplatePart::Uniform { .. } => Some(("uniform", ":…")),
        TemplatePart::Zipf { .. } => Some(("zipf", ":…")),
        TemplatePart::Script(_) => Some(("lua", ".…")),
        _ => None,
    });
    let Some((drawn, rest)) = drawn else { return };
    let what = format!("{{{drawn}{rest}}} is drawn again here, and differs from the value in the request");
    let problem = Problem::new(&placeholder(&entry.node, drawn), what).expected("a text without random values");
    context.problems.push(problem.hint("use {agent}, {seq}, {feed.NAME.COLUMN} and values that earlier steps kept"));
}

/// Checks `audit` against the protocol's knowledge of the operation.
pub(super) fn check_audit(section: &Section<'_>, called: CalledOperation<'_>, context: &mut CheckContext<'_>) {
    let operation = called.operation;
    match section.section("audit") {
        Some(audit) if operation.effect == Effect::None => {
            audited_value(&audit, section, called, context);
            audited_answer(&audit, section, called, context);
        }
        Some(_) => {
            let what = format!("the effect and key of `{}` are known", operation.name);
            let problem = Problem::new(section.place("audit"), what).expected("a table is not needed");
            context.problems.push(problem.hint("write audit = true"));
        }
        None if section.boolean("audit") && operation.effect == Effect::None => {
            let what = format!("`{}` cannot be audited", called.name());
            let knows_keys = context
                .protocol
                .is_some_and(|protocol| protocol.operations.iter().any(|operation| operation.effect != Effect::None));
            let problem = Problem::new(section.place("audit"), what);
            context.problems.push(if knows_keys {
                problem
                    .expected("it reads and writes no key")
                    .hint("audit a step that writes a key; its last value is read back after the run")
            } else {
                problem.expected("its effect and its key are not known").hint(
                    "give them: audit = { effect = \"write\", key = \"case-{agent}-{seq}\", value = \"request.body\" }, \
                     or effect = \"read\" with value = \"answer.body\", or effect = \"remove\"",
                )
            });
        }
        None => {}
    }
}

/// Checks the place of the value: in the request of a write, in the answer of a read. A removal has
/// no value.
fn audited_value(
    audit: &Section<'_>,
    section: &Section<'_>,
    called: CalledOperation<'_>,
    context: &mut CheckContext<'_>,
) {
    let Some(effect) = audit.get("effect") else { return };
    if let Some(node) = audit.node("keys") {
        many_keys(audit, node, effect, section, called, context);
        return;
    }
    let (name, wanted, elsewhere) = match effect {
        AuditEffect::Write => ("write", "request.", "answer."),
        AuditEffect::Read => ("read", "answer.", "request."),
        AuditEffect::Cas => {
            compared_values(audit, section, called, context);
            return;
        }
        AuditEffect::Remove => {
            if let Some(node) = audit.node("value") {
                let problem =
                    Problem::new(&node.place, "a removal has no value").expected("the key is gone afterwards");
                context.problems.push(problem.hint("remove `value`, or make it effect = \"write\""));
            }
            return;
        }
    };
    let Some(node) = audit.node("value") else {
        let problem = Problem::absent(audit.place, format!("an audited {name} needs `value`"));
        let problem = problem.expected("`value` is missing");
        context
            .problems
            .push(problem.hint(format!("give its field: value = \"{wanted}FIELD\", such as \"{wanted}body\"")));
        return;
    };
    let is_elsewhere = node.text().is_some_and(|text| text.starts_with(elsewhere));
    context.problems.extend(if is_elsewhere {
        let what = if effect == AuditEffect::Write {
            "the value of a write is in the request"
        } else {
            "the value of a read is in the answer"
        };
        let problem =
            Problem::new(&node.place, what).expected(format!("a field of the {}", &wanted[..wanted.len() - 1]));
        Some(problem.hint(format!("write \"{wanted}FIELD\"")))
    } else {
        not_a_part(node, section, called)
    });
}

/// Checks the values of a compare-and-set. Each is a part of the request, or a template.
fn compared_values(
    audit: &Section<'_>,
    section: &Section<'_>,
    called: CalledOperation<'_>,
    context: &mut CheckContext<'_>,
) {
    if !audit.has("value") {
        let problem = Problem::absent(audit.place, "an audited compare-and-set needs `value`");
        let problem = problem.expected("`value` is missing");
        context.problems.push(problem.hint("give the new value: value = \"request.FIELD\", or a template"));
    }
    for node in ["from", "value"].into_iter().filter_map(|key| audit.node(key)) {
        if is_request_part(node) {
            context.problems.extend(not_a_part(node, section, called));
        } else if node.text().is_some_and(|text| text.starts_with("answer.")) {
            let problem = Problem::new(&node.place, "the values of a compare-and-set are in the request");
            let problem = problem.expected("a field of the request, or a template");
            context.problems.push(problem.hint("write \"request.FIELD\"; what it found belongs in `found`"));
        }
    }
}

/// Checks the places in the answer, and that only a compare-and-set has keys of its own.
fn audited_answer(
    audit: &Section<'_>,
    section: &Section<'_>,
    called: CalledOperation<'_>,
    context: &mut CheckContext<'_>,
) {
    let is_cas = audit.get("effect") == Some(AuditEffect::Cas);
    for (key, node) in
        ["from", "succeeded", "found", "version"].into_iter().filter_map(|key| Some((key, audit.node(key)?)))
    {
        if key != "version" && !is_cas {
            let what = format!("`{key}` belongs to a compare-and-set");
            let problem = Problem::new(audit.place(key), what).expected("not with this effect");
            context.problems.push(problem.hint("remove it, or make it effect = \"cas\""));
        } else if key == "version" && audit.has("keys") {
            let problem = Problem::new(audit.place(key), "`version` and `keys` exclude each other");
            context.problems.push(problem.expected("of one key").hint("remove one of the two"));
        } else if key != "from" && !node.text().is_some_and(|text| text.starts_with("answer.")) {
            let problem = Problem::new(&node.place, format!("`{key}` is in the answer"));
            context.problems.push(problem.expected("a field of the answer").hint("write \"answer.FIELD\""));
        } else if key != "from" {
            context.problems.extend(not_a_part(node, section, called));
        }
    }
}

/// Checks `keys`, for a request that changes many keys. The keys and their values are in the lines
/// of the request.
fn many_keys(
    audit: &Section<'_>,
    node: &Node,
    effect: AuditEffect,
    section: &Section<'_>,
    called: CalledOperation<'_>,
    context: &mut CheckContext<'_>,
) {
    for key in ["key", "value"].into_iter().filter(|key| audit.has(key)) {
        let problem = Problem::new(audit.place(key), format!("`{key}` and `keys` exclude each other"));
        context.problems.push(
            problem
                .expected("of one key")
                .related(&node.place, "of many, each with the line behind it as its value")
                .hint("remove one of the two"),
        );
    }
    if matches!(effect, AuditEffect::Read | AuditEffect::Cas) {
        let name = if effect == AuditEffect::Read { "a read" } else { "a compare-and-set" };
        let problem = Problem::new(audit.place("effect"), format!("{name} of many keys cannot be audited"));
        context
            .problems
            .push(problem.expected("not with `keys`").hint("audit writes and removals; their keys are read back"));
    }
    let Some(text) = node.text() else { return };
    let about = |place: &TextSpan, what: &str, expected: &str| {
        let hint = "write \"request.FIELD/JSON/POINTER\", such as \"request.body/*/_id\"";
        Some(Problem::new(place, what).expected(expected.to_owned()).hint(hint))
    };
    let problem = match text.strip_prefix("request.") {
        None => about(&node.place, "the keys of many values are in the request", "a place in the request"),
        Some(rest) => match pointer::split(rest) {
            (_, None | Some("")) => {
                about(&node.place, "this names no place in a line", "the place of the key is missing")
            }
            (field, Some(place)) => {
                let end = "request.".len() + field.len();
                let not_a_pointer = |error: pointer::PointerError| {
                    let at = node.inside(end + error.at.start..end + error.at.end);
                    Problem::new(&at, error.what).expected("not a JSON pointer")
                };
                not_a_request_part(node, field, section, called)
                    .or_else(|| Pointer::parse(place).err().map(not_a_pointer))
            }
        },
    };
    context.problems.extend(problem);
}
