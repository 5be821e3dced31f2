//! History lines of audited operations: the parts of the request and the answer that the checks of
//! the data need.

use experiment::catalog::{Effect, Operation};
use experiment::plan::{AuditAs, AuditEffect};
use record::events::{By, HistoryEntry, Outcome};
use wire::cause::AttemptCause;
use wire::protocols::AboutData;
use wire::session::SessionProtocol;
use wire::values::{Argument, CompiledTemplate};

use super::answers::DecodedAnswer;
use super::values::AgentValues;
use super::{Agent, OperationEnd};
use crate::LoadPurpose;
use crate::engine::bulk_keys::BulkKeys;
use crate::engine::expectation::{ArgumentPart, CompiledField, ExtractedFields, OperationPart, WantedFields};
use crate::engine::ids::AgentId;
use crate::schedules::NS_PER_S;

/// Index of the first random stream for audited values. Arguments and expectations use lower
/// indexes.
const STREAM: u64 = 2000;

/// Texts of a field that say that a compare-and-set did not find the expected value.
const UNEQUAL: [&[u8]; 4] = [b"", b"0", b"false", b"null"];

/// Recorded parts of an audited operation.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Name of the effect in the history.
    pub effect: &'static str,
    /// Key space. `None` is the empty space.
    pub space: Option<CompiledTemplate>,
    /// Key, or `None` if the operation affects a whole space.
    pub key: Option<CompiledTemplate>,
    /// Value that the operation writes.
    pub written: Option<RequestText>,
    /// Value that a read or a dequeue returns, the members of a set, or the value that a
    /// compare-and-set found instead of the expected one.
    pub found: Option<CompiledField>,
    /// Value that a compare-and-set expects. `None` if it expects no value.
    pub expected: Option<RequestText>,
    /// Whether a compare-and-set found the expected value. `None` if each `ok` answer says so.
    pub succeeded: Option<CompiledField>,
    /// Version of the value.
    pub version: Option<CompiledField>,
    /// Keys of a request that changes many keys. Replaces `key` and `written`.
    pub keys: Option<BulkKeys>,
}

/// A text that a request contains.
#[derive(Debug, Clone)]
pub enum RequestText {
    /// An argument, or a place in it.
    Part(ArgumentPart),
    /// A template that renders the same text as the request's own.
    Template(CompiledTemplate),
}

/// Facts from the answer to an audited operation.
#[derive(Debug, Default)]
pub struct AuditedAnswer {
    /// Value that a read returned, or that a compare-and-set found instead of the expected one.
    pub found: Option<String>,
    /// Whether the operation took effect, if known.
    pub applied: Option<bool>,
    /// Whether a compare-and-set found the expected value, if known.
    pub equal: Option<bool>,
    /// Version of the value.
    pub version: Option<u64>,
    /// Whether each part of the operation took effect, if the answer reports parts.
    pub parts: Option<Vec<Option<bool>>>,
}

impl Audit {
    fn is_read(&self) -> bool {
        self.effect == "read"
    }

    fn returns_value(&self) -> bool {
        matches!(self.effect, "read" | "dequeue" | "members")
    }

    fn is_comparison(&self) -> bool {
        self.effect == "cas"
    }
}

/// Returns the audit of an operation whose effect the protocol knows.
pub fn known_audit(operation: &Operation, arguments: &[Argument], wants: &mut WantedFields) -> Result<Audit, String> {
    let place = |name: &str| arguments.iter().position(|argument| argument.name == name);
    // The same template renders the same text again.
    let text = |name: &str| place(name).map(|place| arguments[place].template.clone());
    let sent = |name: &str| place(name).map(|argument| RequestText::Part(ArgumentPart { argument, place: None }));
    let mut answered = |name: &str| {
        let is_there = operation.answers.iter().any(|field| field.name == name);
        is_there.then(|| CompiledField::compile(name, wants)).transpose()
    };
    let (mut found, mut succeeded) = (None, None);
    let effect = match operation.effect {
        Effect::Read => {
            found = answered("value")?;
            "read"
        }
        Effect::Write => "write",
        Effect::CompareAndSet => {
            (found, succeeded) = (answered("value")?, answered("succeeded")?);
            "cas"
        }
        Effect::Remove => "remove",
        Effect::RemoveAll => "remove_all",
        Effect::Enqueue => "enqueue",
        Effect::Dequeue => {
            found = answered("value")?;
            "dequeue"
        }
        Effect::AddToSet => "add_to_set",
        Effect::ReadMembers => {
            found = answered("value")?;
            "members"
        }
        Effect::None => {
            return Err(format!("`{}` cannot be audited: it neither reads nor changes a key", operation.name));
        }
    };
    let version = answered("version")?;
    let written = if matches!(effect, "write" | "cas" | "enqueue" | "add_to_set") { sent("value") } else { None };
    let expected = if effect == "cas" { sent("from") } else { None };
    Ok(Audit {
        effect,
        space: text("space"),
        key: text("key"),
        written,
        found,
        expected,
        succeeded,
        version,
        keys: None,
    })
}

/// Returns the audit that a step describes, for an operation whose effect the protocol does not
/// know. `text` compiles a template with the given random stream.
pub fn told_audit(
    told: &AuditAs,
    arguments: &[Argument],
    wants: &mut WantedFields,
    text: impl Fn(&str, u64) -> Result<CompiledTemplate, String>,
) -> Result<Audit, String> {
    let space = text(&told.space, STREAM)?;
    if let Some(keys) = &told.keys {
        return many_keys(told, keys, arguments, space);
    }
    let value = told.value.as_deref();
    let part = |text: Option<&str>, wants: &mut WantedFields| {
        text.map(|text| OperationPart::compile(text, arguments, wants)).transpose()
    };
    let (mut written, mut found, mut expected) = (None, None, None);
    let effect = match told.effect {
        AuditEffect::Cas => {
            written = Some(request_text(value.ok_or(INVALID)?, arguments, STREAM + 2, &text)?);
            expected = told.from.as_deref().map(|from| request_text(from, arguments, STREAM + 3, &text)).transpose()?;
            found = answer_field(told.found.as_deref(), wants)?;
            "cas"
        }
        effect => match (effect, part(value, wants)?) {
            (AuditEffect::Write, Some(OperationPart::Argument(part))) => {
                written = Some(RequestText::Part(part));
                "write"
            }
            (AuditEffect::Read, Some(OperationPart::Answer(field))) => {
                found = Some(field);
                "read"
            }
            (AuditEffect::Remove, None) => "remove",
            _ => return Err(INVALID.into()),
        },
    };
    Ok(Audit {
        effect,
        space: Some(space),
        key: Some(text(&told.key, STREAM + 1)?),
        written,
        found,
        expected,
        succeeded: answer_field(told.succeeded.as_deref(), wants)?,
        version: answer_field(told.version.as_deref(), wants)?,
        keys: None,
    })
}

const INVALID: &str = "the audited `value` is invalid: a write needs request.FIELD, a read answer.FIELD, a removal none, \
                       and a compare-and-set request.FIELD or a template";

/// Returns the audit of a request that changes many keys.
fn many_keys(told: &AuditAs, keys: &str, arguments: &[Argument], space: CompiledTemplate) -> Result<Audit, String> {
    let is_write = told.effect == AuditEffect::Write;
    if !matches!(told.effect, AuditEffect::Write | AuditEffect::Remove) || told.value.is_some() {
        return Err("`keys` is for writes and removals, and excludes `value`".into());
    }
    Ok(Audit {
        effect: if is_write { "write" } else { "remove" },
        space: Some(space),
        key: None,
        written: None,
        found: None,
        expected: None,
        succeeded: None,
        version: None,
        keys: Some(BulkKeys::compile(keys, arguments, is_write)?),
    })
}

/// Compiles `request.FIELD` or a template.
fn request_text(
    value: &str,
    arguments: &[Argument],
    stream: u64,
    text: impl Fn(&str, u64) -> Result<CompiledTemplate, String>,
) -> Result<RequestText, String> {
    if !value.starts_with("request.") {
        return Ok(RequestText::Template(text(value, stream)?));
    }
    match OperationPart::compile(value, arguments, &mut WantedFields::default())? {
        OperationPart::Argument(part) => Ok(RequestText::Part(part)),
        OperationPart::Answer(_) => Err(INVALID.into()),
    }
}

/// Compiles `answer.FIELD`.
fn answer_field(text: Option<&str>, wants: &mut WantedFields) -> Result<Option<CompiledField>, String> {
    let Some(text) = text else { return Ok(None) };
    match OperationPart::compile(text, &[], wants)? {
        OperationPart::Answer(field) => Ok(Some(field)),
        OperationPart::Argument(_) => Err(format!("`{text}` is not answer.FIELD")),
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Appends the agent's audited operation to the history, one line for each key of the
    /// operation.
    pub(super) fn tell_history(
        &self,
        id: AgentId,
        agent: &Agent,
        audit: &Audit,
        end: OperationEnd,
        now_ns: u64,
        history: &mut Vec<HistoryEntry>,
    ) {
        let Some(keys) = &audit.keys else {
            history.push(self.history(id, agent, audit, end, now_ns));
            return;
        };
        let source = self.source_of(id, agent);
        let mut body = Vec::new();
        self.script.steps[agent.step].arguments[keys.argument].template.write(&source, &mut body);
        let items = keys.of(&body);
        // If the numbers of parts and keys differ, no part can be matched to a key.
        let told =
            end.audited.parts.as_ref().map(|parts| if parts.len() == items.len() { parts.as_slice() } else { &[] });
        let (outcome, applied) = (end.outcome, end.audited.applied);
        let audited = AuditedAnswer { applied, ..AuditedAnswer::default() };
        let whole = self.history(id, agent, audit, OperationEnd { outcome, audited }, now_ns);
        for (number, item) in items.into_iter().enumerate() {
            let own = match told {
                None => applied,
                Some(parts) => parts.get(number).copied().flatten().filter(|applied| *applied || !agent.is_unsure),
            };
            // An acknowledgement of the whole request does not cover a part that failed.
            let outcome = match (outcome, own) {
                (_, Some(true)) => Outcome::Ok,
                (Outcome::Ok | Outcome::Wrong, _) => Outcome::Failed,
                _ => outcome,
            };
            history.push(HistoryEntry { key: item.key, value: item.value, outcome, applied: own, ..whole.clone() });
        }
    }

    /// Returns the history line of the agent's operation on one key.
    fn history(&self, id: AgentId, agent: &Agent, audit: &Audit, end: OperationEnd, now_ns: u64) -> HistoryEntry {
        let step = &self.script.steps[agent.step];
        let source = self.source_of(id, agent);
        let text = |template: &CompiledTemplate| {
            let mut value = Vec::new();
            template.write(&source, &mut value);
            String::from_utf8_lossy(&value).into_owned()
        };
        let part = |sent: &RequestText| match sent {
            RequestText::Template(template) => Some(text(template)),
            RequestText::Part(part) => {
                let mut value = Vec::new();
                let is_there = part.write(&step.arguments, &source, &mut ExtractedFields::default(), &mut value);
                is_there.then(|| String::from_utf8_lossy(&value).into_owned())
            }
        };
        let AuditedAnswer { mut found, applied, equal, version, parts: _ } = end.audited;
        let is_measured = self.script.purpose == LoadPurpose::Measure;
        HistoryEntry {
            at_s: now_ns as f64 / NS_PER_S as f64,
            start_s: self.earliest_sent_ns(id, agent).map(|start_ns| start_ns as f64 / NS_PER_S as f64),
            by: if is_measured { By::Load } else { By::Prepare },
            agent: is_measured.then_some(agent.number),
            effect: audit.effect.to_owned(),
            space: audit.space.as_ref().map(text).unwrap_or_default(),
            key: audit.key.as_ref().map(text).unwrap_or_default(),
            value: if audit.returns_value() { found.take() } else { audit.written.as_ref().and_then(part) },
            from: audit.expected.as_ref().and_then(part),
            equal,
            found,
            version,
            outcome: end.outcome,
            applied,
        }
    }

    /// Returns a time before which the target has not seen the agent's operation: the send time of
    /// its only request, or its intended start if another request may have had the effect. Returns
    /// `None` if it was not sent.
    pub(super) fn earliest_sent_ns(&self, id: AgentId, agent: &Agent) -> Option<u64> {
        let has_several = agent.tries > 1 || agent.is_unsure || self.redirects.of(id).is_some();
        if has_several { Some(agent.intended_ns) } else { agent.sent() }
    }

    /// Returns what the answer to an audited operation tells. A text of a failure is not a value.
    pub(super) fn audited_answer(&mut self, agent: &Agent, answer: &DecodedAnswer<'_, P>) -> AuditedAnswer {
        let (result, is_ok) = (answer.result, answer.result == AttemptCause::Ok);
        let mut told = self.audited_failure(agent, result);
        told.parts = self.applied_parts(agent, answer);
        let Self { script, captures, .. } = self;
        let Some(audit) = script.steps[agent.step].audit.as_ref().filter(|_| is_ok) else { return told };
        let request = script.request(agent);
        let mut read = |field: &CompiledField| {
            let value = field.read::<P>(request, answer.session, answer.input, &mut captures.found)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        told.applied = Some(true);
        if audit.is_comparison() {
            let is_equal = audit
                .succeeded
                .as_ref()
                .is_none_or(|field| read(field).is_some_and(|text| !UNEQUAL.contains(&text.trim_ascii().as_bytes())));
            // An earlier attempt of the operation may have changed the value.
            let known = (is_equal || !agent.is_unsure).then_some(is_equal);
            (told.applied, told.equal) = (known, known);
        }
        if told.equal != Some(true) {
            told.found = audit.found.as_ref().and_then(&mut read);
        }
        if told.found.is_some() || (!audit.is_read() && told.equal != Some(false)) {
            told.version = audit.version.as_ref().and_then(read).and_then(|text| text.trim_ascii().parse().ok());
        }
        told
    }

    /// Returns what is known of an audited operation that ends with this failure. A definitely
    /// refused operation had no effect, even if the step expects the refusal. A read takes effect
    /// if the target reports that no value exists.
    pub(super) fn audited_failure(&self, agent: &Agent, result: AttemptCause) -> AuditedAnswer {
        let audit = self.script.steps[agent.step].audit.as_ref();
        let about_data = P::about_data(result);
        if audit.is_some_and(Audit::is_read) {
            let applied = (about_data == Some(AboutData::Missing)).then_some(true);
            return AuditedAnswer { applied, ..AuditedAnswer::default() };
        }
        let is_refusal = !agent.is_unsure && (result.is_harmless(P::REFUSALS) || about_data.is_some());
        let is_unequal = is_refusal && about_data.is_some() && audit.is_some_and(Audit::is_comparison);
        AuditedAnswer {
            applied: is_refusal.then_some(false),
            equal: is_unequal.then_some(false),
            ..AuditedAnswer::default()
        }
    }

    /// Returns whether each part of a request with many keys took effect, by the part's status in
    /// the answer. A part with a client error did not take effect. For a part with a server error,
    /// the effect is unknown. Returns `None` if the step or the answer reports no parts.
    fn applied_parts(&mut self, agent: &Agent, answer: &DecodedAnswer<'_, P>) -> Option<Vec<Option<bool>>> {
        let step = &self.script.steps[agent.step];
        step.audit.as_ref()?.keys.as_ref()?;
        let counter = step.units.as_ref().filter(|counter| counter.has_parts())?;
        if answer.result != AttemptCause::Ok {
            return None;
        }
        let (request, parts) = (self.script.request(agent), &mut self.captures.parts);
        let is_told =
            counter.count::<P>(request, answer.session, answer.input, &mut self.captures.found, parts).is_some();
        Some(if is_told { self.captures.parts.fates().to_vec() } else { Vec::new() })
    }
}
