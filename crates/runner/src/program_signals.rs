//! Signals to programs in the process tree of a target's process, found by file name.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use linux::procfs::{self, Stat};
use rustix::process::Signal;

use crate::process_tree::tree_of;

/// Signals every process of a program in the process tree of `root`, which this program started.
/// Returns the ids of the signalled processes.
///
/// # Errors
/// The program does not run in the tree.
pub fn signal_program(root: u32, program: &str, signal: Signal) -> Result<Vec<u32>, String> {
    let all: HashMap<u32, Stat> = procfs::alive().into_iter().map(|stat| (stat.pid, stat)).collect();
    let tree: Vec<&Stat> = tree_of(root, &all).into_iter().filter_map(|pid| all.get(&pid)).collect();
    let meant = tree.iter().filter(|stat| procfs::runs_program(Path::new("/proc"), stat, program));
    let hit: Vec<u32> = meant.filter(|stat| linux::signal(stat, signal)).map(|stat| stat.pid).collect();
    if hit.is_empty() {
        let names: BTreeSet<&str> = tree.iter().map(|stat| stat.name.as_str()).collect();
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("`{program}` does not run in the process tree, which contains {there}"));
    }
    Ok(hit)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use fixture::{TestDir, is_alive, until};

    use super::*;

    #[test]
    fn only_the_named_program_of_a_tree_is_signalled() {
        let folder = TestDir::new();
        // A name longer than the kernel keeps.
        let worker = folder.script("a-worker-of-the-tree", "sleep 1000 & wait");
        let script = format!("{0} & {0} & sleep 1000 & wait", worker.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::null());
        let mut root = linux::spawn(command).unwrap();
        // A forked child that has not yet executed its program still runs its parent's: two workers
        // could be a worker and its child that will sleep. After all three sleep, no process forks.
        until("all of the tree are there", || {
            signal_program(root.id(), "sleep", Signal::CONT).is_ok_and(|hit| hit.len() == 3)
        });
        let unknown = signal_program(root.id(), "a-worker", Signal::KILL).unwrap_err();
        assert!(
            unknown.contains("`a-worker` does not run") && unknown.contains("`a-worker-of-the`, `sh`"),
            "{unknown}"
        );
        let hit = signal_program(root.id(), "a-worker-of-the-tree", Signal::KILL).unwrap();
        assert_eq!(hit.len(), 2);
        hit.into_iter().for_each(|pid| until("it goes", || !is_alive(pid)));
        assert!(is_alive(root.id()));
        rustix::process::kill_process_group(linux::pid(root.id()).unwrap(), Signal::KILL).unwrap();
        root.wait().unwrap();
    }
}
