//! Erlang runtime of targets, and the effect of traditional tuning flags on it.

use super::{CheckKind, CheckResult, CheckScope, MachineSnapshot, Tuning};
use crate::measured::Erlang;

const SOURCE: &str = "https://www.erlang.org/doc/apps/erts/erl_cmd.html";
const READS: &str = "output of `erl`, if it is in PATH";

pub static POLL: CheckKind = CheckKind {
    name: "Erlang: kernel poll",
    about: CheckScope::Erlang,
    reads: READS,
    why: "with poll(2) instead of epoll, each event costs a scan of all connections",
    source: "https://github.com/erlang/otp/pull/1552",
    caught_by: &[],
    article: Some(Tuning {
        number: 1,
        says: "configure --enable-kernel-poll; erl +K true",
        worth: "nothing since OTP 21 (2018): +K is ignored, kernel poll is always on",
    }),
    look: look_at_poll,
};

pub static PORTS: CheckKind = CheckKind {
    name: "Erlang: ports",
    about: CheckScope::Erlang,
    reads: READS,
    why: "each connection is a port of the runtime; beyond the limit, accepting fails",
    source: SOURCE,
    caught_by: &["failed_connects"],
    article: Some(Tuning {
        number: 3,
        says: "ERL_MAX_PORTS = 102400",
        worth: "only beyond 65,536 connections: the default since R16, or more if more files may be open; the variable \
                is still read, +Q does the same",
    }),
    look: look_at_ports,
};

pub static PROCESSES: CheckKind = CheckKind {
    name: "Erlang: processes",
    about: CheckScope::Erlang,
    reads: READS,
    why: "each connection is a process or two; beyond the limit, spawning fails",
    source: "https://www.erlang.org/doc/system/system_limits.html",
    caught_by: &[],
    article: Some(Tuning {
        number: 5,
        says: "erl +P 102400",
        worth: "harmful: the default was 32,768 then, and is 262,144 since R16, 1,048,576 in the newest; the flag \
                lowers it",
    }),
    look: look_at_processes,
};

pub static SCHEDULERS: CheckKind = CheckKind {
    name: "Erlang: schedulers",
    about: CheckScope::Erlang,
    reads: READS,
    why: "one scheduler uses one CPU; more schedulers than CPUs wait for each other",
    source: SOURCE,
    caught_by: &[],
    article: Some(Tuning {
        number: 4,
        says: "erl -smp enable +S 2",
        worth: "-smp is ignored since OTP 21, there is no other runtime; +S still sets the number: the default is one \
                per CPU, less under a quota",
    }),
    look: look_at_schedulers,
};

fn asked<'a>(snapshot: &'a MachineSnapshot<'_>) -> Result<&'a Erlang, CheckResult> {
    snapshot.measured.erlang.as_ref().ok_or_else(|| CheckResult::unknown("Erlang is not installed"))
}

fn look_at_poll(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match asked(snapshot) {
        Err(finding) => finding,
        Ok(erlang) if erlang.release >= 21 => {
            CheckResult::good(format!("always on in OTP {}: +K true is ignored", erlang.release))
        }
        Ok(erlang) => {
            CheckResult::notice(format!("optional in OTP {}", erlang.release), "start the target with +K true")
        }
    }
}

fn look_at_ports(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let erlang = match asked(snapshot) {
        Err(finding) => return finding,
        Ok(erlang) => erlang,
    };
    let needed = snapshot.agents().unwrap_or(0).saturating_add(1024);
    if erlang.ports >= needed {
        return CheckResult::good(format!("{} of them: ERL_MAX_PORTS and +Q are not needed", erlang.ports));
    }
    CheckResult::bad(
        format!("{}, and {needed} are needed", erlang.ports),
        format!("start the target with +Q {}", needed * 2),
    )
}

fn look_at_processes(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let erlang = match asked(snapshot) {
        Err(finding) => return finding,
        Ok(erlang) => erlang,
    };
    let needed = snapshot.agents().unwrap_or(0).saturating_mul(2).saturating_add(1024);
    if erlang.processes >= needed {
        return CheckResult::good(format!("{} of them: +P is not needed", erlang.processes));
    }
    let found = format!("{}, and {needed} are needed", erlang.processes);
    CheckResult::bad(found, format!("start the target with +P {}", needed * 2))
}

fn look_at_schedulers(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match asked(snapshot) {
        Err(finding) => finding,
        Ok(erlang) => {
            let smp = if erlang.release >= 21 { "; -smp is ignored" } else { "" };
            CheckResult::good(format!("{} by default in OTP {}{smp}", erlang.schedulers_online, erlang.version))
        }
    }
}
