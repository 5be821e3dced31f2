//! Target folders: where they are, and the installation of what they need. It must not read what `target.toml` means.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::manifest::Manifest;

use crate::hooks::{self, Hook, Stream};
use crate::{Error, placeholders};

/// The variable with more folders of targets, separated by `:`.
const VARIABLE: &str = "PLIMSOLL_TARGETS";
const FILE: &str = "target.toml";
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

/// Every target, sorted by name. They are looked for in `$PLIMSOLL_TARGETS`, in `targets` of the working folder and of those
/// above it, and in `targets` beside this program and above it; where two have the same name, the first counts. `echo` is
/// built in and always there.
#[must_use]
pub fn all() -> Vec<TargetFolder> {
    let built_in = TargetFolder {
        name: "echo".to_owned(),
        path: PathBuf::new(),
        source: include_str!("../../../targets/echo/target.toml").to_owned(),
    };
    let mut found = all_in(&shelves());
    found.entry(built_in.name.clone()).or_insert(built_in);
    found.into_values().collect()
}

/// The target of that name.
#[must_use]
pub fn find(name: &str) -> Option<TargetFolder> {
    all().into_iter().find(|target| target.name == name)
}

fn shelves() -> Vec<PathBuf> {
    let named = std::env::var_os(VARIABLE).unwrap_or_default();
    let mut shelves: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    for start in [std::env::current_dir(), std::env::current_exe()].into_iter().flatten() {
        shelves.extend(start.ancestors().map(|folder| folder.join("targets")));
    }
    shelves
}

fn all_in(shelves: &[PathBuf]) -> BTreeMap<String, TargetFolder> {
    let mut found = BTreeMap::new();
    for folder in shelves.iter().filter_map(|shelf| fs::read_dir(shelf).ok()).flatten().flatten() {
        let Ok(name) = folder.file_name().into_string() else { continue };
        // `_template` and the like are no targets.
        if name.starts_with(['_', '.']) {
            continue;
        }
        if let Ok(bytes) = fs::read(folder.path().join(FILE)) {
            let source = String::from_utf8_lossy(&bytes).into_owned();
            found.entry(name.clone()).or_insert(TargetFolder { name, path: folder.path(), source });
        }
    }
    found
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
