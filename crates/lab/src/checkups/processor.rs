//! The processors: how many and how fast, who else uses them, their clocks and timers, their
//! energy meter.

use super::{About, Finding, Fix, Kind, NOT_TOLD, Patient, count};
use crate::environment;

pub static SOURCE: Kind = Kind {
    name: "clock source",
    about: About::Time,
    reads: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    why: "every latency takes two readings of the clock; a slow source makes each a system call of a microsecond or more",
    source: "https://docs.kernel.org/timers/timekeeping.html",
    caught_by: &["generator_cpu"],
    article: None,
    look: look_at_source,
};

pub static SYNC: Kind = Kind {
    name: "time synchronisation",
    about: About::Time,
    reads: "adjtimex(2), and who runs of chronyd, systemd-timesyncd, ntpd, ptp4l",
    why: "Plimsoll's own times are monotonic; logs of several hosts, certificates and leases go by the wall clock",
    source: "https://man7.org/linux/man-pages/man2/adjtimex.2.html",
    caught_by: &[],
    article: None,
    look: look_at_sync,
};

pub static TIMERS: Kind = Kind {
    name: "timers",
    about: About::Time,
    reads: "clock_getres(2), and a hundred pauses of 1 ms",
    why: "a pause that ends late starts operations late, and their latency is counted from when they were due",
    source: "https://docs.kernel.org/timers/hrtimers.html",
    caught_by: &["generator_lateness"],
    article: None,
    look: look_at_timers,
};

fn look_at_source(patient: &Patient<'_>) -> Finding {
    const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
    const FAST: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    // Those that no program can read without the kernel.
    const SLOW: [&str; 6] = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies", "xen"];
    let current = format!("{FOLDER}/current_clocksource");
    let Some(source) = patient.text(&current) else { return Finding::unknown(NOT_TOLD) };
    if !SLOW.contains(&source.as_str()) {
        return Finding::good(source);
    }
    let available = patient.text(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    let better = FAST.into_iter().find(|fast| available.split_ascii_whitespace().any(|name| name == *fast));
    let found = format!("{source}: each reading is slow");
    match better {
        Some(better) => Finding::bad(found, format!("take {better}")).fixed_by(patient.fix(&current, better)),
        None => Finding::notice(
            found,
            "the kernel found no better one (dmesg says why); boot with tsc=reliable if you trust the tsc",
        ),
    }
}

fn look_at_sync(patient: &Patient<'_>) -> Finding {
    let keeper = patient.measured.time_keeper.as_deref();
    match (patient.measured.is_synchronised, keeper) {
        (Some(true), Some(keeper)) => Finding::good(format!("synchronised, by {keeper}")),
        (Some(true), None) => Finding::good("synchronised"),
        (Some(false), Some(keeper)) => Finding::notice(
            format!("{keeper} runs, but the kernel says that its clock is not synchronised"),
            "wait until it is, or see what it says (timedatectl, chronyc tracking)",
        ),
        (Some(false), None) if patient.asked.is_some_and(|asked| !asked.is_remote) => {
            Finding::good("nothing keeps the wall clock right, and here nothing goes by it")
        }
        (Some(false), None) => {
            Finding::notice("nothing keeps the wall clock right", "install chrony; it matters with hosts over ssh")
        }
        (None, _) => Finding::unknown(NOT_TOLD),
    }
}

fn look_at_timers(patient: &Patient<'_>) -> Finding {
    match (patient.measured.timer_resolution_ns, patient.measured.late_us) {
        (Some(resolution_ns), _) if resolution_ns > 1_000_000 => Finding::bad(
            format!("a resolution of {} ms only", resolution_ns / 1_000_000),
            "boot with highres=on, on a kernel with CONFIG_HIGH_RES_TIMERS",
        ),
        (_, Some(late)) if late.p50 > 1_000.0 => Finding::notice(
            format!("pauses end {:.1} ms late at the median", late.p50 / 1e3),
            "leave a CPU free for the load generator",
        ),
        (Some(_), Some(late)) => {
            Finding::good(format!("pauses of 1 ms end {:.0} us late at the median, {:.0} at most", late.p50, late.max))
        }
        (Some(resolution_ns), None) => Finding::good(format!("a resolution of {resolution_ns} ns")),
        (None, _) => Finding::unknown(NOT_TOLD),
    }
}

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

pub static ENERGY: Kind = Kind {
    name: "energy meter",
    about: About::Hardware,
    reads: "/sys/class/powercap/*/energy_uj (RAPL)",
    why: "without a meter, energy is a model of the profile's watts and the CPU used, and says so",
    source: "https://docs.kernel.org/power/powercap/powercap.html",
    caught_by: &[],
    article: None,
    look: look_at_energy,
};

fn look_at_energy(patient: &Patient<'_>) -> Finding {
    let zones = patient.root.names("sys/class/powercap");
    let meters: Vec<&String> =
        zones.iter().filter(|zone| zone.contains("rapl:") && zone.matches(':').count() == 1).collect();
    if meters.is_empty() {
        return Finding::unknown("not on this machine");
    }
    let reads = |zone: &&&String| patient.text(&format!("sys/class/powercap/{zone}/energy_uj")).is_some();
    if meters.iter().any(|zone| reads(&zone)) {
        return Finding::good(format!("RAPL, {} package(s)", meters.len()));
    }
    Finding::notice(
        "RAPL is there, but only root may read it",
        "run Plimsoll as root, or chmod a+r /sys/class/powercap/*/energy_uj",
    )
}

pub static GOVERNOR: Kind = Kind {
    name: "frequency governor",
    about: About::Processor,
    reads: "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    why: "a governor that saves power makes a lightly loaded service slower than a busy one, and the first seconds slower than the rest",
    source: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    caught_by: &["no_steady_state"],
    article: None,
    look: look_at_governor,
};

pub static TURBO: Kind = Kind {
    name: "turbo",
    about: About::Processor,
    reads: "intel_pstate/no_turbo, cpufreq/boost",
    why: "with turbo, speed depends on heat and on how many cores are busy: the second trial runs on a warmer processor than the first",
    source: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    caught_by: &["no_steady_state"],
    article: None,
    look: look_at_turbo,
};

const FOLDER: &str = "sys/devices/system/cpu/cpufreq";
const GUEST: &str = "not told in here: the host decides";

fn nobody_tells(patient: &Patient<'_>) -> Finding {
    Finding::unknown(if patient.is_guest() { GUEST } else { NOT_TOLD })
}

fn look_at_governor(patient: &Patient<'_>) -> Finding {
    let policies = patient.root.names(FOLDER).into_iter().filter(|name| name.starts_with("policy"));
    let files: Vec<String> = policies.map(|policy| format!("{FOLDER}/{policy}/scaling_governor")).collect();
    let mut governors: Vec<String> = files.iter().filter_map(|file| patient.text(file)).collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        return nobody_tells(patient);
    }
    if governors == ["performance"] {
        return Finding::good("performance");
    }
    let fixes: Vec<Fix> = files.iter().filter_map(|file| patient.fix(file, "performance")).collect();
    Finding::bad(governors.join(", "), "run at full speed").fixed_by(fixes)
}

fn look_at_turbo(patient: &Patient<'_>) -> Finding {
    match environment::turbo(patient.root) {
        None => nobody_tells(patient),
        Some(false) => Finding::good("off"),
        Some(true) => {
            let no_turbo = "sys/devices/system/cpu/intel_pstate/no_turbo";
            let command = match patient.text(no_turbo) {
                Some(_) => format!("echo 1 > /{no_turbo}"),
                None => format!("echo 0 > /{FOLDER}/boost"),
            };
            let remedy = format!("{command} for comparisons (not done by --fix: it lowers the highest speed)");
            Finding::notice("on", remedy)
        }
    }
}

pub static NEIGHBOURS: Kind = Kind {
    name: "shared hardware",
    about: About::Noise,
    reads: "/proc/cpuinfo, /sys/class/dmi/id, /.dockerenv",
    why: "neighbours on the same hardware take CPU, caches and disk, and only the CPU that they take is shown, as steal",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look: look_at_neighbours,
};

fn look_at_neighbours(patient: &Patient<'_>) -> Finding {
    match environment::virtualisation(patient.root).as_deref() {
        None => Finding::unknown(NOT_TOLD),
        Some("none") => Finding::good("no: neither a container nor a virtual machine"),
        Some(kind) => Finding::notice(
            format!("yes: {kind}"),
            "repeat trials, interleave what is compared (repeat = 5), and publish figures of a real machine",
        ),
    }
}

pub static STEAL: Kind = Kind {
    name: "stolen CPU",
    about: About::Noise,
    reads: "/proc/stat over a second",
    why: "time that the hypervisor gives to other machines is missing here, and looks like a slow service",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look: look_at_steal,
};

pub static STRANGERS: Kind = Kind {
    name: "CPU used by others",
    about: About::Noise,
    reads: "/proc/stat and /proc/*/stat over a second",
    why: "what other programs use, generator and target do not have",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["strangers", "generator_stall"],
    article: None,
    look: look_at_strangers,
};

/// From these on the verdict calls a trial suspect.
const STEAL_PCT: f64 = 2.0;
const STRANGERS_PCT: f64 = 10.0;

/// There was no second to look at.
const NOT_SAMPLED: &str = "/proc/stat did not move";

fn look_at_steal(patient: &Patient<'_>) -> Finding {
    let Some(noise) = &patient.measured.noise else { return Finding::unknown(NOT_SAMPLED) };
    let Some(steal_pct) = noise.steal_pct else { return Finding::unknown(NOT_SAMPLED) };
    let found = format!("{steal_pct:.1} % in the last second");
    if steal_pct >= STEAL_PCT {
        return Finding::bad(found, "move to another host, or to a machine with CPUs of its own, or wait");
    }
    Finding::good(found)
}

fn look_at_strangers(patient: &Patient<'_>) -> Finding {
    let Some(noise) = &patient.measured.noise else { return Finding::unknown(NOT_SAMPLED) };
    let who: Vec<String> = noise.busiest.iter().map(|(name, pct)| format!("{name} {pct:.0} %")).collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let used = noise.others_pct;
    match used {
        used if used >= STRANGERS_PCT => Finding::bad(
            format!("{used:.0} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used if used >= STRANGERS_PCT / 3.0 => Finding::notice(
            format!("{used:.1} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used => Finding::good(format!("{used:.1} % of the machine in the last second")),
    }
}
