//! Table: what the run ran on, for a stranger who wants to know whether another run can be compared with it.

use record::environment::Environment;

use super::{Cell, Column, Kind, Row, Table};
use crate::Input;
use crate::numbers;

pub const KIND: Kind = Kind { name: "environment", place: 53, fill };

fn fill(input: &Input) -> Option<Table> {
    let environment = input.environment.as_ref()?;
    let entries = machine(environment).into_iter().chain(software(environment)).chain(more(environment));
    let entries = entries.map(|(name, value)| (name, value.filter(|value| !value.is_empty())));
    let (mut rows, mut unknown) = (Vec::new(), Vec::new());
    for (name, value) in entries {
        match value {
            Some(value) => rows.push(Row { cells: vec![Cell::new(name), Cell::new(value)], begins: false }),
            None => unknown.push(name),
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

/// A name and what is known of it.
type Entry = (String, Option<String>);

fn entry(name: &str, value: Option<String>) -> Entry {
    (name.to_owned(), value)
}

fn machine(environment: &Environment) -> Vec<Entry> {
    let cpu = &environment.cpu;
    let cores = cpu.cores.map(|cores| match cpu.threads_per_core {
        Some(threads) => format!("{cores} ({threads} per physical core)"),
        None => cores.to_string(),
    });
    let turbo = cpu.turbo.map(|on| if on { "on" } else { "off" }.to_owned());
    let mitigations: Vec<String> = cpu.mitigations.iter().map(|(name, state)| format!("{name}: {state}")).collect();
    let disk = &environment.disk;
    let kind = disk.rotational.map(|rotates| if rotates { "rotates" } else { "does not rotate" }.to_owned());
    let disk_parts = [
        disk.device.clone(),
        disk.file_system.clone(),
        kind,
        disk.free_bytes.map(|free| format!("{} free", numbers::bytes(free as f64))),
    ];
    vec![
        entry("processor", cpu.model.clone()),
        entry("architecture", cpu.architecture.clone()),
        entry("cores", cores),
        entry("highest frequency", cpu.max_mhz.map(|mhz| format!("{} MHz", numbers::number(mhz)))),
        entry("governor", cpu.governor.clone()),
        entry("turbo", turbo),
        entry("memory", environment.memory_bytes.map(|bytes| numbers::bytes(bytes as f64))),
        entry("swap", environment.swap_bytes.map(|bytes| numbers::bytes(bytes as f64))),
        entry("virtualisation", environment.virtualisation.clone()),
        entry("disk of the run folder", joined(disk_parts.into_iter().flatten().collect())),
        entry("mitigations", joined(mitigations)),
    ]
}

fn software(environment: &Environment) -> Vec<Entry> {
    let limits = &environment.limits;
    let files = limits.open_files.map(|soft| match limits.open_files_max {
        Some(hard) => format!("{}, at most {}", numbers::count(soft), numbers::count(hard)),
        None => numbers::count(soft),
    });
    let mut entries = vec![
        entry("Plimsoll", environment.plimsoll.clone()),
        entry("operating system", environment.os.clone()),
        entry("kernel", environment.kernel.clone()),
        entry("kernel command line", environment.kernel_command_line.clone()),
        entry("control groups", environment.cgroup_version.map(|version| format!("version {version}"))),
        entry("clock source", environment.clocksource.clone()),
        entry("open files", files),
        entry("ports for outgoing connections", limits.ephemeral_ports.map(|[from, to]| format!("{from} to {to}"))),
        entry("accept queue", limits.accept_queue.map(numbers::count)),
        entry("early reuse of ports", limits.reuses_ports.map(|setting| setting.to_string())),
        entry("processes and threads", limits.processes.map(numbers::count)),
        entry("root", environment.root.map(|root| if root { "yes" } else { "no" }.to_owned())),
        entry("machine", environment.hostname.clone()),
        entry("time zone", environment.time_zone.clone()),
    ];
    let targets = environment.targets.iter();
    entries.splice(1..1, targets.map(|(name, version)| (format!("target {name}"), Some(version.clone()))));
    entries
}

fn more(environment: &Environment) -> Vec<Entry> {
    environment.more.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
}

fn joined(parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(", "))
}
