//! The table of rules, one line of reasoning each, and what they weigh, by whom it is about; what is about the records stands
//! in `records`. A rule is a pure function of a trial's facts; nothing here reads, and nothing decides what follows.

mod connects;
mod faults;
mod fleet;
mod losses;
mod records;

use experiment::plan;
use record::events::What;
use record::results::{DisturbanceKind, Host, Quantiles, Steady};
use record::rows::GeneratorSecond;
use text::numbers;

use super::Threshold::{self, From, Under};
use super::{Rule, RuleInput, UNPACKING_PCT};
use crate::{claims, versions};

const NEVER: f64 = f64::INFINITY;
const NOT_BELOW: f64 = f64::NEG_INFINITY;

/// For rules that hold or do not.
const SUSPECT_IF_SO: Threshold = From { suspect: 1.0, void: NEVER };
const VOID_IF_SO: Threshold = From { suspect: 1.0, void: 1.0 };

/// What a rule found: its figure, and what a user is told of it.
type Evaluation = Option<(f64, String)>;

/// All rules, sorted by name.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "alarming_log",
        looks_at: "lines of the target's own log that its `[log]` calls alarming",
        unit: "lines",
        threshold: SUSPECT_IF_SO,
        why: "The target's author listed these lines as signs that the target is not whole: a split brain, tables that \
              cannot be loaded. The measurement is right, but the cluster may not have been the one that was meant.",
        remedy: "Read the line and those around it in the trial's `logs`; where a fault was meant to cause it, it is \
                 the finding",
        weigh: alarming_log,
    },
    Rule {
        name: "client_programs",
        looks_at: "CPU time of the programs that are operations, as a multiple of the target's; not judged where the target is on another \
                   machine",
        unit: "×",
        threshold: From { suspect: 1.0, void: NEVER },
        why: "The start of a program costs more CPU time than many operations, so the load ends where the programs \
              take all of the machine: the target could do many times as much.",
        remedy: "Let each program do many operations (`units`), as a benchmark of the target's own does, or have programs that go on \
                 running: protocol `lines` through a bridge; docs/protocols.md has examples",
        weigh: client_programs,
    },
    Rule {
        name: "clock_jump",
        looks_at: "largest step of the calendar clock against the monotonic clock, from one second to the next",
        unit: "s",
        threshold: From { suspect: 0.1, void: NEVER },
        why: "Plimsoll measures with the monotonic clock, but a target's leases, timers and timestamps may use the \
              calendar clock. Slewing, as NTP does it, moves both clocks alike and is not seen here.",
        remedy: "Let the clock settle before the run, and have it slewed, not stepped",
        weigh: clock_jump,
    },
    Rule {
        name: "coarse_cores",
        looks_at: "period of the emulated cores' quota, as a multiple of the median latency",
        unit: "×",
        threshold: SUSPECT_IF_SO,
        why: "A slow core runs at full speed until its quota for the period is used up: a job shorter than the period \
              is not slowed down at all.",
        remedy: "Measure longer operations, or use faster profiles, whose periods are shorter",
        weigh: coarse_cores,
    },
    Rule {
        name: "cut_off",
        looks_at: "how the trial ended",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "The rest of the trial was not played, so its result is unknown.",
        remedy: "Go on with `plimsoll run --resume`",
        weigh: records::cut_off,
    },
    Rule {
        name: "dropped_starts",
        looks_at: "operations that were due and were dropped, because the backlog was as full as `load.backlog` allows",
        unit: "%",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "The load was lighter than requested, and lightest when the target was slowest. Dropped operations are in \
              no latency, so the others look fast.",
        remedy: "Lower `load.rate`, add agents to start operations with, or raise `load.backlog`: waiting is part of \
                 the latency",
        weigh: dropped_starts,
    },
    Rule {
        name: "failed_connects",
        looks_at: "connects that failed before any fault and before the first operation succeeded",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        why: "Agents that cannot connect do not load the target. A target that has served and then refuses connections has failed, which \
              is a result: its operations count as failed.",
        remedy: "Check the target's address, its limit of connections and the length of its accept queue",
        weigh: connects::failed_connects,
    },
    Rule {
        name: "failed_fault",
        looks_at: "faults that could not be injected, and actions that could not be done",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The trial is not the one that was requested.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: faults::failed_fault,
    },
    Rule {
        name: "failed_handshakes",
        looks_at: "connects that failed in the TLS handshake before any fault",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        why: "The target was reached but no request was sent: its certificate was not trusted, or the two sides had no \
              TLS version or cipher in common.",
        remedy: "For a bad certificate, name the authority with `tls.ca` and the name in the certificate with \
                 `tls.server_name`, or accept any with `tls.insecure`; for a target that wants a certificate of the client, \
                 give one with `tls.cert`; otherwise check whether the target speaks TLS at this port",
        weigh: connects::failed_handshakes,
    },
    Rule {
        name: "fault_duration",
        looks_at: "how far the time for which a fault acted is from its `for`, 50 ms and less left out",
        unit: "% of `for`",
        threshold: From { suspect: 10.0, void: 50.0 },
        why: "What clients notice depends on how long a fault lasts, and its figures are those of another fault.",
        remedy: "See in events.jsonl what took so long: a host that boots, a `command`, another fault meanwhile; or let the fault last longer",
        weigh: faults::fault_duration,
    },
    Rule {
        name: "few_operations",
        looks_at: "operations that ended in the measured part",
        unit: "operations",
        threshold: Under { suspect: 100.0, void: NOT_BELOW },
        why: "The standard error of a count is its square root: below 100 a rate is not known to 10 %.",
        remedy: "Measure longer, or with more agents",
        weigh: few_operations,
    },
    Rule {
        name: "full_disk",
        looks_at: "whether the run folder's disk was full",
        unit: "",
        threshold: VOID_IF_SO,
        why: "Records are missing, and it is not known which.",
        remedy: "Free some space, or choose another disk with --out",
        weigh: full_disk,
    },
    Rule {
        name: "generator_cpu",
        looks_at: "CPU of the busiest engine thread, 95th percentile over the seconds",
        unit: "% of a core",
        threshold: From { suspect: 90.0, void: 98.0 },
        why: "A generator that saturates its core is the bottleneck: throughput stays flat and latency grows, whatever \
              the target does. In a closed load whose target has a thread without time left (95 %), throughput is the target's all the \
              same, and the trial is suspect at most.",
        remedy: "Give the generator more `load.threads` or cores of its own, or lower the load",
        weigh: generator_cpu,
    },
    Rule {
        name: "generator_lateness",
        looks_at: "how much of p50, p90 or p99 of the latency is the generator's own lateness, at least 0.2 ms; of records without \
                   it, an estimate by the lateness of the worst second",
        unit: "% of the latency",
        threshold: From { suspect: 5.0, void: 50.0 },
        why: "Operations that wait for a timer are counted from when they were due, so the generator's lateness is \
              part of every latency. How late some of them were matters only as far as it moves the figures.",
        remedy: "End other processes on the generator's CPUs, or give it cores of its own",
        weigh: generator_lateness,
    },
    Rule {
        name: "generator_lost",
        looks_at: "whether a generator of a fleet was lost",
        unit: "",
        threshold: VOID_IF_SO,
        why: "From then on the load was not the one that was asked for, so all of it was ended; the records end with the last second that all \
              generators had handed over.",
        remedy: "Find out why the generator ended: its memory, its machine, the network to it; `plimsoll run --resume` plays the trial again",
        weigh: losses::generator_lost,
    },
    Rule {
        name: "generator_preempted",
        looks_at: "time in which an engine thread could run and another process ran instead: its run delay, times the \
                   share of other processes (neither target nor Plimsoll) in what else ran on its CPUs",
        unit: "% of the measured time",
        threshold: From { suspect: 5.0, void: 25.0 },
        why: "Answers that wait in a socket until the generator runs again look late, however little CPU the other \
              processes use in all. Waiting for the target's own processes does not count: where the two share cores, \
              that is part of the set-up.",
        remedy: "End other processes on this machine, or keep them off the generator's CPUs with taskset",
        weigh: generator_preempted,
    },
    Rule {
        name: "generator_stall",
        looks_at: "time in which an engine thread did not run for 50 ms or more at once; with pauses or a rate, 200 ms",
        unit: "% of the measured time",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "While the generator stalls, no request is sent and no answer is read, which looks like an outage of the \
              target. A tenth of a percent of the time is enough to change p99.9.",
        remedy: "Do not stop or trace Plimsoll, suspend the machine, or load its CPUs during a measurement",
        weigh: generator_stall,
    },
    Rule {
        name: "generator_throttled",
        looks_at: "time in which a CPU quota of Plimsoll's own control groups stopped it, summed over CPUs",
        unit: "% of the measured time",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "A quota stops a container for tens of milliseconds at a time, and no answer is read meanwhile: a tenth \
              of a percent of the time is enough to change p99.9.",
        remedy: "Raise the CPU limit of the container or service that Plimsoll runs in, or lower the load",
        weigh: generator_throttled,
    },
    Rule {
        name: "generators_apart",
        looks_at: "how far the times of two generators of a fleet may be apart: within what they began of each other, or by what the times of \
                   one may be off",
        unit: "ms",
        threshold: From { suspect: 10.0, void: 100.0 },
        why: "Outages are told in slots of a millisecond, and a second's figures hold what happened in it. Both allow for the error of the \
              clocks, and say less and less the larger it is.",
        remedy: "Put the generators nearer to this machine: the error is half of the way to them and back, and what the clocks drift apart \
                 where nothing comes of one for long",
        weigh: fleet::generators_apart,
    },
    Rule {
        name: "generators_uneven",
        looks_at: "how far one generator of a fleet is from the median of the others, in what it carries (500 operations of each at least), in \
                   mean latency (from 1 ms on) or in the lateness of its timers (against the latency, from 1 ms and half as much again on)",
        unit: "%",
        threshold: From { suspect: 25.0, void: NEVER },
        why: "Generators play equal parts against the same service. What one of them alone sees is about its machine or its way there, \
              and the figures of all together have it in them.",
        remedy: "Look at the machine of that generator and at its network: `hosts`, `generator.csv`; or leave it out",
        weigh: fleet::generators_uneven,
    },
    Rule {
        name: "late_fault",
        looks_at: "how long after its planned time a fault began to act, 50 ms and less left out",
        unit: "% of `for`, or without it of the rest of the load",
        threshold: From { suspect: 10.0, void: NEVER },
        why: "The figures of a fault count from when it began to act, and are right. But it met another moment of the load than was planned, \
              and what follows it has less time.",
        remedy: "Make the target's hook `leader` faster, or let the fault begin later: the hook is asked ahead of it",
        weigh: faults::late_fault,
    },
    Rule {
        name: "littles_law",
        looks_at: "difference between operations in flight and rate times latency",
        unit: "%",
        threshold: From { suspect: 5.0, void: 20.0 },
        why: "Little's law holds for every system whose counts are complete. If it does not hold, operations were lost \
              or times are wrong, or agents that should always be busy were not.",
        remedy: "Give the generator more CPU; if it has enough, this is a bug worth reporting",
        weigh: littles_law,
    },
    Rule {
        name: "local_limits",
        looks_at: "attempts that failed for want of a local port or file descriptor on the generator's machine",
        unit: "% of the attempts",
        threshold: From { suspect: 0.01, void: 50.0 },
        why: "The limit is this machine's, not the target's. Where half of the attempts never left the machine, the figures are those \
              of its limit.",
        remedy: "Widen net.ipv4.ip_local_port_range, raise `ulimit -n`, keep connections, or use several source addresses \
                 (`load.from`); `plimsoll doctor` tells what there is",
        weigh: connects::local_limits,
    },
    Rule {
        name: "lost_host",
        looks_at: "hosts that were lost without a fault: their shim or runner ended, or the connection to it broke",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The target ran on fewer hosts than requested, and not because the target failed.",
        remedy: "Read the notices in events.jsonl for the reason",
        weigh: losses::lost_host,
    },
    Rule {
        name: "lost_process",
        looks_at: "processes of the target that ended without a fault",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "From then on the target is not the one that was to be measured. Its death may be the finding; its \
              figures are not those of a target that runs.",
        remedy: "Read its log in the trial's `logs`; if another process killed it, end that process",
        weigh: losses::lost_process,
    },
    Rule {
        name: "lost_switch",
        looks_at: "whether the switch between virtual hosts was lost without a fault",
        unit: "",
        threshold: VOID_IF_SO,
        why: "Hosts can no longer be attached or detached, and nothing maintains the network that carries the load.",
        remedy: "Find out what ended Plimsoll's runner, such as the kernel for lack of memory, and run the trial again",
        weigh: losses::lost_switch,
    },
    Rule {
        name: "missing_fault",
        looks_at: "planned faults and actions that never began",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The trial is not the one that was requested.",
        remedy: "Read the notices in events.jsonl; perhaps the event that the fault follows never happened",
        weigh: faults::missing_fault,
    },
    Rule {
        name: "missing_records",
        looks_at: "seconds of the load that a record lacks, and records that do not exist",
        unit: "s",
        threshold: VOID_IF_SO,
        why: "The lost part may hold the reason against a trial: without `generator.csv` no operation was late. A \
              trial that was cut off may lack its last two seconds.",
        remedy: "Copy the run folder again, completely; if it was never complete, run the trial again",
        weigh: records::missing_records,
    },
    Rule {
        name: "no_baseline",
        looks_at: "faults that began without steady service before them",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "The cost of a fault is the difference from the service before it.",
        remedy: "Let the fault begin later, or leave more time between two",
        weigh: faults::no_baseline,
    },
    Rule {
        name: "no_steady_state",
        looks_at: "whether throughput and latency were steady: no trend of 8 % (20 % in less than 20 s; latency: 50 %) over the load that its 99 % \
                   interval confirms, no shift of the level by 15 % (latency: 100 %), and slow times for less than a \
                   tenth of the measured part",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "The mean of a changing figure depends on when the measurement ends.",
        remedy: "Measure longer; if the target never settles, that is the finding",
        weigh: no_steady_state,
    },
    Rule {
        name: "no_success",
        looks_at: "whether any operation succeeded: suspect in a trial beside trials of other points, void where the experiment has one \
                   point, or no trial of the run had a success",
        unit: "",
        threshold: From { suspect: 1.0, void: 2.0 },
        why: "Without one success, a mistake in the experiment is more likely than a failure of the target. A target that fails at the \
              highest load of a sweep is a result; one that never answered was not measured.",
        remedy: "Look at the results of the attempts: they name the cause",
        weigh: no_success,
    },
    Rule {
        name: "quantile_refused",
        looks_at: "quantiles that a requirement, claim or search asks for and that too few operations support",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Of n operations all lie below the quantile q with probability q^n. Below ln 0.05 / ln q of them (299 for p99, 2,995 \
              for p99.9) the quantile would be another name for the maximum (Wilks 1941).",
        remedy: "Measure longer, or ask for a lower quantile",
        weigh: quantile_refused,
    },
    Rule {
        name: "records_disagree",
        looks_at: "difference between the counts of load.hlog, outcomes.csv, generator.csv and attempts.csv, and of the keys in \
                   events.jsonl and history.jsonl",
        unit: "operations",
        threshold: VOID_IF_SO,
        why: "They are written from the same operations. If they differ, one is incomplete, and the missing part may \
              be what went wrong.",
        remedy: "This is a bug worth reporting, with the run folder",
        weigh: records::records_disagree,
    },
    Rule {
        name: "refused_connects",
        looks_at: "connects that the target or a proxy refused in its own words (a login, a database, too many clients), before any fault \
                   and before the first operation succeeded",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        why: "The target was reached, and nothing was asked: agents that are refused do not load it.",
        remedy: "Read the target's own words in the notices of events.jsonl; correct the login or the database in the URL, raise the \
                 target's limit of clients, or let the proxy admit this machine",
        weigh: connects::refused_connects,
    },
    Rule {
        name: "restarted_target",
        looks_at: "processes of the target that ended and were replaced by one of the same name and parent, before any fault",
        unit: "processes",
        threshold: SUSPECT_IF_SO,
        why: "A worker that its master restarts is an outage that no fault caused, and its caches are cold. Servers \
              that replace workers by design do so here too: this rule then says how often.",
        remedy: "Read the target's logs; if it is by design, make it rarer for the run",
        weigh: restarted_target,
    },
    Rule {
        name: "saturated_balancer",
        looks_at: "CPU of the busiest host that only passes the load on to the members, or of its only busy thread, while no other \
                   host is as busy",
        unit: "% of its CPU",
        threshold: From { suspect: AT_ITS_LIMIT_PCT, void: NEVER },
        why: "Members that wait for a balancer are not measured: more or faster ones would change nothing, and clusters \
              that are compared behind it differ by their balancers.",
        remedy: "Give the balancer more cores or a faster host, put several beside each other, or lower the load",
        weigh: saturated_balancer,
    },
    Rule {
        name: "short_measurement",
        looks_at: "measured time after the warm-up",
        unit: "s",
        threshold: Under { suspect: 5.0, void: NOT_BELOW },
        why: "A few seconds hold only a few of the second-long waves that garbage collectors, checkpoints and \
              schedulers make, and a figure depends on which ones.",
        remedy: "Raise `load.time`",
        weigh: short_measurement,
    },
    Rule {
        name: "slow_feed",
        looks_at: "time for which agents waited for a record of a feed that is read ahead, percent of all their time; with \
                   a rate, of the latency",
        unit: "%",
        threshold: From { suspect: 1.0, void: 5.0 },
        why: "A load that waits for its own input measures the disk that the input lies on: the target could do more, \
              and whatever is changed in it looks smaller than it is.",
        remedy: "Put the feed's file on a faster disk than the target's or in memory (/dev/shm), pack it otherwise (zst \
                 unpacks fastest), or lower the load",
        weigh: slow_feed,
    },
    Rule {
        name: "stall_in_outage",
        looks_at: "stalls of the generator during an outage",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "An outage is measured in milliseconds, and the generator's part of it cannot be subtracted.",
        remedy: "Give the generator cores of its own",
        weigh: stall_in_outage,
    },
    Rule {
        name: "steal",
        looks_at: "CPU time that the hypervisor took, mean over the load",
        unit: "% of the machine",
        threshold: From { suspect: 2.0, void: 10.0 },
        why: "The CPU time that neighbours on the same hardware take differs from minute to minute, and repeats do not \
              show it. Idle cloud machines show below 1 %.",
        remedy: "Use a machine with dedicated cores, or another hour",
        weigh: steal,
    },
    Rule {
        name: "strangers",
        looks_at: "CPU time of other processes, which are neither the target nor Plimsoll, mean over the load; not \
                   judged where a target that Plimsoll did not start is on this machine and its processes cannot be \
                   identified",
        unit: "% of the machine",
        threshold: From { suspect: 10.0, void: 30.0 },
        why: "Other processes take CPU, caches and memory bandwidth from target and generator. An idle desktop uses a \
              few percent.",
        remedy: "End other processes on this machine, or wait until they end; `top` lists them. Name those that belong to the target in \
                 `target.also`",
        weigh: strangers,
    },
    Rule {
        name: "torn_records",
        looks_at: "record files whose last line was cut off, although the trial has an end",
        unit: "files",
        threshold: SUSPECT_IF_SO,
        why: "Something was lost, if only a line.",
        remedy: "Run the trial again",
        weigh: records::torn_records,
    },
    Rule {
        name: "unaudited_member",
        looks_at: "members that did not report their records after the load, except those that a fault had taken down",
        unit: "members",
        threshold: SUSPECT_IF_SO,
        why: "Keys that such a member lacks or holds with another value are not counted.",
        remedy: "Let faults heal earlier, so that the member serves again at the end; otherwise read its log in the \
                 trial's `logs`",
        weigh: records::unaudited_member,
    },
    Rule {
        name: "unhealed_fault",
        looks_at: "faults that could not be healed",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Everything after it was measured with the fault still present.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: unhealed_fault,
    },
    Rule {
        name: "unread_keys",
        looks_at: "audited keys that could not be read back",
        unit: "keys",
        threshold: SUSPECT_IF_SO,
        why: "A key that was not read back may be lost or not.",
        remedy: "Find out why the target did not answer after the load",
        weigh: records::unread_keys,
    },
    Rule {
        name: "unsettled_replicas",
        looks_at: "whether the members' records still changed at the last audit, 10 s after the load",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Keys that seem to have diverged may still have been in replication.",
        remedy: "Leave the target time to catch up: a lower load at the end, or fewer writes",
        weigh: records::unsettled_replicas,
    },
    Rule {
        name: "versions_changed",
        looks_at: "files of the target's folder, Plimsoll's program, and versions, that differ from those at the run's \
                   first trial or at this trial's start",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Trials of different programs are not repeats of each other.",
        remedy: "Run the experiment again with one version, or make the versions variants",
        weigh: versions_changed,
    },
];

/// A host, or a thread, that uses so much of its CPU has none left in most seconds.
const AT_ITS_LIMIT_PCT: f64 = 90.0;

/// A thread that makes up so much of what the target uses on its host is all that works there.
const ALONE_SHARE: f64 = 0.8;

/// Where the effect of lateness is not known: below this share of the median latency it does not matter.
const LATE_SHARE: f64 = 0.1;

/// … and from how many microseconds on it makes a trial suspect, or void.
const LATE_US: f64 = 1_000.0;
const VERY_LATE_US: f64 = 50_000.0;

/// A generator that did not run for so long, microseconds, stood still: shorter ones are the scheduler's daily bread.
const STALL_US: f64 = 50_000.0;

/// The same where operations wait for timers: shorter ones are in their lateness.
const PACED_STALL_US: f64 = 200_000.0;

/// Rows of one second may lie this far apart.
const SAME_SECOND_S: f64 = 0.25;

fn dropped_starts(facts: &RuleInput<'_>) -> Evaluation {
    let dropped = facts.trial.generator.dropped? as f64;
    let outcomes = facts.trial.outcomes;
    let ended = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let due = dropped + ended as f64;
    let pct = if due > 0.0 { 100.0 * dropped / due } else { return None };
    Some((pct, format!("{dropped:.0} operations ({pct:.1} %) were due but were dropped: the backlog was full")))
}

/// A thread of the target that used so much of its core over the measured part has no time left, percent. By the utilization law
/// (Denning and Buzen 1978) its throughput is within a twentieth of what it can do, whoever else is busy.
const TARGET_FULL_PCT: f64 = 95.0;
/// What is suspect by this rule, and not void, at most.
const GENERATOR_SUSPECT_PCT: f64 = 97.9;

fn generator_cpu(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.generator.cpu_pct?;
    let what = "the generator's busiest thread used";
    let target_pct = facts.trial.hosts.iter().filter_map(|host| host.busiest_thread_pct).fold(0.0, f64::max);
    if !is_paced(facts) && target_pct >= TARGET_FULL_PCT {
        let both = format!("{what} {pct:.0} % of a core, and the target's {target_pct:.0} %");
        let so = "throughput is the target's, but part of the latency is waiting for the generator";
        return Some((pct.min(GENERATOR_SUSPECT_PCT), format!("{both}: {so}")));
    }
    Some((pct, format!("{what} {pct:.0} % of a core: the generator, not the target, may have limited the load")))
}

/// Whether operations start when a timer says so, and not when the one before has ended.
fn is_paced(facts: &RuleInput<'_>) -> bool {
    facts.planned.load.as_ref().is_some_and(plan::Load::is_paced)
}

fn generator_lateness(facts: &RuleInput<'_>) -> Evaluation {
    let Some(pct) = facts.trial.generator.lateness_effect_pct else { return lateness_estimate(facts) };
    let p99_ms = |latency: &Option<Quantiles>| latency.as_ref().and_then(|latency| latency.p99).map(|us| us / 1e3);
    let instead = match (p99_ms(&facts.trial.latency_us), p99_ms(&facts.trial.punctual_latency_us)) {
        (Some(p99_ms), Some(punctual_ms)) => format!(" (p99 would be {punctual_ms:.1} ms instead of {p99_ms:.1} ms)"),
        _ => String::new(),
    };
    let what = "of the latency is the generator's own lateness";
    Some((pct, format!("{pct:.0} % {what}{instead}: it did not run when operations were due")))
}

/// The same of records that do not tell it, by the worst second: it errs on the side of doubt.
fn lateness_estimate(facts: &RuleInput<'_>) -> Evaluation {
    let late_us = facts.trial.generator.late_us_p99.filter(|_| is_paced(facts))?;
    let median_us = facts.trial.latency_us.as_ref().and_then(|latency| latency.p50);
    if late_us < LATE_US || median_us.is_some_and(|median_us| late_us <= LATE_SHARE * median_us) {
        return None;
    }
    let share = median_us.map_or(1.0, |median_us| late_us / (late_us + median_us));
    let pct = if late_us >= VERY_LATE_US { 100.0 } else { 100.0 * share.min(0.49) };
    let late_ms = late_us / 1e3;
    Some((pct, format!("operations started up to {late_ms:.1} ms behind schedule (p99 of the worst second)")))
}

/// A second in which an engine thread stood still.
#[derive(Debug, Clone, Copy)]
struct ThreadStall {
    /// Its end, seconds since load start.
    pub at_s: f64,
    /// For how long, microseconds.
    pub late_us: f64,
    /// How much of that it did not run, microseconds.
    pub idle_us: f64,
    /// How much of that it was waiting for a CPU, microseconds; `None` where the kernel does not say.
    pub waited_us: Option<f64>,
}

/// Seconds of the measured part in which the generator stood still, by its worst thread. Where operations wait for timers, a late
/// timer may also mean more work than time; then the thread was busy.
fn stalls(facts: &RuleInput<'_>) -> Vec<ThreadStall> {
    let Some(window) = facts.window else { return Vec::new() };
    let is_paced = is_paced(facts);
    let shortest_us = if is_paced { PACED_STALL_US } else { STALL_US };
    let mut worst: Vec<ThreadStall> = Vec::new();
    for row in &facts.evidence.generator {
        let Some(late_us) = row.late_us_max.filter(|late_us| *late_us >= shortest_us) else { continue };
        // A timer that was due before the load's end may fire after it.
        let is_measured = row.at_s > window.from_s && row.at_s - late_us / 1e6 < window.until_s;
        let (idle_us, waited_us) = meanwhile(facts, row, late_us);
        if !is_measured || (is_paced && idle_us < late_us / 2.0) {
            continue;
        }
        let stall = ThreadStall { at_s: row.at_s, late_us, idle_us, waited_us };
        match worst.iter_mut().find(|other| (other.at_s - row.at_s).abs() < SAME_SECOND_S) {
            Some(other) if other.late_us >= late_us => {}
            Some(other) => *other = stall,
            None => worst.push(stall),
        }
    }
    worst
}

/// What a row's thread did in the seconds that a stall in it may reach back to: neither run nor wait, or only wait; microseconds.
fn meanwhile(facts: &RuleInput<'_>, row: &GeneratorSecond, late_us: f64) -> (f64, Option<f64>) {
    let from_s = row.at_s - row.interval_s - late_us / 1e6;
    // Rows come in the order of time, to within a second.
    let rows = &facts.evidence.generator;
    let near = &rows[rows.partition_point(|other| other.at_s <= from_s - 2.0)..];
    let reached = near
        .iter()
        .take_while(|other| other.at_s <= row.at_s + 2.0)
        .filter(|other| other.thread == row.thread && other.at_s > from_s && other.at_s <= row.at_s);
    let mut idle_us = 0.0;
    let mut waited_us = Some(0.0);
    for other in reached {
        let percent_us = other.interval_s * 1e4;
        idle_us += percent_us * (100.0 - other.cpu_pct);
        waited_us = waited_us.zip(other.run_delay_pct).map(|(sum, pct)| sum + percent_us * pct);
    }
    (idle_us, waited_us)
}

fn generator_stall(facts: &RuleInput<'_>) -> Evaluation {
    let stalls = stalls(facts);
    let longest = stalls.iter().max_by(|a, b| a.late_us.total_cmp(&b.late_us))?;
    let pct = stalls.iter().map(|stall| stall.late_us / 1e6).sum::<f64>() / facts.window?.length_s() * 100.0;
    let (longest_ms, at_s) = (longest.late_us / 1e3, longest.at_s);
    let why = match longest.waited_us {
        _ if longest.idle_us < longest.late_us / 2.0 => {
            "it was busy by itself, such as with very long requests or answers"
        }
        Some(waited_us) if waited_us < longest.late_us / 2.0 => {
            "it was not waiting for a CPU, so it was stopped, or the whole machine was"
        }
        Some(_) => "it was waiting for a CPU",
        None => "it was stopped, or waited for a CPU",
    };
    let what = format!(
        "the generator stalled for {pct:.1} % of the time ({longest_ms:.0} ms at worst, near {at_s:.0} s): {why}. The latency \
         and errors of these moments are not the target's doing"
    );
    Some((pct, what))
}

fn generator_preempted(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.generator.preempted_pct?;
    let what = format!(
        "for {:.0} % of the time other processes ran on the generator's CPUs while it could have run: answers that were \
         only read late look slow",
        // A second whose figures were read late holds more than a second of waiting.
        pct.min(100.0)
    );
    Some((pct, what))
}

fn generator_throttled(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.generator.throttled_pct?;
    Some((
        pct,
        format!(
            "a CPU quota stopped the control group that Plimsoll runs in for {pct:.1} % of the time, summed over CPUs"
        ),
    ))
}

fn littles_law(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.generator.littles_law_error_pct?;
    Some((
        pct,
        format!("the generator's counts are off by {pct:.1} %: operations in flight do not match rate times latency"),
    ))
}

fn slow_feed(facts: &RuleInput<'_>) -> Evaluation {
    let feed = facts.trial.generator.feed?;
    let pct = feed.wait_pct?;
    let of = match facts.planned.load.as_ref().is_some_and(plan::Load::is_open) {
        true => "of the latency was waiting for the load's own feed",
        false => "of the agents' time was waiting for the load's own feed",
    };
    let read = match (feed.bytes_per_s, feed.read_pct) {
        (Some(bytes_per_s), Some(read_pct)) if read_pct < UNPACKING_PCT => format!(
            ": {} were read, and the reader was busy unpacking rather than waiting for its disk",
            numbers::by_metric("bytes_per_s", bytes_per_s)
        ),
        (Some(bytes_per_s), Some(read_pct)) => format!(
            ": {} gave {}, and the reader waited for it {:.0} % of the time",
            feed_device(facts.planned),
            numbers::by_metric("bytes_per_s", bytes_per_s),
            read_pct
        ),
        _ => String::new(),
    };
    Some((pct, format!("{pct:.0} % {of}{read}")))
}

/// What a feed came from: its disk, or a tier that it was read as slowly as.
fn feed_device(planned: &plan::Trial) -> String {
    let mut feeds = planned.load.iter().flat_map(|load| &load.feeds);
    match feeds.find_map(|feed| feed.tier.as_ref().filter(|_| !feed.limits.is_none())) {
        Some(tier) => format!("the tier `{tier}`, as slowly as which it was read,"),
        None => "its disk".to_owned(),
    }
}

fn stall_in_outage(facts: &RuleInput<'_>) -> Evaluation {
    let felt = |at_s: f64| {
        facts.trial.faults.iter().any(|fault| {
            let back_s = fault.outage.as_ref().and_then(|outage| outage.back_to_baseline_s);
            at_s > fault.at_s && at_s - 1.0 <= fault.at_s + back_s.unwrap_or(f64::INFINITY)
        })
    };
    let stall = stalls(facts).into_iter().find(|stall| felt(stall.at_s))?;
    let (at_s, late_ms) = (stall.at_s, stall.late_us / 1e3);
    Some((
        1.0,
        format!(
            "the generator stalled for {late_ms:.0} ms near {at_s:.0} s, during an outage: the outage may be shorter than measured"
        ),
    ))
}

fn unhealed_fault(facts: &RuleInput<'_>) -> Evaluation {
    let said = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if text.contains("could not be healed") => Some(text),
        _ => None,
    })?;
    Some((1.0, said.clone()))
}

/// So many other processes are named, if they used so much of the machine.
const NAMED: usize = 3;
const NAMED_PCT: f64 = 1.0;
/// A smaller share of the CPU is lost in the kernel's clock ticks.
const SMALLEST_PCT: f64 = 0.1;

fn clock_jump(facts: &RuleInput<'_>) -> Evaluation {
    let jump_s = facts.trial.generator.clock_jump_s?;
    Some((jump_s, format!("this machine's calendar clock jumped by {jump_s:.1} s during the trial")))
}

/// A slow core runs at full speed until its quota of a period is used up: a job shorter than that is not slowed at all.
fn coarse_cores(facts: &RuleInput<'_>) -> Evaluation {
    let period_us = facts.trial.emulated.as_ref()?.granularity_s? * 1e6;
    let median_us = facts.trial.latency_us.as_ref()?.p50?;
    let (period_ms, median_ms) = (period_us / 1e3, median_us / 1e3);
    let what = format!(
        "the median latency, {median_ms:.1} ms, is below the {period_ms:.0} ms period of the emulated cores: a job that \
         short runs at the full speed of this machine"
    );
    Some((period_us / median_us, what))
}

fn full_disk(facts: &RuleInput<'_>) -> Evaluation {
    let speaks_of_it = |text: &str| {
        let text = text.to_lowercase();
        text.contains("no space left") || text.contains("disk is full") || text.contains("disk full")
    };
    let said = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if speaks_of_it(text) => Some(text),
        What::Ended { reason: Some(reason), .. } if speaks_of_it(reason) => Some(reason),
        _ => None,
    })?;
    Some((1.0, format!("the disk of the run folder was full, so records are missing: {said}")))
}

fn steal(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.machine.steal_pct?;
    Some((pct, format!("the hypervisor took {pct:.1} % of the CPU")))
}

fn strangers(facts: &RuleInput<'_>) -> Evaluation {
    let machine = &facts.trial.machine;
    let pct = machine.strangers_cpu_pct?;
    let named = machine.other_processes.iter().filter(|process| process.cpu_pct >= NAMED_PCT).take(NAMED);
    let mut named: Vec<String> =
        named.map(|process| format!("{} (pid {}) {:.0} %", process.name, process.pid, process.cpu_pct)).collect();
    let short_lived = machine.short_lived_cpu_pct.filter(|pct| *pct >= NAMED_PCT);
    named.extend(short_lived.map(|pct| format!("short-lived processes {pct:.0} %")));
    let busiest = if named.is_empty() { String::new() } else { format!("; the busiest: {}", named.join(", ")) };
    Some((pct, format!("other processes used {pct:.0} % of the CPU{busiest}")))
}

fn client_programs(facts: &RuleInput<'_>) -> Evaluation {
    let machine = &facts.trial.machine;
    let (programs_pct, target_pct) = machine.programs_cpu_pct.zip(machine.target_cpu_pct)?;
    let what = format!(
        "the clients' own programs used {programs_pct:.0} % of this machine's CPU, and the target {target_pct:.0} %: the programs were \
         measured more than the target"
    );
    Some((programs_pct / target_pct.max(SMALLEST_PCT), what))
}

fn few_operations(facts: &RuleInput<'_>) -> Evaluation {
    let (timeline, window) = (facts.timeline?, facts.window?);
    let [from, until] = window.slots(timeline, window.from_s);
    let ended = timeline.ok().between(from, until)
        + timeline.failed().between(from, until)
        + timeline.wrong().between(from, until);
    Some((ended as f64, format!("only {ended} operations ended in the measured part; at least 100 are needed")))
}

/// A slow time of this share of the measured part moves its figures.
const SLOW_SHARE: f64 = 0.1;

fn no_steady_state(facts: &RuleInput<'_>) -> Evaluation {
    let window = facts.window?;
    let steady = facts.trial.steady.as_ref();
    let mut reasons = Vec::new();
    if window.steady == Some(false) {
        let what = steady.and_then(|steady| steady.unsteady.as_deref()).unwrap_or("throughput");
        let changes = steady.map(changes).unwrap_or_default();
        reasons.push(format!("{what} never became steady{changes}: still changing when the load ended or broke"));
    }
    let slow = facts.trial.disturbances.iter().filter(|one| one.kind == DisturbanceKind::Slow);
    let slow_s: f64 = slow.filter_map(|one| one.outage.degraded_s).sum();
    if slow_s >= SLOW_SHARE * window.length_s() && slow_s > 0.0 {
        reasons.push(format!(
            "service was slower than usual for {slow_s:.1} s of the {:.1} s measured",
            window.length_s()
        ));
    }
    let unsteady = !reasons.is_empty();
    Some((f64::from(u8::from(unsteady)), reasons.join("; "))).filter(|_| unsteady || window.steady.is_some())
}

/// ` (throughput -25.0 % [-27.1, -22.9] over the load)`: the trends of what is not steady, as far as they are sure.
fn changes(steady: &Steady) -> String {
    let of = [
        ("throughput", steady.throughput_change_pct, steady.throughput_change_ci95),
        ("latency", steady.latency_change_pct, steady.latency_change_ci95),
    ];
    let unsteady = steady.unsteady.as_deref().unwrap_or_default();
    let sure = of.into_iter().filter_map(|(name, change, ci95)| {
        let ([low, high], change) = (ci95.filter(|[low, high]| low * high > 0.0)?, change?);
        unsteady.contains(name).then(|| format!("{name} {change:+.1} % [{low:+.1}, {high:+.1}]"))
    });
    let sure: Vec<String> = sure.collect();
    if sure.is_empty() { String::new() } else { format!(" ({} over the load)", sure.join(", ")) }
}

fn saturated_balancer(facts: &RuleInput<'_>) -> Evaluation {
    let balancers = &facts.planned.lab.balancers;
    let is_balancer = |host: &&Host| balancers.contains(&host.name);
    let others = facts.trial.hosts.iter().filter(|host| !is_balancer(host)).filter_map(|host| host.cpu_pct);
    let busiest_pct = others.max_by(f64::total_cmp).filter(|pct| *pct < AT_ITS_LIMIT_PCT)?;
    let found = facts.trial.hosts.iter().filter(is_balancer).flat_map(|host| {
        let whole = host.cpu_pct.map(|pct| (pct, format!("the balancer {} used {pct:.0} % of its CPU", host.name)));
        let thread = only_thread_pct(host)
            .map(|pct| (pct, format!("the one busy thread of the balancer {} used {pct:.0} % of a core", host.name)));
        whole.into_iter().chain(thread)
    });
    let (pct, what) = found.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((
        pct,
        format!(
            "{what}, and no other host more than {busiest_pct:.0} %: the balancer, not the members, may have limited the load"
        ),
    ))
}

/// CPU of a host's busiest thread, percent of a core, where it does nearly all the work there.
fn only_thread_pct(host: &Host) -> Option<f64> {
    let pct = host.busiest_thread_pct?;
    let cores = f64::from(host.figures.as_ref()?.cores?);
    (pct / cores >= ALONE_SHARE * host.target_cpu_pct?).then_some(pct)
}

fn short_measurement(facts: &RuleInput<'_>) -> Evaluation {
    let window = facts.window?;
    let length = window.length_s();
    let what = if window.from_s > 0.0 { "left to measure after the warm-up" } else { "measured" };
    Some((length, format!("only {length:.1} s were {what}; at least 5 s are needed")))
}

fn quantile_refused(facts: &RuleInput<'_>) -> Evaluation {
    let refused = claims::asked_in_vain(facts.run.plan?, facts.trial);
    let first = refused.first()?;
    let more = match refused.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    Some((refused.len() as f64, format!("{first}{more}")))
}

fn alarming_log(facts: &RuleInput<'_>) -> Evaluation {
    let alarming = || facts.trial.said.iter().filter(|said| said.alarming);
    let first = alarming().next()?;
    let count: u64 = alarming().map(|said| said.count).sum();
    let more = match count {
        1 => String::new(),
        _ => format!(", and {} more such line{}", count - 1, if count == 2 { "" } else { "s" }),
    };
    Some((count as f64, format!("{} said at {:.1} s: \"{}\"{more}", first.host, first.at_s, first.line.trim())))
}

fn no_success(facts: &RuleInput<'_>) -> Evaluation {
    facts.planned.load.as_ref()?;
    let is_alone = facts.run.plan.is_none_or(|plan| {
        let is_same =
            |other: &plan::Trial| (&other.variant, &other.point) == (&facts.planned.variant, &facts.planned.point);
        plan.find.is_none() && plan.trials.iter().all(is_same)
    });
    let figure = match facts.trial.outcomes.ok {
        0 if is_alone => 2.0,
        0 => 1.0,
        _ => 0.0,
    };
    Some((figure, NO_SUCCESS.to_owned()))
}

/// Message for a trial in which no operation succeeded.
pub const NO_SUCCESS: &str = "no operation succeeded";

/// Before the first fault only: what a fault does to the target's processes is what it is for.
fn restarted_target(facts: &RuleInput<'_>) -> Evaluation {
    let window = facts.window?;
    let until_s = window.first_fault_s.unwrap_or(window.until_s);
    let replaced = &facts.evidence.sampled.replaced;
    let during = || replaced.iter().filter(|row| row.at_s > 0.0 && row.at_s <= until_s);
    let first = during().next()?;
    let count: u64 = during().map(|row| row.count).sum();
    let (host, process, at_s) = (&first.host, &first.process, first.at_s);
    let many = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
    Some((
        count as f64,
        format!("{many} of the target ended and restarted without a fault, first {host}.{process} near {at_s:.0} s"),
    ))
}

fn versions_changed(facts: &RuleInput<'_>) -> Evaluation {
    let change = versions::change(facts.planned, facts.evidence, facts.run.earlier)?;
    Some((1.0, change))
}
