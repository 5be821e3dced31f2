//! Where folders of targets and of profiles are looked for. It must not read what is in them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::trusted;

/// Folders above the program's own, for a program in `bin/` or in `target/TRIPLE/release/`.
const ABOVE_THE_PROGRAM: usize = 3;
/// The folder of the bundled experiments: what they use stands beside it.
const EXPERIMENTS: &str = "experiments";

/// The folders that may be there, in the order in which they count: those that `variable` lists, then `name` beside the experiment
/// file (of one in a folder `experiments` also beside that), or in the working folder where there is no experiment, and at last
/// `name` beside this program and above it. What others can have put beside ours, as in /tmp, is left out.
pub fn search_path(variable: &str, name: &str, experiment: Option<&Path>) -> Vec<PathBuf> {
    let named = std::env::var_os(variable).unwrap_or_default();
    let mut path: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    let beside = beside(experiment).into_iter().chain(beside_the_program()).map(|folder| folder.join(name));
    path.extend(beside.filter(|folder| !is_planted(folder)));
    path
}

fn beside(experiment: Option<&Path>) -> Vec<PathBuf> {
    let Some(file) = experiment else { return std::env::current_dir().into_iter().collect() };
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let Some(folder) = file.parent() else { return Vec::new() };
    let above = folder.parent().filter(|_| folder.ends_with(EXPERIMENTS));
    std::iter::once(folder).chain(above).map(Path::to_path_buf).collect()
}

fn beside_the_program() -> Vec<PathBuf> {
    let Ok(program) = std::env::current_exe() else { return Vec::new() };
    program.ancestors().skip(1).take(1 + ABOVE_THE_PROGRAM).map(Path::to_path_buf).collect()
}

/// Whether another user can have made it in a folder in which everybody may.
fn is_planted(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    let parent = folder.parent().and_then(|parent| parent.metadata().ok());
    parent.is_some_and(|parent| parent.mode() & OTHERS_WRITE != 0) && trusted::folder(folder).is_err()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use rustix::process::geteuid;

    use super::*;
    use crate::fixture::Scratch;

    const UNSET: &str = "PLIMSOLL_NO_SUCH_VARIABLE";

    #[test]
    fn folders_above_the_working_folder_are_not_looked_at() {
        let here = std::env::current_dir().unwrap();
        let program = std::env::current_exe().unwrap();
        let beside_us: Vec<_> = program.ancestors().skip(1).map(|folder| folder.join("targets")).collect();
        let path = search_path(UNSET, "targets", None);
        assert_eq!(path[0], here.join("targets"));
        assert!(path[1..].iter().all(|folder| beside_us.contains(folder)), "{path:?}");
        assert_eq!(path.len(), 1 + 1 + ABOVE_THE_PROGRAM);
    }

    #[test]
    fn what_stands_beside_the_experiment_is_looked_at() {
        let beside = |file: &str| beside(Some(Path::new(file)));
        assert_eq!(beside("/a/b/x.toml"), [Path::new("/a/b")]);
        assert_eq!(beside("/a/experiments/x.toml"), ["/a/experiments", "/a"].map(Path::new));
        let here = std::env::current_dir().unwrap();
        assert_eq!(beside("experiments/x.toml"), [here.join("experiments"), here.clone()]);
        assert_eq!(beside("x.toml"), [here]);
    }

    #[test]
    fn what_another_put_beside_ours_is_left_out() {
        let folder = Scratch::new();
        let (file, targets) = (folder.join("x.toml"), folder.join("targets"));
        fs::create_dir(&targets).unwrap();
        fs::set_permissions(&*folder, fs::Permissions::from_mode(0o1777)).unwrap();
        let is_there = || search_path(UNSET, "targets", Some(&file)).contains(&targets);
        assert!(is_there(), "it is ours");
        if geteuid().is_root() {
            chown(&targets, Some(65534), None).unwrap();
            assert!(!is_there());
        }
        fs::set_permissions(&targets, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_there());
        // In a folder of ours it is found, and refused with a reason.
        fs::set_permissions(&*folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_there());
    }
}
