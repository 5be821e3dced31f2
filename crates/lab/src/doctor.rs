//! The doctor: gathers what check-ups look at, has them look, and makes and undoes the changes they propose. What is good
//! or bad is judged in [`crate::checkups`]; nothing here prints.

mod asked;
mod measured;
mod remedies;
mod runtime;
mod sample;

use std::path::Path;

use serde::Serialize;

pub use asked::Asked;
pub use measured::{Links, Measured, Spread, sync_us};
pub use remedies::{Applied, Remedies, Undone};
pub use runtime::Erlang;
pub use sample::Noise;

use crate::checkups::{About, Finding, KINDS, Kind, Patient, State};
use crate::environment::Root;

/// What one check-up came to.
#[derive(Debug)]
pub struct Examined {
    /// Which.
    pub kind: &'static Kind,
    /// What it found.
    pub finding: Finding,
}

/// Looks at a machine whose files are below `root`, with what was measured of it, and with what an experiment asks of it. The
/// worst comes first; what is alike stays together.
#[must_use]
pub fn examine(root: &Path, measured: &Measured, asked: Option<&Asked>) -> Vec<Examined> {
    let root = Root::at(root);
    let patient = Patient { root: &root, measured, asked };
    // What an experiment needs is no question without one.
    let kinds = KINDS.iter().filter(|kind| asked.is_some() || kind.about != About::Experiment);
    let mut examined: Vec<Examined> = kinds.map(|kind| Examined { kind, finding: (kind.look)(&patient) }).collect();
    examined.sort_by_key(|one| (std::cmp::Reverse(one.finding.state), one.kind.about, one.kind.name));
    examined
}

/// The worst state among them.
#[must_use]
pub fn worst(examined: &[Examined]) -> State {
    examined.iter().map(|one| one.finding.state).max().unwrap_or(State::Unknown)
}

/// As `doctor --json` prints it.
impl Serialize for Examined {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let (kind, finding) = (self.kind, &self.finding);
        let mut object = serializer.serialize_struct("checkup", 11)?;
        object.serialize_field("name", kind.name)?;
        object.serialize_field("about", &kind.about)?;
        object.serialize_field("state", &finding.state)?;
        object.serialize_field("found", &finding.found)?;
        object.serialize_field("remedy", &finding.remedy)?;
        object.serialize_field("fixes", &finding.fixes)?;
        object.serialize_field("reads", kind.reads)?;
        object.serialize_field("why", kind.why)?;
        object.serialize_field("source", kind.source)?;
        object.serialize_field("caught_by", kind.caught_by)?;
        object.serialize_field("article", &kind.article)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::checkups::Fix;
    use crate::fixture::{Scratch, machine};

    const QUEUE: &str = "proc/sys/net/core/somaxconn";

    fn fix(path: &str, from: &str, to: &str) -> Fix {
        Fix { path: path.to_owned(), from: from.to_owned(), to: to.to_owned() }
    }

    fn says(tree: &Path, path: &str) -> String {
        fs::read_to_string(tree.join(path)).unwrap().trim().to_owned()
    }

    fn undo(remedies: &Remedies) -> Vec<(String, Undone)> {
        let mut undone = Vec::new();
        remedies.undo(&mut |fix, came| undone.push((fix.path.clone(), came))).unwrap();
        undone
    }

    /// Every fix of a machine is made, and then everything is as it was.
    #[test]
    fn what_is_fixed_is_good_and_can_be_undone() {
        let (tree, registry) = (machine("bad"), Scratch::new());
        let before = examine(&tree, &Measured::default(), None);
        let remedies = Remedies::in_folder(&tree, &registry);
        let fixes: Vec<&Fix> = before.iter().flat_map(|one| &one.finding.fixes).collect();
        assert!(fixes.len() >= 14, "{fixes:?}");
        for fix in &fixes {
            assert_eq!(remedies.apply(fix).unwrap(), Applied::Done, "{fix:?}");
            assert_eq!(says(&tree, &fix.path), fix.to);
        }
        let after = examine(&tree, &Measured::default(), None);
        assert!(after.iter().all(|one| one.finding.fixes.is_empty()), "{after:?}");
        let undone = undo(&remedies);
        assert_eq!(undone.len(), fixes.len());
        assert!(undone.iter().all(|(_, came)| *came == Undone::Done), "{undone:?}");
        // The last first.
        assert_eq!(undone[0].0, fixes.last().unwrap().path);
        for fix in &fixes {
            assert_eq!(says(&tree, &fix.path), fix.from);
        }
        assert!(undo(&remedies).is_empty() && fs::read_dir(&*registry).unwrap().next().is_none());
    }

    #[test]
    fn what_others_have_changed_is_left_alone() {
        let (tree, registry) = (machine("bad"), Scratch::new());
        let remedies = Remedies::in_folder(&tree, &registry);
        let change = fix(QUEUE, "128", "4096");
        assert_eq!(remedies.apply(&fix(QUEUE, "100", "4096")).unwrap(), Applied::ChangedSince("128".to_owned()));
        assert_eq!(says(&tree, QUEUE), "128");
        assert_eq!(remedies.apply(&change).unwrap(), Applied::Done);
        tree.write(QUEUE, "999\n");
        assert_eq!(undo(&remedies), [(QUEUE.to_owned(), Undone::ChangedSince("999".to_owned()))]);
        assert_eq!(says(&tree, QUEUE), "999");
        assert!(undo(&remedies).is_empty());
    }

    /// Written down and then killed: before the change was made, after it, and in the middle of the line.
    #[test]
    fn a_kill_at_any_moment_leaves_what_undo_needs() {
        let (tree, registry) = (machine("bad"), Scratch::new());
        let remedies = Remedies::in_folder(&tree, &registry);
        assert_eq!(remedies.apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        let line = says(&registry, "doctor.undo");
        assert!(line.contains(QUEUE) && line.contains("\"from\":\"128\""), "{line}");
        tree.write(QUEUE, "128\n");
        let swap = "proc/sys/vm/swappiness";
        let other = line.replace(QUEUE, swap).replace("\"128\"", "\"60\"").replace("\"4096\"", "\"1\"");
        registry.write("doctor.undo", &format!("{line}\n{other}\n{}", &line[..line.len() / 2]));
        tree.write(swap, "1\n");
        assert_eq!(undo(&remedies), [(swap.to_owned(), Undone::Done), (QUEUE.to_owned(), Undone::Already)]);
        assert_eq!((says(&tree, swap), says(&tree, QUEUE)), ("60".to_owned(), "128".to_owned()));
    }

    #[test]
    fn a_change_of_another_boot_or_of_another_machine_is_not_ours_to_undo() {
        let (tree, other, registry) = (machine("bad"), machine("bad"), Scratch::new());
        let remedies = Remedies::in_folder(&tree, &registry);
        assert_eq!(Remedies::in_folder(&other, &registry).apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        assert!(undo(&remedies).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
        let line = says(&registry, "doctor.undo");
        let boot = crate::linux::procfs::boot();
        registry.write("doctor.undo", &line.replace(&boot, "another-boot"));
        assert!(undo(&Remedies::in_folder(&other, &registry)).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
    }

    #[test]
    fn only_settings_are_written_and_nothing_is_created() {
        let (tree, registry) = (machine("bad"), Scratch::new());
        tree.write("etc/passwd", "root\n");
        let remedies = Remedies::in_folder(&tree, &registry);
        for path in ["etc/passwd", "proc/sys/../../etc/passwd"] {
            assert!(matches!(remedies.apply(&fix(path, "root", "x")).unwrap(), Applied::Refused(_)));
        }
        assert_eq!(remedies.apply(&fix("proc/sys/new", "", "1")).unwrap(), Applied::ChangedSince(String::new()));
        assert!(!tree.join("proc/sys/new").exists() && fs::read_dir(&*registry).unwrap().next().is_none());
        assert_eq!(says(&tree, "etc/passwd"), "root");
    }

    #[test]
    fn what_cannot_be_written_down_is_not_changed() {
        let tree = machine("bad");
        let nowhere = tree.join("proc/sys/net/core/somaxconn/registry");
        assert!(Remedies::in_folder(&tree, &nowhere).apply(&fix(QUEUE, "128", "4096")).is_err());
        assert_eq!(says(&tree, QUEUE), "128");
    }

    #[test]
    fn the_worst_comes_first() {
        let tree = machine("bad");
        let examined = examine(&tree, &Measured::default(), None);
        assert!(examined.is_sorted_by_key(|one| std::cmp::Reverse(one.finding.state)));
        assert_eq!(worst(&examined), State::Bad);
        assert_eq!(worst(&[]), State::Unknown);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let folder = Scratch::new();
        let measured = Measured::here(&folder);
        assert!(measured.is_root.is_some() && measured.cpus.is_some_and(|cpus| cpus > 0));
        assert!(measured.noise.is_some() && measured.late_us.is_some() && measured.timer_resolution_ns.is_some());
        assert!(measured.sync_us.is_some() && measured.free_bytes.is_some() && measured.file_system.is_some());
        assert!(measured.is_synchronised.is_some());
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "the measured file was left");
    }
}
