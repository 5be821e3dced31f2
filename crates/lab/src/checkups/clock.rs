//! Clocks and timers.

use super::{About, Finding, Kind, NOT_TOLD, Patient};

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
