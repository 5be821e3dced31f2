//! Evaluation of answers: checks against the step's expectations, and kept values.

use record::events::{By, HistoryEntry};
use wire::answer_budget::{BudgetShare, FREE_BYTES};
use wire::cause::AttemptCause;
use wire::redirection::Unfollowed;
use wire::session::SessionProtocol;

use super::Agent;
use super::values::{AgentValues, source};
use crate::engine::expectation::{self, ExtractedFields, OperationPart};
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
    pub(super) parts: StatusCounts,
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
                by: By::Prepare,
                effect: crate::KEPT.to_owned(),
                key: self.script.slot_names[usize::from(keep.slot)].to_string(),
                value: Some(String::from_utf8(value.clone()).ok()?),
                ..HistoryEntry::default()
            })
        }));
    }
}
