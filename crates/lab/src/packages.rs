//! What has to be on this machine besides Plimsoll, by the names of Debian's packages: said in one command, or installed.
//! It must not know whose need it is.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::Error;

/// Installs packages without starting the services in them.
const SCRIPT: &str = include_str!("../../../scripts/debian-packages.sh");
const APT: &str = "/usr/bin/apt-get";

/// The command that installs these packages.
#[must_use]
pub fn command(packages: &[String]) -> String {
    format!("sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}", packages.join(" "))
}

/// Installs these packages. Services in them are neither started now nor at the next boot.
///
/// # Errors
/// [`Error::Packages`], if this user may not, this system has no `apt-get`, or that fails.
pub fn install(packages: &[String]) -> Result<(), Error> {
    if packages.is_empty() {
        return Ok(());
    }
    let failed = |why: &str| Error::Packages { packages: packages.to_vec(), why: why.to_owned() };
    if !Path::new(APT).exists() {
        return Err(failed("this system has no apt-get; they go by Debian's names here"));
    }
    if !geteuid().is_root() {
        return Err(failed("that needs root"));
    }
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT, "debian-packages.sh"]).args(packages).stdin(Stdio::null());
    // It shares the terminal's Ctrl-C with us.
    let output = command.output().map_err(Error::system("start bash"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::fixture::Scratch;

    /// Runs the script with an `apt-get` of the test's own.
    fn script(bin: &Scratch, apt: &str) -> Command {
        bin.script("apt-get", apt);
        let mut command = Command::new("bash");
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        command.args(["-c", SCRIPT, "debian-packages.sh", "no-such-package"]).env("PATH", path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn nothing_is_needed_for_nothing_and_the_command_names_all() {
        assert!(install(&[]).is_ok());
        let both = ["iproute2".to_owned(), "fio".to_owned()];
        assert!(command(&both).ends_with("apt-get install --yes --no-install-recommends iproute2 fio"));
    }

    #[test]
    fn lists_are_fetched_where_the_first_attempt_fails_and_the_last_lines_are_said() {
        let bin = Scratch::new();
        let calls = bin.join("calls");
        let apt = format!(
            "shift 4; echo \"$@\" >>{}; case $1 in update) touch {1} ;; install) [ -e {1} ] ;; esac",
            calls.display(),
            bin.join("lists").display()
        );
        let output = script(&bin, &apt).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
        let called = std::fs::read_to_string(&calls).unwrap();
        assert_eq!(called, "install no-such-package\nupdate\ninstall no-such-package\n");
        let output = script(&bin, "echo E: no space left; exit 100").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "E: no space left\n");
    }

    /// What starts services is out of the way for apt alone, and a SIGKILL in the middle leaves nothing of that.
    #[test]
    fn a_kill_in_the_middle_of_an_installation_leaves_nothing_behind() {
        let starter = Path::new("/usr/sbin/invoke-rc.d");
        let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
        if !starter.exists() || !may_mount.is_ok_and(|output| output.status.success()) {
            return;
        }
        let bin = Scratch::new();
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
        let before = std::fs::read(starter).unwrap();
        let mut child = script(&bin, &apt).spawn().unwrap();
        // Opens when apt is under way.
        std::fs::read(&go).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "out of the way\n");
        assert_eq!(std::fs::read(starter).unwrap(), before, "and still is for everybody");
        assert_eq!(there("/usr/sbin/policy-rc.d"), policy);
        std::fs::write(&go, "end\n").unwrap();
    }
}
