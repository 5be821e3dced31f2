//! The table of rules, one line of reasoning each; what they weigh is worked out beside it, by whom it is about. A rule is a pure
//! function of a trial's facts; nothing here reads, and nothing decides what follows.

mod faults;
mod generator;
mod machine;
mod measurement;
mod records;
mod target;

use super::Threshold::{From, Under};
use super::{Facts, Rule, Threshold};

const NEVER: f64 = f64::INFINITY;
const NOT_BELOW: f64 = f64::NEG_INFINITY;

/// For rules that hold or do not.
const SUSPECT_IF_SO: Threshold = From { suspect: 1.0, void: NEVER };
const VOID_IF_SO: Threshold = From { suspect: 1.0, void: 1.0 };

/// What a rule found: its figure, and what a user is told of it.
type Weighed = Option<(f64, String)>;

/// All rules, sorted by name.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "alarming_log",
        looks_at: "lines of the target's own log that its `[log]` calls alarming",
        unit: "lines",
        threshold: SUSPECT_IF_SO,
        why: "Whoever wrote the target named them as signs that it is not whole: a split brain, tables that cannot be loaded. The \
              measurement is right; whether it is of the cluster that was meant, its members doubt.",
        remedy: "Read the line, and what stands around it in the trial's `logs`; where a fault was meant to bring it about, it \
                 is the finding",
        weigh: target::alarming_log,
    },
    Rule {
        name: "clock_jump",
        looks_at: "largest step of the calendar clock against the steady one, from one second to the next",
        unit: "s",
        threshold: From { suspect: 0.1, void: NEVER },
        why: "Plimsoll measures on a steady clock, but a target's leases, timers and time stamps may follow the calendar. \
              Slewing, as NTP does it, moves both clocks alike and is not seen here.",
        remedy: "Let the clock settle before the run, and have it slewed, not stepped",
        weigh: machine::clock_jump,
    },
    Rule {
        name: "coarse_cores",
        looks_at: "period of the emulated cores' quota, as a multiple of the median latency",
        unit: "×",
        threshold: SUSPECT_IF_SO,
        why: "A slow core runs at full speed until its quota of a period is used up: a job shorter than that is not slowed at \
              all.",
        remedy: "Measure longer operations, or use faster profiles, whose periods are shorter",
        weigh: machine::coarse_cores,
    },
    Rule {
        name: "cut_off",
        looks_at: "how the trial ended",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "What would have happened in the rest of the time is not known.",
        remedy: "Go on with `plimsoll run --resume`",
        weigh: records::cut_off,
    },
    Rule {
        name: "dropped_starts",
        looks_at: "operations that were due and were dropped, because as many waited as `load.backlog` allows",
        unit: "%",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "The load was lighter than what was asked for, and lightest when the target was slowest: what was dropped is in no latency, \
              and what is left looks fast.",
        remedy: "Lower `load.rate`, give it more agents to start operations with, or raise `load.backlog`: what waits is in the \
                 latency",
        weigh: generator::dropped_starts,
    },
    Rule {
        name: "failed_connects",
        looks_at: "connects that failed before any fault",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        why: "Agents that cannot connect do not load the target.",
        remedy: "Look for the target's limit of connections and length of its accept queue, and for ports and file descriptors \
                 here",
        weigh: generator::failed_connects,
    },
    Rule {
        name: "failed_fault",
        looks_at: "faults that could not be injected",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The trial is not the one that was asked for.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: faults::failed_fault,
    },
    Rule {
        name: "failed_handshakes",
        looks_at: "connects that failed in the TLS handshake before any fault",
        unit: "connects",
        threshold: SUSPECT_IF_SO,
        why: "The target was reached and asked nothing: whoever answered could not be trusted, or the two could not agree on how to \
              speak.",
        remedy: "For a bad certificate, name who vouches for it with `tls.ca` and the name in it with `tls.server_name`, or take \
                 any with `tls.insecure`; otherwise see whether the target speaks TLS at this port",
        weigh: generator::failed_handshakes,
    },
    Rule {
        name: "few_operations",
        looks_at: "operations that ended in the measured part",
        unit: "operations",
        threshold: Under { suspect: 100.0, void: NOT_BELOW },
        why: "The chance spread of a count is its root: below 100 a rate is not known to 10 %.",
        remedy: "Measure longer, or with more agents",
        weigh: measurement::few_operations,
    },
    Rule {
        name: "full_disk",
        looks_at: "whether the run folder's disk was full",
        unit: "",
        threshold: VOID_IF_SO,
        why: "Records are missing, and nobody knows which.",
        remedy: "Free some space, or choose another disk with --out",
        weigh: machine::full_disk,
    },
    Rule {
        name: "generator_cpu",
        looks_at: "CPU of the busiest engine thread, 95th percentile over the seconds",
        unit: "% of a core",
        threshold: From { suspect: 90.0, void: 98.0 },
        why: "A generator at the end of its core measures itself: throughput stays flat and latency grows whatever the target \
              does.",
        remedy: "Give the generator more `load.threads` or cores of its own, or lower the load",
        weigh: generator::generator_cpu,
    },
    Rule {
        name: "generator_lateness",
        looks_at: "how late paced operations started, 99th percentile of the worst second; not looked at below a tenth of the \
                   median latency",
        unit: "µs",
        threshold: From { suspect: 1_000.0, void: 50_000.0 },
        why: "Operations that wait for a timer are counted from when they were due, so the generator's lateness is in every \
              latency.",
        remedy: "End what else runs on the generator's CPUs, or give it cores of its own",
        weigh: generator::generator_lateness,
    },
    Rule {
        name: "generator_preempted",
        looks_at: "time in which an engine thread could run and a stranger ran in its stead: its run delay times the strangers' \
                   part in what else ran on its CPUs",
        unit: "% of the measured time",
        threshold: From { suspect: 5.0, void: 25.0 },
        why: "Answers that wait in a socket until the generator is let run seem late, however small the strangers' part of the \
              whole machine is. Waiting for the target's own processes does not count: where the two share cores, that is part \
              of what was set up.",
        remedy: "End what else runs here, or keep it off the generator's CPUs with taskset",
        weigh: generator::generator_preempted,
    },
    Rule {
        name: "generator_stall",
        looks_at: "time in which an engine thread stood still for 50 ms and more at once; with pauses or a rate, 200 ms",
        unit: "% of the measured time",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "While the generator stands still nothing is asked and no answer is taken, which looks like an outage of the \
              target. A tenth of a percent of the time reaches what p99.9 says.",
        remedy: "Do not stop or trace Plimsoll, suspend the machine, or load its CPUs while it measures",
        weigh: generator::generator_stall,
    },
    Rule {
        name: "generator_throttled",
        looks_at: "time in which a CPU quota of Plimsoll's own control groups kept it from running, summed over CPUs",
        unit: "% of the measured time",
        threshold: From { suspect: 0.1, void: 5.0 },
        why: "A quota stops a container for tens of milliseconds at a time, and what is stopped takes no answers: a tenth of a \
              percent of the time reaches what p99.9 says.",
        remedy: "Raise the CPU limit of the container or service that Plimsoll runs in, or lower the load",
        weigh: generator::generator_throttled,
    },
    Rule {
        name: "littles_law",
        looks_at: "difference between operations in flight and rate times latency",
        unit: "%",
        threshold: From { suspect: 5.0, void: 20.0 },
        why: "Little's law holds for any books that balance. If it does not, operations were lost or times are wrong; or agents \
              that should always be busy were not.",
        remedy: "Give the generator more CPU; if it has enough, this is a bug worth reporting",
        weigh: generator::littles_law,
    },
    Rule {
        name: "lost_host",
        looks_at: "hosts that were lost although nobody meant it: their keeper or runner ended, or the connection to it broke",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The target ran on fewer hosts than was asked for, and it was not the target that failed.",
        remedy: "Read the notices in events.jsonl for why",
        weigh: target::lost_host,
    },
    Rule {
        name: "lost_process",
        looks_at: "processes of the target that ended although nobody meant it",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "From then on it is not the target that was to be measured. That it died may be the finding; its figures are not \
              those of a target that lives.",
        remedy: "Read its log in the trial's `logs`; if something here killed it, end that",
        weigh: target::lost_process,
    },
    Rule {
        name: "lost_switch",
        looks_at: "whether the switch between virtual hosts was lost although nobody meant it",
        unit: "",
        threshold: VOID_IF_SO,
        why: "Hosts cannot be plugged in or pulled out any more, and nobody keeps the network that the load went through.",
        remedy: "Look for who ended Plimsoll's runner, such as the kernel for want of memory, and play the trial again",
        weigh: target::lost_switch,
    },
    Rule {
        name: "missing_fault",
        looks_at: "planned faults that never began",
        unit: "",
        threshold: VOID_IF_SO,
        why: "The trial is not the one that was asked for.",
        remedy: "Read the notices in events.jsonl; perhaps what the fault follows never happened",
        weigh: faults::missing_fault,
    },
    Rule {
        name: "missing_records",
        looks_at: "seconds of the load that a record lacks, and records that are not there at all",
        unit: "s",
        threshold: VOID_IF_SO,
        why: "What speaks against a trial may stand in what is lost: without `generator.csv` none of its operations was late. A trial \
              that was cut off may lack its last two seconds.",
        remedy: "Copy the run folder again, whole; if it was never whole, play the trial again",
        weigh: records::missing_records,
    },
    Rule {
        name: "no_baseline",
        looks_at: "faults that began without steady service before them",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "What a fault cost is the difference to what was before it.",
        remedy: "Let the fault begin later, or leave more time between two",
        weigh: faults::no_baseline,
    },
    Rule {
        name: "no_steady_state",
        looks_at: "whether throughput and latency became steady",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "The mean of something that is still changing depends on when one stops looking.",
        remedy: "Measure longer; if the target never settles, that is the finding",
        weigh: measurement::no_steady_state,
    },
    Rule {
        name: "no_success",
        looks_at: "whether any operation succeeded",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Without one success it is more likely that the experiment is wrong than that the target is.",
        remedy: "Look at the results of the attempts: they name the cause",
        weigh: target::no_success,
    },
    Rule {
        name: "quantile_refused",
        looks_at: "quantiles that a requirement, claim or search asks for and that too few operations support",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Of n operations all lie below the quantile q with probability q^n. Below ln 0.05 / ln q of them (299 for p99, 2,995 \
              for p99.9) the quantile would be another name for the maximum (Wilks 1941).",
        remedy: "Measure longer, or ask for a lower quantile",
        weigh: measurement::quantile_refused,
    },
    Rule {
        name: "records_disagree",
        looks_at: "difference between the counts of load.hlog, outcomes.csv, generator.csv and attempts.csv, and of the keys in \
                   events.jsonl and history.jsonl",
        unit: "operations",
        threshold: VOID_IF_SO,
        why: "They are written from the same operations: if they differ, one is incomplete, and what it lacks may be what went wrong.",
        remedy: "This is a bug worth reporting, with the run folder",
        weigh: records::records_disagree,
    },
    Rule {
        name: "restarted_target",
        looks_at: "processes of the target that ended and were replaced by one of the same name and parent, before any fault",
        unit: "processes",
        threshold: SUSPECT_IF_SO,
        why: "A worker that its own master starts again is an outage that nobody ordered, and its caches are cold. Servers that \
              replace workers by design do so here too: then this says how often.",
        remedy: "Read the target's logs; if it is by design, make it rarer for the run",
        weigh: target::restarted_target,
    },
    Rule {
        name: "short_measurement",
        looks_at: "measured time after the warm-up",
        unit: "s",
        threshold: Under { suspect: 5.0, void: NOT_BELOW },
        why: "A few seconds hold a few of the second-long waves that collectors, checkpoints and schedulers make, and a figure \
              depends on which.",
        remedy: "Raise `load.time`",
        weigh: measurement::short_measurement,
    },
    Rule {
        name: "stall_in_outage",
        looks_at: "stalls of the generator while a fault was felt",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "An outage is measured in milliseconds, and what the generator added to it cannot be taken off again.",
        remedy: "Give the generator cores of its own",
        weigh: faults::stall_in_outage,
    },
    Rule {
        name: "steal",
        looks_at: "CPU time that the hypervisor took, mean over the load",
        unit: "% of the machine",
        threshold: From { suspect: 2.0, void: 10.0 },
        why: "What neighbours on the same hardware take differs from minute to minute, and repeats do not show it. Cloud \
              machines that are left alone show below 1 %.",
        remedy: "Use a machine whose cores are its own, or another hour",
        weigh: machine::steal,
    },
    Rule {
        name: "strangers",
        looks_at: "CPU time of other processes, which are neither the target nor Plimsoll, mean over the load; not looked at where \
                   a target that Plimsoll did not start is on this machine and its processes cannot be told",
        unit: "% of the machine",
        threshold: From { suspect: 10.0, void: 30.0 },
        why: "What else runs takes CPU, caches and memory bandwidth from both sides. A desktop at rest takes a few percent.",
        remedy: "End what else runs here, or wait until it has ended; `top` names it all",
        weigh: machine::strangers,
    },
    Rule {
        name: "torn_records",
        looks_at: "record files whose last line was cut off, although the trial has an end",
        unit: "files",
        threshold: SUSPECT_IF_SO,
        why: "Something was lost, if only a line.",
        remedy: "Play the trial again",
        weigh: records::torn_records,
    },
    Rule {
        name: "unaudited_member",
        looks_at: "members that did not tell what they hold after the load, but for those that a fault had taken down",
        unit: "members",
        threshold: SUSPECT_IF_SO,
        why: "Keys that it lacks or holds otherwise are in no count.",
        remedy: "Let faults heal earlier, so that the member serves again at the end; else read its log in the trial's `logs`",
        weigh: records::unaudited_member,
    },
    Rule {
        name: "unhealed_fault",
        looks_at: "faults that could not be healed",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "What came after it was measured with the fault still there.",
        remedy: "See what the fault needs: `plimsoll faults NAME`",
        weigh: faults::unhealed_fault,
    },
    Rule {
        name: "unread_keys",
        looks_at: "audited keys that could not be read back",
        unit: "keys",
        threshold: SUSPECT_IF_SO,
        why: "A key that was not read back may be lost or not.",
        remedy: "Look at why the target did not answer after the load",
        weigh: records::unread_keys,
    },
    Rule {
        name: "unsettled_replicas",
        looks_at: "whether what members hold still changed when they were asked for the last time, 10 s after the load",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Keys that seem to have diverged may only have been on their way.",
        remedy: "Leave the target time to catch up: a lower load at the end, or fewer writes",
        weigh: records::unsettled_replicas,
    },
    Rule {
        name: "versions_changed",
        looks_at: "files of the target's folder, Plimsoll's program, and versions, which are not what they were at the run's \
                   first trial or at this one's start",
        unit: "",
        threshold: SUSPECT_IF_SO,
        why: "Trials of different programs are not repeats of each other.",
        remedy: "Play the run again with one version, or make the versions variants",
        weigh: target::versions_changed,
    },
];
