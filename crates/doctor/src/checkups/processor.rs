//! Processors: number, speed, other users, clocks, timers and energy meters.

use runner::environment;

use super::{CheckKind, CheckResult, CheckScope, Fix, MachineSnapshot, NOT_TOLD, count};

pub static SOURCE: CheckKind = CheckKind {
    name: "clock source",
    about: CheckScope::Time,
    reads: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    why: "every latency takes two readings of the clock; a slow source makes each a system call of a microsecond or more",
    source: "https://docs.kernel.org/timers/timekeeping.html",
    caught_by: &["generator_cpu"],
    article: None,
    look: look_at_source,
};

pub static SYNC: CheckKind = CheckKind {
    name: "time synchronisation",
    about: CheckScope::Time,
    reads: "adjtimex(2), and which of chronyd, systemd-timesyncd, ntpd, ptp4l runs",
    why: "Plimsoll's own times are monotonic; logs of several hosts, certificates and leases use the wall clock",
    source: "https://man7.org/linux/man-pages/man2/adjtimex.2.html",
    caught_by: &[],
    article: None,
    look: look_at_sync,
};

pub static TIMERS: CheckKind = CheckKind {
    name: "timers",
    about: CheckScope::Time,
    reads: "clock_getres(2), and a hundred pauses of 1 ms",
    why: "a pause that ends late starts operations late, and their latency counts from when they were due",
    source: "https://docs.kernel.org/timers/hrtimers.html",
    caught_by: &["generator_lateness"],
    article: None,
    look: look_at_timers,
};

fn look_at_source(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
    const FAST: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    // Clock sources that programs can read only with a system call.
    const SLOW: [&str; 6] = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies", "xen"];
    let current = format!("{FOLDER}/current_clocksource");
    let Some(source) = snapshot.text(&current) else { return CheckResult::unknown(NOT_TOLD) };
    if !SLOW.contains(&source.as_str()) {
        return CheckResult::good(source);
    }
    let available = snapshot.text(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    let better = FAST.into_iter().find(|fast| available.split_ascii_whitespace().any(|name| name == *fast));
    let found = format!("{source}: each reading is slow");
    match better {
        Some(better) => CheckResult::bad(found, format!("take {better}")).fixed_by(snapshot.fix(&current, better)),
        None => CheckResult::notice(
            found,
            "the kernel found no better one (dmesg says why); boot with tsc=reliable if you trust the tsc",
        ),
    }
}

fn look_at_sync(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let keeper = snapshot.measured.time_keeper.as_deref();
    match (snapshot.measured.is_synchronised, keeper) {
        (Some(true), Some(keeper)) => CheckResult::good(format!("synchronised, by {keeper}")),
        (Some(true), None) => CheckResult::good("synchronised"),
        (Some(false), Some(keeper)) => CheckResult::notice(
            format!("{keeper} runs, but the kernel says that its clock is not synchronised"),
            "wait until it is, or look at its status (timedatectl, chronyc tracking)",
        ),
        (Some(false), None) if snapshot.asked.is_some_and(|asked| !asked.is_remote) => {
            CheckResult::good("no time synchronisation runs; on one machine none is needed")
        }
        (Some(false), None) => {
            CheckResult::notice("no time synchronisation runs", "install chrony; it matters with hosts over ssh")
        }
        (None, _) => CheckResult::unknown(NOT_TOLD),
    }
}

fn look_at_timers(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match (snapshot.measured.timer_resolution_ns, snapshot.measured.late_us) {
        (Some(resolution_ns), _) if resolution_ns > 1_000_000 => CheckResult::bad(
            format!("a resolution of {} ms only", resolution_ns / 1_000_000),
            "boot with highres=on, on a kernel with CONFIG_HIGH_RES_TIMERS",
        ),
        (_, Some(late)) if late.p50 > 1_000.0 => CheckResult::notice(
            format!("pauses end {:.1} ms late at the median", late.p50 / 1e3),
            "leave a CPU free for the load generator",
        ),
        (Some(_), Some(late)) => CheckResult::good(format!(
            "pauses of 1 ms end {:.0} us late at the median, {:.0} at most",
            late.p50, late.max
        )),
        (Some(resolution_ns), None) => CheckResult::good(format!("a resolution of {resolution_ns} ns")),
        (None, _) => CheckResult::unknown(NOT_TOLD),
    }
}

pub static COUNT: CheckKind = CheckKind {
    name: "CPUs",
    about: CheckScope::Processor,
    reads: "sched_getaffinity(2)",
    why: "if load generator and target run on the same CPU, they measure how they share it",
    source: "docs/lab.md",
    caught_by: &["generator_cpu", "generator_lateness"],
    article: None,
    look: look_at_count,
};

pub static ISOLATED: CheckKind = CheckKind {
    name: "isolated CPUs",
    about: CheckScope::Processor,
    reads: "/sys/devices/system/cpu/isolated, nohz_full",
    why: "nothing runs on isolated CPUs unless it is pinned there: until then they neither help nor disturb",
    source: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    caught_by: &[],
    article: None,
    look: look_at_isolated,
};

pub static MITIGATIONS: CheckKind = CheckKind {
    name: "mitigations",
    about: CheckScope::Processor,
    reads: "/sys/devices/system/cpu/vulnerabilities",
    why: "mitigations of processor faults make system calls slower, by different amounts on different kernels and models",
    source: "https://docs.kernel.org/admin-guide/hw-vuln/index.html",
    caught_by: &[],
    article: None,
    look: look_at_mitigations,
};

pub static SIBLINGS: CheckKind = CheckKind {
    name: "two threads a core",
    about: CheckScope::Processor,
    reads: "/sys/devices/system/cpu/smt/active",
    why: "two CPUs that are threads of one core slow each other down by a third or more, so a figure depends on where \
          threads run",
    source: "https://docs.kernel.org/admin-guide/hw-vuln/core-scheduling.html",
    caught_by: &[],
    article: None,
    look: look_at_siblings,
};

fn look_at_count(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match snapshot.measured.cpus {
        None => CheckResult::unknown(NOT_TOLD),
        Some(1) => CheckResult::bad(
            "1: generator and target take turns on it",
            "use a machine with two or more, or put the target on another one ([lab] ssh = [...])",
        ),
        Some(cpus) => CheckResult::good(count(cpus, "CPU")),
    }
}

fn look_at_isolated(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let isolated = snapshot.text("sys/devices/system/cpu/isolated");
    let tickless = snapshot.text("sys/devices/system/cpu/nohz_full").filter(|list| list != "(null)");
    match (isolated, tickless) {
        (None, None) => CheckResult::good("none"),
        (None, Some(tickless)) => CheckResult::good(format!("without ticks: {tickless}")),
        (Some(isolated), _) => CheckResult::notice(
            format!("{isolated}: neither generator nor target runs there by itself"),
            "start Plimsoll or the target there (taskset --cpu-list), or boot without isolcpus",
        ),
    }
}

fn look_at_mitigations(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    if !snapshot.root.path(FOLDER).exists() {
        return CheckResult::unknown(NOT_TOLD);
    }
    let all = environment::mitigations(snapshot.root);
    let open = all.values().filter(|says| says.starts_with("Vulnerable")).count();
    let line = snapshot.text("proc/cmdline").unwrap_or_default();
    if line.split_ascii_whitespace().any(|option| option == "mitigations=off") {
        return CheckResult::notice(
            "switched off: figures are better than on the machines that people run",
            "boot without mitigations=off, or note it beside every figure",
        );
    }
    let open = if open > 0 { format!(", {open} of them open") } else { String::new() };
    CheckResult::good(format!("for {}{open}: recorded with each run", count(all.len() as u64, "known fault")))
}

fn look_at_siblings(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match snapshot.number::<u8>("sys/devices/system/cpu/smt/active") {
        None => CheckResult::unknown(NOT_TOLD),
        Some(0) => CheckResult::good("no: each CPU is a core"),
        Some(_) if snapshot.is_guest() => {
            CheckResult::good("yes, according to the hypervisor: half of the CPUs are worth less than the other half")
        }
        Some(_) => CheckResult::notice(
            "yes: half of the CPUs are worth less than the other half",
            "echo off > /sys/devices/system/cpu/smt/control (halves the CPUs, so not done by --fix)",
        ),
    }
}

pub static ENERGY: CheckKind = CheckKind {
    name: "energy meter",
    about: CheckScope::Hardware,
    reads: "/sys/class/powercap/*/energy_uj (RAPL)",
    why: "without a meter, energy is modelled from the profile's watts and the CPU used, and marked so",
    source: "https://docs.kernel.org/power/powercap/powercap.html",
    caught_by: &[],
    article: None,
    look: look_at_energy,
};

fn look_at_energy(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let zones = snapshot.root.names("sys/class/powercap");
    let meters: Vec<&String> =
        zones.iter().filter(|zone| zone.contains("rapl:") && zone.matches(':').count() == 1).collect();
    if meters.is_empty() {
        return CheckResult::unknown("not on this machine");
    }
    if meters.iter().any(|zone| snapshot.text(&format!("sys/class/powercap/{zone}/energy_uj")).is_some()) {
        return CheckResult::good(format!("RAPL, {} package(s)", meters.len()));
    }
    CheckResult::notice(
        "RAPL is there, but only root may read it",
        "run Plimsoll as root, or chmod a+r /sys/class/powercap/*/energy_uj",
    )
}

pub static GOVERNOR: CheckKind = CheckKind {
    name: "frequency governor",
    about: CheckScope::Processor,
    reads: "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    why: "a governor that saves power makes a lightly loaded service slower than a busy one, and the first seconds slower than the rest",
    source: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    caught_by: &["no_steady_state"],
    article: None,
    look: look_at_governor,
};

pub static TURBO: CheckKind = CheckKind {
    name: "turbo",
    about: CheckScope::Processor,
    reads: "intel_pstate/no_turbo, cpufreq/boost",
    why: "with turbo, speed depends on heat and on how many cores are busy: the second trial runs on a warmer processor than the first",
    source: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    caught_by: &["no_steady_state"],
    article: None,
    look: look_at_turbo,
};

const FOLDER: &str = "sys/devices/system/cpu/cpufreq";
const GUEST: &str = "not visible in here: the host decides";

fn nobody_tells(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    CheckResult::unknown(if snapshot.is_guest() { GUEST } else { NOT_TOLD })
}

fn look_at_governor(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let policies = snapshot.root.names(FOLDER).into_iter().filter(|name| name.starts_with("policy"));
    let files: Vec<String> = policies.map(|policy| format!("{FOLDER}/{policy}/scaling_governor")).collect();
    let mut governors: Vec<String> = files.iter().filter_map(|file| snapshot.text(file)).collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        return nobody_tells(snapshot);
    }
    if governors == ["performance"] {
        return CheckResult::good("performance");
    }
    let fixes: Vec<Fix> = files.iter().filter_map(|file| snapshot.fix(file, "performance")).collect();
    CheckResult::bad(governors.join(", "), "run at full speed").fixed_by(fixes)
}

fn look_at_turbo(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match environment::turbo(snapshot.root) {
        None => nobody_tells(snapshot),
        Some(false) => CheckResult::good("off"),
        Some(true) => {
            let no_turbo = "sys/devices/system/cpu/intel_pstate/no_turbo";
            let command = match snapshot.text(no_turbo) {
                Some(_) => format!("echo 1 > /{no_turbo}"),
                None => format!("echo 0 > /{FOLDER}/boost"),
            };
            let remedy = format!("{command} for comparisons (not done by --fix: it lowers the highest speed)");
            CheckResult::notice("on", remedy)
        }
    }
}

pub static NEIGHBOURS: CheckKind = CheckKind {
    name: "shared hardware",
    about: CheckScope::Noise,
    reads: "/proc/cpuinfo, /sys/class/dmi/id, /.dockerenv",
    why: "neighbours on the same hardware take CPU, caches and disk; only the CPU that they take is visible, as steal",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look: look_at_neighbours,
};

fn look_at_neighbours(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match environment::virtualisation(snapshot.root).as_deref() {
        None => CheckResult::unknown(NOT_TOLD),
        Some("none") => CheckResult::good("no: neither a container nor a virtual machine"),
        Some(kind) => CheckResult::notice(
            format!("yes: {kind}"),
            "repeat trials, interleave what is compared (repeat = 5), and publish figures of a real machine",
        ),
    }
}

pub static STEAL: CheckKind = CheckKind {
    name: "stolen CPU",
    about: CheckScope::Noise,
    reads: "/proc/stat over a second",
    why: "time that the hypervisor gives to other machines is missing here, and looks like a slow service",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look: look_at_steal,
};

pub static STRANGERS: CheckKind = CheckKind {
    name: "CPU used by others",
    about: CheckScope::Noise,
    reads: "/proc/stat and /proc/*/stat over a second",
    why: "CPU that other programs use is missing for generator and target",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["strangers", "generator_stall"],
    article: None,
    look: look_at_strangers,
};

/// CPU use, percent, from which a trial's verdict is `suspect`.
const STEAL_PCT: f64 = 2.0;
const STRANGERS_PCT: f64 = 10.0;

/// Reason for an unknown state: CPU use could not be sampled.
const NOT_SAMPLED: &str = "/proc/stat did not change";

fn look_at_steal(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(noise) = &snapshot.measured.noise else { return CheckResult::unknown(NOT_SAMPLED) };
    let Some(steal_pct) = noise.steal_pct else { return CheckResult::unknown(NOT_SAMPLED) };
    let found = format!("{steal_pct:.1} % in the last second");
    if steal_pct >= STEAL_PCT {
        return CheckResult::bad(found, "move to another host, or to a machine with CPUs of its own, or wait");
    }
    CheckResult::good(found)
}

fn look_at_strangers(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(noise) = &snapshot.measured.noise else { return CheckResult::unknown(NOT_SAMPLED) };
    let who: Vec<String> = noise.busiest.iter().map(|(name, pct)| format!("{name} {pct:.0} %")).collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let used = noise.others_pct;
    match used {
        used if used >= STRANGERS_PCT => CheckResult::bad(
            format!("{used:.0} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used if used >= STRANGERS_PCT / 3.0 => CheckResult::notice(
            format!("{used:.1} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used => CheckResult::good(format!("{used:.1} % of the machine in the last second")),
    }
}
