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
mod tests;
