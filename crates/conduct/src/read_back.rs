//! Read-back after the load: reads every audited key into the history, and asks every member for
//! its contents until replication has drained. The analysis decides whether data was lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use experiment::catalog::{Effect, Operation};
use experiment::plan::Failover;
use lab::{Deployment, MemberAnswer};
use load::client::ClientAnswer;
use load::recorder::SampledKeys;
use record::clock::Clock;
use record::events::{By, HistoryEntry, Outcome};
use record::folder::TrialFolder;
use record::lines::{self, JsonLinesWriter};
use record::replicas::{self, Replica, ReplicaContents};

use crate::Error;
use crate::target_calls::{ServiceConnection, TargetCalls};

/// Time limit for an answer. A batch or a service that gives no answer for this time is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of connections to each service.
const CONNECTIONS: usize = 4;
/// Number of keys that are requested on a connection before their first answer is read.
const IN_FLIGHT: usize = 64;

/// Result of a read-back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Number of keys that were read back.
    pub keys: u64,
    /// Number of keys that no service could read.
    pub unread: u64,
    /// Number of keys that were not read before the time limit.
    pub skipped: u64,
}

pub struct ReadBackSetting<'a> {
    pub calls: &'a TargetCalls,
    /// The services, in the order in which agents were assigned to them.
    pub services: &'a [String],
    /// Failover of the load: whether agents may have moved to another service.
    pub failover: Failover,
    /// Whether any member listed all its contents.
    pub members_told: bool,
    pub clock: Clock,
    /// Time limit of the read-back. Keys are read in random order, so that those read in time are a
    /// sample.
    pub within: Duration,
    pub seed: u64,
    /// Returns whether the user asked to end the trial.
    pub give_up: &'a (dyn Fn() -> bool + Sync),
}

/// Reads back every key that an audited write or removal in the history names, and appends the
/// results. Each key is first read from the service that its last writer used. The other services
/// are asked only if that service is unknown, as after a failover, or does not answer. If the
/// protocol has no operation that reads a key, the contents that members list are the read-back.
pub fn read_back(folder: &TrialFolder, setting: &ReadBackSetting<'_>) -> Result<ReadBack, Error> {
    let mut keys = audited_keys(folder)?;
    if setting.failover != Failover::None {
        keys.values_mut().for_each(|writer| writer.agent = None);
    }
    let Some(operation) = read_operation(&setting.calls.protocol) else {
        // If no member listed its contents, no key was read, but no read failed either.
        let keys = if setting.members_told { keys.len() as u64 } else { 0 };
        return Ok(ReadBack { keys, ..ReadBack::default() });
    };
    let services = setting.services.iter().map(|service| ReadService::new(service)).collect();
    let reader = KeyReader { operation, services, setting, until: Instant::now() + setting.within };
    reader.read_all(folder, keys)
}

type Keys = BTreeMap<(String, String), LastWriter>;

/// The last writer of a key.
#[derive(Debug, Clone, Copy)]
struct LastWriter {
    /// Whether the operation may have changed the key. Operations that were surely refused did not.
    had_effect: bool,
    at_s: f64,
    /// Id of the writing agent, which gives the service. `None` if the service is not known: in a
    /// preparation, or with failover.
    agent: Option<u32>,
}

/// Returns the space and key of each audited write or removal, with the key's last writer.
fn audited_keys(folder: &TrialFolder) -> Result<Keys, Error> {
    let history = lines::read::<HistoryEntry>(&folder.history()).map_err(|error| Error::Broken(error.to_string()))?;
    let changed = history.items.into_iter().filter(|line| line.by != By::Audit && line.changes_key());
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

/// Returns the protocol's operation that reads a key.
fn read_operation(protocol: &str) -> Option<&'static Operation> {
    let operations = load::protocols::find(protocol)?.info.operations;
    operations.iter().find(|operation| operation.effect == Effect::Read && takes(operation, "key"))
}

fn takes(operation: &Operation, name: &str) -> bool {
    operation.takes.iter().any(|field| field.name == name)
}

/// Reader of keys from services.
struct KeyReader<'a> {
    operation: &'static Operation,
    services: Vec<ReadService>,
    setting: &'a ReadBackSetting<'a>,
    until: Instant,
}

/// A service that keys are read from.
struct ReadService {
    address: String,
    /// Time of the service's last answer.
    answered: Mutex<Instant>,
    is_given_up: AtomicBool,
}

/// A key that is to be read.
struct PendingKey {
    space: String,
    key: String,
    /// Index of the service that the key was written to, if it is known.
    home: Option<usize>,
    /// Number of services that were asked for the key so far, without a value.
    asked: usize,
    /// Whether all services asked so far answered.
    all_answered: bool,
}

/// Result of reading a key from a service.
#[derive(Debug, Clone, PartialEq)]
enum Reading {
    /// The key's value (`None` if the service has no such key), and the time of the answer.
    Value(Option<String>, f64),
    /// The service gave no usable answer.
    Silent,
    /// The time limit passed before the service answered.
    Skipped,
}

impl PendingKey {
    /// Returns the index of the service to ask next: the service that the key was written to, then
    /// the others. `None` after the last.
    fn next_of(&self, services: usize) -> Option<usize> {
        let others = (0..services).filter(|index| Some(*index) != self.home);
        self.home.into_iter().chain(others).nth(self.asked)
    }
}

impl ReadService {
    fn new(address: &str) -> Self {
        let (answered, is_given_up) = (Mutex::new(Instant::now()), AtomicBool::new(false));
        Self { address: address.to_owned(), answered, is_given_up }
    }

    fn answered(&self) -> MutexGuard<'_, Instant> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyReader<'_> {
    /// Reads keys until all are read or the time limit passes. Appends their values to the history.
    fn read_all(&self, folder: &TrialFolder, keys: Keys) -> Result<ReadBack, Error> {
        let count = self.services.len();
        let mut open = Vec::new();
        for ((space, key), writer) in keys {
            // Agents were assigned to the services in turn.
            let home = writer.agent.filter(|_| count > 0).map(|agent| agent.saturating_sub(1) as usize % count);
            open.push(PendingKey { space, key, home, asked: 0, all_answered: count > 0 });
        }
        let sample = SampledKeys::of(1, self.setting.seed);
        open.sort_by_cached_key(|key| sample.mark(&key.space, &key.key));
        let mut done = ReadBack::default();
        let mut history = JsonLinesWriter::append(&folder.history()).map_err(Error::Record)?;
        while !open.is_empty() {
            let mut of_services: Vec<Vec<PendingKey>> = self.services.iter().map(|_| Vec::new()).collect();
            let mut results = Vec::new();
            for key in open.drain(..) {
                match key.next_of(count) {
                    Some(service) => of_services[service].push(key),
                    None if key.all_answered => results.push((key, Reading::Value(None, self.setting.clock.at_s()))),
                    None => done.unread += 1,
                }
            }
            results.extend(self.ask(of_services));
            for (mut key, reading) in results {
                let service = key.next_of(count);
                match reading {
                    Reading::Value(None, _) if service.is_some() && service != key.home => {}
                    Reading::Value(value, at_s) => {
                        done.keys += 1;
                        history.write(&key.read(value, at_s)).map_err(Error::Record)?;
                        continue;
                    }
                    Reading::Silent => key.all_answered = false,
                    Reading::Skipped => {
                        done.skipped += 1;
                        continue;
                    }
                }
                key.asked += 1;
                open.push(key);
            }
        }
        history.flush().map_err(Error::Record)?;
        Ok(done)
    }

    /// Asks each service for the keys assigned to it, on several connections at once.
    fn ask(&self, of_services: Vec<Vec<PendingKey>>) -> Vec<(PendingKey, Reading)> {
        let queues: Vec<_> = of_services.into_iter().map(|keys| Mutex::new(keys.into_iter())).collect();
        let results = &Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (service, queue) in self.services.iter().zip(&queues) {
                let keys = queue.lock().unwrap_or_else(PoisonError::into_inner).len();
                for _ in 1..CONNECTIONS.min(keys.div_ceil(IN_FLIGHT)) {
                    let thread = thread::Builder::new().name("read-back".to_owned());
                    // If the thread cannot be started, reading only takes longer.
                    let _ = thread.spawn_scoped(scope, move || self.read_queue(service, queue, results));
                }
            }
            for (service, queue) in self.services.iter().zip(&queues) {
                self.read_queue(service, queue, results);
            }
        });
        std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the keys of a queue over one connection until the queue is empty.
    fn read_queue(
        &self,
        service: &ReadService,
        queue: &Mutex<impl Iterator<Item = PendingKey>>,
        results: &Mutex<Vec<(PendingKey, Reading)>>,
    ) {
        let mut connection = self.setting.calls.to(&service.address, PATIENCE);
        loop {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let batch: Vec<PendingKey> = queue.by_ref().take(IN_FLIGHT).collect();
            drop(queue);
            if batch.is_empty() {
                break;
            }
            let readings = self.read(service, &mut connection, &batch);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.extend(batch.into_iter().zip(readings));
        }
    }

    /// Reads keys over one connection, which is reopened when it breaks. Stops at the time limit,
    /// or after `PATIENCE` without an answer.
    fn read(&self, service: &ReadService, connection: &mut ServiceConnection, keys: &[PendingKey]) -> Vec<Reading> {
        let mut readings = vec![Reading::Silent; keys.len()];
        let mut open: Vec<usize> = (0..keys.len()).collect();
        let mut progress = Instant::now();
        let (operation, give_up) = (self.operation, self.setting.give_up);
        while !open.is_empty() && !service.is_given_up.load(Ordering::SeqCst) && !give_up() {
            let is_late = Instant::now() >= self.until;
            // Keys of a service that is down count as unread, not as skipped.
            if is_late && service.answered().elapsed() < PATIENCE {
                open.iter().for_each(|index| readings[*index] = Reading::Skipped);
                break;
            }
            let calls: Vec<_> = open.iter().map(|index| keys[*index].arguments(operation)).collect();
            let answers = connection.call_all(operation.name, &calls, give_up);
            let at_s = self.setting.clock.at_s();
            let before = open.len();
            let mut answers = answers.into_iter();
            open.retain(|index| match answers.next().and_then(Result::ok).and_then(|answer| value(&answer)) {
                Some(value) => {
                    readings[*index] = Reading::Value(value, at_s);
                    false
                }
                None => true,
            });
            if open.len() < before {
                progress = Instant::now();
                *service.answered() = progress;
            } else if service.answered().elapsed() > PATIENCE {
                service.is_given_up.store(true, Ordering::SeqCst);
            } else if progress.elapsed() > PATIENCE {
                break;
            } else {
                pause();
            }
        }
        readings
    }
}

impl PendingKey {
    fn arguments(&self, operation: &Operation) -> BTreeMap<String, String> {
        let mut with = BTreeMap::from([("key".to_owned(), self.key.clone())]);
        if takes(operation, "space") {
            with.insert("space".to_owned(), self.space.clone());
        }
        with
    }

    /// Returns the history line for the key's value.
    fn read(self, value: Option<String>, at_s: f64) -> HistoryEntry {
        HistoryEntry {
            at_s,
            by: By::Audit,
            effect: "read".to_owned(),
            space: self.space,
            key: self.key,
            value,
            outcome: Outcome::Ok,
            applied: Some(true),
            ..HistoryEntry::default()
        }
    }
}

/// Returns the key's value in an answer. `Some(None)` means that the target has no such key.
/// `None` means that the answer has another status, such as an error.
fn value(answer: &ClientAnswer) -> Option<Option<String>> {
    match answer.status.as_str() {
        "ok" => Some(answer.field("value").map(|value| String::from_utf8_lossy(value).into_owned())),
        "not_found" => Some(None),
        _ => None,
    }
}

/// Pauses between two attempts to reach a target that is down. The pause is short, so that an
/// interruption is noticed soon.
#[expect(clippy::disallowed_methods, reason = "nothing could wake it earlier")]
fn pause() {
    thread::sleep(Duration::from_millis(20));
}

/// Seconds between two rounds of asking the members. A lab with time dilation waits longer.
const PAUSE_S: f64 = 1.0;
/// Seconds of asking after which no further round begins, except the second. The second is always
/// allowed, because contents usually settle only by two equal rounds.
const PATIENCE_S: f64 = 10.0;
/// Interval at which interruptions are checked.
const GLANCE: Duration = Duration::from_millis(20);

/// Result of asking the members for their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBackResult {
    /// Number of times that all members were asked.
    pub rounds: u32,
    /// Whether the last two rounds were equal, or the members agreed.
    pub settled: bool,
    /// Number of members that listed their contents.
    pub answered: usize,
}

/// Asks the members for their contents, and writes the answers of the last round. Returns `None` if
/// the target has no hook `audit`. In a trial without audited keys, only differences between
/// members matter, so members that agree are not asked again.
pub fn read_replicas(
    deployment: &mut Deployment,
    folder: &TrialFolder,
    has_audited_keys: bool,
    give_up: &dyn Fn() -> bool,
) -> Result<Option<ReadBackResult>, Error> {
    if !deployment.can_audit() {
        return Ok(None);
    }
    let speed = deployment.speed();
    let begun = Instant::now();
    let goes_on = &mut |rounds| {
        asks_again(rounds, begun.elapsed().as_secs_f64() * speed)
            && rest(Duration::from_secs_f64(PAUSE_S / speed), give_up)
    };
    let (answers, rounds, settled) = settled(!has_audited_keys, &mut || deployment.audit(), goes_on);
    let replicas: Vec<Replica> = answers.into_iter().map(|answer| answer.replica).collect();
    replicas::write(&folder.replicas(), &replicas).map_err(Error::Record)?;
    let answered = replicas.iter().filter(|replica| replica.holds.is_ok()).count();
    Ok(Some(ReadBackResult { rounds, settled, answered }))
}

/// Whether another round may follow. `took_s` is the time since the first round began.
fn asks_again(rounds: u32, took_s: f64) -> bool {
    rounds < 2 || took_s < PATIENCE_S
}

/// Asks all members until their contents have settled and each answer is final, or until `goes_on`
/// returns false. Contents have settled if two rounds in a row are equal or, with `ends_alike`, if
/// all members agree. Returns the answers of the last round, the number of rounds, and whether the
/// contents had settled. A member that is up but fails is asked again, because it may soon serve.
fn settled(
    ends_alike: bool,
    ask: &mut dyn FnMut() -> Vec<MemberAnswer>,
    goes_on: &mut dyn FnMut(u32) -> bool,
) -> (Vec<MemberAnswer>, u32, bool) {
    let is_enough = |told: &[MemberAnswer]| ends_alike && agree(told);
    let (mut last, mut rounds) = (ask(), 1);
    let mut same = is_enough(&last);
    while !(same && last.iter().all(is_final)) && goes_on(rounds) {
        let next = ask();
        // Only contents are compared: the message of a failing member may differ each time.
        same = holdings(&next).eq(holdings(&last)) || is_enough(&next);
        last = next;
        rounds += 1;
    }
    (last, rounds, same)
}

/// Whether all members answered and have the same contents.
fn agree(told: &[MemberAnswer]) -> bool {
    let first = holdings(told).next().flatten();
    first.is_some() && holdings(told).all(|holds| holds == first)
}

/// Returns the contents of each member; `None` for a member that did not list them.
fn holdings(told: &[MemberAnswer]) -> impl Iterator<Item = Option<&ReplicaContents>> {
    told.iter().map(|told| told.replica.holds.as_ref().ok())
}

/// Whether the member need not be asked again: it listed its contents, or is down.
fn is_final(told: &MemberAnswer) -> bool {
    told.replica.holds.is_ok() || !told.is_up
}

/// Waits for this time. Returns false if the user interrupts.
#[expect(clippy::disallowed_methods, reason = "nothing could wake it earlier")]
fn rest(time: Duration, give_up: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + time;
    while !give_up() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(GLANCE));
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use fixture::TestDir;
    use record::replicas::ReplicaValue;

    use super::*;

    /// Starts a name service that holds these keys, each with its name as value. Returns its
    /// address.
    fn holding(keys: &'static [&'static str]) -> String {
        serve(move |stream| {
            thread::Builder::new().spawn(move || while answer(&stream, keys).is_some() {}).unwrap();
        })
    }

    /// Starts a server that does this with each connection. Returns its address.
    fn serve(work: impl Fn(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::Builder::new().spawn(move || listener.incoming().flatten().for_each(work)).unwrap();
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

    /// A trial folder with a history.
    struct TestTrial(TestDir);

    impl TestTrial {
        fn with(history: &[HistoryEntry]) -> Self {
            let path = TestDir::new();
            let mut writer = JsonLinesWriter::create(&TrialFolder::at(&path).history()).unwrap();
            history.iter().for_each(|line| writer.write(line).unwrap());
            writer.flush().unwrap();
            Self(path)
        }

        /// Returns the values read, by key.
        fn found(&self) -> Vec<(String, Option<String>)> {
            let all = lines::read::<HistoryEntry>(&TrialFolder::at(&self.0).history()).unwrap().items;
            let mut found: Vec<_> =
                all.into_iter().filter(|line| line.by == By::Audit).map(|line| (line.key, line.value)).collect();
            found.sort();
            found
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
            ..HistoryEntry::default()
        }
    }

    fn by(protocol: &str) -> TargetCalls {
        TargetCalls { protocol: protocol.to_owned(), trust: Default::default(), elsewhere: Default::default() }
    }

    fn setting<'a>(calls: &'a TargetCalls, services: &'a [String]) -> ReadBackSetting<'a> {
        ReadBackSetting {
            calls,
            services,
            failover: Failover::None,
            members_told: false,
            clock: Clock::starting_in(Duration::ZERO),
            within: Duration::from_secs(600),
            seed: 1,
            give_up: &|| false,
        }
    }

    fn read(scratch: &TestTrial, setting: &ReadBackSetting<'_>) -> ReadBack {
        read_back(&TrialFolder::at(&scratch.0), setting).unwrap()
    }

    fn of(keys: u64, unread: u64, skipped: u64) -> ReadBack {
        ReadBack { keys, unread, skipped }
    }

    fn found(key: &str, value: Option<&str>) -> (String, Option<String>) {
        (key.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn a_key_is_read_from_the_service_of_its_writer() {
        let services = [holding(&["first"]), holding(&["second", "prepared", "moved"])];
        let history = [
            wrote(Some(1), "first", 1.0, true),
            wrote(Some(2), "second", 1.0, true),
            // Agent 3 uses the same service as agent 1, which has no such key.
            wrote(Some(3), "third", 1.0, true),
            wrote(None, "prepared", -1.0, true),
            wrote(None, "gone", -1.0, true),
            // The second agent wrote the key last; the first was refused.
            wrote(Some(1), "moved", 1.0, true),
            wrote(Some(2), "moved", 2.0, true),
            wrote(Some(1), "moved", 3.0, false),
        ];
        let scratch = TestTrial::with(&history);
        assert_eq!(read(&scratch, &setting(&by("vsns"), &services)), of(6, 0, 0));
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
    fn failover_searches_all_services_for_a_key() {
        let services = [holding(&[]), holding(&["moved"])];
        let scratch = TestTrial::with(&[wrote(Some(1), "moved", 1.0, true), wrote(Some(2), "gone", 1.0, true)]);
        let calls = by("vsns");
        let setting = ReadBackSetting { failover: Failover::Next, ..setting(&calls, &services) };
        assert_eq!(read(&scratch, &setting), of(2, 0, 0));
        assert_eq!(scratch.found(), [found("gone", None), found("moved", Some("moved"))]);
    }

    #[test]
    fn keys_of_a_silent_service_stay_unread() {
        let silent = fixture::refusing_address().to_string();
        // The silent service is asked once, and given up without an answer.
        let services = [silent, holding(&["copied"])];
        let scratch = TestTrial::with(&[wrote(Some(1), "copied", 1.0, true), wrote(Some(1), "own", 1.0, true)]);
        let folder = TrialFolder::at(&scratch.0);
        let calls = by("vsns");
        let setting = setting(&calls, &services);
        let reader = KeyReader {
            operation: read_operation("vsns").unwrap(),
            services: services.iter().map(|service| ReadService::new(service)).collect(),
            until: Instant::now() + setting.within,
            setting: &setting,
        };
        // The time of the last answer lies beyond the time limit.
        *reader.services[0].answered() = Instant::now() - PATIENCE - PATIENCE;
        assert_eq!(reader.read_all(&folder, audited_keys(&folder).unwrap()).unwrap(), of(1, 1, 0));
        assert_eq!(scratch.found(), [found("copied", Some("copied"))]);
    }

    #[test]
    fn a_stop_request_leaves_the_rest_unread() {
        let scratch = TestTrial::with(&[wrote(Some(1), "first", 1.0, true)]);
        let (calls, services) = (by("vsns"), [holding(&["first"])]);
        let setting = ReadBackSetting { give_up: &|| true, ..setting(&calls, &services) };
        assert_eq!(read(&scratch, &setting), of(0, 1, 0));
    }

    #[test]
    fn a_protocol_without_reads_counts_member_contents() {
        let scratch = TestTrial::with(&[wrote(Some(1), "first", 1.0, true)]);
        let calls = by("none");
        for (members_told, keys) in [(true, 1), (false, 0)] {
            let setting = ReadBackSetting { members_told, ..setting(&calls, &[]) };
            assert_eq!(read(&scratch, &setting), of(keys, 0, 0));
        }
        assert_eq!(scratch.found(), []);
    }

    /// Starts a Redis server that holds the key `first` and has no spaces. Returns its address.
    fn redis() -> String {
        serve(|stream| {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            // *2, $3, GET, $5, and the key.
            while let (Some(Ok(array)), Some(Ok(key))) = (lines.next(), lines.nth(3)) {
                assert_eq!(array, "*2");
                (&stream).write_all(if key == "first" { b"$1\r\nv\r\n" } else { b"$-1\r\n" }).unwrap();
            }
        })
    }

    #[test]
    fn many_keys_are_read_in_parallel() {
        // The server answers only after it has received a whole batch.
        let address = serve(|mut stream| {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            if lines.take(5 * IN_FLIGHT).filter(Result::is_ok).count() == 5 * IN_FLIGHT {
                stream.write_all(&b"$1\r\nv\r\n".repeat(IN_FLIGHT)).unwrap();
            }
        });
        let history: Vec<_> = (0..IN_FLIGHT).map(|key| wrote(Some(1), &format!("k{key}"), 1.0, true)).collect();
        let scratch = TestTrial::with(&history);
        assert_eq!(read(&scratch, &setting(&by("redis"), &[address])), of(IN_FLIGHT as u64, 0, 0));
        assert_eq!(scratch.found().len(), IN_FLIGHT);
    }

    #[test]
    fn keys_beyond_the_time_limit_are_skipped() {
        let scratch = TestTrial::with(&[wrote(Some(1), "first", 1.0, true), wrote(Some(1), "other", 1.0, true)]);
        let (calls, services) = (by("redis"), [redis()]);
        let setting = ReadBackSetting { within: Duration::ZERO, ..setting(&calls, &services) };
        assert_eq!(read(&scratch, &setting), of(0, 0, 2));
    }

    #[test]
    fn protocols_without_spaces_read_by_key_alone() {
        let scratch = TestTrial::with(&[wrote(Some(1), "first", 1.0, true), wrote(Some(1), "other", 1.0, true)]);
        assert_eq!(read(&scratch, &setting(&by("redis"), &[redis()])), of(2, 0, 0));
        assert_eq!(scratch.found(), [found("first", Some("v")), found("other", None)]);
    }

    /// Returns answers: `"a b"` is a member that holds the keys `a` and `b`, `"!"` one that fails,
    /// `"-"` one that is down.
    fn answers(says: &[&str]) -> Vec<MemberAnswer> {
        let mut answers = Vec::new();
        for (index, says) in says.iter().enumerate() {
            let keys = says.split_whitespace().map(|key| (key.to_owned(), ReplicaValue::default())).collect();
            let holds = if matches!(*says, "!" | "-") { Err((*says).to_owned()) } else { Ok(keys) };
            let replica = Replica { member: format!("n{}", index + 1), holds };
            answers.push(MemberAnswer { replica, is_up: *says != "-" });
        }
        answers
    }

    /// Plays at most `at_most` rounds, and repeats the last of `rounds`. Returns the last answers,
    /// the number of rounds, and whether the contents settled.
    fn play(rounds: &[&[&str]], at_most: u32) -> (Vec<MemberAnswer>, u32, bool) {
        let last = rounds.last().into_iter().cycle();
        let mut rounds = rounds.iter().chain(last);
        settled(false, &mut || answers(rounds.next().unwrap()), &mut |asked| asked < at_most)
    }

    #[test]
    fn agreeing_members_are_asked_only_once() {
        let cases: [&[&[&str]]; 4] = [
            &[&["a", "a"]],
            &[&["a", ""], &["a", "a"]],
            // One is down.
            &[&["a", "-"], &["a", "-"]],
            &[&["a", "!"], &["a", "!"], &["a", "a"]],
        ];
        for rounds in cases {
            let mut says = rounds.iter();
            let (_, asked, _) = settled(true, &mut || answers(says.next().unwrap()), &mut |_| true);
            assert_eq!(asked as usize, rounds.len());
        }
    }

    #[test]
    fn two_equal_rounds_are_enough() {
        assert_eq!(play(&[&["a", "a"]], 10), (answers(&["a", "a"]), 2, true));
        // Differences between members do not cause another round; only changes do.
        assert_eq!(play(&[&["a", "a b"]], 10), (answers(&["a", "a b"]), 2, true));
        assert_eq!(play(&[&["a", ""], &["a b", "a"], &["a b", "a b"]], 10), (answers(&["a b", "a b"]), 4, true));
    }

    #[test]
    fn slow_members_are_asked_at_most_twice() {
        assert!(asks_again(1, 6.0 * PATIENCE_S) && !asks_again(2, 6.0 * PATIENCE_S) && asks_again(2, 0.5 * PATIENCE_S));
    }

    #[test]
    fn changing_contents_are_taken_from_the_last_round() {
        assert_eq!(play(&[&["a"], &["b"], &["c"], &["d"]], 3), (answers(&["c"]), 3, false));
        assert_eq!(play(&[&["a"]], 1), (answers(&["a"]), 1, false), "the user wants an end");
    }

    #[test]
    fn failing_members_are_asked_again_unless_down() {
        assert_eq!(play(&[&["a", "!"], &["a", "!"], &["a", "!"], &["a", "a"]], 10), (answers(&["a", "a"]), 5, true));
        assert_eq!(play(&[&["a", "!"]], 4), (answers(&["a", "!"]), 4, true));
        assert_eq!(play(&[&["a", "-"]], 10), (answers(&["a", "-"]), 2, true));
    }
}
