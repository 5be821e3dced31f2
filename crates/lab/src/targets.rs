//! Target folders: the search for them, the check whether they are trusted, and the installation of
//! their requirements.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::duration::{self, DurationError};
use experiment::manifest::{Manifest, Takes};
use rustix::process::geteuid;

use crate::hooks::{self, Hook, OutputStream};
use crate::{Error, trusted};

/// Environment variable with additional folders of targets, separated by `:`.
const VARIABLE: &str = "PLIMSOLL_TARGETS";
const FILE: &str = "target.toml";
/// The built-in target, which needs no folder.
const BUILT_IN: &str = "echo";
/// Size limit of a `target.toml`, bytes.
const MANIFEST_BYTES: u64 = 1 << 20;
const CHECK_PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for the hook `versions`. Runtimes take a moment to print their version.
const VERSIONS_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for an installation. Packages may come over slow lines.
const APPLY_PATIENCE: Duration = Duration::from_secs(3600);

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFolder {
    /// Name of the folder.
    pub name: String,
    /// Path of the folder. Empty for a built-in target.
    pub path: PathBuf,
    /// Content of its `target.toml`.
    pub source: String,
}

/// The content of the folders of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetScan {
    /// Targets that may run, sorted by name.
    pub targets: Vec<TargetFolder>,
    /// Targets that may not run, by name.
    pub refused: BTreeMap<String, UntrustedTarget>,
}

/// Reason why a target may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedTarget {
    /// The problem, with the path.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

impl From<&Error> for UntrustedTarget {
    fn from(error: &Error) -> Self {
        let remedy = match error {
            Error::Distrusted(found) => format!("{}; set {VARIABLE} to use other folders with targets", found.remedy()),
            error => error.hint().unwrap_or_else(|| "`plimsoll targets` lists the other targets".to_owned()),
        };
        Self { why: error.to_string(), remedy }
    }
}

/// Returns all targets. Searches `$PLIMSOLL_TARGETS`, then `targets` next to the experiment file
/// (or in the working folder without an experiment), then `targets` next to this program. Takes the
/// first target of each name. A target is code, so a target that another user can have written is
/// refused. The target `echo` is built in and cannot be replaced.
#[must_use]
pub fn all(experiment: Option<&Path>) -> TargetScan {
    all_in(&search_path(VARIABLE, "targets", experiment))
}

fn all_in(path: &[PathBuf]) -> TargetScan {
    let mut targets = BTreeMap::from([(BUILT_IN.to_owned(), built_in())]);
    let mut refused: BTreeMap<String, UntrustedTarget> = BTreeMap::new();
    for shelf in path {
        let trusted = trusted::folder(shelf).map_err(|error| UntrustedTarget::from(&error));
        for name in names_in(shelf) {
            if name == BUILT_IN {
                // Nothing in an untrusted folder is read. The built-in target exists anyway.
                if let Some(why) = trusted.as_ref().ok().and_then(|shelf| replaces_built_in(&shelf.join(&name))) {
                    refused.entry(name).or_insert(why);
                }
                continue;
            }
            if targets.contains_key(&name) || refused.contains_key(&name) {
                continue;
            }
            match trusted.clone().and_then(|shelf| read(&shelf, &name).map_err(|error| UntrustedTarget::from(&error))) {
                Ok(found) => drop(targets.insert(name, found)),
                Err(why) => drop(refused.insert(name, why)),
            }
        }
    }
    TargetScan { targets: targets.into_values().collect(), refused }
}

fn built_in() -> TargetFolder {
    let source = include_str!("../packed/echo.toml").to_owned();
    TargetFolder { name: BUILT_IN.to_owned(), path: PathBuf::new(), source }
}

/// Returns the names of a folder's targets. Skips names such as `_template`.
fn names_in(shelf: &Path) -> Vec<String> {
    let entries = fs::read_dir(shelf).into_iter().flatten().flatten();
    let targets = entries.filter(|entry| entry.path().join(FILE).symlink_metadata().is_ok());
    let names = targets.filter_map(|entry| entry.file_name().into_string().ok());
    // Names are printed, also those that another user chose, so they must not contain control
    // characters.
    names.filter(|name| !name.starts_with(['_', '.']) && !name.chars().any(char::is_control)).collect()
}

fn read(shelf: &Path, name: &str) -> Result<TargetFolder, Error> {
    let path = trusted::folder(&shelf.join(name))?;
    let source = trusted::read(&path.join(FILE), MANIFEST_BYTES)?;
    Ok(TargetFolder { name: name.to_owned(), path, source })
}

/// Returns an error for a folder with the name of the built-in target but other content.
fn replaces_built_in(path: &Path) -> Option<UntrustedTarget> {
    let source = trusted::read(&path.join(FILE), MANIFEST_BYTES);
    let is_same = source.is_ok_and(|source| source == built_in().source);
    (!is_same).then(|| UntrustedTarget {
        why: format!("{} has the name of the built-in target, which cannot be replaced", path.display()),
        remedy: "give the folder another name".to_owned(),
    })
}

/// Checks everything in a target's folder before any of it runs.
///
/// # Errors
/// [`Error::Distrusted`] if another user can have written it.
pub fn check(folder: &Path) -> Result<(), Error> {
    if folder.as_os_str().is_empty() { Ok(()) } else { trusted::tree(folder) }
}

/// Returns the hook with this name and these parameters.
fn hook(
    folder: &Path,
    manifest: &Manifest,
    (name, argument): (&str, Option<&str>),
    with: &BTreeMap<String, String>,
) -> Result<Option<Hook>, Error> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    installing(&folder, manifest, (name, argument), with)
}

/// Returns a hook about the installation (`install` or `versions`). The folder may be on another
/// machine. The hook gets the parameters that decide what must be installed.
pub(crate) fn installing(
    folder: &Path,
    manifest: &Manifest,
    (name, argument): (&str, Option<&str>),
    with: &BTreeMap<String, String>,
) -> Result<Option<Hook>, Error> {
    let Some(path) = hooks::path(folder, &manifest.hooks, name) else { return Ok(None) };
    let mut environment = BTreeMap::from([("PLIMSOLL_TARGET".to_owned(), folder.into())]);
    for (name, value) in manifest.installed_with(&parameters(manifest, with)?) {
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

/// Returns the missing parts of a target with these parameters, one line each, from its hook
/// `install check`. A target without the hook needs nothing.
///
/// # Errors
/// If the hook cannot run, or fails.
pub fn missing(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    match hook(folder, manifest, ("install", Some("check")), with)? {
        Some(hook) => run_check(&hook),
        None => Ok(Vec::new()),
    }
}

/// Returns the Debian packages that a target with these parameters needs. Empty if its hook
/// `install` does not support `packages`; the hook then installs them itself in [`apply`].
///
/// # Errors
/// If the hook cannot run.
pub fn packages(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    let Some(hook) = hook(folder, manifest, ("install", Some("packages")), with)? else { return Ok(Vec::new()) };
    let mut packages = Vec::new();
    let status = hook.run(&mut |stream, line| match stream {
        OutputStream::Output => packages.extend(line.split_whitespace().map(str::to_owned)),
        OutputStream::Error => {}
    })?;
    Ok(if status.success() { packages } else { Vec::new() })
}

/// Runs the target's hook `install apply`. Passes each line of output to `out` as it arrives.
///
/// # Errors
/// If the hook cannot run, or fails.
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

/// Returns the installed versions of a target's parts on this machine, from its hook `versions`.
/// Empty if there is no such hook or it fails: a run does not need the versions.
#[must_use]
pub fn versions(folder: &Path, manifest: &Manifest, with: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let Ok(Some(hook)) = hook(folder, manifest, ("versions", None), with) else { return BTreeMap::new() };
    let Ok(serde_json::Value::Object(said)) = hook.ask() else { return BTreeMap::new() };
    let versions = said.into_iter().filter_map(|(part, version)| match version {
        serde_json::Value::String(text) => Some((part, text)),
        serde_json::Value::Number(number) => Some((part, number.to_string())),
        _ => None,
    });
    versions.collect()
}

fn run_check(hook: &Hook) -> Result<Vec<String>, Error> {
    let (mut missing, mut complaint) = (Vec::new(), None);
    let status = hook.run(&mut |stream, line| match stream {
        OutputStream::Output if line.trim().is_empty() => {}
        OutputStream::Output => missing.push(line.to_owned()),
        OutputStream::Error => complaint = Some(line.to_owned()),
    })?;
    match status.code() {
        Some(0) => Ok(Vec::new()),
        Some(1) if !missing.is_empty() => Ok(missing),
        _ => {
            let reason = format!("{status}: {}", complaint.unwrap_or_else(|| "no error message".to_owned()));
            Err(Error::Hook { hook: "install check".to_owned(), reason })
        }
    }
}

fn run_apply(hook: &Hook, out: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let mut last = "no output".to_owned();
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

// Installation of Debian packages that this machine needs.

/// Installs packages without starting their services.
const SCRIPT: &str = include_str!("../packed/debian-packages.sh");
const APT: &str = "/usr/bin/apt-get";

/// Installs these packages. Their services start neither now nor at the next boot.
///
/// # Errors
/// [`Error::Packages`], if this user may not install them, there is no `apt-get`, or it fails.
pub fn install_packages(packages: &[String]) -> Result<(), Error> {
    if packages.is_empty() {
        return Ok(());
    }
    let why = install_by_apt(packages)?;
    why.map_or(Ok(()), |why| Err(Error::Packages { packages: packages.to_vec(), why }))
}

/// Returns the reason why the packages could not be installed, or `None` if they were installed.
fn install_by_apt(packages: &[String]) -> Result<Option<String>, Error> {
    if !Path::new(APT).exists() {
        return Ok(Some("this system has no apt-get; the names are Debian's".to_owned()));
    }
    if !geteuid().is_root() {
        return Ok(Some("installing packages needs root".to_owned()));
    }
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT, "debian-packages.sh"]).args(packages).stdin(Stdio::null());
    // The script gets the terminal's Ctrl-C, as this program does.
    let output = command.output().map_err(Error::system("start bash"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| errors.trim().to_owned()))
}

// Placeholders of `target.toml`: `{data}`, `{port.http}`, `{PARAMETER}`.

/// Values of placeholders, for one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlaceholderValues {
    /// Role of the process, for messages.
    pub role: String,
    /// Value of each placeholder, by name without braces.
    pub values: BTreeMap<String, String>,
}

impl PlaceholderValues {
    /// Replaces every placeholder in `text`. `{{` and `}}` stand for literal braces.
    pub fn fill(&self, text: &str) -> Result<String, Error> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                filled.push_str(brace);
                rest = after;
            } else if brace == "{" {
                let (name, after) = rest.split_once('}').ok_or_else(|| self.unknown(text, rest))?;
                filled.push_str(self.values.get(name).ok_or_else(|| self.unknown(text, name))?);
                rest = after;
            } else {
                return Err(self.unknown(text, "}"));
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn unknown(&self, text: &str, name: &str) -> Error {
        Error::Placeholder {
            role: self.role.clone(),
            text: text.to_owned(),
            name: name.to_owned(),
            known: self.values.keys().map(|name| format!("{{{name}}}")).collect(),
        }
    }
}

/// Returns all parameters as the target gets them: durations in seconds, and defaults for those
/// that the plan leaves out.
pub(crate) fn parameters(
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Error> {
    parameters_at(1.0, manifest, with)
}

/// Like [`parameters`], for a lab of this speed. The target's own durations are longer in a slow
/// lab.
pub(crate) fn parameters_at(
    speed: f64,
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Error> {
    let speed = if speed > 0.0 { speed } else { 1.0 };
    let values = manifest.parameters.iter().map(|(name, parameter)| {
        let given = with.get(name).unwrap_or(&parameter.default);
        let value = match parameter.takes {
            Takes::Duration => {
                let seconds = seconds(given)
                    .ok_or_else(|| Error::Manifest(format!("`{given}` of parameter `{name}` is not a duration")))?;
                (seconds / if parameter.lab_time { speed } else { 1.0 }).to_string()
            }
            _ => given.clone(),
        };
        Ok((name.clone(), value))
    });
    values.collect()
}

/// Converts a duration such as `"50ms"` to seconds. A bare number is in seconds already.
fn seconds(text: &str) -> Option<f64> {
    match duration::parse_s(text) {
        Err(DurationError::NoUnit) => text.trim().parse().ok().filter(|seconds: &f64| *seconds >= 0.0),
        parsed => parsed.ok(),
    }
}

// The search path for targets and profiles.

/// Number of parents of the program's folder that are searched: enough for a program in `bin/` or
/// in `target/TRIPLE/release/`.
const ABOVE_THE_PROGRAM: usize = 3;
/// The folder of the bundled experiments. Their targets and profiles are next to it.
const EXPERIMENTS: &str = "experiments";

/// Returns the folders to search, in order: first those in `variable`; then `name` next to the
/// experiment file (for a file in a folder `experiments`, also next to that folder), or in the
/// working folder without an experiment; then `name` next to this program and above it. Skips
/// folders that another user can have made, such as in /tmp.
pub(crate) fn search_path(variable: &str, name: &str, experiment: Option<&Path>) -> Vec<PathBuf> {
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

/// Whether another user can have made the folder, because its parent is writable for all.
fn is_planted(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    let parent = folder.parent().and_then(|parent| parent.metadata().ok());
    parent.is_some_and(|parent| parent.mode() & OTHERS_WRITE != 0) && trusted::folder(folder).is_err()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use experiment::manifest::Parameter;
    use fixture::TestDir;

    use super::*;
    use crate::error::install_command;
    use crate::fakes::manifest;

    #[test]
    fn the_first_target_of_a_name_is_used() {
        let (near, far) = (TestDir::new(), TestDir::new());
        near.write("vsns/target.toml", "near");
        far.write("vsns/target.toml", "far");
        far.write("redis/target.toml", "redis");
        far.write("_template/target.toml", "no");
        far.write("README.md", "no");
        far.write("empty/notes", "no");
        let found = all_in(&[near.join("missing"), near.to_path_buf(), far.to_path_buf()]);
        let targets: Vec<_> =
            found.targets.iter().map(|target| (target.name.as_str(), target.source.as_str())).collect();
        assert_eq!(targets[1..], [("redis", "redis"), ("vsns", "near")]);
        assert!(found.refused.is_empty(), "{found:?}");
    }

    #[test]
    fn echo_is_always_there() {
        let found = all(None);
        let echo = found.targets.iter().find(|target| target.name == "echo").unwrap();
        assert!(echo.source.contains("[about]"), "{}", echo.source);
        assert!(found.targets.is_sorted_by_key(|target| target.name.clone()));
        check(&echo.path).unwrap();
    }

    #[test]
    fn the_built_in_target_cannot_be_replaced() {
        let folder = TestDir::new();
        let manifest = folder.write("echo/target.toml", &built_in().source);
        let found = all_in(&[folder.to_path_buf()]);
        assert!(found.refused.is_empty() && found.targets == [built_in()], "a checkout has the same one: {found:?}");
        fs::write(&manifest, built_in().source + "[hooks]\ninstall = \"hook\"\n").unwrap();
        let found = all_in(&[folder.to_path_buf()]);
        assert_eq!(found.targets, [built_in()]);
        let why = &found.refused["echo"].why;
        assert!(why.contains("echo has the name of the built-in target, which cannot be replaced"), "{why}");
    }

    #[test]
    fn a_target_that_others_can_write_is_refused() {
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let folder = TestDir::new();
        let manifest = folder.write("vsns/target.toml", "vsns");
        let hook = folder.script("vsns/hooks/install", "true");
        let refused = || all_in(&[folder.to_path_buf()]).refused.get("vsns").cloned();
        assert_eq!(refused(), None);
        for path in [&manifest, &folder.join("vsns"), &folder.to_path_buf()] {
            let before = fs::metadata(path).unwrap().permissions().mode();
            mode(path, 0o777);
            let refused = refused().unwrap();
            let path_as_found = path.canonicalize().unwrap();
            assert!(refused.why.contains(&format!("{} belongs to ", path_as_found.display())), "{refused:?}");
            assert!(refused.why.contains("mode 0777: all users may write to it"), "{refused:?}");
            assert!(
                refused.remedy.contains("chmod go-w") && refused.remedy.contains("PLIMSOLL_TARGETS"),
                "{refused:?}"
            );
            mode(path, before);
        }
        // The folder's content is checked before any of it runs.
        check(&folder.join("vsns")).unwrap();
        mode(&hook, 0o757);
        assert!(
            matches!(check(&folder.join("vsns")), Err(Error::Distrusted(found)) if found.path.ends_with("hooks/install"))
        );
    }

    #[test]
    fn a_refused_target_hides_later_ones_of_its_name() {
        let (near, far) = (TestDir::new(), TestDir::new());
        near.write("vsns/target.toml", "near");
        far.write("vsns/target.toml", "far");
        fs::set_permissions(near.join("vsns"), fs::Permissions::from_mode(0o777)).unwrap();
        let found = all_in(&[near.to_path_buf(), far.to_path_buf()]);
        assert!(found.refused.contains_key("vsns") && found.targets == [built_in()], "{found:?}");
    }

    /// Returns a target with this script as its hook `install`.
    fn installable(script: &str) -> (TestDir, Manifest) {
        let folder = TestDir::new();
        folder.script("hooks/install", script);
        let mut manifest = manifest(Vec::new());
        manifest.hooks.insert("install".to_owned(), "hooks/install".to_owned());
        (folder, manifest)
    }

    #[test]
    fn check_lists_missing_steps() {
        let checked = |script: &str| {
            let (folder, manifest) = installable(script);
            missing(&folder, &manifest, &BTreeMap::new())
        };
        let missing = checked("[ $1 = check ] || exit 9; echo install erlang; echo; echo build it; exit 1");
        assert_eq!(missing.unwrap(), ["install erlang", "build it"]);
        assert_eq!(checked("exit 0").unwrap(), [""; 0]);
        let broken = checked("echo broken >&2; exit 2").err().unwrap();
        assert_eq!(broken.to_string(), "hook `install check` failed: exit status: 2: broken");
    }

    #[test]
    fn apply_passes_on_output_and_reports_failures() {
        let applied = |script: &str| {
            let (folder, manifest) = installable(script);
            let mut lines = Vec::new();
            let result = apply(&folder, &manifest, &BTreeMap::new(), &mut |line| lines.push(line.to_owned()));
            (result, lines)
        };
        let (result, lines) = applied("echo working; echo done >&2");
        assert_eq!((result.is_ok(), lines.len()), (true, 2));
        let (result, _) = applied("echo run: sudo apt-get install erlang; exit 1");
        let error = result.err().unwrap();
        assert_eq!(error.to_string(), "hook `install apply` failed: exit status: 1: run: sudo apt-get install erlang");
    }

    #[test]
    fn hooks_may_list_packages() {
        let asked = |script: &str| {
            let (folder, manifest) = installable(script);
            packages(&folder, &manifest, &BTreeMap::new()).unwrap()
        };
        assert_eq!(asked("[ $1 = packages ] && printf 'make\\nhaproxy\\n'"), ["make", "haproxy"]);
        assert_eq!(asked("echo 'usage: install check|apply'; exit 2"), [""; 0]);
    }

    #[test]
    fn install_hooks_get_only_the_requested_parameters() {
        use experiment::manifest::{Parameter, Takes};
        let (folder, mut manifest) = installable("env | sed -n 's/^PLIMSOLL_WITH_//p' | sort");
        for (name, default) in [("proxy", "apache"), ("copies", "disc")] {
            let parameter =
                Parameter { takes: Takes::Text, default: default.to_owned(), help: String::new(), lab_time: false };
            manifest.parameters.insert(name.to_owned(), parameter);
        }
        let with = BTreeMap::from([("proxy".to_owned(), "haproxy".to_owned())]);
        let told = |manifest: &Manifest| packages(&folder, manifest, &with).unwrap();
        assert_eq!(told(&manifest), ["COPIES=disc", "PROXY=haproxy"]);
        manifest.install_with = Some(vec!["proxy".to_owned()]);
        assert_eq!(told(&manifest), ["PROXY=haproxy"]);
        manifest.install_with = Some(Vec::new());
        assert_eq!(told(&manifest), [""; 0]);
    }

    #[test]
    fn a_target_without_the_hook_needs_nothing() {
        let (folder, manifest, with) = (TestDir::new(), manifest(Vec::new()), BTreeMap::new());
        assert_eq!(missing(&folder, &manifest, &with).unwrap(), [""; 0]);
        assert_eq!(packages(&folder, &manifest, &with).unwrap(), [""; 0]);
        assert!(apply(&folder, &manifest, &with, &mut |line| panic!("{line}")).is_ok());
    }

    #[test]
    fn versions_come_from_the_versions_hook() {
        let versions = |script: &str| {
            let folder = TestDir::new();
            folder.script("hooks/versions", script);
            let mut manifest = manifest(Vec::new());
            manifest.hooks.insert("versions".to_owned(), "hooks/versions".to_owned());
            versions(&folder, &manifest, &BTreeMap::new())
        };
        let said = versions("echo '{\"otp\": \"25.2.3\", \"protocol\": 2, \"odd\": null}'");
        assert_eq!(
            said,
            BTreeMap::from([("otp", "25.2.3"), ("protocol", "2")].map(|(a, b)| (a.to_owned(), b.to_owned())))
        );
        assert!(versions("exit 1").is_empty() && versions("echo 25").is_empty());
        assert!(super::versions(Path::new("."), &manifest(Vec::new()), &BTreeMap::new()).is_empty());
    }

    /// Runs the script with the test's own `apt-get`.
    fn script(bin: &TestDir, apt: &str) -> Command {
        bin.script("apt-get", apt);
        let mut command = Command::new("bash");
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        command.args(["-c", SCRIPT, "debian-packages.sh", "no-such-package"]).env("PATH", path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn the_install_command_names_all_packages() {
        assert!(install_packages(&[]).is_ok());
        let both = ["iproute2".to_owned(), "fio".to_owned()];
        assert!(install_command(&both).ends_with("apt-get install --yes --no-install-recommends iproute2 fio"));
    }

    #[test]
    fn package_lists_are_updated_after_a_failed_attempt() {
        let bin = TestDir::new();
        let calls = bin.join("calls");
        let apt = format!(
            "shift 4; echo \"$@\" >>{}; case $1 in update) touch {1} ;; install) [ -e {1} ] ;; esac",
            calls.display(),
            bin.join("lists").display()
        );
        let output = script(&bin, &apt).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
        let called = fs::read_to_string(&calls).unwrap();
        assert_eq!(called, "install no-such-package\nupdate\ninstall no-such-package\n");
        let output = script(&bin, "echo E: no space left; exit 100").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "E: no space left\n");
    }

    /// Regression test: services are disabled only for apt itself, and nothing of that remains
    /// after a SIGKILL.
    #[test]
    fn a_kill_during_installation_leaves_nothing_behind() {
        let starter = Path::new("/usr/sbin/invoke-rc.d");
        let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
        if !starter.exists() || !may_mount.is_ok_and(|output| output.status.success()) {
            return;
        }
        let bin = TestDir::new();
        let (seen, go) = (bin.join("seen"), bin.join("go"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &go,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let apt = format!(
            "cmp -s {} /bin/true && echo out of the way >{seen}; echo >{go}; read -r _ <{go}",
            starter.display(),
            seen = seen.display(),
            go = go.display()
        );
        let there = |path: &str| Path::new(path).exists();
        let policy = there("/usr/sbin/policy-rc.d");
        let before = fs::read(starter).unwrap();
        let mut child = script(&bin, &apt).spawn().unwrap();
        // Opens once apt is running.
        fs::read(&go).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(&seen).unwrap(), "out of the way\n");
        assert_eq!(fs::read(starter).unwrap(), before, "and still is for everybody");
        assert_eq!(there("/usr/sbin/policy-rc.d"), policy);
        fs::write(&go, "end\n").unwrap();
    }

    fn values() -> PlaceholderValues {
        let values = [("data", "/d"), ("port.http", "8080"), ("state", "ets")];
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PlaceholderValues { role: "server".to_owned(), values }
    }

    #[test]
    fn placeholders_are_filled_in() {
        let fill = |text: &str| values().fill(text).unwrap();
        assert_eq!(fill("--data={data}/x:{port.http}{state}"), "--data=/d/x:8080ets");
        assert_eq!(fill("{{kernel, [{{x}}]}}"), "{kernel, [{x}]}");
        assert_eq!(fill("plain"), "plain");
        assert_eq!(fill("{{{state}}}"), "{ets}");
    }

    #[test]
    fn an_unknown_placeholder_lists_the_known_ones() {
        for text in ["{colour}", "{data", "a}b", "{}"] {
            assert!(matches!(values().fill(text), Err(Error::Placeholder { .. })), "{text}");
        }
        let hint = values().fill("{port}").err().unwrap().hint().unwrap();
        assert_eq!(hint, "known placeholders: {data}, {port.http}, {state}");
    }

    #[test]
    fn durations_are_passed_in_seconds() {
        let mut manifest = manifest(Vec::new());
        let duration = |default: &str| Parameter {
            takes: Takes::Duration,
            default: default.to_owned(),
            help: String::new(),
            lab_time: false,
        };
        for (name, default) in [("a", "250us"), ("b", "1.5s"), ("c", "2h"), ("d", "0.05"), ("e", "1s")] {
            manifest.parameters.insert(name.to_owned(), duration(default));
        }
        manifest.parameters.insert(
            "text".to_owned(),
            Parameter { takes: Takes::Text, default: "50ms".to_owned(), help: String::new(), lab_time: false },
        );
        let filled = parameters(&manifest, &BTreeMap::from([("e".to_owned(), "3m".to_owned())])).unwrap();
        let filled: Vec<_> = filled.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            filled,
            [("a", "0.00025"), ("b", "1.5"), ("c", "7200"), ("d", "0.05"), ("e", "180"), ("text", "50ms")]
        );
        manifest.parameters.insert("own".to_owned(), Parameter { lab_time: true, ..duration("1.5s") });
        let slowed = parameters_at(0.5, &manifest, &BTreeMap::new()).unwrap();
        assert_eq!(
            (slowed["b"].as_str(), slowed["own"].as_str()),
            ("1.5", "3"),
            "a time of the lab lasts longer there"
        );
        manifest.parameters.insert("f".to_owned(), duration("soon"));
        let error = parameters(&manifest, &BTreeMap::new()).err().unwrap();
        assert_eq!(error.to_string(), "target.toml: `soon` of parameter `f` is not a duration");
    }

    const UNSET: &str = "PLIMSOLL_NO_SUCH_VARIABLE";

    #[test]
    fn parents_of_the_working_folder_are_not_searched() {
        let here = std::env::current_dir().unwrap();
        let program = std::env::current_exe().unwrap();
        let beside_us: Vec<_> = program.ancestors().skip(1).map(|folder| folder.join("targets")).collect();
        let path = search_path(UNSET, "targets", None);
        assert_eq!(path[0], here.join("targets"));
        assert!(path[1..].iter().all(|folder| beside_us.contains(folder)), "{path:?}");
        assert_eq!(path.len(), 1 + 1 + ABOVE_THE_PROGRAM);
    }

    #[test]
    fn folders_beside_the_experiment_are_searched() {
        let beside = |file: &str| beside(Some(Path::new(file)));
        assert_eq!(beside("/a/b/x.toml"), [Path::new("/a/b")]);
        assert_eq!(beside("/a/experiments/x.toml"), ["/a/experiments", "/a"].map(Path::new));
        let here = std::env::current_dir().unwrap();
        assert_eq!(beside("experiments/x.toml"), [here.join("experiments"), here.clone()]);
        assert_eq!(beside("x.toml"), [here]);
    }

    #[test]
    fn folders_of_other_users_are_not_searched() {
        let folder = TestDir::new();
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
        // In our own folder the target is found, and refused with a reason.
        fs::set_permissions(&*folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_there());
    }
}
