//! Audited operations: what of them is written down, and the line that each leaves in the history. It must not judge them.

use experiment::catalog::{Effect, Operation};
use experiment::plan::{AuditAs, AuditEffect};
use record::events::{By, History};

use super::field::{Field, Part, Wants};
use super::operation::Ending;
use super::script::NS_PER_S;
use super::worker::{Worker, source};
use crate::Purpose;
use crate::protocols::{AboutData, Cause, Protocol};
use crate::values::{Argument, Template};

/// Streams of random numbers; arguments and expectations have those before.
const STREAM: u64 = 2000;

/// What of an audited operation is written down.
#[derive(Debug, Clone)]
pub struct Audit {
    /// The word for what it does.
    pub effect: &'static str,
    /// The empty one without.
    pub space: Option<Template>,
    /// None where it acts on a whole space.
    pub key: Option<Template>,
    /// What was written or read.
    pub value: Option<Part>,
}

/// What is known of the operation.
pub fn known(operation: &Operation, arguments: &[Argument], wants: &mut Wants) -> Result<Audit, String> {
    let place = |name: &str| arguments.iter().position(|argument| argument.name == name);
    // The same template gives the same text again.
    let text = |name: &str| place(name).map(|place| arguments[place].template.clone());
    let (effect, value) = match operation.effect {
        Effect::Read => ("read", Some(Part::Answer(Field::compile("value", wants)?))),
        Effect::Write => ("write", place("value").map(Part::Argument)),
        Effect::Remove => ("remove", None),
        Effect::RemoveAll => ("remove_all", None),
        Effect::None => return Err(format!("`{}` cannot be audited: it does nothing to a key", operation.name)),
    };
    Ok(Audit { effect, space: text("space"), key: text("key"), value })
}

/// What the step tells of an operation whose protocol does not know; `text` compiles a template of that stream.
pub fn told(
    told: &AuditAs,
    arguments: &[Argument],
    wants: &mut Wants,
    text: impl Fn(&str, u64) -> Result<Template, String>,
) -> Result<Audit, String> {
    let value = told.value.as_deref().map(|what| Part::compile(what, arguments, wants)).transpose()?;
    let effect = match (told.effect, &value) {
        (AuditEffect::Write, Some(Part::Argument(_))) => "write",
        (AuditEffect::Read, Some(Part::Answer(_))) => "read",
        (AuditEffect::Remove, None) => "remove",
        _ => return Err("an audited write has a value of its request, a read one of its answer, a removal none".into()),
    };
    Ok(Audit { effect, space: Some(text(&told.space, STREAM)?), key: Some(text(&told.key, STREAM + 1)?), value })
}

impl<P: Protocol> Worker<P> {
    /// The line of the agent's operation, if it is audited.
    pub(super) fn history(&self, index: usize, ending: Ending, now: u64) -> Option<History> {
        let agent = &self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        let audit = step.audit.as_ref()?;
        let source = source(agent, index, &self.script, &self.slots, &self.rows);
        let text = |template: &Template| {
            let mut value = Vec::new();
            template.write(&source, &mut value);
            String::from_utf8_lossy(&value).into_owned()
        };
        let is_measured = self.script.purpose == Purpose::Measure;
        Some(History {
            at_s: now as f64 / NS_PER_S as f64,
            by: if is_measured { By::Load } else { By::Prepare },
            agent: is_measured.then_some(agent.number),
            effect: audit.effect.to_owned(),
            space: audit.space.as_ref().map(text).unwrap_or_default(),
            key: audit.key.as_ref().map(text).unwrap_or_default(),
            value: match &audit.value {
                Some(Part::Argument(place)) => Some(text(&step.arguments[*place].template)),
                Some(Part::Answer(_)) => ending.read,
                None => None,
            },
            outcome: ending.outcome,
            applied: ending.applied,
        })
    }

    /// What an audited read found: the text of a failure is no value.
    pub(super) fn audited_value(&mut self, index: usize, input: &[u8], result: Cause) -> Option<String> {
        let agent = &self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        let Some(Part::Answer(field)) = &step.audit.as_ref()?.value else { return None };
        if result != Cause::Ok {
            return None;
        }
        let request = self.script.request(agent);
        let decoder = &self.connections[agent.connection as usize].decoder;
        let value = field.read::<P>(request, decoder, input, &mut self.scratch.found)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Whether an operation that was answered took effect: a definite refusal did not, whether the step expected it or not. A read
    /// takes effect by telling a value, or that there is none.
    pub(super) fn applied(&self, index: usize, result: Cause) -> Option<bool> {
        if result == Cause::Ok {
            return Some(true);
        }
        let agent = &self.agents[index];
        let audit = self.script.steps[usize::from(agent.step)].audit.as_ref();
        let about_data = P::about_data(result);
        if audit.is_some_and(|audit| matches!(audit.value, Some(Part::Answer(_)))) {
            return (about_data == Some(AboutData::Missing)).then_some(true);
        }
        let is_refusal = result.is_harmless(P::REFUSALS) || about_data.is_some();
        (is_refusal && !agent.is_unsure).then_some(false)
    }
}
