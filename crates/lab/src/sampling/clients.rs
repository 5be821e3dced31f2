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
mod tests {
    use super::*;
    use crate::fixture::Scratch;

    /// A machine with two CPUs that did so much until now: ticks busy and idle.
    fn stat(first: (u64, u64), second: (u64, u64)) -> String {
        let line = |name: &str, (busy, idle): (u64, u64)| format!("{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        line("cpu ", (first.0 + second.0, first.1 + second.1)) + &line("cpu0", first) + &line("cpu1", second)
    }

    fn own(user_pct: f64) -> Sample {
        Sample { cpu_user_pct: Some(user_pct), cpu_system_pct: Some(0.0), ..Sample::default() }
    }

    /// Strangers on these CPUs over a second in which the first CPU was busy to 80 % and the second to 30 %, and this program used
    /// 20 % of the machine.
    fn strangers(cpus: &[u32]) -> Option<f64> {
        let proc = Scratch::new();
        let mut clients = Clients::new(cpus.into(), Own::default());
        let mut read = |text: String| {
            proc.write("stat", &text);
            let mut row = own(20.0);
            clients.read(&Proc::at(&proc), 1.0, Some(&mut row));
            row
        };
        assert_eq!(read(stat((100, 100), (100, 100))).cpu_strangers_pct, None, "no base yet");
        read(stat((180, 120), (130, 170))).cpu_strangers_pct
    }

    #[test]
    fn strangers_are_what_is_busy_on_the_clients_cpus_but_the_clients() {
        assert!((strangers(&[0]).unwrap() - 40.0).abs() < 1e-9, "80 % of that CPU, and 40 % of it is ours");
        assert_eq!(strangers(&[1]), Some(0.0), "never below");
        assert!((strangers(&[0, 1]).unwrap() - 35.0).abs() < 1e-9);
        assert_eq!(strangers(&[]), None, "clients that have none to themselves");
        assert_eq!(strangers(&[7]), None, "there is no such CPU");
    }

    #[test]
    fn a_quota_of_any_group_above_shows() {
        let machine = Scratch::new();
        machine.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.write("proc/self/cgroup", "0::/a/b\n");
        let account = |group: &str, us: u64| {
            let text = format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
            machine.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), &text);
        };
        account("a", 500);
        account("a/b", 0);
        let mut clients = Clients::new([].into(), Own::detect_in(&machine));
        let mut read = || {
            let mut row = own(1.0);
            clients.read(&Proc::at(&machine.join("proc")), 2.0, Some(&mut row));
            row.cpu_throttled_pct
        };
        assert_eq!(read(), None, "no base yet");
        assert_eq!(read(), Some(0.0));
        account("a", 200_500);
        assert_eq!(read(), Some(10.0));
        account("a", 9_000_000);
        assert_eq!(read(), Some(100.0), "summed over CPUs it may be more than there was");
    }
}
