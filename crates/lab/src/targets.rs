//! Target folders: where they are, whether they can be trusted, and the installation of what they need. It must not read what
//! `target.toml` means.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::manifest::Manifest;

use crate::hooks::{self, Hook, Stream};
use crate::search_path::search_path;
use crate::{Error, placeholders, trusted};

/// The variable with more folders of targets, separated by `:`.
const VARIABLE: &str = "PLIMSOLL_TARGETS";
const FILE: &str = "target.toml";
/// The target that needs no folder.
const BUILT_IN: &str = "echo";
/// Of a `target.toml`.
const MANIFEST_BYTES: u64 = 1 << 20;
const CHECK_PATIENCE: Duration = Duration::from_secs(60);
/// Runtimes need a moment to say what they are.
const VERSIONS_PATIENCE: Duration = Duration::from_secs(10);
/// Packages come over slow lines, too.
const APPLY_PATIENCE: Duration = Duration::from_secs(3600);

/// A target that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFolder {
    /// The folder's name.
    pub name: String,
    /// The folder; empty for one that is built in and has none.
    pub path: PathBuf,
    /// Text of its `target.toml`.
    pub source: String,
}

/// What is in the folders of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Every target that may be run, sorted by name.
    pub targets: Vec<TargetFolder>,
    /// Those that may not, by name.
    pub refused: BTreeMap<String, Refused>,
}

/// Why a target is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong, and where.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl From<&Error> for Refused {
    fn from(error: &Error) -> Self {
        let remedy = match error {
            Error::Distrusted(found) => format!("{}; {VARIABLE} names more folders with targets", found.remedy()),
            error => error.hint().unwrap_or_else(|| "`plimsoll targets` lists the others".to_owned()),
        };
        Self { why: error.to_string(), remedy }
    }
}

/// Every target. They are looked for in `$PLIMSOLL_TARGETS`, in `targets` beside the experiment file (or in the working folder
/// where there is none), and in `targets` beside this program; where two have the same name, the first counts. Targets are
/// code, so one that another user can have written is refused. `echo` is built in, always there, and cannot be replaced.
#[must_use]
pub fn all(experiment: Option<&Path>) -> Found {
    all_in(&search_path(VARIABLE, "targets", experiment))
}

fn all_in(path: &[PathBuf]) -> Found {
    let mut targets = BTreeMap::from([(BUILT_IN.to_owned(), built_in())]);
    let mut refused: BTreeMap<String, Refused> = BTreeMap::new();
    for shelf in path {
        let trusted = trusted::folder(shelf).map_err(|error| Refused::from(&error));
        for name in names_in(shelf) {
            if name == BUILT_IN {
                // One that cannot be trusted is not even read; the built-in one is there anyway.
                if let Some(why) = trusted.as_ref().ok().and_then(|shelf| replaces_built_in(&shelf.join(&name))) {
                    refused.entry(name).or_insert(why);
                }
                continue;
            }
            if targets.contains_key(&name) || refused.contains_key(&name) {
                continue;
            }
            match trusted.clone().and_then(|shelf| read(&shelf, &name).map_err(|error| Refused::from(&error))) {
                Ok(found) => drop(targets.insert(name, found)),
                Err(why) => drop(refused.insert(name, why)),
            }
        }
    }
    Found { targets: targets.into_values().collect(), refused }
}

fn built_in() -> TargetFolder {
    let source = include_str!("../../../targets/echo/target.toml").to_owned();
    TargetFolder { name: BUILT_IN.to_owned(), path: PathBuf::new(), source }
}

/// The targets of a folder, by name. `_template` and the like are none.
fn names_in(shelf: &Path) -> Vec<String> {
    let entries = fs::read_dir(shelf).into_iter().flatten().flatten();
    let is_target = |path: PathBuf| path.join(FILE).symlink_metadata().is_ok();
    let names =
        entries.filter(|entry| is_target(entry.path())).filter_map(|entry| entry.file_name().into_string().ok());
    // A name is shown, also one that another user gave, and is not to steer the terminal.
    names.filter(|name| !name.starts_with(['_', '.']) && !name.chars().any(char::is_control)).collect()
}

fn read(shelf: &Path, name: &str) -> Result<TargetFolder, Error> {
    let path = trusted::folder(&shelf.join(name))?;
    let source = trusted::read(&path.join(FILE), MANIFEST_BYTES)?;
    Ok(TargetFolder { name: name.to_owned(), path, source })
}

/// A folder that is named like the built-in target, and is not the one that was built in.
fn replaces_built_in(path: &Path) -> Option<Refused> {
    let source = trusted::read(&path.join(FILE), MANIFEST_BYTES);
    let is_same = source.is_ok_and(|source| source == built_in().source);
    (!is_same).then(|| Refused {
        why: format!("{} is named like the built-in target, which cannot be replaced", path.display()),
        remedy: "give the folder another name".to_owned(),
    })
}

/// Looks at all that is in a target's folder before any of it is run.
///
/// # Errors
/// [`Error::Distrusted`] if another user can have written it.
pub fn check(folder: &Path) -> Result<(), Error> {
    if folder.as_os_str().is_empty() { Ok(()) } else { trusted::tree(folder) }
}

/// The hook of that name, told these parameters.
fn hook(
    folder: &Path,
    manifest: &Manifest,
    (name, argument): (&str, Option<&str>),
    with: &BTreeMap<String, String>,
) -> Result<Option<Hook>, Error> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    installing(&folder, manifest, (name, argument), with)
}

/// A hook about what is installed, `install` or `versions`, of a folder that is perhaps on another machine. It is told the
/// parameters that decide what has to be installed.
pub(crate) fn installing(
    folder: &Path,
    manifest: &Manifest,
    (name, argument): (&str, Option<&str>),
    with: &BTreeMap<String, String>,
) -> Result<Option<Hook>, Error> {
    let Some(path) = hooks::path(folder, &manifest.hooks, name) else { return Ok(None) };
    let mut environment = BTreeMap::from([("PLIMSOLL_TARGET".to_owned(), folder.into())]);
    for (name, value) in manifest.installed_with(&placeholders::parameters(manifest, with)?) {
        environment.insert(hooks::variable("PLIMSOLL_WITH_", &name), value.into());
    }
    Ok(Some(Hook {
        name: name.to_owned(),
        folder: folder.to_path_buf(),
        path,
        arguments: argument.map(str::to_owned).into_iter().collect(),
        environment,
        within: match argument {
            Some("apply") => APPLY_PATIENCE,
            Some(_) => CHECK_PATIENCE,
            None => VERSIONS_PATIENCE,
        },
        answer_bytes: hooks::ANSWER_BYTES,
        in_foreground: argument == Some("apply"),
    }))
}

/// What is missing of a target with these parameters, a line each, as its hook `install` says. A target without the hook needs nothing.
///
/// # Errors
/// If the hook cannot be run, or fails.
pub fn missing(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    match hook(folder, manifest, ("install", Some("check")), with)? {
        Some(hook) => run_check(&hook),
        None => Ok(Vec::new()),
    }
}

/// Which Debian packages are missing of a target with these parameters. None where its hook `install` does not answer
/// that: then it sees to them itself, in [`apply`].
///
/// # Errors
/// If the hook cannot be run.
pub fn packages(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    let Some(hook) = hook(folder, manifest, ("install", Some("packages")), with)? else { return Ok(Vec::new()) };
    let mut packages = Vec::new();
    let status = hook.run(&mut |stream, line| match stream {
        Stream::Output => packages.extend(line.split_whitespace().map(str::to_owned)),
        Stream::Error => {}
    })?;
    Ok(if status.success() { packages } else { Vec::new() })
}

/// Has the target's hook `install` do what is to be done. Every line the hook says is handed to `out` as it comes.
///
/// # Errors
/// If the hook cannot be run, fails, or leaves something missing.
pub fn apply(
    folder: &Path,
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
    out: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    match hook(folder, manifest, ("install", Some("apply")), with)? {
        Some(hook) => run_apply(&hook, out),
        None => Ok(()),
    }
}

/// Versions of what is installed for a target with these parameters on this machine, as its hook `versions` says: part to
/// version. Empty without the hook, and where it does not know: a run is not held up by it.
#[must_use]
pub fn versions(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let Ok(Some(hook)) = hook(folder, manifest, ("versions", None), with) else { return BTreeMap::new() };
    let Ok(serde_json::Value::Object(said)) = hook.ask() else { return BTreeMap::new() };
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    said.into_iter().filter_map(|(part, version)| Some((part, text(version)?))).collect()
}

fn run_check(hook: &Hook) -> Result<Vec<String>, Error> {
    let (mut missing, mut complaint) = (Vec::new(), None);
    let status = hook.run(&mut |stream, line| match stream {
        Stream::Output if line.trim().is_empty() => {}
        Stream::Output => missing.push(line.to_owned()),
        Stream::Error => complaint = Some(line.to_owned()),
    })?;
    match status.code() {
        Some(0) => Ok(Vec::new()),
        Some(1) if !missing.is_empty() => Ok(missing),
        _ => {
            let reason = format!("{status}: {}", complaint.unwrap_or_else(|| "it names nothing".to_owned()));
            Err(Error::Hook { hook: "install check".to_owned(), reason })
        }
    }
}

fn run_apply(hook: &Hook, out: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let mut last = "it wrote nothing".to_owned();
    let status = hook.run(&mut |_, line| {
        out(line);
        if !line.trim().is_empty() {
            last = line.to_owned();
        }
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Hook { hook: "install apply".to_owned(), reason: format!("{status}: {last}") })
}

#[cfg(test)]
mod tests;
