//! What is run on a machine at the other end of ssh, as shell commands that any login shell passes on to `sh`. They use what
//! every small system has. They must not touch anything but the one folder they made and the processes started from it.

use crate::linux::network::Ownership;

/// Marks the lines that are ours: a login shell may say more.
pub const OURS: &str = "plimsoll ";
/// In the environment of the runner there and of all that it starts; its value is the folder.
pub const MARK: &str = "PLIMSOLL_REMOTE";

/// Where the folder may be: the user's choice, then what is a disk by custom, then the rest.
const PLACES: &str = r#""$TMPDIR" /var/tmp /tmp "$HOME""#;

/// `end` waits for the processes that were started from folder `$d`, kills those that stay, and removes the folder. Should
/// the runner have been killed, it also removes what the kernel still holds of it: dropped packets, slow links, cgroups; what
/// stands still goes on, for it could not be ended. All of it carries the folder's name, or a number made of it: what another run
/// has imposed on the same machine stays. It says nothing: whoever might listen is gone, and that would end it.
const END: &str = concat!(
    r#"end() { exec 2>/dev/null; n=0; "#,
    r#"for f in $(find /sys/fs/cgroup -path "*/plimsoll-RUN/*" -name freezer.state); do echo THAWED >$f; done; "#,
    r#"while p=$(grep -lzxF "PLIMSOLL_REMOTE=$d" /proc/[0-9]*/environ); [ -n "$p" ] && [ $n -lt 120 ]; do "#,
    r#"if [ $n -ge 100 ]; then for e in $p; do e=${e#/proc/}; kill -9 ${e%/environ}; done; fi; "#,
    r#"n=$((n+1)); sleep 0.1; done; "#,
    r#"nft list tables | while read -r w f t; do case $t in NAME|NAME.*) nft delete table $f $t;; esac; done; "#,
    r#"for i in /sys/class/net/*; do i=${i##*/}; tc qdisc show dev $i | grep -q "htb HANDLE: root" && "#,
    r#"{ tc qdisc del dev $i root; tc qdisc del dev $i ingress; ip link del $(printf %.15s ifb-HANDLE-$i); }; done; "#,
    r#"[ -f "$d/data/segments" ] && read -r i s <"$d/data/segments" && ip link set $i gso_max_segs $s; "#,
    r#"find /sys/fs/cgroup -depth -type d -path "*/plimsoll-RUN/*" -exec rmdir {} \;; "#,
    r#"find /sys/fs/cgroup -depth -type d -name "plimsoll-RUN" -exec rmdir {} \;; "#,
    r#"n=0; while rm -rf "$d"; [ -e "$d" ] && [ $n -lt 20 ]; do n=$((n+1)); sleep 0.1; done; }; "#,
);

/// Looks at the machine, makes the folder, says what it found, and stays until its input ends, whatever ends it; then
/// nothing is left there. Its lines: `system`, `from`, `noexec`, `free`, `gzip`, then `folder` or `nowhere`.
#[must_use]
pub fn guard(run: &str, host: &str) -> String {
    let script = [
        r#"umask 077; trap "" HUP; say() { printf "plimsoll %s\n" "$*"; }; "#,
        END,
        r#"say system "$(uname -sm)"; say from "$SSH_CONNECTION"; for t in "#,
        PLACES,
        r#"; do d=; [ -n "$t" ] && [ -d "$t" ] || continue; d=$(mktemp -d "$t/NAME.XXXXXX" 2>/dev/null) || continue; "#,
        r##"printf "#\041/bin/sh\nexit 0\n" >"$d/try" && chmod 700 "$d/try"; "$d/try" 2>/dev/null && rm "$d/try" && break; "##,
        r#"say noexec "$t"; rm -rf "$d"; d=; done; "#,
        r#"[ -n "$d" ] || { say nowhere; exit 1; }; mkdir "$d/data" "$d/target"; "#,
        r#"set -- $(df -Pk "$d" | tail -n 1); say free "$4"; command -v gzip >/dev/null && say gzip; "#,
        r#"say folder "$d"; cat >/dev/null; end"#,
    ];
    named(&script.concat(), run, &folder_name(run, host))
}

/// Receives this program on standard input and tries it.
#[must_use]
pub fn receive_program(folder: &str, unpack: &str) -> String {
    shell(&format!("{unpack} >{folder}/plimsoll && chmod 700 {folder}/plimsoll && {folder}/plimsoll --version"))
}

/// Receives a folder as a tar archive on standard input.
#[must_use]
pub fn receive_folder(folder: &str) -> String {
    // Read to its very end, so that whoever packs it is not cut off.
    shell(&format!("cd {folder}/target && tar -xof - && cat >/dev/null"))
}

/// Becomes the runner; what it says begins after a line of ours.
#[must_use]
pub fn runner(folder: &str) -> String {
    shell(&format!(
        "cd {folder} && {MARK}={folder} && export {MARK} && echo {OURS}runner && exec {folder}/plimsoll runner"
    ))
}

/// Removes what the guards of a run could not, in folders of that name. Says `removed` and the folder, for each.
#[must_use]
pub fn clean(run: &str, name: &str) -> String {
    let each = [
        END,
        "for t in ",
        PLACES,
        r#"; do for d in "$t"/NAME.*; do "#,
        r#"[ -d "$d" ] || continue; end; [ -e "$d" ] || echo plimsoll removed "$d"; done; done"#,
    ];
    named(&each.concat(), run, name)
}

fn named(script: &str, run: &str, name: &str) -> String {
    let handle = Ownership::of(name).root_handle();
    // The name last: what it contains is not replaced.
    shell(&script.replace("RUN", run).replace("HANDLE", &handle).replace("NAME", name))
}

/// Through a login shell of any kind: on one line, in single quotes, with none of them inside.
fn shell(script: &str) -> String {
    format!("exec sh -c '{script}'")
}

/// Whether a folder's name can stand in these scripts as it is.
#[must_use]
pub fn is_plain(folder: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    folder.starts_with('/') && folder.chars().all(is_plain)
}

/// A name for the folder of a run's host; what is no letter or digit is replaced.
#[must_use]
pub fn folder_name(run: &str, host: &str) -> String {
    let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("plimsoll-run-{run}-{host}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::fixture::{Scratch, is_alive, until};

    const RUN: &str = "test-1";
    const NAME: &str = "plimsoll-run-test-1-n1";

    fn login(script: &str, temporary: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("TMPDIR", temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Plays the guard until it says where its folder is.
    fn guarded(temporary: &Path) -> (Child, Vec<String>, PathBuf) {
        let mut guard = login(&guard(RUN, "n1"), temporary).spawn().unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(guard.stdout.as_mut().unwrap()).lines() {
            lines.push(line.unwrap());
            if let Some(folder) = lines.last().unwrap().strip_prefix("plimsoll folder ") {
                let folder = PathBuf::from(folder);
                return (guard, lines, folder);
            }
        }
        panic!("the guard ended ({:?}): {lines:?}", guard.wait())
    }

    #[test]
    fn any_login_shell_passes_them_on() {
        let scripts = [
            guard(RUN, "n1"),
            clean(RUN, NAME),
            runner("/t/x"),
            receive_program("/t/x", "cat"),
            receive_folder("/t/x"),
        ];
        for script in scripts {
            assert_eq!(script.matches('\'').count(), 2, "{script}");
            assert!(!script.contains(['\n', '!']), "{script}");
        }
    }

    #[test]
    fn the_guard_makes_a_private_folder_and_removes_it_when_its_input_ends() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = Scratch::new();
        let (mut guard, lines, folder) = guarded(&temporary);
        assert!(folder.starts_with(&*temporary) && folder.join("data").is_dir() && !folder.join("try").exists());
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(lines.iter().any(|line| line.starts_with("plimsoll system Linux ")), "{lines:?}");
        assert!(
            lines
                .iter()
                .any(|line| line.strip_prefix("plimsoll free ").is_some_and(|free| free.parse::<u64>().is_ok()))
        );
        drop(guard.stdin.take());
        assert!(guard.wait().unwrap().success());
        assert!(!folder.exists());
    }

    #[test]
    fn what_was_started_from_the_folder_ends_with_it_and_nothing_else() {
        let temporary = Scratch::new();
        let (mut guard, _, folder) = guarded(&temporary);
        let start = |mark: &str| Command::new("sleep").arg("1000").env(MARK, mark).spawn().unwrap();
        let mut ours = start(&folder.display().to_string());
        let mut other = start(&format!("{}x", folder.display()));
        drop(guard.stdin.take());
        guard.wait().unwrap();
        until("it is killed", || !is_alive(ours.id()));
        assert!(is_alive(other.id()) && !folder.exists());
        other.kill().unwrap();
        let _ = (ours.wait(), other.wait());
    }

    #[test]
    fn clean_finds_what_a_killed_guard_left() {
        let temporary = Scratch::new();
        let (mut guard, _, folder) = guarded(&temporary);
        guard.kill().unwrap();
        guard.wait().unwrap();
        let precious = temporary.join(format!("{NAME}0.abcdef"));
        fs::create_dir(&precious).unwrap();
        assert!(folder.is_dir());
        let output = login(&clean(RUN, NAME), &temporary).stdin(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("plimsoll removed {}\n", folder.display()));
        assert!(!folder.exists() && precious.is_dir());
    }

    #[test]
    fn names_are_safe_in_a_shell() {
        assert_eq!(folder_name("ab-1-2-3", "web $(1)"), "plimsoll-run-ab-1-2-3-web---1-");
        assert!(is_plain("/var/tmp/plimsoll-run-1-n1.Xy_0"));
        for folder in ["/my files/x", "/a;b", "relative", "", "/a'b"] {
            assert!(!is_plain(folder), "{folder}");
        }
    }
}
