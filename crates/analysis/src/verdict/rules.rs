//! Table of all rules with their figures, thresholds and reasons. Most functions that compute the
//! figures are in one module per subject. A rule is a pure function of a trial's facts: it reads no
//! file and does not decide on the verdict.

mod connects;
mod delays;
mod faults;
mod fleet;
mod generator;
mod losses;
mod machine;
mod records;

use record::events::What;
use record::results::FigureClass::{
    self, Counts, ExtremeLatency, HostFigures, MedianLatency, Outages, TailLatency, Throughput, UpperLatency,
};
use record::results::{DisturbanceKind, Host, Steady};

use super::Threshold::{self, From, Under};
use super::Weighing::{EachClass, Whole};
use super::{Rule, RuleInput};
use crate::stats::quantiles::largest;
use crate::{claims, versions};

const NEVER: f64 = f64::INFINITY;
const NOT_BELOW: f64 = f64::NEG_INFINITY;

/// Thresholds of yes-or-no rules.
const SUSPECT_IF_SO: Threshold = From { suspect: 1.0, void: NEVER };
const VOID_IF_SO: Threshold = From { suspect: 1.0, void: 1.0 };

/// Classes of figures that rules speak against.
const ALL: &[FigureClass] = FigureClass::ALL;
const LOADED: &[FigureClass] = &[Counts, Throughput, MedianLatency, UpperLatency, TailLatency, ExtremeLatency, Outages];
const TIMED: &[FigureClass] = &[Throughput, MedianLatency, UpperLatency, TailLatency, ExtremeLatency, Outages];
const MEASURED: &[FigureClass] = &[Throughput, MedianLatency, UpperLatency, TailLatency, ExtremeLatency];
const LATENCIES: &[FigureClass] = &[MedianLatency, UpperLatency, TailLatency, ExtremeLatency];
const COUNTED: &[FigureClass] = &[Counts, Throughput];
const COUNTS: &[FigureClass] = &[Counts];
const OUTAGES: &[FigureClass] = &[Outages];
const HOSTS: &[FigureClass] = &[HostFigures];

/// Result of a rule: its figure, and the sentence for the user.
type Evaluation = Option<(f64, String)>;

/// All rules, sorted by name.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "alarming_log",
        looks_at: "lines of the target's own log that match the alarming patterns of its `[log]`",
        unit: "lines",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "The target's author listed these lines as signs that the target is not healthy: a split brain, tables \
              that cannot be loaded. The measurement is right, but the cluster may not have been the intended one.",
        remedy: "Read the line and those around it in the trial's `logs`; if a planned fault caused it, it is a result",
        weigh: Whole(alarming_log),
    },
    Rule {
        name: "client_programs",
        looks_at: "CPU time of the programs that are operations, as a multiple of the target's; not judged where the target is on another \
                   machine",
        unit: "×",
        threshold: From { suspect: 1.0, void: NEVER },
        spoils: MEASURED,
        why: "The start of a program costs more CPU time than many operations, so the load ends where the programs \
              take all of the machine: the target could do many times as much.",
        remedy: "Let each program do many operations (`units`), as a benchmark of the target's own does, or have programs that go on \
                 running: protocol `lines` through a bridge; docs/reference/protocols.md has examples",
        weigh: Whole(machine::client_programs),
    },
    Rule {
        name: "clock_jump",
        looks_at: "largest step of the calendar clock against the monotonic clock, from one second to the next",
        unit: "s",
        threshold: From { suspect: 0.1, void: NEVER },
        spoils: ALL,
        why: "Plimsoll measures with the monotonic clock, but a target's leases, timers and timestamps may use the \
              calendar clock. Slewing, as NTP does it, moves both clocks alike and is not seen here.",
        remedy: "Let the clock settle before the run, and correct it by slewing, not stepping",
        weigh: Whole(machine::clock_jump),
    },
    Rule {
        name: "coarse_cores",
        looks_at: "period of the emulated cores' quota, as a multiple of the median latency",
        unit: "×",
        threshold: SUSPECT_IF_SO,
        spoils: LATENCIES,
        why: "A slow core runs at full speed until its quota for the period is used up: a job shorter than the period \
              is not slowed down at all.",
        remedy: "Measure longer operations, or use faster profiles, whose periods are shorter",
        weigh: Whole(machine::coarse_cores),
    },
    Rule {
        name: "cut_off",
        looks_at: "how the trial ended",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "The rest of the trial was not played, so its result is unknown.",
        remedy: "Continue with `plimsoll run --resume`",
        weigh: Whole(records::cut_off),
    },
    Rule {
        name: "delayed",
        looks_at: "how far delay by other processes or the hypervisor can have moved a figure, by the run delay of the \
                   threads of generator and target, the share of other processes in it, and steal; for the shortest outage, the \
                   lateness of the generator's timers",
        unit: "% of the figure",
        threshold: From { suspect: 5.0, void: 50.0 },
        spoils: TIMED,
        why: "A thread that could run but does not, because others run, delays the operations that wait for it. Only \
              this delay counts, and only as far as it can have moved a figure: a delay of 1 ms spoils a median of 2 \
              ms, but not one of 200 ms. Waiting for the target's own processes does not count: if generator and \
              target share cores, that is part of the set-up.",
        remedy: "End other processes on this machine, keep them off these CPUs with taskset, or use a machine with dedicated cores",
        weigh: EachClass(delays::delayed),
    },
    Rule {
        name: "dropped_starts",
        looks_at: "operations that were due and were dropped, because the backlog was as full as `load.backlog` allows",
        unit: "%",
        threshold: From { suspect: 0.1, void: 5.0 },
        spoils: ALL,
        why: "The load was lighter than requested, and lightest when the target was slowest. Dropped operations are in \
              no latency, so the others look fast.",
        remedy: "Lower `load.rate`, add agents to start operations with, or raise `load.backlog`: waiting is part of \
                 the latency",
        weigh: Whole(generator::dropped_starts),
    },
    Rule {
        name: "failed_connects",
        looks_at: "connects that failed before any fault and before the first operation succeeded",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "Agents that cannot connect do not load the target. A target that has served and then refuses connections has failed, which \
              is a result: its operations count as failed.",
        remedy: "Check the target's address, its limit of connections and the length of its accept queue",
        weigh: Whole(connects::failed_connects),
    },
    Rule {
        name: "failed_fault",
        looks_at: "faults that could not be injected, and actions that could not be done",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "The trial is not the one that was requested.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: Whole(faults::failed_fault),
    },
    Rule {
        name: "failed_handshakes",
        looks_at: "connects that failed in the TLS handshake before any fault",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "The target was reached but no request was sent: its certificate was not trusted, or the two sides had no \
              TLS version or cipher in common.",
        remedy: "For a bad certificate, name the authority with `tls.ca` and the name in the certificate with \
                 `tls.server_name`, or accept any with `tls.insecure`; for a target that requires a client certificate, give it with `tls.cert`; otherwise check whether the target speaks TLS at this port",
        weigh: Whole(connects::failed_handshakes),
    },
    Rule {
        name: "fault_duration",
        looks_at: "how far the time that a fault lasted is from its `for`; 50 ms and less are ignored",
        unit: "% of `for`",
        threshold: From { suspect: 10.0, void: 50.0 },
        spoils: OUTAGES,
        why: "The effect on clients depends on how long a fault lasts, so the figures are those of another fault.",
        remedy: "Find the cause of the delay in events.jsonl (a booting host, a `command`, another fault), or let the fault last longer",
        weigh: Whole(faults::fault_duration),
    },
    Rule {
        name: "few_operations",
        looks_at: "operations that ended in the measured part",
        unit: "operations",
        threshold: Under { suspect: 100.0, void: NOT_BELOW },
        spoils: MEASURED,
        why: "The standard error of a count is its square root: below 100 a rate is not known to 10 %.",
        remedy: "Measure longer, or with more agents",
        weigh: Whole(few_operations),
    },
    Rule {
        name: "full_disk",
        looks_at: "whether the run folder's disk was full",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "Records are missing, and it is not known which.",
        remedy: "Free some space, or choose another disk with --out",
        weigh: Whole(machine::full_disk),
    },
    Rule {
        name: "generator_cpu",
        looks_at: "CPU of the busiest engine thread, 95th percentile over the seconds",
        unit: "% of a core",
        threshold: From { suspect: 90.0, void: 98.0 },
        spoils: ALL,
        why: "A generator that saturates its core is the bottleneck: throughput stays flat and latency grows, whatever \
              the target does. If agents wait for answers, counts and throughput are still right: throughput is then \
              the generator's limit, or the target's if that has a thread without time left (95 %), and latency is \
              suspect. The generator's limit counts against throughput only if loads or variants are compared, or a \
              metric of throughput is requested.",
        remedy: "Give the generator more `load.threads` or cores of its own, or lower the load",
        weigh: EachClass(generator::generator_cpu),
    },
    Rule {
        name: "generator_lateness",
        looks_at: "how much of a quantile of the latency is the generator's own lateness, at least 0.2 ms; for records without this figure, an estimate by the lateness of the worst second",
        unit: "% of the latency",
        threshold: From { suspect: 5.0, void: 50.0 },
        spoils: LATENCIES,
        why: "Operations that wait for a timer are counted from when they were due, so the generator's lateness is \
              part of every latency. How late some of them were matters only as far as it moves the figures.",
        remedy: "End other processes on the generator's CPUs, or give it cores of its own",
        weigh: EachClass(generator::generator_lateness),
    },
    Rule {
        name: "generator_lost",
        looks_at: "whether a generator of a fleet was lost",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "From then on the load was not the requested one, so all of it was ended; the records end with the last \
              second that all generators had delivered.",
        remedy: "Find out why the generator ended: its memory, its machine, the network to it; `plimsoll run --resume` plays the trial again",
        weigh: Whole(losses::generator_lost),
    },
    Rule {
        name: "generator_stall",
        looks_at: "time in which an engine thread did not run for 50 ms or more at once (with pauses or a rate, 200 \
                   ms); for latencies, the operations that it delayed: half of them for the tail; for counts, throughput and median only from 1 % on",
        unit: "% of the measured time, or of the operations",
        threshold: From { suspect: 0.1, void: 5.0 },
        spoils: LOADED,
        why: "While the generator stalls, no request is sent and no answer is read, which looks like an outage of the \
              target. A tenth of a percent of the time is enough to change p99.9.",
        remedy: "Do not stop or trace Plimsoll, suspend the machine, or load its CPUs during a measurement",
        weigh: EachClass(generator::generator_stall),
    },
    Rule {
        name: "generator_throttled",
        looks_at: "time in which a CPU quota of Plimsoll's own control groups stopped it, summed over CPUs; for counts, throughput and median only from 1 % on",
        unit: "% of the measured time",
        threshold: From { suspect: 0.1, void: 5.0 },
        spoils: LOADED,
        why: "A quota stops a container for tens of milliseconds at a time, and no answer is read meanwhile: a tenth \
              of a percent of the time is enough to change p99.9.",
        remedy: "Raise the CPU limit of the container or service that Plimsoll runs in, or lower the load",
        weigh: EachClass(generator::generator_throttled),
    },
    Rule {
        name: "generators_apart",
        looks_at: "how far the times of two generators of a fleet may be apart: the largest difference of their \
                   starts, or the error of a generator's clock",
        unit: "ms",
        threshold: From { suspect: 10.0, void: 100.0 },
        spoils: TIMED,
        why: "Outages are measured in slots of a millisecond, and other figures in seconds. Both allow for the error of the clocks: the larger it is, the less precise the figures are.",
        remedy: "Put the generators nearer to this machine: the error is half of the round trip to them, and the drift \
                 of the clocks while one is silent for long",
        weigh: Whole(fleet::generators_apart),
    },
    Rule {
        name: "generators_uneven",
        looks_at: "how far one generator of a fleet is from the median of the others, in operations (at least 500 of each), in mean latency (from 1 ms on) or in the lateness of its timers (relative to the latency; from 1 ms and from 1.5 times that of the others on)",
        unit: "%",
        threshold: From { suspect: 25.0, void: NEVER },
        spoils: MEASURED,
        why: "Generators play equal parts against the same service. A difference in only one of them comes from its machine or its network, and changes the figures of the whole fleet.",
        remedy: "Check the machine and the network of that generator (`hosts`, `generator.csv`), or leave it out",
        weigh: Whole(fleet::generators_uneven),
    },
    Rule {
        name: "late_failures",
        looks_at: "failures in seconds in which operations started late and in bunches, beyond the share of failures in the other seconds",
        unit: "% of the failures",
        threshold: From { suspect: 5.0, void: NEVER },
        spoils: COUNTED,
        why: "Operations that start late start together, and a target that limits bursts rejects what it would have accepted one by one. Such \
              failures are the generator's.",
        remedy: "End other processes on the generator's CPUs, or give it cores of its own",
        weigh: Whole(delays::late_failures),
    },
    Rule {
        name: "late_fault",
        looks_at: "how long after its planned time a fault began to act; 50 ms and less are ignored",
        unit: "% of `for`, or without it of the rest of the load",
        threshold: From { suspect: 10.0, void: NEVER },
        spoils: OUTAGES,
        why: "The figures of a fault count from when it began to act, and are right. But it acted at another time of the load than planned, and less time was left after it.",
        remedy: "Make the target's hook `leader` faster, or let the fault begin later: the hook runs before the fault",
        weigh: Whole(faults::late_fault),
    },
    Rule {
        name: "littles_law",
        looks_at: "difference between operations in flight and rate times latency",
        unit: "%",
        threshold: From { suspect: 5.0, void: 20.0 },
        spoils: ALL,
        why: "Little's law holds for every system whose counts are complete. If it does not hold, operations were lost \
              or times are wrong, or agents that should always be busy were not.",
        remedy: "Give the generator more CPU; if it has enough, this is a bug worth reporting",
        weigh: Whole(generator::littles_law),
    },
    Rule {
        name: "local_limits",
        looks_at: "attempts that failed for lack of a local port or file descriptor on the generator's machine",
        unit: "% of the attempts",
        threshold: From { suspect: 0.01, void: 50.0 },
        spoils: ALL,
        why: "The limit is this machine's, not the target's. If half of the attempts never left the machine, the \
              figures are those of its limit.",
        remedy: "Widen net.ipv4.ip_local_port_range, raise `ulimit -n`, keep connections, or use several source \
                 addresses (`load.from`); `plimsoll doctor` shows the limits",
        weigh: Whole(connects::local_limits),
    },
    Rule {
        name: "lost_host",
        looks_at: "hosts that were lost without a fault: their shim or runner ended, or the connection to it broke",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "The target ran on fewer hosts than requested, and not because the target failed.",
        remedy: "Read the notices in events.jsonl for the reason",
        weigh: Whole(losses::lost_host),
    },
    Rule {
        name: "lost_process",
        looks_at: "processes of the target that ended without a fault",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "From then on the target is not the intended one. The end of the process may be a result, but the figures are not those of a running target.",
        remedy: "Read its log in the trial's `logs`; if another process killed it, end that process",
        weigh: Whole(losses::lost_process),
    },
    Rule {
        name: "lost_switch",
        looks_at: "whether the switch between virtual hosts was lost without a fault",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "Hosts can no longer be attached or detached, and nothing maintains the network that carries the load.",
        remedy: "Find out what ended Plimsoll's runner, such as the kernel for lack of memory, and run the trial again",
        weigh: Whole(losses::lost_switch),
    },
    Rule {
        name: "missing_fault",
        looks_at: "planned faults and actions that never began",
        unit: "",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "The trial is not the one that was requested.",
        remedy: "Read the notices in events.jsonl; perhaps the event that the fault follows never happened",
        weigh: Whole(faults::missing_fault),
    },
    Rule {
        name: "missing_records",
        looks_at: "seconds of the load that a record lacks, and records that do not exist",
        unit: "s",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "The lost part may hold the reason against a trial: without `generator.csv` no operation was late. A \
              trial that was cut off may lack its last two seconds.",
        remedy: "Copy the run folder again, completely; if it was never complete, run the trial again",
        weigh: Whole(records::missing_records),
    },
    Rule {
        name: "no_baseline",
        looks_at: "faults that began without steady service before them",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: OUTAGES,
        why: "The cost of a fault is the difference from the service before it.",
        remedy: "Let the fault begin later, or leave more time between two",
        weigh: Whole(faults::no_baseline),
    },
    Rule {
        name: "no_steady_state",
        looks_at: "whether throughput and latency were steady: no trend of 8 % (20 % in less than 20 s; latency: 50 %) over the load that its 99 % \
                   interval confirms, no shift of the level by 15 % (latency: 100 %), and slow times for less than a \
                   tenth of the measured part",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: MEASURED,
        why: "The mean of a changing figure depends on when the measurement ends.",
        remedy: "Measure longer; if the target never settles, that is a result",
        weigh: Whole(no_steady_state),
    },
    Rule {
        name: "no_success",
        looks_at: "whether any operation succeeded: suspect in a trial beside trials of other points, void if the \
                   experiment has one point, or no trial of the run had a success",
        unit: "",
        threshold: From { suspect: 1.0, void: 2.0 },
        spoils: ALL,
        why: "Without one success, a mistake in the experiment is more likely than a failure of the target. A target that fails at the \
              highest load of a sweep is a result; one that never answered was not measured.",
        remedy: "Look at the results of the attempts: they name the cause",
        weigh: Whole(no_success),
    },
    Rule {
        name: "quantile_refused",
        looks_at: "quantiles that a requirement, claim or search asks for and that too few operations support",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: LATENCIES,
        why: "Of n operations all lie below the quantile q with probability q^n. Below ln 0.05 / ln q of them (299 for p99, 2,995 \
              for p99.9) the quantile would be another name for the maximum (Wilks 1941).",
        remedy: "Measure longer, or ask for a lower quantile",
        weigh: Whole(quantile_refused),
    },
    Rule {
        name: "records_disagree",
        looks_at: "difference between the counts of load.hlog, outcomes.csv, generator.csv and attempts.csv, and of the keys in \
                   events.jsonl and history.jsonl",
        unit: "operations",
        threshold: VOID_IF_SO,
        spoils: ALL,
        why: "They are written from the same operations. If they differ, one is incomplete, and the missing part may \
              be what went wrong.",
        remedy: "This is a bug worth reporting, with the run folder",
        weigh: Whole(records::records_disagree),
    },
    Rule {
        name: "refused_connects",
        looks_at: "connects that the target or a proxy refused with a message (a login, a database, too many clients), \
                   before any fault and before the first operation succeeded",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "The target was reached, but no request was sent: refused agents do not load the target.",
        remedy: "Read the target's message in the notices of events.jsonl; correct the login or the database in the \
                 URL, raise the target's limit of clients, or configure the proxy to admit this machine",
        weigh: Whole(connects::refused_connects),
    },
    Rule {
        name: "restarted_target",
        looks_at: "processes of the target that ended and were replaced by one of the same name and parent, before any fault",
        unit: "processes",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "A worker that its master restarts is an outage that no fault caused, and its caches are cold. Servers \
              that replace workers by design do so here too: this rule then says how often.",
        remedy: "Read the target's logs; if the restarts are by design, make them rarer for the run",
        weigh: Whole(restarted_target),
    },
    Rule {
        name: "saturated_balancer",
        looks_at: "CPU of the busiest host that only passes the load on to the members, or of its only busy thread, while no other \
                   host is as busy",
        unit: "% of its CPU",
        threshold: From { suspect: AT_ITS_LIMIT_PCT, void: NEVER },
        spoils: MEASURED,
        why: "Members that wait for a balancer are not measured: more or faster ones would change nothing, and clusters \
              that are compared behind it differ by their balancers.",
        remedy: "Give the balancer more cores or a faster host, put several beside each other, or lower the load",
        weigh: Whole(saturated_balancer),
    },
    Rule {
        name: "short_measurement",
        looks_at: "measured time after the warm-up",
        unit: "s",
        threshold: Under { suspect: 5.0, void: NOT_BELOW },
        spoils: MEASURED,
        why: "A few seconds hold only a few of the second-long waves that garbage collectors, checkpoints and \
              schedulers make, and a figure depends on which ones.",
        remedy: "Raise `load.time`",
        weigh: Whole(short_measurement),
    },
    Rule {
        name: "slow_feed",
        looks_at: "time for which agents waited for a record of a feed that is read ahead, percent of all their time; with \
                   a rate, of the latency",
        unit: "%",
        threshold: From { suspect: 1.0, void: 5.0 },
        spoils: MEASURED,
        why: "A load that waits for its own input measures the disk that the input lies on: the target could do more, and any change of the target looks smaller than it is.",
        remedy: "Put the feed's file on a faster disk than the target's or in memory (/dev/shm), compress it differently (zst is the fastest to unpack), or lower the load",
        weigh: Whole(generator::slow_feed),
    },
    Rule {
        name: "stall_in_outage",
        looks_at: "stalls of the generator during an outage",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: OUTAGES,
        why: "An outage is measured in milliseconds, and the generator's part of it cannot be subtracted.",
        remedy: "Give the generator cores of its own",
        weigh: Whole(generator::stall_in_outage),
    },
    Rule {
        name: "steal",
        looks_at: "CPU time that the hypervisor took, mean over the load",
        unit: "% of the machine",
        threshold: From { suspect: 2.0, void: NEVER },
        spoils: HOSTS,
        why: "The CPU time that neighbours on the same hardware take differs from minute to minute, and repeats do not \
              show it. Idle cloud machines show below 1 %. How far it delayed operations is the rule `delayed`.",
        remedy: "Use a machine with dedicated cores, or another hour",
        weigh: Whole(machine::steal),
    },
    Rule {
        name: "strangers",
        looks_at: "CPU time of other processes, which are neither the target nor Plimsoll, mean over the load; not \
                   judged where a target that Plimsoll did not start is on this machine and its processes cannot be \
                   identified",
        unit: "% of the machine",
        threshold: From { suspect: 10.0, void: NEVER },
        spoils: HOSTS,
        why: "The CPU, disks and networks of a host are used by other processes, too. Their presence alone spoils no other figure: how far \
              they delayed operations is the rule `delayed`.",
        remedy: "End other processes on this machine, or wait until they end; `top` lists them. Name those that belong to the target in \
                 `target.also`",
        weigh: Whole(machine::strangers),
    },
    Rule {
        name: "torn_records",
        looks_at: "record files whose last line was cut off, although the trial has an end",
        unit: "files",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "At least one line was lost.",
        remedy: "Run the trial again",
        weigh: Whole(records::torn_records),
    },
    Rule {
        name: "unaudited_member",
        looks_at: "members that did not report their records after the load, except those that a fault had taken down",
        unit: "members",
        threshold: SUSPECT_IF_SO,
        spoils: COUNTS,
        why: "Keys that such a member lacks or holds with another value are not counted.",
        remedy: "Let faults heal earlier, so that the member serves again at the end; otherwise read its log in the \
                 trial's `logs`",
        weigh: Whole(records::unaudited_member),
    },
    Rule {
        name: "unhealed_fault",
        looks_at: "faults that could not be healed",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "Everything after it was measured with the fault still present.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: Whole(unhealed_fault),
    },
    Rule {
        name: "unread_keys",
        looks_at: "audited keys that could not be read back",
        unit: "keys",
        threshold: SUSPECT_IF_SO,
        spoils: COUNTS,
        why: "A key that was not read back may be lost or not.",
        remedy: "Find out why the target did not answer after the load",
        weigh: Whole(records::unread_keys),
    },
    Rule {
        name: "unsettled_replicas",
        looks_at: "whether the members' records still changed at the last audit, 10 s after the load",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: COUNTS,
        why: "Keys that seem to have diverged may still have been in replication.",
        remedy: "Leave the target time to catch up: a lower load at the end, or fewer writes",
        weigh: Whole(records::unsettled_replicas),
    },
    Rule {
        name: "versions_changed",
        looks_at: "files of the target's folder, Plimsoll's program, and versions, that differ from those at the run's \
                   first trial or at this trial's start",
        unit: "",
        threshold: SUSPECT_IF_SO,
        spoils: ALL,
        why: "Trials of different programs are not repeats of each other.",
        remedy: "Run the experiment again with one version, or make the versions variants",
        weigh: Whole(versions_changed),
    },
];

/// CPU use from which a host or a thread has no idle time in most seconds, percent.
const AT_ITS_LIMIT_PCT: f64 = 90.0;

/// Share of the target's CPU use on a host from which a thread counts as the only busy thread.
const ALONE_SHARE: f64 = 0.8;

fn unhealed_fault(facts: &RuleInput<'_>) -> Evaluation {
    let notice = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if text.contains("could not be healed") => Some(text),
        _ => None,
    })?;
    Some((1.0, notice.clone()))
}

fn few_operations(facts: &RuleInput<'_>) -> Evaluation {
    let (timeline, window) = (facts.timeline?, facts.window?);
    let [from, until] = window.slots(timeline, window.from_s);
    let ended = timeline.ok().between(from, until) + timeline.bad_between(from, until);
    Some((ended as f64, format!("only {ended} operations ended in the measured part; at least 100 are needed")))
}

/// Share of the measured part from which slow service changes its figures.
const SLOW_SHARE: f64 = 0.1;

fn no_steady_state(facts: &RuleInput<'_>) -> Evaluation {
    let window = facts.window?;
    let steady = facts.trial.steady.as_ref();
    let mut reasons = Vec::new();
    if window.steady == Some(false) {
        let what = steady.and_then(|steady| steady.unsteady.as_deref()).unwrap_or("throughput");
        let changes = steady.map(changes).unwrap_or_default();
        reasons.push(format!("{what} did not become steady{changes} before the load ended or failed"));
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

/// Returns the trends of the unsteady figures whose interval excludes 0: ` (throughput -25.0 %
/// [-27.1, -22.9] over the load)`.
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
    let (balancers, others): (Vec<&Host>, Vec<&Host>) =
        facts.trial.hosts.iter().partition(|host| facts.planned.lab.balancers.contains(&host.name));
    let busiest_pct = largest(others.iter().filter_map(|host| host.cpu_pct)).filter(|pct| *pct < AT_ITS_LIMIT_PCT)?;
    let found = balancers.into_iter().flat_map(|host| {
        let whole = host.cpu_pct.map(|pct| (pct, format!("the balancer {} used {pct:.0} % of its CPU", host.name)));
        let thread = only_thread_pct(host)
            .map(|pct| (pct, format!("the only busy thread of the balancer {} used {pct:.0} % of a core", host.name)));
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

/// Returns the CPU use of a host's busiest thread, percent of a core, if this thread does nearly
/// all of the target's work on the host.
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
    let alarming: Vec<_> = facts.trial.said.iter().filter(|line| line.alarming).collect();
    let first = alarming.first()?;
    let count: u64 = alarming.iter().map(|line| line.count).sum();
    let more = match count {
        1 => String::new(),
        _ => format!(", and {} more such line{}", count - 1, if count == 2 { "" } else { "s" }),
    };
    Some((count as f64, format!("{} logged at {:.1} s: \"{}\"{more}", first.host, first.at_s, first.line.trim())))
}

fn no_success(facts: &RuleInput<'_>) -> Evaluation {
    facts.planned.load.as_ref()?;
    let figure = match facts.trial.outcomes.ok {
        0 if has_other_points(facts) => 1.0,
        0 => 2.0,
        _ => 0.0,
    };
    Some((figure, NO_SUCCESS.to_owned()))
}

/// Whether the run searches, or has trials of another variant or point.
fn has_other_points(facts: &RuleInput<'_>) -> bool {
    let (variant, point) = (&facts.planned.variant, &facts.planned.point);
    facts.run.plan.is_some_and(|plan| {
        plan.find.is_some() || plan.trials.iter().any(|other| (&other.variant, &other.point) != (variant, point))
    })
}

/// Message for a trial in which no operation succeeded.
pub const NO_SUCCESS: &str = "no operation succeeded";

/// Counts restarts before the first fault only: the fault may cause later ones.
fn restarted_target(facts: &RuleInput<'_>) -> Evaluation {
    let window = facts.window?;
    let until_s = window.first_fault_s.unwrap_or(window.until_s);
    let replaced = facts.evidence.sampled.replaced.iter().filter(|row| row.at_s > 0.0 && row.at_s <= until_s);
    let first = replaced.clone().next()?;
    let count: u64 = replaced.map(|row| row.count).sum();
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
