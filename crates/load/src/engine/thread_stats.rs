//! Statistics of a thread in the current second. At the second's end, they are sent to the
//! recorder.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use hdrhistogram::Histogram;
use record::clock::Clock;
use record::events::{FailureExample, HistoryEntry, Outcome};
use record::hlog::Time;
use record::rows::{AgentCycles, GeneratorSecond};
use rustix::time::{ClockId, clock_gettime};
use wire::cause::{AttemptCause, Refusal};
use wire::feed_stream::{FeedQueue, ReadSoFar};

use super::run_delay::RunDelay;
use super::units::StatusCounts;
use crate::interval::{AttemptCount, CheckCount, HistogramSet, SlotCounts, ThreadInterval, UnitCount};
use crate::schedules::{Due, NS_PER_S};

/// Maximum number of emptied histogram sets that wait for reuse.
const HISTOGRAM_SETS: usize = 4;
/// Number of distinct attempt results per operation and second that need no allocation.
const RESULTS: usize = 16;
/// Maximum number of kinds of failures for which a thread gives an example.
const KINDS: usize = 32;
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// Identity of a thread and constants of its load.
pub struct ThreadIdentity {
    /// Index of the thread in the whole load.
    pub thread: u32,
    /// Number of threads of the whole load.
    pub threads: u32,
    /// Clock of all times.
    pub clock: Clock,
    /// Length of a time slot in which outcomes are counted.
    pub slot_ns: u64,
    /// Number of services.
    pub services: u32,
    pub names: Arc<[String]>,
    /// Whether each operation has expectations, in the order of `names`.
    pub has_expectations: Vec<bool>,
    pub refusals: &'static [Refusal],
    /// Whether messages that answer no request are counted.
    pub has_pushes: bool,
}

/// Totals of a thread over the whole load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTotals {
    /// Numbers of operations by outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; 5],
    /// Number of attempts that ended.
    pub attempts: u64,
    /// Number of complete cycles.
    pub cycles: u64,
    /// Number of operations that were due and were dropped.
    pub dropped: u64,
}

/// CPU use of a thread in a second.
#[derive(Debug, Clone, Copy)]
pub struct ThreadCost {
    cpu_ns: u64,
    /// Time in which the thread was ready to run and had no CPU, if the kernel reports it.
    run_delay_ns: Option<u64>,
}

/// Counters of the current second.
pub struct ThreadStats {
    identity: ThreadIdentity,
    sink: SyncSender<ThreadInterval>,
    recycled: (SyncSender<HistogramSet>, Receiver<HistogramSet>),
    histograms: HistogramSet,
    start_ns: u64,
    boundary_ns: u64,
    first_slot: u64,
    /// Counts for each pair of slot and service, slot by slot.
    slots: Vec<SlotCounts>,
    attempts: Vec<Vec<(AttemptCause, u64)>>,
    /// Units and the statuses of parts, indexed by operation.
    units: Vec<(u64, StatusCounts)>,
    /// Messages of streams, indexed by operation.
    messages: Vec<u64>,
    /// Failed expectations, indexed by operation.
    checks: Vec<FailedChecks>,
    lateness: Option<Histogram<u64>>,
    cpu_ns: u64,
    run_delay: RunDelay,
    /// Number of operations whose intended start is in the current second.
    due: u64,
    /// Number of operations that were due and will not begin.
    dropped: u64,
    /// Number of operations that are open now.
    open: i64,
    /// Sum of the nanoseconds in this interval for which operations were open. An operation that is
    /// open now counts as if it ended with the interval.
    open_ns: i64,
    latency_ns: u64,
    operations: u64,
    cycles: u64,
    connects: u64,
    connect_failures: u64,
    received_bytes: u64,
    /// Messages that answered no request.
    pushed: u64,
    /// Statistics of feeds that are read ahead, if there are any.
    feeds: Option<FeedWatch>,
    /// Number of agents that have started and not left.
    pub agents: u32,
    pub history: Vec<HistoryEntry>,
    /// Time before which no audited operation that is still open or yet to begin was sent. `None`
    /// unless the load stops at a violation.
    pub open_since_ns: Option<u64>,
    /// Notices for the reader.
    pub notices: Vec<String>,
    /// Examples of failures whose kind was not seen before.
    pub examples: Vec<FailureExample>,
    /// Kinds of failures seen so far: operation, cause and expectation.
    kinds: Vec<(usize, AttemptCause, Option<usize>)>,
    /// Cycles of each agent. Set at the end of the load.
    pub agent_cycles: Vec<AgentCycles>,
    /// Totals over the whole load.
    pub totals: ThreadTotals,
    /// Whether the receiver of intervals is gone.
    pub is_cut_off: bool,
}

impl ThreadStats {
    /// Creates statistics that begin at the clock's zero.
    pub fn new(identity: ThreadIdentity, sink: SyncSender<ThreadInterval>) -> Self {
        let recycled = sync_channel(HISTOGRAM_SETS);
        let histograms = HistogramSet::new(&identity.names, Some(recycled.0.clone()));
        let attempts = identity.names.iter().map(|_| Vec::with_capacity(RESULTS)).collect();
        let units = identity.names.iter().map(|_| Default::default()).collect();
        let messages = vec![0; identity.names.len()];
        let checks = identity.names.iter().map(|_| FailedChecks::default()).collect();
        let mut stats = Self {
            identity,
            sink,
            recycled,
            histograms,
            start_ns: 0,
            boundary_ns: NS_PER_S,
            first_slot: 0,
            slots: Vec::new(),
            attempts,
            units,
            messages,
            checks,
            lateness: Histogram::new_with_bounds(1, LATENESS_MAX_NS, 2).ok(),
            cpu_ns: 0,
            run_delay: RunDelay::default(),
            due: 0,
            dropped: 0,
            open: 0,
            open_ns: 0,
            latency_ns: 0,
            operations: 0,
            cycles: 0,
            connects: 0,
            connect_failures: 0,
            received_bytes: 0,
            pushed: 0,
            feeds: None,
            agents: 0,
            history: Vec::new(),
            open_since_ns: None,
            notices: Vec::new(),
            examples: Vec::new(),
            kinds: Vec::with_capacity(KINDS),
            agent_cycles: Vec::new(),
            totals: ThreadTotals::default(),
            is_cut_off: false,
        };
        stats.slots = stats.empty_slots();
        stats
    }

    /// Starts statistics of feeds that are read ahead. Only one thread counts the work of the
    /// feeds' readers.
    pub fn watch_feeds(&mut self, readers: Vec<Arc<FeedQueue>>) {
        self.feeds = Some(FeedWatch { readers, ..FeedWatch::default() });
    }

    /// Counts an agent that begins to wait for a record.
    pub fn wait_for_feed(&mut self, now_ns: u64) {
        let since_ns = signed(now_ns) - signed(self.start_ns);
        let feeds = self.feeds.get_or_insert_default();
        feeds.waiting += 1;
        feeds.waited_ns -= since_ns;
    }

    /// Counts the end of an agent's wait for a record.
    pub fn stop_waiting_for_feed(&mut self, now_ns: u64) {
        let since_ns = signed(now_ns) - signed(self.start_ns);
        let feeds = self.feeds.get_or_insert_default();
        feeds.waiting = feeds.waiting.saturating_sub(1);
        feeds.waited_ns += since_ns;
    }

    /// Returns the number of agents that wait for a record.
    pub fn waiting_for_feed(&self) -> u64 {
        self.feeds.as_ref().map_or(0, |feeds| feeds.waiting)
    }

    /// Begins to measure the calling thread. Its earlier CPU use does not count.
    pub fn begin_on_this_thread(&mut self) {
        self.cpu_ns = thread_cpu_ns();
        self.run_delay = RunDelay::of_this_thread();
    }

    /// Returns the end of the current second.
    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    /// Returns the number of operations that are open now.
    pub fn open_now(&self) -> i64 {
        self.open
    }

    /// Counts an operation that begins, from its intended start.
    pub fn begin(&mut self, intended_ns: u64) {
        self.due += 1;
        self.open(intended_ns);
    }

    /// Counts an operation as open from its intended start. The caller counts it as due.
    pub fn open(&mut self, intended_ns: u64) {
        self.open += 1;
        self.open_ns -= signed(intended_ns) - signed(self.start_ns);
    }

    /// Counts operations that became due. The operations are not counted as open.
    pub fn fall_due(&mut self, count: u64) {
        self.due += count;
    }

    /// Counts operations that were due and will not begin.
    pub fn drop_starts(&mut self, count: u64) {
        self.dropped += count;
        self.totals.dropped += count;
    }

    /// Counts operations that are due while all agents are busy, as due and open.
    pub fn due(&mut self, due: &Due) {
        self.due += due.count;
        self.open += signed(due.count);
        self.open_ns += due.waited_ns(self.start_ns);
    }

    /// Counts operations that were due and never began by the end of the load.
    pub fn leave(&mut self, operation: usize, due: &Due, end_ns: u64) {
        self.withdraw(due, end_ns);
        self.histograms.record_due(operation, due, end_ns);
        self.totals.outcomes[Outcome::Unfinished as usize] += due.count;
    }

    /// Uncounts starts that were counted as open but will not become operations, because all cycles
    /// are done.
    pub fn withdraw(&mut self, due: &Due, end_ns: u64) {
        self.open -= signed(due.count);
        self.open_ns += signed(due.count) * (signed(end_ns) - signed(self.start_ns));
    }

    /// Records an `ok` operation that a timer started. `long_ns` is its latency without the
    /// generator's lateness.
    pub fn punctual(&mut self, operation: usize, long_ns: u64) {
        self.histograms.record(operation, Outcome::Ok, Time::Punctual, long_ns);
    }

    /// Counts the end of an operation. `sent_ns` is the send time of the last attempt, if the
    /// attempt was sent.
    pub fn end(
        &mut self,
        operation: usize,
        outcome: Outcome,
        service: u32,
        intended_ns: u64,
        sent_ns: Option<u64>,
        end_ns: u64,
    ) {
        let latency_ns = end_ns.saturating_sub(intended_ns);
        self.open -= 1;
        self.open_ns += signed(end_ns) - signed(self.start_ns);
        self.histograms.record(operation, outcome, Time::Latency, latency_ns);
        if let Some(sent_ns) = sent_ns {
            self.histograms.record(operation, outcome, Time::Service, end_ns.saturating_sub(sent_ns));
        }
        self.totals.outcomes[outcome as usize] += 1;
        if outcome == Outcome::Unfinished {
            return;
        }
        self.operations += 1;
        self.latency_ns += latency_ns;
        let slot = (end_ns / self.identity.slot_ns).saturating_sub(self.first_slot);
        let slot = slot * u64::from(self.identity.services) + u64::from(service);
        if let Some(slot) = usize::try_from(slot).ok().and_then(|slot| self.slots.get_mut(slot)) {
            match outcome {
                Outcome::Ok => slot.ok += 1,
                Outcome::Failed => slot.failed += 1,
                Outcome::Timeout => slot.timeout += 1,
                Outcome::Wrong => slot.wrong += 1,
                Outcome::Unfinished => {}
            }
        }
    }

    /// Counts the end of an attempt.
    pub fn attempt(&mut self, operation: usize, cause: AttemptCause) {
        self.totals.attempts += 1;
        let counts = &mut self.attempts[operation];
        match counts.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => counts.push((cause, 1)),
        }
    }

    /// Whether a failure is the first of its kind. False once the maximum number of kinds is
    /// reached.
    pub fn is_new_kind(&mut self, operation: usize, cause: AttemptCause, expectation: Option<usize>) -> bool {
        let kind = (operation, cause, expectation);
        let is_new = self.kinds.len() < KINDS && !self.kinds.contains(&kind);
        if is_new {
            self.kinds.push(kind);
        }
        is_new
    }

    /// Counts the units of an operation, and the statuses of its parts.
    pub fn count_units(&mut self, operation: usize, units: u64, parts: &StatusCounts) {
        let (sum, statuses) = &mut self.units[operation];
        *sum = sum.saturating_add(units);
        statuses.add(parts);
    }

    /// Records a time of an operation's answer.
    pub fn answer_time(&mut self, operation: usize, outcome: Outcome, time: Time, value_ns: u64) {
        self.histograms.record(operation, outcome, time, value_ns);
    }

    /// Counts messages of a stream that arrived together, `gap_ns` after the message before them if
    /// there was one.
    pub fn messages(&mut self, operation: usize, count: u32, gap_ns: Option<u64>) {
        let count = u64::from(count);
        self.messages[operation] = self.messages[operation].saturating_add(count);
        if let Some(gap_ns) = gap_ns {
            self.histograms.record(operation, Outcome::Ok, Time::Gap, gap_ns);
        }
        if count > 1 {
            self.histograms.record_n(operation, Outcome::Ok, Time::Gap, 0, count - 1);
        }
    }

    /// Counts an answer that was compared with the operation's expectations and failed its attempt.
    /// Other compared answers are counted by [`Self::attempt`].
    pub fn failed_answer(&mut self, operation: usize) {
        self.checks[operation].failed_attempts += 1;
    }

    /// Counts an answer that contradicts an expectation.
    pub fn contradicted(&mut self, operation: usize) {
        self.checks[operation].contradicted += 1;
    }

    /// Counts a failure of the expectation of a field.
    pub fn failed_check(&mut self, operation: usize, field: &str) {
        let fields = &mut self.checks[operation].fields;
        match fields.iter_mut().find(|(known, _)| known == field) {
            Some((_, count)) => *count += 1,
            None => fields.push((field.to_owned(), 1)),
        }
    }

    /// Counts a complete cycle.
    pub fn cycle(&mut self) {
        self.cycles += 1;
        self.totals.cycles += 1;
    }

    /// Counts an opened connection.
    pub fn connected(&mut self) {
        self.connects += 1;
    }

    /// Counts received bytes of answers.
    pub fn received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
    }

    /// Counts a message that answers no request.
    pub fn pushed(&mut self) {
        self.pushed += 1;
    }

    /// Counts a failed connect.
    pub fn connect_failed(&mut self) {
        self.connect_failures += 1;
    }

    /// Records the lateness of a timer.
    pub fn late(&mut self, late_ns: u64) {
        if let Some(lateness) = &mut self.lateness {
            lateness.saturating_record(late_ns);
        }
    }

    /// Returns the CPU use since the last call, divided by the number of seconds that have ended by
    /// `now_ns`.
    pub fn take_spent_per_second(&mut self, now_ns: u64) -> ThreadCost {
        let ended = ((now_ns - self.start_ns) / NS_PER_S).max(1);
        let run_delay_ns = self.run_delay.take_ns().map(|delay_ns| delay_ns / ended);
        ThreadCost { cpu_ns: self.take_cpu_ns() / ended, run_delay_ns }
    }

    /// Sends the statistics of the current second to the recorder.
    pub fn hand_over_second(&mut self, spent: ThreadCost) {
        self.hand_over(self.boundary_ns, spent, false);
    }

    /// Sends the statistics of the last, incomplete second to the recorder.
    pub fn finish(&mut self, now_ns: u64) {
        let spent = ThreadCost { cpu_ns: self.take_cpu_ns(), run_delay_ns: self.run_delay.take_ns() };
        self.hand_over(now_ns, spent, true);
    }

    fn take_cpu_ns(&mut self) -> u64 {
        let cpu_ns = thread_cpu_ns();
        cpu_ns - std::mem::replace(&mut self.cpu_ns, cpu_ns)
    }

    fn hand_over(&mut self, end_ns: u64, spent: ThreadCost, is_last: bool) {
        let start_ns = self.start_ns;
        let generator = self.generator(end_ns, spent);
        let checks = self.take_checks();
        let attempts = self.take_attempts();
        let units = self.take_units();
        let messages = self.take_messages();
        self.start_ns = end_ns;
        self.boundary_ns = (end_ns / NS_PER_S + 1) * NS_PER_S;
        let first_slot = std::mem::replace(&mut self.first_slot, end_ns / self.identity.slot_ns);
        let slots = std::mem::take(&mut self.slots);
        let fresh = self.recycled.1.try_recv();
        let fresh = fresh.unwrap_or_else(|_| HistogramSet::new(&self.identity.names, Some(self.recycled.0.clone())));
        let interval = ThreadInterval {
            clock: self.identity.clock,
            thread: self.identity.thread,
            threads: self.identity.threads,
            is_last,
            start_s: seconds(start_ns),
            end_s: seconds(end_ns),
            slot_s: seconds(self.identity.slot_ns),
            services: self.identity.services,
            first_slot,
            slots,
            attempts,
            units,
            messages,
            checks,
            generator,
            history: std::mem::take(&mut self.history),
            open_since_s: self.open_since_ns.map(seconds),
            notices: std::mem::take(&mut self.notices),
            examples: std::mem::take(&mut self.examples),
            agent_cycles: std::mem::take(&mut self.agent_cycles),
            sheet: std::mem::replace(&mut self.histograms, fresh),
        };
        self.slots = self.empty_slots();
        self.send(interval);
    }

    fn send(&mut self, interval: ThreadInterval) {
        match self.sink.try_send(interval) {
            Ok(()) => {}
            Err(TrySendError::Full(interval)) => {
                let waited = "the load waited because its records were not processed fast enough";
                self.notices.push(waited.to_owned());
                self.is_cut_off |= self.sink.send(interval).is_err();
            }
            Err(TrySendError::Disconnected(_)) => self.is_cut_off = true,
        }
    }

    fn generator(&mut self, end_ns: u64, spent: ThreadCost) -> GeneratorSecond {
        let length_ns = end_ns - self.start_ns;
        let interval_s = seconds(length_ns);
        let open_ns = std::mem::take(&mut self.open_ns) + self.open * signed(length_ns);
        let per_length = |value: f64| if length_ns == 0 { 0.0 } else { value / length_ns as f64 };
        let late = |value_ns: u64| value_ns as f64 / 1e3;
        let feed = self.feeds.as_mut().map(|feeds| feeds.take(length_ns)).unwrap_or_default();
        let fired = self.lateness.as_ref().filter(|lateness| !lateness.is_empty());
        let second = GeneratorSecond {
            at_s: seconds(end_ns),
            interval_s,
            thread: self.identity.thread,
            cpu_pct: per_length(spent.cpu_ns as f64 * 100.0),
            run_delay_pct: spent.run_delay_ns.map(|delay_ns| per_length(delay_ns as f64 * 100.0)),
            late_us_p99: fired.map(|lateness| late(lateness.value_at_quantile(0.99))),
            late_us_max: fired.map(|lateness| late(lateness.max())),
            agents: self.agents,
            in_flight_mean: per_length(open_ns as f64),
            operations: std::mem::take(&mut self.operations),
            latency_sum_s: seconds(std::mem::take(&mut self.latency_ns)),
            cycles: std::mem::take(&mut self.cycles),
            connects: std::mem::take(&mut self.connects),
            connect_failures: std::mem::take(&mut self.connect_failures),
            dropped: std::mem::take(&mut self.dropped),
            due: Some(std::mem::take(&mut self.due)),
            received_bytes: Some(std::mem::take(&mut self.received_bytes)),
            feed_wait_s: feed.wait_s,
            feed_bytes: feed.read.map(|read| read.bytes),
            feed_records: feed.read.map(|read| read.records),
            feed_read_pct: feed.read.map(|read| per_length(read.waited_ns as f64 * 100.0)),
            pushed_messages: self.identity.has_pushes.then(|| std::mem::take(&mut self.pushed)),
        };
        if let Some(lateness) = &mut self.lateness {
            lateness.reset();
        }
        second
    }

    fn take_attempts(&mut self) -> Vec<AttemptCount> {
        let mut counts = Vec::new();
        for (name, results) in self.identity.names.iter().zip(&mut self.attempts) {
            counts.extend(results.drain(..).map(|(cause, count)| AttemptCount {
                operation: name.clone(),
                result: cause.text(self.identity.refusals),
                count,
            }));
        }
        counts
    }

    fn take_units(&mut self) -> Vec<UnitCount> {
        let mut counts = Vec::new();
        for (name, (units, statuses)) in self.identity.names.iter().zip(&mut self.units) {
            let done = Some((String::new(), std::mem::take(units))).filter(|(_, count)| *count > 0);
            counts.extend(done.into_iter().chain(statuses.take()).map(|(status, count)| UnitCount {
                operation: name.clone(),
                status,
                count,
            }));
        }
        counts
    }

    fn take_messages(&mut self) -> Vec<(String, u64)> {
        let counts = self.identity.names.iter().zip(&mut self.messages).filter(|(_, count)| **count > 0);
        counts.map(|(name, count)| (name.clone(), std::mem::take(count))).collect()
    }

    /// Returns the compared answers and the failed expectations. The attempts must not be taken
    /// yet.
    fn take_checks(&mut self) -> Vec<CheckCount> {
        let mut counts = Vec::new();
        let operations = self.identity.names.iter().zip(&self.attempts).zip(&mut self.checks);
        let operations = operations.zip(&self.identity.has_expectations).filter(|(_, is_checked)| **is_checked);
        for (((name, attempts), checks), _) in operations {
            let answered = attempts.iter().filter(|(cause, _)| is_compared(*cause)).map(|(_, count)| count);
            let answers = answered.sum::<u64>() + std::mem::take(&mut checks.failed_attempts);
            let count = |expectation: &str, answers, failed| CheckCount {
                operation: name.clone(),
                expectation: expectation.to_owned(),
                answers,
                failed,
            };
            let all = count("", answers, std::mem::take(&mut checks.contradicted));
            counts.extend((answers > 0).then_some(all));
            // The names are kept, so that the next failure allocates nothing.
            let fields = checks.fields.iter_mut().filter(|(_, failed)| *failed > 0);
            counts.extend(fields.map(|(field, failed)| count(field, 0, std::mem::take(failed))));
        }
        counts
    }

    /// Returns empty slots from the start of the interval to the end of the interval's second.
    fn empty_slots(&self) -> Vec<SlotCounts> {
        let last = (self.boundary_ns - 1) / self.identity.slot_ns;
        let count = usize::try_from(last - self.first_slot + 1).unwrap_or(1);
        vec![SlotCounts::default(); count * self.identity.services as usize]
    }
}

/// Failed expectations of an operation in the current second.
#[derive(Debug, Default)]
struct FailedChecks {
    /// Number of compared answers whose attempts failed.
    failed_attempts: u64,
    /// Number of answers that contradict at least one expectation.
    contradicted: u64,
    /// Number of failures of each expectation that failed in this load, by field.
    fields: Vec<(String, u64)>,
}

/// Whether an attempt with this result has an answer that was compared with the expectations and
/// did not fail the attempt.
fn is_compared(cause: AttemptCause) -> bool {
    use AttemptCause::{Ok, OkStatus, Redirect, Wrong};
    matches!(cause, Ok | OkStatus(_) | Redirect(_) | Wrong)
}

/// Feeds that are read ahead, and the agents that wait for records.
#[derive(Debug, Default)]
struct FeedWatch {
    /// Queues of the feed readers. Empty in all threads but one.
    readers: Vec<Arc<FeedQueue>>,
    read: ReadSoFar,
    /// Number of agents that wait for a record.
    waiting: u64,
    /// Sum of the nanoseconds in this interval for which agents waited. An agent that waits now
    /// counts as if it waited until the end of the interval.
    waited_ns: i64,
}

/// Statistics of feeds in an interval.
#[derive(Debug, Default)]
struct FeedSecond {
    wait_s: Option<f64>,
    read: Option<ReadSoFar>,
}

impl FeedWatch {
    /// Ends an interval of `length_ns`. Returns the interval's statistics.
    fn take(&mut self, length_ns: u64) -> FeedSecond {
        let still_ns = signed(self.waiting.saturating_mul(length_ns));
        let waited_ns = std::mem::take(&mut self.waited_ns) + still_ns;
        let all = self.readers.iter().map(|reader| reader.so_far()).fold(ReadSoFar::default(), ReadSoFar::and);
        let before = std::mem::replace(&mut self.read, all);
        FeedSecond {
            wait_s: Some(seconds(waited_ns.unsigned_abs())),
            read: (!self.readers.is_empty()).then(|| all.since(before)),
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// Returns the CPU time of the calling thread.
fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec.unsigned_abs() * NS_PER_S + used.tv_nsec.unsigned_abs()
}
