//! What every member holds, asked of each by itself with the target's hook `audit`, of all at the same time. It must not compare
//! what they say, nor decide when they are asked again.

use std::time::Duration;

use record::replicas::{Held, Replica, Table};
use serde_json::Value;

use super::Site;
use super::layout::HookHost;
use crate::everywhere::on_all;
use crate::hooks::{AUDIT_BYTES, Hook};
use crate::hosts::Host;
use crate::plain_text;

/// The hook's name.
const AUDIT: &str = "audit";
/// Time limit of the hook. A slow core may need seconds for tens of thousands of records.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of asking a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What it holds.
    pub replica: Replica,
    /// Whether it runs; if not, there is no use in asking it again.
    pub is_up: bool,
}

impl Site {
    /// Whether the target can say what its members hold.
    #[must_use]
    pub fn can_audit(&self) -> bool {
        self.hooks.contains_key(AUDIT) && !self.hook_hosts.is_empty()
    }

    /// Asks every member that is up what it holds; of the others, why they were not. Empty without the hook.
    pub fn audit(&mut self) -> Vec<Told> {
        if !self.can_audit() {
            return Vec::new();
        }
        self.look();
        let places = self.hook_hosts.clone();
        let mut asked: Vec<Option<Result<Hook, String>>> = self.hosts.iter().map(|_| None).collect();
        for place in &places {
            if let Some(asked) = asked.get_mut(place.host) {
                *asked = Some(self.question(place));
            }
        }
        let answers = on_all(&mut self.hosts, |index, host| {
            Ok(asked.get(index).and_then(Option::as_ref).map(|hook| ask(hook.as_ref(), host)))
        });
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let of_place = |place: &HookHost| {
            let member = self.hosts.get(place.host).map(|host| host.name().to_owned()).unwrap_or_default();
            let holds = match answers.get_mut(place.host).and_then(Option::take) {
                Some(Ok(Some(holds))) => holds,
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(None)) | None => Err("nobody asked it".to_owned()),
            };
            let is_up = asked.get(place.host).is_some_and(|asked| matches!(asked, Some(Ok(_))));
            Told { replica: Replica { member, holds }, is_up }
        };
        places.iter().map(of_place).collect()
    }

    /// The hook for one member, or why it need not be asked.
    fn question(&self, place: &HookHost) -> Result<Hook, String> {
        if !self.hosts.get(place.host).is_some_and(|host| host.is_up()) {
            return Err("its host is down".to_owned());
        }
        let mut here = self.posts.iter().filter(|post| post.host == place.host && post.member.is_some());
        if let Some(post) = here.find(|post| post.process.is_none()) {
            return Err(format!("its process `{}` does not run", post.start.role));
        }
        let hook = self.hook_at(place, AUDIT, PATIENCE).ok_or("there is no hook")?;
        Ok(Hook { answer_bytes: AUDIT_BYTES, ..hook })
    }
}

fn ask(hook: Result<&Hook, &String>, host: &dyn Host) -> Result<Table, String> {
    let hook = hook.map_err(Clone::clone)?;
    let answer = if host.session().is_some() { hook.ask_on(host) } else { hook.ask() };
    table(answer.map_err(|error| error.to_string())?)
}

/// `{"records": {"KEY": "VALUE" | {"value": "VALUE", "version": "VERSION"}}}`
fn table(answer: Value) -> Result<Table, String> {
    let Value::Object(mut answer) = answer else { return Err("its answer is not an object".to_owned()) };
    let Some(Value::Object(records)) = answer.remove("records") else {
        return Err("its answer has no object `records`".to_owned());
    };
    let held = |(key, value): (String, Value)| match held(value) {
        Some(held) => Ok((key, held)),
        None => {
            let key = plain_text::line(&key);
            Err(format!("its record `{key}` is neither a text nor {{\"value\": TEXT, \"version\": TEXT}}"))
        }
    };
    records.into_iter().map(held).collect()
}

fn held(value: Value) -> Option<Held> {
    match value {
        Value::String(value) => Some(Held { value, version: None }),
        Value::Object(mut record) => {
            let Value::String(value) = record.remove("value")? else { return None };
            let version = match record.remove("version") {
                None | Some(Value::Null) => None,
                Some(Value::String(version)) => Some(version),
                Some(Value::Number(version)) => Some(version.to_string()),
                Some(_) => return None,
            };
            record.is_empty().then_some(Held { value, version })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
