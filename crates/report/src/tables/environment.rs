//! Table: what the run ran on, for a stranger who wants to know whether another run can be compared with it.

use record::environment::{Cache, Environment, Interface};

use super::{Cell, Column, Kind, Row, Table};
use crate::Input;
use crate::numbers;

pub const KIND: Kind = Kind { name: "environment", place: 53, fill };

fn fill(input: &Input) -> Option<Table> {
    let environment = input.environment.as_ref()?;
    let (mut rows, mut unknown) = (Vec::new(), Vec::new());
    for group in [plimsoll(environment), machine(environment), system(environment), limits(environment)] {
        let mut begins = true;
        for Entry { name, value, more } in group {
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
    Some(Table {
        title: "Environment".to_owned(),
        note,
        columns: vec![Column::text("what"), Column::text("here")],
        rows,
        terms: Vec::new(),
        folded: false,
    })
}

/// A name, what is known of it, and what is small beside that.
struct Entry {
    name: String,
    value: Option<String>,
    more: String,
}

fn entry(name: &str, value: Option<String>) -> Entry {
    Entry { name: name.to_owned(), value, more: String::new() }
}

impl Entry {
    fn with(mut self, more: Vec<Option<String>>) -> Self {
        self.more = joined(more).unwrap_or_default();
        self
    }
}

/// The program and what it was used on.
fn plimsoll(environment: &Environment) -> Vec<Entry> {
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

fn machine(environment: &Environment) -> Vec<Entry> {
    let cpu = &environment.cpu;
    let cores = cpu.cores.map(|cores| match cpu.threads_per_core {
        Some(threads) => format!("{cores} ({threads} per physical core)"),
        None => cores.to_string(),
    });
    let mitigations: Vec<Option<String>> =
        cpu.mitigations.iter().map(|(name, state)| Some(format!("{name}: {state}"))).collect();
    let turbo = cpu.turbo.map(|on| if on { "on" } else { "off" }.to_owned());
    let size = |bytes: u64| numbers::bytes(bytes as f64);
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
        // In full only where somebody looks for it.
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

/// `L1 data 32.8 kB`
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

fn disk(environment: &Environment) -> Entry {
    let disk = &environment.disk;
    let kind = disk.rotational.map(|rotates| if rotates { "rotates" } else { "does not rotate" }.to_owned());
    let parts = vec![
        disk.device.clone(),
        disk.file_system.clone(),
        kind,
        disk.free_bytes.map(|free| format!("{} free", numbers::bytes(free as f64))),
        disk.sync_us.map(|us| format!("a synced write in {}", numbers::micros(us))),
    ];
    entry("disk of the run folder", joined(parts)).with(vec![
        disk.mount_options.as_ref().map(|options| format!("mounted {options}")),
        disk.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")),
    ])
}

fn system(environment: &Environment) -> Vec<Entry> {
    let clock = environment.is_synchronised.map(|is| if is { "synchronised" } else { "not synchronised" }.to_owned());
    vec![
        entry("operating system", environment.os.clone()),
        entry("kernel", environment.kernel.clone()).with(vec![environment.kernel_command_line.clone()]),
        entry("control groups", environment.cgroup_version.map(|version| format!("version {version}"))),
        entry("clock source", environment.clocksource.clone()).with(vec![clock, environment.time_keeper.clone()]),
        entry("root", environment.root.map(|root| if root { "yes" } else { "no" }.to_owned())),
    ]
}

fn limits(environment: &Environment) -> Vec<Entry> {
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
