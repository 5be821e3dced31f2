//! After the load: every audited key is read back and what is there now goes into the history. Whether anything
//! was lost is for the analysis to say; here nothing is judged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::catalog::{Effect, Operation};
use load::client::Client;
use record::clock::Clock;
use record::events::{By, History, Outcome};
use record::folder::TrialFolder;
use record::lines::{self, Writer};

use crate::Error;

/// How long an answer may take, and how long a target that is down is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a read-back came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Keys read.
    pub keys: u64,
    /// Keys that could not be read.
    pub unread: u64,
}

/// Reads back every key that an audited write or removal of the history names, and appends what it finds. Each key is asked of
/// the service that its last writer went to: only there can it be missed. Where that one is silent, any other may have it. Where the
/// protocol has no operation that reads a key, what the members told of all their records is its read-back, if they did.
///
/// # Errors
/// If the history cannot be read or appended to.
pub fn read_back(
    folder: &TrialFolder,
    protocol: &str,
    services: &[String],
    clock: Clock,
    members_told: bool,
    give_up: &dyn Fn() -> bool,
) -> Result<ReadBack, Error> {
    let keys = audited_keys(folder)?;
    let Some(operation) = read_operation(protocol) else {
        // Who was not asked has not failed to answer.
        let keys = if members_told { keys.len() as u64 } else { 0 };
        return Ok(ReadBack { keys, unread: 0 });
    };
    let links = services.iter().map(|service| Link::to(protocol, service)).collect();
    read_all(folder, &mut Reader { operation, links, give_up }, keys, clock)
}

type Keys = BTreeMap<(String, String), LastWriter>;

fn read_all(folder: &TrialFolder, reader: &mut Reader<'_>, keys: Keys, clock: Clock) -> Result<ReadBack, Error> {
    let mut done = ReadBack::default();
    let mut history = Writer::append(&folder.history()).map_err(Error::Record)?;
    for ((space, key), writer) in keys {
        let Some(value) = reader.read(&space, &key, writer.agent) else {
            done.unread += 1;
            continue;
        };
        done.keys += 1;
        let line = History {
            at_s: clock.at_s(),
            by: By::Audit,
            agent: None,
            effect: "read".to_owned(),
            space,
            key,
            value,
            outcome: Outcome::Ok,
            applied: Some(true),
        };
        history.write(&line).map_err(Error::Record)?;
    }
    history.flush().map_err(Error::Record)?;
    Ok(done)
}

/// Who changed a key last.
#[derive(Debug, Clone, Copy)]
struct LastWriter {
    /// Whether it may have changed it: a definite refusal did not.
    had_effect: bool,
    at_s: f64,
    /// `None` for a preparation.
    agent: Option<u32>,
}

/// Space and key of everything that was changed, and by whom last.
fn audited_keys(folder: &TrialFolder) -> Result<Keys, Error> {
    let history = lines::read::<History>(&folder.history()).map_err(|error| Error::Broken(error.to_string()))?;
    let changed = history
        .items
        .into_iter()
        .filter(|line| line.by != By::Audit && (line.effect == "write" || line.effect == "remove"));
    let mut keys = BTreeMap::new();
    for line in changed {
        let writer = LastWriter { had_effect: line.applied != Some(false), at_s: line.at_s, agent: line.agent };
        let last = keys.entry((line.space, line.key)).or_insert(writer);
        if (last.had_effect, last.at_s) <= (writer.had_effect, writer.at_s) {
            *last = writer;
        }
    }
    Ok(keys)
}

/// The protocol's operation that reads a key.
fn read_operation(protocol: &str) -> Option<&'static Operation> {
    let operations = load::protocols::find(protocol)?.info.operations;
    operations.iter().find(|operation| operation.effect == Effect::Read && takes(operation, "key"))
}

fn takes(operation: &Operation, name: &str) -> bool {
    operation.takes.iter().any(|field| field.name == name)
}

/// The services, and how a key is asked of them.
struct Reader<'a> {
    operation: &'static Operation,
    links: Vec<Link<'a>>,
    give_up: &'a dyn Fn() -> bool,
}

impl Reader<'_> {
    /// The key's value, `Some(None)` if there is none, `None` if nobody can say. Agents were dealt out to the services in turn.
    fn read(&mut self, space: &str, key: &str, agent: Option<u32>) -> Option<Option<String>> {
        let mut with = BTreeMap::from([("key".to_owned(), key.to_owned())]);
        if takes(self.operation, "space") {
            with.insert("space".to_owned(), space.to_owned());
        }
        let home = agent.map(|agent| agent.saturating_sub(1) as usize % self.links.len().max(1));
        let others = (0..self.links.len()).filter(|index| Some(*index) != home);
        let mut all_answered = true;
        for index in home.into_iter().chain(others) {
            match self.links.get_mut(index)?.read(self.operation.name, &with, self.give_up) {
                Some(None) if Some(index) != home => {}
                Some(value) => return Some(value),
                None => all_answered = false,
            }
        }
        (all_answered && !self.links.is_empty()).then_some(None)
    }
}

/// A connection that is made again when it breaks, until patience ends.
struct Link<'a> {
    protocol: &'a str,
    service: &'a str,
    client: Option<Client>,
    down_since: Option<Instant>,
}

impl<'a> Link<'a> {
    fn to(protocol: &'a str, service: &'a str) -> Self {
        Self { protocol, service, client: None, down_since: None }
    }

    fn is_given_up(&self) -> bool {
        self.down_since.is_some_and(|since| since.elapsed() > PATIENCE)
    }

    /// The key's value, `Some(None)` if the target says there is none, `None` if it could not be read.
    fn read(
        &mut self,
        operation: &str,
        with: &BTreeMap<String, String>,
        give_up: &dyn Fn() -> bool,
    ) -> Option<Option<String>> {
        while !self.is_given_up() && !give_up() {
            match self.try_read(operation, with) {
                Some(value) => {
                    self.down_since = None;
                    return Some(value);
                }
                None => {
                    self.client = None;
                    self.down_since.get_or_insert_with(Instant::now);
                    pause();
                }
            }
        }
        None
    }

    fn try_read(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Option<Option<String>> {
        if self.client.is_none() {
            self.client = Client::connect(self.protocol, self.service, PATIENCE).ok();
        }
        let answer = self.client.as_mut()?.call(operation, with).ok()?;
        match answer.status.as_str() {
            "ok" => Some(answer.field("value").map(|value| String::from_utf8_lossy(value).into_owned())),
            "not_found" => Some(None),
            _ => None,
        }
    }
}

/// Between two attempts to reach a target that is down; short enough not to hold up an interruption.
#[expect(clippy::disallowed_methods, reason = "nothing could wake it earlier")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests;
