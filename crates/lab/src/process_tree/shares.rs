//! To whom this machine's CPU time is put down: to all that belongs to the run together, and to the other processes one by one.

use std::collections::{BTreeMap, HashMap, HashSet};

use record::events::ProcessShare;

use super::{Scale, TICKS_PER_S, Ticks, used};
use crate::linux::procfs::Stat;
use crate::sampling::Proc;

/// So many of each kind are told, the busiest first.
const TOLD: usize = 16;

/// What was read of all processes last time, and what each has used since the first.
#[derive(Default)]
pub struct Shares {
    /// Control group of the lab whose processes are accounted for elsewhere.
    lab: Option<String>,
    /// Who belonged to the run at the last reading.
    run: HashSet<u32>,
    /// By pid and start: processes that used any time, or are the target's.
    accounts: BTreeMap<(u32, u64), Account>,
    time_s: f64,
    cores: f64,
}

struct Account {
    name: String,
    ticks: u64,
    is_target: bool,
}

/// What all processes had used when they were last read: pid to start and time.
pub type Before = HashMap<u32, (u64, Ticks)>;

impl Shares {
    /// Beside a lab whose processes are in this control group.
    pub fn beside(lab: Option<String>) -> Self {
        Self { lab, ..Self::default() }
    }

    /// What the run used since the last reading, percent of the machine in user mode and in the kernel; `run` has all pids that
    /// belong to it now, `target` those of the target. `None` at the first reading.
    pub fn read(
        &mut self,
        proc: &Proc,
        all: &HashMap<u32, Stat>,
        before: &Before,
        (run, target): (HashSet<u32>, &HashSet<u32>),
        scale: Scale,
    ) -> Option<(f64, f64)> {
        let is_same = |pid: &u32, started: u64| all.get(pid).is_some_and(|stat| stat.started_ticks == started);
        // What has ended is in its parent's account now.
        let counts = |pid: &u32, started: u64| match all.contains_key(pid) {
            true => run.contains(pid) && is_same(pid, started),
            false => self.run.contains(pid),
        };
        let then = before.iter().filter(|(pid, (started, _))| counts(pid, *started));
        let then = then.map(|(pid, (_, ticks))| (*pid, *ticks)).collect();
        let now = run.iter().filter_map(|pid| Some((*pid, Ticks::of(all.get(pid)?)))).collect();
        let (user, system) = used(&then, &now, false);
        self.run = run;
        let cores = scale.cores?;
        (self.time_s, self.cores) = (self.time_s + scale.interval_s, cores);
        for stat in all.values() {
            self.note(proc, stat, before, target.contains(&stat.pid));
        }
        let percent = |ticks: u64| ticks as f64 / TICKS_PER_S / scale.interval_s / cores * 100.0;
        Some((percent(user), percent(system)))
    }

    /// Adds up what a process used itself.
    fn note(&mut self, proc: &Proc, stat: &Stat, before: &Before, is_target: bool) {
        if self.run.contains(&stat.pid) && !is_target {
            return;
        }
        let ticks = |ticks: &Ticks| ticks.own.0 + ticks.own.1;
        let then = before.get(&stat.pid).filter(|(started, _)| *started == stat.started_ticks);
        let used = ticks(&Ticks::of(stat)).saturating_sub(then.map_or(0, |(_, then)| ticks(then)));
        if used == 0 && !is_target {
            return;
        }
        let is_labs = |lab: &String| {
            let groups = proc.text(&format!("{}/cgroup", stat.pid)).unwrap_or_default();
            groups.split(['/', '\n']).any(|name| name == lab)
        };
        if self.lab.as_ref().is_some_and(is_labs) {
            return;
        }
        let account = self.accounts.entry((stat.pid, stat.started_ticks)).or_insert_with(|| Account {
            name: stat.name.clone(),
            ticks: 0,
            is_target,
        });
        account.ticks += used;
        account.is_target = is_target;
        // It may have become another program since.
        account.name.clone_from(&stat.name);
    }

    /// The processes of the target, or the others that used any time: the busiest first.
    pub fn told(&self, of_target: bool) -> Vec<ProcessShare> {
        let accounts = self.accounts.iter().filter(|(_, account)| account.is_target == of_target);
        let percent = |ticks: u64| ticks as f64 / TICKS_PER_S / self.time_s / self.cores * 100.0;
        let share = |(pid, account): (u32, &Account)| ProcessShare {
            name: account.name.clone(),
            pid,
            cpu_pct: (percent(account.ticks) * 100.0).round() / 100.0,
        };
        let mut told: Vec<ProcessShare> = accounts.map(|((pid, _), account)| share((*pid, account))).collect();
        told.sort_by(|a, b| b.cpu_pct.total_cmp(&a.cpu_pct).then(a.pid.cmp(&b.pid)));
        told.truncate(TOLD);
        told
    }
}
