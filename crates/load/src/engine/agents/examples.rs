//! Examples of failures, one of each kind: the request, the answer, and the expectation that
//! failed. Arguments and fields that may hold secrets are hidden.

use experiment::secrets::is_credential;
use record::events::FailureExample;
use wire::cause::AttemptCause;
use wire::excerpt;
use wire::protocols::ShownAnswer;
use wire::session::SessionProtocol;

use super::Agent;
use super::answers::DecodedAnswer;
use super::values::{AgentValues, source};
use crate::LoadPurpose;
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;

/// Arguments whose values are shown. For other arguments only the length is shown.
const SHOWN: [&str; 4] = ["key", "method", "path", "space"];
/// Maximum number of bytes of a value that are shown.
const VALUE: usize = 200;
/// Maximum number of bytes of an answer that are shown.
const ANSWER: usize = 600;

impl<P: SessionProtocol> AgentValues<P> {
    /// Keeps an example of the agent's failed attempt, if it is the first of its kind. `answer`
    /// holds the bytes of the answer, if any.
    #[inline]
    pub(super) fn note_failure(
        &self,
        id: AgentId,
        agent: &Agent,
        cause: AttemptCause,
        answer: Option<ShownAnswer<'_>>,
        stats: &mut ThreadStats,
    ) {
        let name = self.script.steps[agent.step].name;
        if stats.is_new_kind(name, cause, None) {
            let example = self.example(id, agent, cause, answer);
            stats.examples.extend(example);
            self.note_advice(cause, stats);
        }
    }

    /// Keeps an example of a wrong answer. `expectation` is the index of the expectation that
    /// failed, or `None` if the answer lacks the fields from which units are counted.
    pub(super) fn note_wrong(
        &mut self,
        id: AgentId,
        agent: &Agent,
        answer: &DecodedAnswer<'_, P>,
        expectation: Option<usize>,
        stats: &mut ThreadStats,
    ) {
        let step = &self.script.steps[agent.step];
        if !stats.is_new_kind(step.name, AttemptCause::Wrong, expectation) {
            return;
        }
        let Some(mut example) =
            self.example(id, agent, AttemptCause::Wrong, Some(P::shown(answer.session, answer.input)))
        else {
            return;
        };
        if let Some((number, (field, expected))) =
            expectation.and_then(|number| Some((number, step.expected.get(number)?)))
        {
            example.expectation = Some(excerpt::beginning(format!("{field} {expected}").as_bytes(), VALUE));
            let request = self.script.request(agent);
            let found = &mut self.captures.found;
            let got = step.expects[number].field.read::<P>(request, answer.session, answer.input, found);
            example.got = got.map(|got| match is_credential(field) {
                true => "[redacted]".to_owned(),
                false => excerpt::beginning(got, VALUE),
            });
        }
        stats.examples.push(example);
    }

    /// Returns `None` during a preparation, which ends with its first failure.
    #[cold]
    fn example(
        &self,
        id: AgentId,
        agent: &Agent,
        cause: AttemptCause,
        answer: Option<ShownAnswer<'_>>,
    ) -> Option<FailureExample> {
        if self.script.purpose != LoadPurpose::Measure {
            return None;
        }
        let step = &self.script.steps[agent.step];
        let shown = answer.filter(|answer| !answer.bytes.is_empty()).map(|answer| {
            let mut shown = Vec::new();
            P::show_answer(answer, &mut shown);
            excerpt::beginning(&shown, ANSWER)
        });
        Some(FailureExample {
            operation: self.script.names[step.name].clone(),
            result: cause.text(P::REFUSALS),
            request: self.request_text(id, agent),
            answer: shown,
            ..FailureExample::default()
        })
    }

    /// Renders the request as in `get /items/7?… header.accept body (12 bytes)`.
    fn request_text(&self, id: AgentId, agent: &Agent) -> String {
        let step = &self.script.steps[agent.step];
        let owner = self.owner(id);
        let source =
            source(agent, owner, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, self.counters.of(id)));
        let mut text = step.call.to_owned();
        let mut arguments: Vec<_> = step.arguments.iter().collect();
        arguments.sort_by_key(|argument| !SHOWN.contains(&argument.name.as_str()));
        for argument in arguments {
            let mut value = Vec::new();
            argument.template.write(&source, &mut value);
            let shown = match argument.name.as_str() {
                name if !argument.template.is_filled(&source) => format!("{name} (not filled)"),
                name if SHOWN.contains(&name) && !argument.template.has_environment() => {
                    let end = value.iter().position(|byte| *byte == b'?').filter(|_| name == "path");
                    let query = if end.is_some() { "?…" } else { "" };
                    format!("{}{query}", excerpt::beginning(&value[..end.unwrap_or(value.len())], VALUE))
                }
                name if name.starts_with("header.") => name.to_owned(),
                name => format!("{name} ({} bytes)", value.len()),
            };
            text.push(' ');
            text.push_str(&shown);
        }
        text
    }

    /// Adds the protocol's advice on this cause to the notices, once per load.
    fn note_advice(&self, cause: AttemptCause, stats: &mut ThreadStats) {
        if let Some(advice) = P::advice(cause)
            && self.control.is_first_advice()
        {
            stats.notices.push(advice.to_owned());
        }
    }
}
