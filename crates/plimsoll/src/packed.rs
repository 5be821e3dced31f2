//! Targets and experiments that are built into the program, and the folder into which they are
//! written before use.
//!
//! Targets' programs can be executed only as files. All files are written together into a folder
//! that only root and the caller can write to, as is required of a target's folder. The folder's
//! name depends on the content, so that a file is never replaced during a run.

use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use lab::trusted::PrivateFolder;
use rustix::fs::Access;
use rustix::process::geteuid;

use crate::exit::Failure;
use crate::output;

/// A file of the checkout that the program was built from.
struct PackedFile {
    /// Path in the checkout, such as `targets/redis/target.toml`.
    path: &'static str,
    is_program: bool,
    content: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/packed.rs"));

/// Environment variable that names the folder for the packed files, in place of the defaults.
const VARIABLE: &str = "PLIMSOLL_DATA";
/// Folder for the packed files if root runs the program. The unprivileged users of virtual hosts
/// read it, too.
const OF_ROOT: &str = "/var/lib/plimsoll";
/// Name of the folder for the packed files in a user's data folder.
const OF_USER: &str = "plimsoll";
/// Name of the folder for the packed files in the session's or the temporary folder.
const PRIVATE: &str = "plimsoll-data";

const EXPERIMENTS: &str = "experiments";
const TARGETS: &str = "targets";
const MANIFEST: &str = "target.toml";

pub struct PackedExperiment {
    /// File name without `.toml`.
    pub name: &'static str,
    /// Content of the file.
    pub text: String,
}

pub struct PackedTarget {
    pub name: &'static str,
    /// Path that the target's folder has once it is [written out](write_out).
    pub path: PathBuf,
    /// Text of the `target.toml`.
    pub manifest: String,
}

/// Returns all targets, or an empty list if there is no folder to write them into.
pub fn targets() -> Vec<PackedTarget> {
    let Some(Home { path: home, .. }) = home() else { return Vec::new() };
    let targets = FILES.iter().filter_map(|file| {
        let name = file.path.strip_prefix(TARGETS)?.strip_prefix('/')?.strip_suffix(MANIFEST)?.strip_suffix('/')?;
        let path = home.join(MARK).join(TARGETS).join(name);
        Some(PackedTarget { name, path, manifest: text(file) })
    });
    targets.collect()
}

/// Returns all experiments, sorted by name.
pub fn experiments() -> Vec<PackedExperiment> {
    let experiments = FILES.iter().filter_map(|file| {
        let name = file.path.strip_prefix(EXPERIMENTS)?.strip_prefix('/')?.strip_suffix(".toml")?;
        Some(PackedExperiment { name, text: text(file) })
    });
    experiments.collect()
}

fn text(file: &PackedFile) -> String {
    String::from_utf8_lossy(file.content).into_owned()
}

/// Returns the path of an experiment file. A bare name, such as `01-first-run` or `first-run`,
/// means the packed experiment. A name with `.toml` or in the folder `experiments` means the file
/// if it exists, and otherwise the packed experiment. Writes a packed experiment out.
///
/// # Errors
///
/// If the experiment cannot be written out, or if another user can have written a file that has a
/// packed experiment's name.
pub fn experiment(path: &Path) -> Result<PathBuf, Failure> {
    let is_ours =
        path.parent().is_some_and(|parent| [OsStr::new(""), OsStr::new(EXPERIMENTS)].contains(&parent.as_os_str()));
    let name = path.file_name().and_then(OsStr::to_str).map(|name| name.strip_suffix(".toml").unwrap_or(name));
    // `./01-first-run` is a file, because its parent is `.`.
    let is_bare = path.as_os_str().to_str() == name;
    let is_named = |packed: &PackedExperiment| {
        let short = packed.name.split_once('-').map(|(_, short)| short).filter(|_| is_bare);
        name.is_some_and(|name| packed.name == name || short == Some(name))
    };
    let found = experiments().into_iter().find(|packed| is_ours && is_named(packed));
    let Some(packed) = found else { return Ok(path.to_path_buf()) };
    if !is_bare && path.exists() {
        lab::trusted::folder(path).map_err(|error| Failure::Bad {
            what: format!("{} is also the name of a built-in experiment: {error}", path.display()),
            remedy: format!("`{}` alone is the built-in one, `./{}` the file", packed.name, path.display()),
        })?;
        return Ok(path.to_path_buf());
    }
    let file = write_out()?.join(EXPERIMENTS).join(format!("{}.toml", packed.name));
    output::say(&format!("{} is built in: {}", packed.name, file.display()));
    Ok(file)
}

/// Folder for the packed files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Home {
    path: PathBuf,
    /// Whether other users can create entries in the parent folder, so that the folder `path` must
    /// belong to the caller alone.
    is_private: bool,
}

/// Returns the folder for the packed files; `None` if no folder is writable.
fn home() -> Option<Home> {
    let [own, data, home, session] = [VARIABLE, "XDG_DATA_HOME", "HOME", "XDG_RUNTIME_DIR"]
        .map(|name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()));
    if let Some(path) = own {
        return Some(Home { path, is_private: false });
    }
    if geteuid().is_root() {
        return Some(Home { path: PathBuf::from(OF_ROOT), is_private: false });
    }
    let data = data.or_else(|| home.map(|home| home.join(".local/share")));
    home_of_user(data, session, &env::temp_dir())
}

/// Returns an unprivileged user's folder for the packed files. It is in the user's data folder. If
/// that cannot be written, as in a container without a home, it is in the session's folder or the
/// temporary folder.
fn home_of_user(data: Option<PathBuf>, session: Option<PathBuf>, temporary: &Path) -> Option<Home> {
    let data = data.map(|data| Home { path: data.join(OF_USER), is_private: false });
    let session = session.filter(|folder| folder.is_dir()).map(|folder| folder.join(PRIVATE));
    let temporary = temporary.join(format!("{PRIVATE}-{}", geteuid().as_raw()));
    let private = session.into_iter().chain([temporary]).map(|path| Home { path, is_private: true });
    data.into_iter().chain(private).find(|home| can_be_written(&home.path))
}

/// Whether the packed files are in the folder `home`, or the caller could write them there.
fn can_be_written(home: &Path) -> bool {
    let there = home.ancestors().find(|folder| folder.exists());
    let writes = Access::WRITE_OK | Access::EXEC_OK;
    home.join(MARK).is_dir()
        || there.is_some_and(|folder| folder.is_dir() && rustix::fs::access(folder, writes).is_ok())
}

/// Writes all packed files unless they exist, and returns the folder that contains them.
///
/// # Errors
///
/// If the folder cannot be written, or others can write to it.
pub fn write_out() -> Result<PathBuf, Failure> {
    let home = home().ok_or_else(|| Failure::Bad {
        what: "there is no folder for the built-in targets and experiments: neither HOME, XDG_RUNTIME_DIR nor TMPDIR can be \
               written to"
            .to_owned(),
        remedy: format!("set {VARIABLE} to a folder that only you can write to"),
    })?;
    write_into(&home)
}

fn write_into(home: &Home) -> Result<PathBuf, Failure> {
    let Home { path: home, is_private } = home;
    let failed = |error: io::Error| Failure::Bad {
        what: format!("cannot write the built-in targets and experiments into {}: {error}", home.display()),
        remedy: format!("make room for them there, or set {VARIABLE} to a folder that only you can write to"),
    };
    if *is_private {
        PrivateFolder::make(home)?;
    } else {
        make_folder(home).map_err(failed)?;
    }
    // Other users could have replaced the content of a folder to which they can write.
    let home = lab::trusted::folder(home)?;
    let place = home.join(MARK);
    if !place.exists() {
        // A rename makes the folder appear complete, even if another process writes it, too.
        let scratch = home.join(format!(".{MARK}.{}", std::process::id()));
        let written = write_files(&scratch).and_then(|()| fs::rename(&scratch, &place));
        if let Err(error) = written {
            let _ = fs::remove_dir_all(&scratch);
            if !place.exists() {
                return Err(failed(error));
            }
        }
    }
    Ok(place)
}

fn write_files(folder: &Path) -> io::Result<()> {
    for file in FILES {
        let path = folder.join(file.path);
        path.parent().map_or(Ok(()), make_folder)?;
        fs::write(&path, file.content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(if file.is_program { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

/// Makes a folder and its parents: readable for all, regardless of the umask, and writable for the
/// caller.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), make_folder)?;
    match fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::set_permissions(folder, fs::Permissions::from_mode(0o755)),
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;

    #[test]
    fn every_target_and_experiment_of_the_checkout_is_packed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for entry in fs::read_dir(root.join(EXPERIMENTS)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                continue;
            }
            let packed = experiments().into_iter().find(|packed| format!("{}.toml", packed.name) == name);
            assert_eq!(packed.unwrap().text, fs::read_to_string(entry.path()).unwrap(), "{name}");
        }
        let targets: Vec<&str> = targets().iter().map(|target| target.name).collect();
        for name in ["docket", "echo", "elasticsearch", "opensearch", "pacemaker", "redis", "vsns"] {
            assert!(targets.contains(&name), "{targets:?}");
        }
        assert!(!targets.contains(&"_template"));
        for file in FILES {
            assert!(!["_build", "ebin", "__pycache__"].iter().any(|left| file.path.contains(left)), "{}", file.path);
        }
    }

    #[test]
    fn packed_files_are_written_once_and_unchanged() {
        let scratch = TestDir::new();
        let home = scratch.join("data/plimsoll");
        let to = Home { path: home.clone(), is_private: false };
        let place = write_into(&to).unwrap_or_else(|failure| panic!("{failure}"));
        for file in FILES {
            let path = place.join(file.path);
            assert_eq!(fs::read(&path).unwrap(), file.content, "{}", file.path);
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if file.is_program { 0o755 } else { 0o644 }, "{}", file.path);
        }
        assert!(place.join("targets/vsns/hooks/install").exists());
        lab::targets::check(&place.join(TARGETS)).unwrap();
        fs::write(place.join("targets/vsns/mine"), "built").unwrap();
        assert_eq!(write_into(&to).ok(), Some(place.clone()));
        assert!(place.join("targets/vsns/mine").exists(), "what was built there stays");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let scratch = TestDir::new();
        let home = scratch.join("shared");
        fs::create_dir(&home).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
        let Err(failure) = write_into(&Home { path: home.clone(), is_private: false }) else {
            panic!("it was written to")
        };
        assert!(failure.to_string().contains("shared"), "{failure}");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    }

    #[test]
    fn a_private_temporary_folder_replaces_an_unwritable_home() {
        let scratch = TestDir::new();
        // Even root cannot create an entry below a file.
        let file = scratch.join("file");
        fs::write(&file, "").unwrap();
        let (closed, session) = (file.join("share"), scratch.join("session"));
        let temporary = Home { path: scratch.join(format!("plimsoll-data-{}", geteuid().as_raw())), is_private: true };
        let home = |data: &Path| home_of_user(Some(data.to_path_buf()), Some(session.clone()), &scratch);
        assert_eq!(home(&closed), Some(temporary.clone()), "there is no folder of the session");
        fs::create_dir(&session).unwrap();
        assert_eq!(home(&closed), Some(Home { path: session.join("plimsoll-data"), is_private: true }));
        assert_eq!(home(&scratch), Some(Home { path: scratch.join("plimsoll"), is_private: false }));
        let place = write_into(&temporary).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(place.join("targets/echo/target.toml").exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&temporary.path), 0o700);
        fs::remove_dir_all(&temporary.path).unwrap();
        std::os::unix::fs::symlink(&session, &temporary.path).unwrap();
        assert!(
            write_into(&temporary).is_err() && fs::read_dir(&session).unwrap().count() == 0,
            "a link is not followed"
        );
    }

    #[test]
    fn paths_other_than_packed_names_stay_as_given() {
        let is_as_given = |path: &str| experiment(Path::new(path)).is_ok_and(|found| found == Path::new(path));
        assert!(is_as_given("../../experiments/01-first-run.toml") && is_as_given("./01-first-run"));
        assert!(is_as_given("elsewhere/01-first-run.toml") && is_as_given("no-such-experiment"));
    }
}
