//! Evaluation of answers: checks against the step's expectations, kept values, and the history
//! lines of audited operations.

use experiment::catalog::{Effect, Operation};
use experiment::plan::{AuditAs, AuditEffect};
use record::events::{By, HistoryEntry, Outcome};
use wire::answer_budget::{BudgetShare, FREE_BYTES};
use wire::cause::AttemptCause;
use wire::protocols::AboutData;
use wire::redirection::Unfollowed;
use wire::session::SessionProtocol;
use wire::values::{Argument, CompiledTemplate};

use super::values::{AgentValues, source};
use super::{Agent, OperationEnd};
use crate::LoadPurpose;
use crate::engine::bulk_keys::BulkKeys;
use crate::engine::expectation::{self, ArgumentPart, CompiledField, ExtractedFields, OperationPart, WantedFields};
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;
use crate::engine::units::StatusCounts;
use crate::schedules::NS_PER_S;

/// Classes of an answer with regard to its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerClass {
    /// The answer is as expected.
    Ok,
    /// The answer contradicts the step's expectations.
    Wrong,
    /// The answer fails the attempt.
    Failed,
    /// The answer fails the operation. Whether the answer contradicts an expectation cannot be
    /// decided.
    Undecidable,
    /// The answer is a redirect with this status, and the next request is set.
    Followed(u16),
    /// The answer is a redirect that cannot be followed.
    Unfollowed(Unfollowed),
}

/// A complete answer, as its protocol decodes it.
pub struct DecodedAnswer<'a, P: SessionProtocol> {
    /// Protocol state of the connection that has received the answer.
    pub session: &'a P::Session,
    /// Bytes of the answer, and the bytes after it.
    pub input: &'a [u8],
    /// [`AttemptCause::Ok`], or the cause of the failure.
    pub result: AttemptCause,
}

/// Reused memory for values that are compared or kept, and the total size of the kept values.
#[derive(Debug, Default)]
pub struct CaptureMemory {
    /// Values that are read from an answer.
    pub(super) found: ExtractedFields,
    /// A rendered value.
    value: Vec<u8>,
    /// Parts of an answer.
    parts: StatusCounts,
    /// Share of the memory budget that the slots hold.
    held: BudgetShare,
    /// Number of bytes that long values take in slots.
    bytes: usize,
}

impl CaptureMemory {
    /// Returns empty memory for a value.
    pub(super) fn scratch(&mut self) -> &mut Vec<u8> {
        self.value.clear();
        &mut self.value
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Counts the units of the agent's operation, which is `ok` so far. An answer without the
    /// fields from which units are counted is `wrong`, like an answer that lacks an expected field.
    pub(super) fn count_units(
        &mut self,
        agent: &Agent,
        answer: &DecodedAnswer<'_, P>,
        stats: &mut ThreadStats,
    ) -> AnswerClass {
        let step = &self.script.steps[agent.step];
        let Some(counter) = &step.units else { return AnswerClass::Ok };
        let (request, parts) = (self.script.request(agent), &mut self.captures.parts);
        match counter.count::<P>(request, answer.session, answer.input, &mut self.captures.found, parts) {
            Some(units) => {
                stats.count_units(step.name, units, parts);
                AnswerClass::Ok
            }
            None => {
                if self.control.is_first_untold() {
                    let name = &self.script.names[step.name];
                    stats.notices.push(format!(
                        "answers to `{name}` lack the fields from which `units` and `parts` are counted, or are cut \
                         off: these operations are `wrong`, and their units are not counted"
                    ));
                }
                AnswerClass::Wrong
            }
        }
    }

    /// Reports an answer that is an unexpected redirect. The operation stays `ok`.
    pub(super) fn redirect(
        &self,
        agent: &Agent,
        answer: &DecodedAnswer<'_, P>,
        stats: &mut ThreadStats,
    ) -> Option<AttemptCause> {
        let step = &self.script.steps[agent.step];
        let (status, to) = P::redirect(answer.session, answer.input).filter(|_| step.status.is_none())?;
        if self.control.is_first_redirect() {
            let to = to.map_or_else(String::new, |to| {
                let to: String = String::from_utf8_lossy(to).chars().filter(|c| !c.is_control()).take(200).collect();
                format!(" to {to}")
            });
            let name = &self.script.names[step.name];
            stats.notices.push(format!(
                "`{name}` is answered with a redirect ({status}{to}), which is not followed: the results are those \
                 of the redirect; use the address that it leads to, follow it (`follow = true`), or expect the \
                 status {status} to measure the redirect itself"
            ));
        }
        Some(AttemptCause::Redirect(status))
    }

    /// Checks the answer against the step's expectations. Returns the answer's class and the index
    /// of the first expectation that fails. An expectation that uses a slot is skipped if this
    /// cycle did not fill the slot. The expectations after the first failure are only evaluated to
    /// count their failures.
    pub(super) fn check_answer(
        &mut self,
        id: AgentId,
        agent: &Agent,
        answer: &DecodedAnswer<'_, P>,
        stats: &mut ThreadStats,
    ) -> (AnswerClass, Option<usize>) {
        let &DecodedAnswer { session, input, result } = answer;
        let step = &self.script.steps[agent.step];
        if step.expects.is_empty() {
            return (if result == AttemptCause::Ok { AnswerClass::Ok } else { AnswerClass::Failed }, None);
        }
        let request = self.script.request(agent);
        let owner = self.owner(id);
        let source =
            source(agent, owner, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, self.counters.of(id)));
        let mut holds = |number: usize| {
            let expectation = &step.expects[number];
            if !expectation.check.is_filled(&source) {
                return None;
            }
            let CaptureMemory { found, value, .. } = &mut self.captures;
            Some(expectation.holds::<P>((request, session, input), &source, found, value))
        };
        // An answer that cannot be read is never as expected.
        let is_expected = match result {
            AttemptCause::Ok => true,
            AttemptCause::Malformed(_) => {
                stats.failed_answer(step.name);
                return (AnswerClass::Failed, None);
            }
            _ => step.status.and_then(&mut holds) == Some(true),
        };
        let contradicted = (0..step.expects.len()).find(|number| holds(*number) == Some(false));
        let class = match (is_expected, contradicted.is_some()) {
            (true, false) => AnswerClass::Ok,
            (true, true) => AnswerClass::Wrong,
            (false, true) if P::about_data(result).is_some() => {
                // An earlier attempt of the same operation may have caused the contradiction.
                if agent.is_unsure && P::may_change(request) { AnswerClass::Undecidable } else { AnswerClass::Wrong }
            }
            // A failure counts as an expected answer only if the step expects exactly the failure's
            // status.
            (false, _) => AnswerClass::Failed,
        };
        if class == AnswerClass::Failed {
            stats.failed_answer(step.name);
        }
        if let Some(first) = contradicted.filter(|_| class != AnswerClass::Undecidable) {
            stats.contradicted(step.name);
            let others = (first + 1..step.expects.len()).filter(|number| holds(*number) == Some(false));
            for number in std::iter::once(first).chain(others) {
                stats.failed_check(step.name, &step.expected[number].0);
            }
        }
        (class, contradicted)
    }

    /// Keeps a value of the operation in a slot, as the step's capture with index `number` says.
    pub(super) fn keep(
        &mut self,
        id: AgentId,
        agent: &mut Agent,
        answer: &DecodedAnswer<'_, P>,
        number: usize,
        stats: &mut ThreadStats,
    ) {
        let owner = self.owner(id);
        let step = &self.script.steps[agent.step];
        let capture = &step.keeps[number];
        let slot = capture.slot;
        let CaptureMemory { found, value, held, bytes, .. } = &mut self.captures;
        value.clear();
        let part = match &capture.what {
            OperationPart::Argument(part) => {
                let source = source(
                    agent,
                    owner,
                    &self.script,
                    self.zero_ns,
                    (&self.slots, &self.feeding.taken, self.counters.of(id)),
                );
                let is_there = part.write(&step.arguments, &source, found, value);
                let value = is_there.then_some(value.as_slice());
                value.and_then(|value| match &capture.matches {
                    None => Some(value),
                    Some(pattern) => expectation::part(pattern, value),
                })
            }
            OperationPart::Answer(field) => {
                let answer = (self.script.request(agent), answer.session, answer.input);
                let is_there = capture.write_answer::<P>(field, answer, found, value);
                is_there.then_some(value.as_slice())
            }
        };
        let Some(part) = part else {
            agent.kept &= !(1 << slot);
            return;
        };
        let kept = &mut self.slots[owner.index() * self.script.slots + usize::from(slot)];
        let more = part.len().saturating_sub(kept.capacity());
        if more > 0 && part.len() > FREE_BYTES {
            if !held.grow_to(*bytes + more) {
                agent.kept &= !(1 << slot);
                stats.notices.extend(self.control.budget_notice());
                return;
            }
            *bytes += more;
        }
        kept.clear();
        kept.extend_from_slice(part);
        agent.kept |= 1 << slot;
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Appends the values that an operation of a preparation has kept to the history. A value that
    /// is not UTF-8 cannot be part of a template, and counts as not found.
    #[cold]
    pub(super) fn tell_kept(&self, id: AgentId, agent: &Agent, now_ns: u64, history: &mut Vec<HistoryEntry>) {
        let keeps = self.script.steps[agent.step].keeps.iter().filter(|keep| agent.kept >> keep.slot & 1 == 1);
        history.extend(keeps.filter_map(|keep| {
            let value = &self.slots[id.index() * self.script.slots + usize::from(keep.slot)];
            Some(HistoryEntry {
                at_s: now_ns as f64 / NS_PER_S as f64,
                start_s: None,
                by: By::Prepare,
                agent: None,
                effect: crate::KEPT.to_owned(),
                space: String::new(),
                key: self.script.slot_names[usize::from(keep.slot)].to_string(),
                value: Some(String::from_utf8(value.clone()).ok()?),
                outcome: Outcome::Ok,
                applied: None,
            })
        }));
    }
}

/// Index of the first random stream for audited values. Arguments and expectations use lower
/// indexes.
const STREAM: u64 = 2000;

/// Recorded parts of an audited operation.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Name of the effect in the history.
    pub effect: &'static str,
    /// Key space. `None` is the empty space.
    pub space: Option<CompiledTemplate>,
    /// Key, or `None` if the operation affects a whole space.
    pub key: Option<CompiledTemplate>,
    /// Value that the operation writes or reads.
    pub value: Option<OperationPart>,
    /// Keys of a request that changes many keys. Replaces `key` and `value`.
    pub keys: Option<BulkKeys>,
}

/// Returns the audit of an operation whose effect the protocol knows.
pub fn known_audit(operation: &Operation, arguments: &[Argument], wants: &mut WantedFields) -> Result<Audit, String> {
    let place = |name: &str| arguments.iter().position(|argument| argument.name == name);
    // The same template renders the same text again.
    let text = |name: &str| place(name).map(|place| arguments[place].template.clone());
    let (effect, value) = match operation.effect {
        Effect::Read => ("read", Some(OperationPart::Answer(CompiledField::compile("value", wants)?))),
        Effect::Write => {
            ("write", place("value").map(|argument| OperationPart::Argument(ArgumentPart { argument, place: None })))
        }
        Effect::Remove => ("remove", None),
        Effect::RemoveAll => ("remove_all", None),
        Effect::None => {
            return Err(format!("`{}` cannot be audited: it neither reads nor changes a key", operation.name));
        }
    };
    Ok(Audit { effect, space: text("space"), key: text("key"), value, keys: None })
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
        let is_write = told.effect == AuditEffect::Write;
        if told.effect == AuditEffect::Read || told.value.is_some() {
            return Err("`keys` is for writes and removals, and excludes `value`".into());
        }
        let keys = BulkKeys::compile(keys, arguments, is_write)?;
        let effect = if is_write { "write" } else { "remove" };
        return Ok(Audit { effect, space: Some(space), key: None, value: None, keys: Some(keys) });
    }
    let value = told.value.as_deref().map(|what| OperationPart::compile(what, arguments, wants)).transpose()?;
    let effect = match (told.effect, &value) {
        (AuditEffect::Write, Some(OperationPart::Argument(_))) => "write",
        (AuditEffect::Read, Some(OperationPart::Answer(_))) => "read",
        (AuditEffect::Remove, None) => "remove",
        _ => {
            return Err(
                "the audited `value` is invalid: a write needs request.FIELD, a read answer.FIELD, a removal none"
                    .into(),
            );
        }
    };
    Ok(Audit { effect, space: Some(space), key: Some(text(&told.key, STREAM + 1)?), value, keys: None })
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
        let told = end.parts.as_ref().map(|parts| if parts.len() == items.len() { parts.as_slice() } else { &[] });
        let (outcome, applied) = (end.outcome, end.applied);
        let whole = self.history(id, agent, audit, OperationEnd { read: None, parts: None, ..end }, now_ns);
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

    /// Returns whether each part of a request with many keys took effect, by the part's status in
    /// the answer. A part with a client error did not take effect. For a part with a server error,
    /// the effect is unknown. Returns `None` if the step or the answer reports no parts.
    pub(super) fn applied_parts(&mut self, agent: &Agent, answer: &DecodedAnswer<'_, P>) -> Option<Vec<Option<bool>>> {
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

    /// Returns the history line of the agent's operation on one key.
    fn history(&self, id: AgentId, agent: &Agent, audit: &Audit, end: OperationEnd, now_ns: u64) -> HistoryEntry {
        let step = &self.script.steps[agent.step];
        let source = self.source_of(id, agent);
        let text = |template: &CompiledTemplate| {
            let mut value = Vec::new();
            template.write(&source, &mut value);
            String::from_utf8_lossy(&value).into_owned()
        };
        let is_measured = self.script.purpose == LoadPurpose::Measure;
        HistoryEntry {
            at_s: now_ns as f64 / NS_PER_S as f64,
            start_s: self.earliest_sent_ns(id, agent).map(|start_ns| start_ns as f64 / NS_PER_S as f64),
            by: if is_measured { By::Load } else { By::Prepare },
            agent: is_measured.then_some(agent.number),
            effect: audit.effect.to_owned(),
            space: audit.space.as_ref().map(text).unwrap_or_default(),
            key: audit.key.as_ref().map(text).unwrap_or_default(),
            value: match &audit.value {
                Some(OperationPart::Argument(part)) => {
                    let mut value = Vec::new();
                    let is_there = part.write(&step.arguments, &source, &mut ExtractedFields::default(), &mut value);
                    is_there.then(|| String::from_utf8_lossy(&value).into_owned())
                }
                Some(OperationPart::Answer(_)) => end.read,
                None => None,
            },
            outcome: end.outcome,
            applied: end.applied,
        }
    }

    /// Returns a time before which the target has not seen the agent's operation: the send time of
    /// its only request, or its intended start. Returns `None` if it was not sent.
    fn earliest_sent_ns(&self, id: AgentId, agent: &Agent) -> Option<u64> {
        let has_several = agent.tries > 1 || self.redirects.of(id).is_some();
        if has_several { Some(agent.intended_ns) } else { agent.sent() }
    }

    /// Returns the value that an audited read found. The text of a failure is not a value.
    pub(super) fn audited_value(&mut self, agent: &Agent, answer: &DecodedAnswer<'_, P>) -> Option<String> {
        let step = &self.script.steps[agent.step];
        let Some(OperationPart::Answer(field)) = &step.audit.as_ref()?.value else { return None };
        if answer.result != AttemptCause::Ok {
            return None;
        }
        let request = self.script.request(agent);
        let value = field.read::<P>(request, answer.session, answer.input, &mut self.captures.found)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Returns whether an answered operation took effect. A definitely refused operation did not,
    /// even if the step expects the refusal. A read takes effect if it returns a value or reports
    /// that no value exists.
    pub(super) fn applied(&self, agent: &Agent, result: AttemptCause) -> Option<bool> {
        if result == AttemptCause::Ok {
            return Some(true);
        }
        if self.audits_read(agent) {
            return self.found_nothing(agent, result).then_some(true);
        }
        let is_refusal = result.is_harmless(P::REFUSALS) || P::about_data(result).is_some();
        (is_refusal && !agent.is_unsure).then_some(false)
    }

    /// Whether the agent's operation is an audited read that found no value.
    pub(super) fn found_nothing(&self, agent: &Agent, result: AttemptCause) -> bool {
        self.audits_read(agent) && P::about_data(result) == Some(AboutData::Missing)
    }

    fn audits_read(&self, agent: &Agent) -> bool {
        let audit = self.script.steps[agent.step].audit.as_ref();
        audit.is_some_and(|audit| matches!(audit.value, Some(OperationPart::Answer(_))))
    }
}
