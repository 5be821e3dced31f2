//! Who uses the processors, over a second. It must not judge how much is too much.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::linux::procfs;
use crate::probes::Ticks;

const SECOND: Duration = Duration::from_secs(1);
/// So many programs are named.
const NAMED: usize = 3;

/// What used the processors, in percent of all of them together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Programs other than this one.
    pub others_pct: f64,
    /// The busiest of them by name, those of one name added up.
    pub busiest: Vec<(String, f64)>,
    /// Taken by the hypervisor; none where the kernel does not tell.
    pub steal_pct: Option<f64>,
}

struct Look {
    machine: Ticks,
    programs: BTreeMap<(u32, u64), (String, u64)>,
}

fn look() -> Option<Look> {
    let machine = Ticks::parse(&procfs::text(Path::new("/proc/stat"))?, "cpu ")?;
    let programs = procfs::alive()
        .into_iter()
        .map(|stat| ((stat.pid, stat.started_ticks), (stat.name, stat.user_ticks + stat.system_ticks)));
    Some(Look { machine, programs: programs.collect() })
}

/// Watches for a second, in which `meanwhile` is done.
pub fn noise_while<T>(meanwhile: impl FnOnce() -> T) -> (Option<Noise>, T) {
    let (begun, before) = (Instant::now(), look());
    let done = meanwhile();
    let (_sender, silence) = channel::<()>();
    let _ = silence.recv_timeout(SECOND.saturating_sub(begun.elapsed()));
    let noise = before.zip(look()).and_then(|(before, after)| between(&before, &after, std::process::id()));
    (noise, done)
}

fn between(before: &Look, after: &Look, ours: u32) -> Option<Noise> {
    let total = after.machine.total().checked_sub(before.machine.total()).filter(|total| *total > 0)? as f64;
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    let mut own = 0;
    for (key, (name, ticks)) in &after.programs {
        let used = ticks.saturating_sub(before.programs.get(key).map_or(0, |(_, ticks)| *ticks));
        if key.0 == ours {
            own = used;
        } else {
            *by_name.entry(name).or_default() += used;
        }
    }
    // Programs that ended meanwhile are in the machine's time only.
    let busy = after.machine.busy().saturating_sub(before.machine.busy()).saturating_sub(own);
    let mut busiest: Vec<(String, f64)> =
        by_name.into_iter().map(|(name, ticks)| (name.to_owned(), ticks as f64 / total * 100.0)).collect();
    busiest.retain(|(_, pct)| *pct >= 1.0);
    busiest.sort_by(|a, b| b.1.total_cmp(&a.1));
    busiest.truncate(NAMED);
    let steal = after.machine.steal.zip(before.machine.steal).map(|(after, before)| after.saturating_sub(before));
    Some(Noise {
        others_pct: busy as f64 / total * 100.0,
        busiest,
        steal_pct: steal.map(|steal| steal as f64 / total * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_with(stat: &str, programs: &[(u32, &str, u64)]) -> Look {
        Look {
            machine: Ticks::parse(stat, "cpu ").unwrap(),
            programs: programs.iter().map(|(pid, name, ticks)| ((*pid, 7), ((*name).to_owned(), *ticks))).collect(),
        }
    }

    #[test]
    fn our_own_time_is_not_that_of_others() {
        let before =
            look_with("cpu  100 0 100 1000 0 0 0 0", &[(1, "plimsoll", 10), (2, "rustc", 50), (3, "rustc", 5)]);
        let after =
            look_with("cpu  150 0 110 1130 0 0 0 10", &[(1, "plimsoll", 20), (2, "rustc", 80), (3, "rustc", 15)]);
        let noise = between(&before, &after, 1).unwrap();
        // 60 of 200 ticks were busy, 10 of them ours.
        assert_eq!((noise.others_pct, noise.steal_pct), (25.0, Some(5.0)));
        assert_eq!(noise.busiest, [("rustc".to_owned(), 20.0)]);
    }

    #[test]
    fn a_machine_that_stands_still_tells_nothing() {
        let look = || look_with("cpu  100 0 100 1000", &[]);
        assert_eq!(between(&look(), &look(), 1), None);
        let later = look_with("cpu  100 0 100 1100", &[]);
        let noise = between(&look(), &later, 1).unwrap();
        assert_eq!((noise.others_pct, noise.steal_pct), (0.0, None));
    }

    #[test]
    fn a_pid_that_is_used_again_counts_from_its_start() {
        let before = look_with("cpu  0 0 0 0 0 0 0 0", &[(2, "old", 1000)]);
        let mut after = look_with("cpu  50 0 0 50 0 0 0 0", &[]);
        after.programs.insert((2, 9), ("new".to_owned(), 40));
        assert_eq!(between(&before, &after, 1).unwrap().busiest, [("new".to_owned(), 40.0)]);
    }
}
