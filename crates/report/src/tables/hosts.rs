//! Tables of the machines of a run: the lab, its hosts during the load, the environment, and the
//! load generator.

use std::collections::BTreeSet;

use analysis::trial_groups::{FigureOf, Group, groups};
use record::environment::{Cache, Environment, Interface};
use record::events::{HostFigures, TierFigures};
use record::results::{Host, Machine, Trial};
use text::{Tone, distinct, numbers};

use super::{Cell, Column, Row, Table};
use crate::ReportInput;

const MANY: usize = 12;

/// Heading and meaning of a column, and its text for a host, if known.
type LabFigure = (&'static str, &'static str, fn(&HostFigures) -> Option<String>);

const LAB_FIGURES: [LabFigure; 8] = [
    ("address", "address for the other hosts", |is| is.address.clone()),
    ("cores", "number × speed of each, relative to the cores of the machine that emulates them", cores),
    ("CPUs", "of the machine, on which the host runs", |is| is.cpus.clone()),
    ("memory", "", |is| is.memory_bytes.map(|bytes| numbers::bytes(bytes as f64))),
    ("link", "in each direction", |is| is.link_bits_per_s.map(|rate| format!("{}bit/s", numbers::tick(rate)))),
    ("reads", "4 KiB at random, before the load", |is| is.storage_read_per_s.map(per_s)),
    ("synced writes", "4 KiB at random, before the load", |is| is.storage_write_per_s.map(per_s)),
    ("sync", "mean, before the load", |is| is.storage_sync_us.map(numbers::micros)),
];

pub fn lab(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let hosts = all_hosts(input).filter(|host| host.kind.is_some());
    let figures: Vec<&HostFigures> = hosts.filter_map(|host| host.figures.as_ref()).collect();
    let shown: Vec<&LabFigure> =
        LAB_FIGURES.iter().filter(|figure| figures.iter().any(|is| (figure.2)(is).is_some())).collect();
    let mut columns = ["host", "kind", "profile"].map(Column::text).to_vec();
    columns.extend(shown.iter().map(|figure| Column::numeric(figure.0, figure.1)));
    let rows = |group: &Group| {
        // Repeats have the same hosts.
        let first = group.trials.iter().find(|trial| trial.hosts.iter().any(|host| host.kind.is_some()));
        let hosts = first.iter().flat_map(|trial| &trial.hosts).filter(|host| host.kind.is_some());
        hosts.map(|host| lab_row(host, &shown)).collect()
    };
    let note = lab_note(input, figures.iter().filter_map(|is| is.storage_unmeasured.as_deref()));
    Some(Table::new("Lab", note, columns).by_group(&groups, rows)?.folded_beyond(MANY))
}

fn lab_row(host: &Host, shown: &[&LabFigure]) -> Vec<Cell> {
    let mut cells = [Some(&host.name), host.kind.as_ref(), host.profile.as_ref()].map(Cell::optional).to_vec();
    let figures = host.figures.as_ref();
    cells.extend(shown.iter().map(|figure| Cell::optional(figures.and_then(figure.2).as_ref())));
    cells
}

fn all_hosts<'a>(input: &ReportInput<'a>) -> impl Iterator<Item = &'a Host> {
    input.results.trials.iter().flat_map(|trial| &trial.hosts)
}

/// Heading and meaning of a column, and its text for a storage tier, if known.
type TierFigure = (&'static str, &'static str, fn(&TierFigures) -> Option<String>);

const TIER_FIGURES: [TierFigure; 5] = [
    ("reads, limit", "", |is| is.limit_read_per_s.map(per_s)),
    ("writes, limit", "", |is| is.limit_write_per_s.map(per_s)),
    ("reads", "4 KiB at random, measured before the load", |is| is.read_per_s.map(per_s)),
    ("synced writes", "4 KiB at random, measured before the load", |is| is.write_per_s.map(per_s)),
    ("sync", "mean, measured before the load", |is| is.sync_us.map(numbers::micros)),
];

/// Returns the storage tiers of the target's folders and their measured speed.
pub fn tiers(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let all: Vec<&TierFigures> =
        all_hosts(input).filter_map(|host| host.figures.as_ref()).flat_map(|is| is.tiers.values()).collect();
    let shown: Vec<&TierFigure> =
        TIER_FIGURES.iter().filter(|figure| all.iter().any(|tier| (figure.2)(tier).is_some())).collect();
    let mut columns = ["host", "tier", "on", "folders"].map(Column::text).to_vec();
    columns.extend(shown.iter().map(|figure| Column::numeric(figure.0, figure.1)));
    let rows = |group: &Group| {
        let mut rows = Vec::new();
        // Repeats have the same tiers; storage is measured in the first repeat.
        for host in group.trials.first().iter().flat_map(|trial| &trial.hosts) {
            let tiers = host.figures.iter().flat_map(|is| &is.tiers);
            rows.extend(tiers.map(|(name, tier)| tier_row(host, name, tier, &shown)));
        }
        rows
    };
    let sources = distinct(all.iter().filter_map(|tier| tier.source.as_deref()));
    let mut notes: Vec<String> = sources.into_iter().map(|source| format!("Limits: {source}.")).collect();
    let unmeasured = all.iter().find_map(|tier| tier.unmeasured.as_ref());
    notes.extend(unmeasured.map(|why| format!("Not all was measured: {why}.")));
    Some(Table::new("Storage tiers", notes.join(" "), columns).by_group(&groups, rows)?.folded_beyond(MANY))
}

fn tier_row(host: &Host, name: &String, tier: &TierFigures, shown: &[&TierFigure]) -> Vec<Cell> {
    let mut cells = [&host.name, name, &tier.on, &tier.folders.join(", ")].map(Cell::new).to_vec();
    cells.extend(shown.iter().map(|figure| Cell::optional((figure.2)(tier).as_ref())));
    cells
}

/// Returns a text such as `4 × 0.1`.
fn cores(is: &HostFigures) -> Option<String> {
    let cores = is.cores?;
    Some(is.core_speed.map_or_else(|| cores.to_string(), |speed| format!("{cores} × {}", numbers::number(speed))))
}

fn per_s(rate: f64) -> String {
    format!("{}/s", numbers::number(rate))
}

/// Returns a note on modelled and on missing figures.
fn lab_note<'a>(input: &ReportInput, mut unmeasured: impl Iterator<Item = &'a str>) -> String {
    let mut notes = Vec::new();
    if let Some(emulated) = input.results.trials.iter().find_map(|trial| trial.emulated.as_ref()) {
        notes.push("Emulated: each host is limited to what a real machine of its profile can do.".to_owned());
        if (emulated.speed - 1.0).abs() > f64::EPSILON {
            notes.push(format!(
                "Everything, time included, ran at {} of real speed: for the real machines, divide rates by this \
                 number and multiply times by it.",
                numbers::number(emulated.speed)
            ));
        }
        if let Some(period_s) = emulated.granularity_s {
            notes.push(format!(
                "A slow core is slow only over periods of {} and more.",
                numbers::micros(period_s * 1e6)
            ));
        }
    }
    notes.extend(unmeasured.next().map(|why| format!("Storage was not measured: {why}.")));
    notes.join(" ")
}

/// Heading, meaning, value and format.
type LoadFigure = (&'static str, &'static str, fn(&Trial, &Host) -> Option<f64>, fn(f64) -> String);

const LOAD_FIGURES: [LoadFigure; 18] = [
    ("CPU", "mean, of all cores", |_, host| host.cpu_pct, numbers::percent),
    ("CPU of target", "mean of the target's processes, of all cores", |_, host| host.target_cpu_pct, numbers::percent),
    (
        "busiest thread",
        "mean of the target's busiest thread, of one core",
        |_, host| host.busiest_thread_pct,
        numbers::percent,
    ),
    (
        "other processes",
        "mean CPU of neither target nor Plimsoll",
        |trial, host| of_machine(trial, host)?.strangers_cpu_pct,
        numbers::percent,
    ),
    (
        "I/O wait",
        "idle while a task waited for a disk",
        |trial, host| of_machine(trial, host)?.iowait_pct,
        numbers::percent,
    ),
    (BLOCKED, "explained below", |_, host| host.io_blocked_pct, numbers::percent),
    ("steal", "taken by the hypervisor", |trial, host| of_machine(trial, host)?.steal_pct, numbers::percent),
    ("throttled", "by a quota", |_, host| host.throttled_pct, numbers::percent),
    ("run delay", "runnable but not running", |_, host| host.run_delay_pct, numbers::percent),
    ("load 1 min", "highest", |_, host| host.load1_max, numbers::number),
    (
        "own load 1 min",
        "highest, less threads that only waited for a CPU",
        |_, host| host.load1_own_max,
        numbers::number,
    ),
    ("load 5 min", "highest", |_, host| host.load5_max, numbers::number),
    ("load 15 min", "highest", |_, host| host.load15_max, numbers::number),
    ("resident", "largest, of the target's processes", |_, host| host.rss_max_bytes.map(|b| b as f64), numbers::bytes),
    ("out of memory", "processes killed", |_, host| host.oom_kills.map(|k| k as f64), numbers::number),
    ("disk written", "by the host", |_, host| host.disk_write_bytes.map(|bytes| bytes as f64), numbers::bytes),
    ("network", "received and sent", |_, host| host.net_bytes.map(|bytes| bytes as f64), numbers::bytes),
    ("power", "mean; the source is named below", |_, host| host.watts, |watts| format!("{} W", numbers::number(watts))),
];

const BLOCKED: &str = "blocked on I/O";

/// Returns the definition of "blocked on I/O", or the reason why it is unknown for the hosts of a
/// lab.
fn blocked_note(trials: &[Trial]) -> &'static str {
    let mut hosts = trials.iter().flat_map(|trial| &trial.hosts);
    match hosts.clone().find_map(|host| host.io_blocked_source.as_deref()) {
        Some("pressure") => {
            " Blocked on I/O: share of the time in which some task waited for I/O, as the kernel counts it (PSI)."
        }
        Some(_) => {
            " Blocked on I/O: time that threads waited for I/O, summed over threads (the kernel's delay accounting, in steps of \
             10 ms)."
        }
        None if hosts.any(|host| host.kind.is_some()) => {
            " Blocked on I/O is not known: this kernel keeps neither pressure (PSI, with control groups of version 2) nor delay \
             accounting (kernel.task_delayacct) of hosts."
        }
        None => "",
    }
}

/// Returns the figures of the load-generating machine, if it is the host.
fn of_machine<'a>(trial: &'a Trial, host: &Host) -> Option<&'a Machine> {
    host.kind.is_none().then_some(&trial.machine)
}

pub fn hosts(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let trials = &input.results.trials;
    // A column without values is left out. A note below the table names it once.
    let (shown, missing): (Vec<&LoadFigure>, Vec<&LoadFigure>) = LOAD_FIGURES.iter().partition(|figure| {
        trials.iter().any(|trial| trial.hosts.iter().any(|host| (figure.2)(trial, host).is_some()))
    });
    let mut columns = vec![Column::text("host")];
    columns.extend(shown.iter().map(|figure| Column::numeric(figure.0, figure.1)));
    let rows = |group: &Group| {
        let mut rows = Vec::new();
        for name in distinct(group.trials.iter().flat_map(|trial| &trial.hosts).map(|host| host.name.as_str())) {
            let figures = shown.iter().map(|figure| figure_of(group, name, figure));
            rows.push([Cell::new(name)].into_iter().chain(figures).collect());
        }
        rows
    };
    let note = load_note(
        blocked_note(trials),
        &missing,
        all_hosts(input).filter_map(|host| host.watts_source.as_deref()),
        trials.iter().filter_map(|trial| trial.machine.not_judged.as_deref()),
    );
    Some(Table::new("Hosts", note, columns).by_group(&groups, rows)?.folded_beyond(MANY))
}

fn figure_of(group: &Group, name: &str, figure: &LoadFigure) -> Cell {
    let value = |trial: &Trial| figure.2(trial, trial.hosts.iter().find(|host| host.name == name)?);
    Cell::spread(group.spread(value), figure.3)
}

fn load_note<'a>(
    blocked: &str,
    missing: &[&LoadFigure],
    mut sources: impl Iterator<Item = &'a str>,
    mut not_judged: impl Iterator<Item = &'a str>,
) -> String {
    let mut note = "Over the whole load.".to_owned();
    let names: Vec<&str> = missing.iter().map(|figure| figure.0).filter(|name| *name != BLOCKED).collect();
    if !names.is_empty() {
        note.push_str(&format!(" Not measured: {}.", names.join(", ")));
    }
    note.push_str(blocked);
    if let Some(why) = not_judged.next() {
        note.push_str(&format!(" Other processes were not judged: {why}."));
    }
    if let Some(source) = sources.next() {
        let origin = if source == "rapl" {
            "measured by the processor (RAPL)"
        } else {
            "modelled from the profile's watts and the CPU after the warm-up"
        };
        note.push_str(&format!(" Power is {origin}."));
    }
    note
}

pub fn environment(input: &ReportInput) -> Option<Table> {
    let environment = input.environment.as_ref()?;
    let (mut rows, mut unknown) = (Vec::new(), Vec::new());
    for group in [plimsoll(environment), machine(environment), system(environment), limits(environment)] {
        let mut begins = true;
        for NameCell { name, value, more } in group {
            match value.filter(|value| !value.is_empty()) {
                Some(value) => {
                    let cell = Cell { small: more, ..Cell::new(value) };
                    rows.push(Row { cells: vec![Cell::new(name), cell], begins: std::mem::take(&mut begins) });
                }
                None => unknown.push(name),
            }
        }
    }
    let mut note = "Two runs that differ here are not a like-for-like comparison.".to_owned();
    if !unknown.is_empty() {
        note.push_str(&format!(" Not known: {}.", unknown.join(", ")));
    }
    let columns = ["what", "here"].map(Column::text).to_vec();
    Some(Table { rows, folded: true, ..Table::new("Environment", note, columns) })
}

/// A name, its value, and additional values in small print.
struct NameCell {
    name: String,
    value: Option<String>,
    more: String,
}

fn entry(name: &str, value: Option<String>) -> NameCell {
    NameCell { name: name.to_owned(), value, more: String::new() }
}

impl NameCell {
    fn with(mut self, more: Vec<Option<String>>) -> Self {
        self.more = joined(more).unwrap_or_default();
        self
    }
}

/// Returns Plimsoll's version and build, and the targets' versions.
fn plimsoll(environment: &Environment) -> Vec<NameCell> {
    let build = &environment.build;
    let debug = build.profile.as_deref().filter(|profile| *profile != "release");
    let mut entries = vec![entry("Plimsoll", environment.plimsoll.clone()).with(vec![
        build.revision.as_ref().map(|revision| format!("commit {revision}")),
        debug.map(|profile| format!("{profile} build")),
        build.rustc.clone(),
    ])];
    for (name, version) in &environment.targets {
        let parts = environment.installed.get(name).into_iter().flatten();
        let parts = parts.map(|(part, version)| Some(format!("{part} {version}"))).collect();
        entries.push(entry(&format!("target {name}"), Some(version.clone())).with(parts));
    }
    entries
}

fn machine(environment: &Environment) -> Vec<NameCell> {
    let cpu = &environment.cpu;
    let cores = cpu.cores.map(|cores| match cpu.threads_per_core {
        Some(threads) => format!("{cores} ({threads} per physical core)"),
        None => cores.to_string(),
    });
    let mitigations: Vec<Option<String>> =
        cpu.mitigations.iter().map(|(name, state)| Some(format!("{name}: {state}"))).collect();
    let turbo = cpu.turbo.map(|on| if on { "on" } else { "off" }.to_owned());
    vec![
        entry("machine", environment.hostname.clone()).with(vec![environment.time_zone.clone()]),
        entry("virtualisation", environment.virtualisation.clone()),
        entry("processor", cpu.model.clone()).with(vec![
            cpu.stepping.as_ref().map(|stepping| format!("stepping {stepping}")),
            cpu.microcode.as_ref().map(|microcode| format!("microcode {microcode}")),
        ]),
        entry("architecture", cpu.architecture.clone()),
        entry("cores", cores).with(vec![
            cpu.sockets.map(|sockets| format!("packages: {sockets}")),
            environment.memory_nodes.map(|nodes| format!("memory nodes: {nodes}")),
            cpu.smt.map(|on| format!("two threads a core: {}", if on { "yes" } else { "no" })),
            cpu.isolated.as_ref().map(|list| format!("isolated: {list}")),
            environment.quota_cores.map(|cores| format!("quota of {} cores", numbers::number(cores))),
        ]),
        entry("caches", joined(cpu.caches.iter().map(cache).collect())),
        entry("highest frequency", cpu.max_mhz.map(|mhz| format!("{} MHz", numbers::number(mhz)))),
        entry("governor", cpu.governor.clone()).with(vec![cpu.frequency_driver.clone()]),
        entry("turbo", turbo),
        // The full list of mitigations is only in the small print.
        entry("mitigations", (!mitigations.is_empty()).then(|| mitigations.len().to_string())).with(mitigations),
        entry("memory", environment.memory_bytes.map(size)).with(vec![
            environment.memory_speed_mt_per_s.map(|speed| format!("{speed} MT/s")),
            environment.memory_limit_bytes.map(|bytes| format!("at most {} for us", size(bytes))),
        ]),
        entry("swap", environment.swap_bytes.map(size)),
        disk(environment),
        entry("interfaces", joined(environment.interfaces.iter().map(interface).collect())),
    ]
}

fn size(bytes: u64) -> String {
    numbers::bytes(bytes as f64)
}

/// Returns a text such as `L1 data 32 KiB`.
fn cache(cache: &Cache) -> Option<String> {
    let holds = cache.holds.as_deref().filter(|holds| *holds != "Unified").map(str::to_lowercase);
    let holds = holds.map_or_else(String::new, |holds| format!(" {holds}"));
    Some(format!("L{}{holds} {} KiB", cache.level?, cache.size_bytes? / 1024))
}

fn interface(interface: &Interface) -> Option<String> {
    let facts = [
        interface.driver.clone(),
        interface.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
        interface.speed_mbit_per_s.map(|speed| format!("{speed} Mbit/s")),
    ];
    Some(format!("{}: {}", interface.name, facts.into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

fn disk(environment: &Environment) -> NameCell {
    let disk = &environment.disk;
    // A virtual disk reports rotation by a default of its driver.
    let rotational = disk.rotational.filter(|_| !disk.device.as_deref().is_some_and(is_virtual_disk));
    let kind = rotational.map(|rotates| if rotates { "rotates" } else { "does not rotate" }.to_owned());
    let parts = vec![
        disk.device.clone(),
        disk.file_system.clone(),
        kind,
        disk.free_bytes.map(|free| format!("{} free", size(free))),
        disk.sync_us.map(|us| format!("a synced write in {}", numbers::micros(us))),
    ];
    entry("disk of the run folder", joined(parts)).with(vec![
        disk.mount_options.as_ref().map(|options| format!("mounted {options}")),
        disk.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")),
    ])
}

/// Whether the device is a virtual disk of virtio (`vda`) or Xen (`xvda`).
fn is_virtual_disk(device: &str) -> bool {
    let name = device.rsplit('/').next().unwrap_or(device);
    ["vd", "xvd"].iter().any(|driver| {
        name.strip_prefix(driver).is_some_and(|letter| letter.starts_with(|first: char| first.is_ascii_lowercase()))
    })
}

fn system(environment: &Environment) -> Vec<NameCell> {
    let clock = environment.is_synchronised.map(|is| if is { "synchronised" } else { "not synchronised" }.to_owned());
    vec![
        entry("operating system", environment.os.clone()),
        entry("kernel", environment.kernel.clone()).with(vec![environment.kernel_command_line.clone()]),
        entry("control groups", environment.cgroup_version.map(|version| format!("version {version}"))),
        entry("clock source", environment.clocksource.clone()).with(vec![clock, environment.time_keeper.clone()]),
        entry("root", environment.root.map(|root| if root { "yes" } else { "no" }.to_owned())),
    ]
}

fn limits(environment: &Environment) -> Vec<NameCell> {
    let limits = &environment.limits;
    let files = limits.open_files.map(|soft| match limits.open_files_max {
        Some(hard) => format!("{}, at most {}", numbers::count(soft), numbers::count(hard)),
        None => numbers::count(soft),
    });
    let mut entries = vec![
        entry("open files", files),
        entry("ports for outgoing connections", limits.ephemeral_ports.map(|[from, to]| format!("{from} to {to}"))),
        entry("accept queue", limits.accept_queue.map(numbers::count)),
        entry("early reuse of ports", limits.reuses_ports.map(|setting| setting.to_string())),
        entry("processes and threads", limits.processes.map(numbers::count)),
    ];
    entries.extend(environment.more.iter().map(|(name, value)| entry(name, Some(value.clone()))));
    if !environment.sysctls.is_empty() {
        let all = environment.sysctls.iter().map(|(name, value)| Some(format!("{name} = {value}"))).collect();
        entries.push(entry("settings of the kernel", Some(numbers::count(environment.sysctls.len() as u64))).with(all));
    }
    entries
}

fn joined(parts: Vec<Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

const COLUMNS: [(&str, &str); 8] = [
    ("CPU", "of its busiest thread, percent of a core, 95th percentile over the seconds"),
    (
        "run delay",
        "time in which a thread could run and did not, of its worst thread; below, the part that other processes took",
    ),
    ("throttled", "time in which a CPU quota of Plimsoll's own groups kept it from running, summed over CPUs"),
    ("lateness p99", "how late its timers fired, in the worst second"),
    ("Little's law", "how far operations in flight are from rate times latency: a check on the bookkeeping"),
    ("connects failed", "connections that could not be opened"),
    ("dropped", "operations that should have started and did not"),
    ("limited by", "what limited the generator, or which part between the generator and the members was at its limit"),
];

pub fn generator(input: &ReportInput) -> Option<Table> {
    if !input.results.trials.iter().any(known) {
        return None;
    }
    let note = "Past its limits the generator is the bottleneck, and not the target; the verdict says so.";
    let table = Table::new("Load generator", note, Column::numerics(&COLUMNS));
    let groups = groups(input.results, input.plan);
    Some(table.by_group(&groups, |group| vec![health(group)])?.folded_beyond(MANY).explained())
}

fn known(trial: &Trial) -> bool {
    trial.generator.cpu_pct.is_some() || !trial.generator.limit.is_empty()
}

/// Returns the number of generators and the largest error of their clocks.
fn fleet(group: &Group) -> String {
    let figures: Vec<_> = group.counting().filter_map(|trial| trial.generator.fleet.as_ref()).collect();
    let Some(generators) = figures.iter().map(|fleet| fleet.generators).max() else { return String::new() };
    let us = figures.iter().filter_map(|fleet| fleet.clock_error_us).reduce(f64::max);
    let clocks = us.map_or_else(String::new, |us| format!(", clocks accurate to {}", numbers::micros(us)));
    format!("{generators} generators{clocks}")
}

/// A figure and its format.
type GeneratorFigure = (FigureOf, fn(f64) -> String);

fn health(group: &Group) -> Vec<Cell> {
    let limits: BTreeSet<&str> = group.counting().map(|trial| trial.generator.limit.as_str()).collect();
    let limits: Vec<&str> = limits.into_iter().filter(|limit| !limit.is_empty()).collect();
    let limit = match limits.as_slice() {
        [] => Cell::new(numbers::NONE),
        ["none"] => Cell::new("nothing").toned(Tone::Good),
        limits => Cell::new(limits.join(", ")).toned(Tone::Bad),
    };
    let preempted = group.spread(|trial| trial.generator.preempted_pct);
    let strangers =
        preempted.map_or_else(String::new, |spread| format!("other processes {}", numbers::percent(spread.median)));
    let figures: [GeneratorFigure; 7] = [
        (|trial| trial.generator.cpu_pct, numbers::percent),
        (|trial| trial.generator.run_delay_pct, numbers::percent),
        (|trial| trial.generator.throttled_pct, numbers::percent),
        (|trial| trial.generator.late_us_p99, numbers::micros),
        (|trial| trial.generator.littles_law_error_pct, |error| format!("off by {}", numbers::percent(error))),
        (|trial| trial.generator.connect_failures.map(|count| count as f64), numbers::median_count),
        (|trial| trial.generator.dropped.map(|count| count as f64), numbers::median_count),
    ];
    let [cpu, run_delay, throttled, late, error, failures, dropped] =
        figures.map(|(value, write)| Cell::spread(group.spread(value), write));
    vec![cpu, run_delay.with(strangers), throttled, late.with(fleet(group)), error, failures, dropped, limit]
}
