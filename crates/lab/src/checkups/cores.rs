//! The processors: how many, which of them are one core, which are kept free, what their faults cost.

use super::{About, Finding, Kind, NOT_TOLD, Patient, count};
use crate::environment;

pub static COUNT: Kind = Kind {
    name: "CPUs",
    about: About::Processor,
    reads: "sched_getaffinity(2)",
    why: "load generator and target on the same CPU measure how they share it",
    source: "docs/lab.md",
    caught_by: &["generator_cpu", "generator_lateness"],
    article: None,
    look: look_at_count,
};

pub static ISOLATED: Kind = Kind {
    name: "isolated CPUs",
    about: About::Processor,
    reads: "/sys/devices/system/cpu/isolated, nohz_full",
    why: "nothing runs on isolated CPUs unless it is put there: they neither help nor disturb until somebody does",
    source: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    caught_by: &[],
    article: None,
    look: look_at_isolated,
};

pub static MITIGATIONS: Kind = Kind {
    name: "mitigations",
    about: About::Processor,
    reads: "/sys/devices/system/cpu/vulnerabilities",
    why: "mitigations of processor faults make system calls slower, by different amounts on different kernels and models",
    source: "https://docs.kernel.org/admin-guide/hw-vuln/index.html",
    caught_by: &[],
    article: None,
    look: look_at_mitigations,
};

pub static SIBLINGS: Kind = Kind {
    name: "two threads a core",
    about: About::Processor,
    reads: "/sys/devices/system/cpu/smt/active",
    why: "two CPUs that are threads of one core slow each other down by a third or more, so a figure depends on where threads landed",
    source: "https://docs.kernel.org/admin-guide/hw-vuln/core-scheduling.html",
    caught_by: &[],
    article: None,
    look: look_at_siblings,
};

fn look_at_count(patient: &Patient<'_>) -> Finding {
    match patient.measured.cpus {
        None => Finding::unknown(NOT_TOLD),
        Some(1) => Finding::bad(
            "1: generator and target take turns on it",
            "take a machine with two or more, or put the target on another one ([lab] ssh = [...])",
        ),
        Some(cpus) => Finding::good(count(cpus, "CPU")),
    }
}

fn look_at_isolated(patient: &Patient<'_>) -> Finding {
    let isolated = patient.text("sys/devices/system/cpu/isolated");
    let tickless = patient.text("sys/devices/system/cpu/nohz_full").filter(|list| list != "(null)");
    match (isolated, tickless) {
        (None, None) => Finding::good("none"),
        (None, Some(tickless)) => Finding::good(format!("without ticks: {tickless}")),
        (Some(isolated), _) => Finding::notice(
            format!("{isolated}: neither generator nor target runs there by itself"),
            "start Plimsoll or the target there (taskset --cpu-list), or boot without isolcpus",
        ),
    }
}

fn look_at_mitigations(patient: &Patient<'_>) -> Finding {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    if !patient.root.path(FOLDER).exists() {
        return Finding::unknown(NOT_TOLD);
    }
    let all = environment::mitigations(patient.root);
    let open = all.values().filter(|says| says.starts_with("Vulnerable")).count();
    let line = patient.text("proc/cmdline").unwrap_or_default();
    if line.split_ascii_whitespace().any(|option| option == "mitigations=off") {
        return Finding::notice(
            "switched off: figures are better than on the machines that people run",
            "boot without mitigations=off, or say so beside every figure",
        );
    }
    let open = if open > 0 { format!(", {open} of them open") } else { String::new() };
    Finding::good(format!("for {}{open}: recorded with each run", count(all.len() as u64, "known fault")))
}

fn look_at_siblings(patient: &Patient<'_>) -> Finding {
    match patient.number::<u8>("sys/devices/system/cpu/smt/active") {
        None => Finding::unknown(NOT_TOLD),
        Some(0) => Finding::good("no: each CPU is a core"),
        Some(_) if patient.is_guest() => {
            Finding::good("yes, says the hypervisor: half of the CPUs are worth less than the other half")
        }
        Some(_) => Finding::notice(
            "yes: half of the CPUs are worth less than the other half",
            "echo off > /sys/devices/system/cpu/smt/control (halves the CPUs, so not done by --fix)",
        ),
    }
}
