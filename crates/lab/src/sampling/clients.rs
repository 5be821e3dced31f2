//! What is around this program while it makes the load: strangers on the clients' CPUs, quotas of the groups it is in. It must not
//! judge, and reads only what nobody else does.

use std::sync::Arc;

use record::rows::Sample;

use super::source::Proc;
use crate::linux::cgroup::Own;
use crate::probes::Ticks;

/// The readings, and what they were last time.
pub(super) struct Clients {
    /// CPUs that are the clients' alone; empty: there are none.
    cpus: Arc<[u32]>,
    last: Option<(u64, u64)>,
    own: Own,
    last_throttled_ns: Vec<Option<u64>>,
}

impl Clients {
    pub fn new(cpus: Arc<[u32]>, own: Own) -> Self {
        Self { cpus, last: None, own, last_throttled_ns: Vec::new() }
    }

    /// Fills in this program's row, which has its CPU time; nothing at the first reading.
    pub fn read(&mut self, proc: &Proc, interval_s: f64, own: Option<&mut Sample>) {
        let throttled_pct = self.throttled_pct(interval_s);
        let busy_pct = self.busy_pct(proc);
        let Some(own) = own else { return };
        own.cpu_throttled_pct = throttled_pct;
        own.cpu_strangers_pct = busy_pct.and_then(|busy_pct| {
            // Its own part is of the whole machine.
            let scale = proc.cpus()? / self.cpus.len() as f64;
            Some((busy_pct - (own.cpu_user_pct? + own.cpu_system_pct?) * scale).max(0.0))
        });
    }

    /// How busy the clients' CPUs were since the last reading, percent of them.
    fn busy_pct(&mut self, proc: &Proc) -> Option<f64> {
        if self.cpus.is_empty() {
            return None;
        }
        let stat = proc.text("stat")?;
        let mut now = (0, 0);
        for cpu in self.cpus.iter() {
            let ticks = Ticks::parse(&stat, &format!("cpu{cpu} "))?;
            now = (now.0 + ticks.busy(), now.1 + ticks.total());
        }
        let last = self.last.replace(now)?;
        let (busy, total) = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
        (total > 0).then(|| busy as f64 / total as f64 * 100.0)
    }

    /// Of the group that was stopped for longest: what a group is not let do, those in it are not, either.
    fn throttled_pct(&mut self, interval_s: f64) -> Option<f64> {
        let now = self.own.throttled_ns();
        let last = std::mem::replace(&mut self.last_throttled_ns, now.clone());
        let grown = last.into_iter().zip(now).filter_map(|(last, now)| now?.checked_sub(last?));
        grown.max().map(|ns| (ns as f64 / (interval_s * 1e9) * 100.0).min(100.0))
    }
}

#[cfg(test)]
mod tests;
