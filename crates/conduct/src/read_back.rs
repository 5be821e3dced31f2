//! After the load: every audited key is read back and what is there now goes into the history. Whether anything
//! was lost is for the analysis to say; here nothing is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use experiment::catalog::Effect;
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

/// Reads back every key that an audited write or removal of the history names, and appends what it finds.
///
/// # Errors
/// If the history cannot be read or appended to.
pub fn read_back(
    folder: &TrialFolder,
    protocol: &str,
    service: &str,
    clock: Clock,
    give_up: &dyn Fn() -> bool,
) -> Result<ReadBack, Error> {
    let keys = audited_keys(folder)?;
    let mut done = ReadBack::default();
    let Some(reader) = read_operation(protocol) else {
        done.unread = keys.len() as u64;
        return Ok(done);
    };
    let mut history = Writer::append(&folder.history()).map_err(Error::Record)?;
    let mut link = Link { protocol, service, client: None, down_since: None };
    for (space, key) in keys {
        if give_up() || link.is_given_up() {
            done.unread += 1;
            continue;
        }
        let with = BTreeMap::from([("space".to_owned(), space.clone()), ("key".to_owned(), key.clone())]);
        let Some(value) = link.read(reader, &with, give_up) else {
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

fn audited_keys(folder: &TrialFolder) -> Result<BTreeSet<(String, String)>, Error> {
    let history = lines::read::<History>(&folder.history()).map_err(|error| Error::Broken(error.to_string()))?;
    Ok(history
        .items
        .into_iter()
        .filter(|line| line.by != By::Audit && (line.effect == "write" || line.effect == "remove"))
        .map(|line| (line.space, line.key))
        .collect())
}

/// The protocol's operation that reads a key.
fn read_operation(protocol: &str) -> Option<&'static str> {
    let info = load::protocols::find(protocol)?.info;
    info.operations
        .iter()
        .find(|operation| operation.effect == Effect::Read && operation.takes.iter().any(|field| field.name == "key"))
        .map(|operation| operation.name)
}

/// A connection that is made again when it breaks, until patience ends.
struct Link<'a> {
    protocol: &'a str,
    service: &'a str,
    client: Option<Client>,
    down_since: Option<Instant>,
}

impl Link<'_> {
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
        loop {
            match self.try_read(operation, with) {
                Some(value) => {
                    self.down_since = None;
                    return Some(value);
                }
                None => {
                    self.client = None;
                    self.down_since.get_or_insert_with(Instant::now);
                    if self.is_given_up() || give_up() {
                        return None;
                    }
                    pause();
                }
            }
        }
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
