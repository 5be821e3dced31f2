//! How fast the processors are, and whether that is the same from one minute to the next.

use super::{About, Finding, Fix, Kind, NOT_TOLD, Patient};
use crate::environment;

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
