//! After the load: every audited key is read back into the history, and every member is asked what it
//! holds until replication has drained. Whether anything was lost is for the analysis to say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::catalog::{Effect, Operation};
use experiment::plan::Failover;
use lab::{Deployment, MemberAnswer};
use record::clock::Clock;
use record::events::{By, HistoryEntry, Outcome};
use record::folder::TrialFolder;
use record::lines::{self, JsonLinesWriter};
use record::replicas::{self, Replica, ReplicaContents};

use crate::Error;
use crate::target_calls::{ServiceConnection, TargetCalls};

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
/// the service that its last writer went to: only there can it be missed. Where that one is silent, or with failover its writer may have
/// gone to another, any other may have it. Where the protocol has no operation that reads a key, what the members told of all their records is its read-back, if they did.
///
/// # Errors
/// If the history cannot be read or appended to.
pub fn read_back(
    folder: &TrialFolder,
    calls: &TargetCalls,
    services: &[String],
    failover: Failover,
    clock: Clock,
    members_told: bool,
    give_up: &dyn Fn() -> bool,
) -> Result<ReadBack, Error> {
    let mut keys = audited_keys(folder)?;
    if failover != Failover::None {
        keys.values_mut().for_each(|writer| writer.agent = None);
    }
    let Some(operation) = read_operation(&calls.protocol) else {
        // Who was not asked has not failed to answer.
        let keys = if members_told { keys.len() as u64 } else { 0 };
        return Ok(ReadBack { keys, unread: 0 });
    };
    let links = services.iter().map(|service| ReadBackConnection::to(calls, service)).collect();
    read_all(folder, &mut KeyReader { operation, links, give_up }, keys, clock)
}

type Keys = BTreeMap<(String, String), LastWriter>;

fn read_all(folder: &TrialFolder, reader: &mut KeyReader<'_>, keys: Keys, clock: Clock) -> Result<ReadBack, Error> {
    let mut done = ReadBack::default();
    let mut history = JsonLinesWriter::append(&folder.history()).map_err(Error::Record)?;
    for ((space, key), writer) in keys {
        let Some(value) = reader.read(&space, &key, writer.agent) else {
            done.unread += 1;
            continue;
        };
        done.keys += 1;
        let line = HistoryEntry {
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
    /// `None` where nobody knows to which service it went: a preparation, or with failover.
    agent: Option<u32>,
}

/// Space and key of everything that was changed, and by whom last.
fn audited_keys(folder: &TrialFolder) -> Result<Keys, Error> {
    let history = lines::read::<HistoryEntry>(&folder.history()).map_err(|error| Error::Broken(error.to_string()))?;
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
struct KeyReader<'a> {
    operation: &'static Operation,
    links: Vec<ReadBackConnection>,
    give_up: &'a dyn Fn() -> bool,
}

impl KeyReader<'_> {
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
struct ReadBackConnection {
    service: ServiceConnection,
    down_since: Option<Instant>,
}

impl ReadBackConnection {
    fn to(calls: &TargetCalls, service: &str) -> Self {
        Self { service: calls.to(service, PATIENCE), down_since: None }
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
            match self.try_read(operation, with, give_up) {
                Some(value) => {
                    self.down_since = None;
                    return Some(value);
                }
                None => {
                    self.down_since.get_or_insert_with(Instant::now);
                    pause();
                }
            }
        }
        None
    }

    fn try_read(
        &mut self,
        operation: &str,
        with: &BTreeMap<String, String>,
        give_up: &dyn Fn() -> bool,
    ) -> Option<Option<String>> {
        let answer = self.service.call(operation, with, give_up).ok()?;
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

/// Between two rounds, seconds at the machine's own speed.
const PAUSE_S: f64 = 1.0;
/// Nobody is asked for a third time after so many: what is held against nothing cannot be said to have settled.
const PATIENCE_S: f64 = 10.0;
/// How often it is looked whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(20);

/// What asking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBackResult {
    /// How often all were asked.
    pub rounds: u32,
    /// Whether the last two rounds told the same.
    pub settled: bool,
    /// Members that told what they hold.
    pub answered: usize,
}

/// Asks the members, and writes what they said in the last round. `None` where the target cannot say.
///
/// # Errors
/// If it cannot be written.
pub fn read_replicas(
    deployment: &mut Deployment,
    folder: &TrialFolder,
    give_up: &dyn Fn() -> bool,
) -> Result<Option<ReadBackResult>, Error> {
    if !deployment.can_audit() {
        return Ok(None);
    }
    let speed = deployment.speed();
    let begun = Instant::now();
    let pause = || rest(Duration::from_secs_f64(PAUSE_S / speed), give_up);
    let (told, rounds, settled) = settled(&mut || deployment.audit(), &mut |rounds| {
        asks_again(rounds, begun.elapsed().as_secs_f64() * speed) && pause()
    });
    let replicas: Vec<Replica> = told.into_iter().map(|told| told.replica).collect();
    replicas::write(&folder.replicas(), &replicas).map_err(Error::Record)?;
    let answered = replicas.iter().filter(|replica| replica.holds.is_ok()).count();
    Ok(Some(ReadBackResult { rounds, settled, answered }))
}

/// Whether so many rounds, which took so long, are followed by one more.
fn asks_again(rounds: u32, took_s: f64) -> bool {
    rounds < 2 || took_s < PATIENCE_S
}

/// Asks until two rounds in a row tell the same and nobody has to be asked in vain, or `goes_on` says no; the last round, how many
/// there were, and whether it told what the one before did. A member that fails may be about to serve again, so it is asked again.
fn settled(
    ask: &mut dyn FnMut() -> Vec<MemberAnswer>,
    goes_on: &mut dyn FnMut(u32) -> bool,
) -> (Vec<MemberAnswer>, u32, bool) {
    let (mut last, mut rounds, mut same) = (ask(), 1, false);
    while !(same && last.iter().all(is_final)) && goes_on(rounds) {
        let next = ask();
        // Why a member fails may be said in other words each time.
        same = holdings(&next).eq(holdings(&last));
        last = next;
        rounds += 1;
    }
    (last, rounds, same)
}

/// What each holds, as far as it told.
fn holdings(told: &[MemberAnswer]) -> impl Iterator<Item = Option<&ReplicaContents>> {
    told.iter().map(|told| told.replica.holds.as_ref().ok())
}

/// Whether asking again would bring nothing more.
fn is_final(told: &MemberAnswer) -> bool {
    told.replica.holds.is_ok() || !told.is_up
}

/// Waits; false if the user wants an end.
#[expect(clippy::disallowed_methods, reason = "nothing could wake it earlier")]
fn rest(time: Duration, give_up: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + time;
    while !give_up() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use record::replicas::ReplicaValue;

    use super::*;

    /// A name service that holds these keys, each with its own name as value.
    fn holding(keys: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = move || {
            for stream in listener.incoming().flatten() {
                std::thread::Builder::new().spawn(move || while answer(&stream, keys).is_some() {}).unwrap();
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        address
    }

    /// Reads a frame `load` and answers it.
    fn answer(mut stream: &TcpStream, keys: &[&str]) -> Option<()> {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).ok()?;
        let text = String::from_utf8_lossy(&frame).into_owned();
        let found = keys.iter().find(|key| text.ends_with(**key));
        let (status, value) = found.map_or((1, ""), |key| (0, *key));
        let mut reply = u32::try_from(value.len() + 5).unwrap().to_be_bytes().to_vec();
        reply.extend(&frame[..4]);
        reply.push(status);
        reply.extend(value.as_bytes());
        stream.write_all(&reply).ok()
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn with(history: &[HistoryEntry]) -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("plimsoll-conduct-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            let mut writer = JsonLinesWriter::create(&TrialFolder::at(&path).history()).unwrap();
            history.iter().for_each(|line| writer.write(line).unwrap());
            writer.flush().unwrap();
            Self(path)
        }

        /// What was found, by key.
        fn found(&self) -> Vec<(String, Option<String>)> {
            let all = lines::read::<HistoryEntry>(&TrialFolder::at(&self.0).history()).unwrap().items;
            all.into_iter().filter(|line| line.by == By::Audit).map(|line| (line.key, line.value)).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn wrote(agent: Option<u32>, key: &str, at_s: f64, applied: bool) -> HistoryEntry {
        HistoryEntry {
            at_s,
            by: if agent.is_some() { By::Load } else { By::Prepare },
            agent,
            effect: "write".to_owned(),
            space: "s".to_owned(),
            key: key.to_owned(),
            value: Some(key.to_owned()),
            outcome: if applied { Outcome::Ok } else { Outcome::Failed },
            applied: Some(applied),
        }
    }

    fn by(protocol: &str) -> TargetCalls {
        TargetCalls { protocol: protocol.to_owned(), trust: Default::default(), elsewhere: Default::default() }
    }

    fn read(scratch: &Scratch, services: &[String], give_up: &dyn Fn() -> bool) -> ReadBack {
        let clock = Clock::starting_in(Duration::ZERO);
        read_back(&TrialFolder::at(&scratch.0), &by("vsns"), services, Failover::None, clock, false, give_up).unwrap()
    }

    fn found(key: &str, value: Option<&str>) -> (String, Option<String>) {
        (key.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn a_key_is_missed_only_where_it_was_written() {
        let services = [holding(&["first"]), holding(&["second", "prepared", "moved"])];
        let history = [
            wrote(Some(1), "first", 1.0, true),
            wrote(Some(2), "second", 1.0, true),
            // Agent 3 goes where agent 1 goes, and there is no such key.
            wrote(Some(3), "third", 1.0, true),
            wrote(None, "prepared", -1.0, true),
            wrote(None, "gone", -1.0, true),
            // The second wrote it last; the first was refused.
            wrote(Some(1), "moved", 1.0, true),
            wrote(Some(2), "moved", 2.0, true),
            wrote(Some(1), "moved", 3.0, false),
        ];
        let scratch = Scratch::with(&history);
        assert_eq!(read(&scratch, &services, &|| false), ReadBack { keys: 6, unread: 0 });
        let expected = [
            found("first", Some("first")),
            found("gone", None),
            found("moved", Some("moved")),
            found("prepared", Some("prepared")),
            found("second", Some("second")),
            found("third", None),
        ];
        assert_eq!(scratch.found(), expected);
    }

    #[test]
    fn with_failover_a_key_may_be_anywhere() {
        let services = [holding(&[]), holding(&["moved"])];
        let scratch = Scratch::with(&[wrote(Some(1), "moved", 1.0, true), wrote(Some(2), "gone", 1.0, true)]);
        let (folder, clock) = (TrialFolder::at(&scratch.0), Clock::starting_in(Duration::ZERO));
        let done = read_back(&folder, &by("vsns"), &services, Failover::Next, clock, false, &|| false).unwrap();
        assert_eq!(done, ReadBack { keys: 2, unread: 0 });
        assert_eq!(scratch.found(), [found("gone", None), found("moved", Some("moved"))]);
    }

    #[test]
    fn nobody_vouches_for_a_service_that_is_silent() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        // It is asked once, and given up when it has not answered.
        let services = [silent, holding(&["copied"])];
        let scratch = Scratch::with(&[wrote(Some(1), "copied", 1.0, true), wrote(Some(1), "own", 1.0, true)]);
        let clock = Clock::starting_in(Duration::ZERO);
        let folder = TrialFolder::at(&scratch.0);
        let mut reader = KeyReader {
            operation: read_operation("vsns").unwrap(),
            links: services.iter().map(|service| ReadBackConnection::to(&by("vsns"), service)).collect(),
            give_up: &|| false,
        };
        // As after all patience with it.
        reader.links[0].down_since = Some(Instant::now() - PATIENCE - PATIENCE);
        let keys = audited_keys(&folder).unwrap();
        assert_eq!(read_all(&folder, &mut reader, keys, clock).unwrap(), ReadBack { keys: 1, unread: 1 });
        assert_eq!(scratch.found(), [found("copied", Some("copied"))]);
    }

    #[test]
    fn an_end_that_is_asked_for_leaves_the_rest_unread() {
        let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true)]);
        assert_eq!(read(&scratch, &[holding(&["first"])], &|| true), ReadBack { keys: 0, unread: 1 });
    }

    #[test]
    fn where_the_protocol_reads_no_key_the_members_are_its_read_back() {
        let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true)]);
        let clock = Clock::starting_in(Duration::ZERO);
        let folder = TrialFolder::at(&scratch.0);
        let read =
            |protocol, told| read_back(&folder, &by(protocol), &[], Failover::None, clock, told, &|| false).unwrap();
        assert_eq!(read("none", true), ReadBack { keys: 1, unread: 0 });
        assert_eq!(read("none", false), ReadBack { keys: 0, unread: 0 });
        assert_eq!(scratch.found(), []);
    }

    /// A Redis server that holds the key `first`, and knows no spaces.
    fn redis() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = move || {
            for mut stream in listener.incoming().flatten() {
                let mut asked = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut asked) {
                    let is_held = &asked[..count] == b"*2\r\n$3\r\nGET\r\n$5\r\nfirst\r\n";
                    stream.write_all(if is_held { b"$1\r\nv\r\n" } else { b"$-1\r\n" }).unwrap();
                }
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        address
    }

    #[test]
    fn where_there_are_no_spaces_the_key_alone_is_asked_for() {
        let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true), wrote(Some(1), "other", 1.0, true)]);
        let clock = Clock::starting_in(Duration::ZERO);
        let folder = TrialFolder::at(&scratch.0);
        let done = read_back(&folder, &by("redis"), &[redis()], Failover::None, clock, false, &|| false).unwrap();
        assert_eq!(done, ReadBack { keys: 2, unread: 0 });
        assert_eq!(scratch.found(), [found("first", Some("v")), found("other", None)]);
    }

    /// `"a b"`: a member that holds the keys `a` and `b`; `"!"`: one that fails; `"-"`: one that is down.
    fn told(says: &[&str]) -> Vec<MemberAnswer> {
        let table = |keys: &str| keys.split_whitespace().map(|key| (key.to_owned(), ReplicaValue::default())).collect();
        let told = |(index, says): (usize, &&str)| MemberAnswer {
            replica: Replica {
                member: format!("n{}", index + 1),
                holds: if matches!(*says, "!" | "-") { Err((*says).to_owned()) } else { Ok(table(says)) },
            },
            is_up: *says != "-",
        };
        says.iter().enumerate().map(told).collect()
    }

    /// Plays rounds, the last of them again and again, for at most so many: the last one asked, how many there were, whether it settled.
    fn play(rounds: &[&[&str]], at_most: u32) -> (Vec<MemberAnswer>, u32, bool) {
        let (mut asked, mut left) = (0, at_most);
        let mut ask = || {
            asked += 1;
            told(rounds[(asked - 1).min(rounds.len() - 1)])
        };
        let mut goes_on = |_| {
            left -= 1;
            left > 0
        };
        settled(&mut ask, &mut goes_on)
    }

    #[test]
    fn two_rounds_that_tell_the_same_are_enough() {
        assert_eq!(play(&[&["a", "a"]], 10), (told(&["a", "a"]), 2, true));
        // That members differ from each other is no reason to go on: only that they still change.
        assert_eq!(play(&[&["a", "a b"]], 10), (told(&["a", "a b"]), 2, true));
        assert_eq!(play(&[&["a", ""], &["a b", "a"], &["a b", "a b"]], 10), (told(&["a b", "a b"]), 4, true));
    }

    #[test]
    fn members_that_take_long_to_tell_all_they_hold_are_asked_twice_before_they_are_said_to_change() {
        assert!(asks_again(1, 6.0 * PATIENCE_S) && !asks_again(2, 6.0 * PATIENCE_S) && asks_again(2, 0.5 * PATIENCE_S));
    }

    #[test]
    fn what_goes_on_changing_is_taken_as_it_is_at_last() {
        assert_eq!(play(&[&["a"], &["b"], &["c"], &["d"]], 3), (told(&["c"]), 3, false));
        assert_eq!(play(&[&["a"]], 1), (told(&["a"]), 1, false), "the user wants an end");
    }

    #[test]
    fn one_that_fails_is_asked_again_and_one_that_is_down_is_not() {
        assert_eq!(play(&[&["a", "!"], &["a", "!"], &["a", "!"], &["a", "a"]], 10), (told(&["a", "a"]), 5, true));
        assert_eq!(play(&[&["a", "!"]], 4), (told(&["a", "!"]), 4, true));
        assert_eq!(play(&[&["a", "-"]], 10), (told(&["a", "-"]), 2, true));
    }
}
