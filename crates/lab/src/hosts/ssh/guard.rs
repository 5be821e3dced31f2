//! The master connection to a host, and the guard: a shell script on that host. It makes a folder
//! there and removes it when the connection ends, for whatever reason.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use linux::network::Ownership;
use runner::folder_name;
use runner::plain_text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::client::{self, ConnectionRole, SshClient};
use crate::system_program::{KeptOutput, await_end, last_line, never};

/// Time limit for connecting and for the guard's report: name lookup, keys and a slow login.
const TO_CONNECT: Duration = Duration::from_secs(40);
/// Time limit for the guard to end remaining processes and remove its folder.
const TO_END: Duration = Duration::from_secs(20);
/// Time limit for the guard to end if it has no processes to wait for.
const TO_GO: Duration = Duration::from_secs(5);
/// Time limit for remote processes to end once the run must end at once. After it, they end
/// unsupervised.
pub const TO_LET_GO: Duration = Duration::from_secs(1);
/// Size limit of other output before the expected line, bytes.
const GREETING_BYTES: usize = 256 << 10;
/// Largest number of folders that the message about `noexec` names.
const PLACES_NAMED: usize = 8;
/// Interval at which a waiting thread checks whether the user wants to end.
const GLANCE: Duration = Duration::from_millis(100);

/// A guard, with the master connection to its host. After a drop, the guard removes its folder at
/// once, or when it notices that the connection is gone.
#[derive(Debug)]
pub struct Guard {
    master: Child,
    /// Input of the guard. The guard runs while this input is open.
    input: Option<ChildStdin>,
    _output: ChildStdout,
    errors: KeptOutput,
    patience: Duration,
    /// The guard's report about its machine.
    pub facts: MachineFacts,
}

/// A guard's report about its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Output of `uname -sm`.
    pub system: String,
    /// Value of `SSH_CONNECTION`.
    pub from: String,
    /// Folders for temporary files in which no program can run (`noexec`).
    pub noexec: Vec<String>,
    /// Free space in the folder's file system, KiB.
    pub free_kib: Option<u64>,
    /// Whether the machine has gzip.
    pub has_gzip: bool,
    /// Path of the guard's folder.
    pub folder: String,
    /// Last line printed by a program other than the guard, such as the login shell.
    pub aside: String,
}

impl MachineFacts {
    /// Takes a line. Returns true for the guard's last line.
    fn hear(&mut self, line: &str) -> bool {
        let Some(said) = line.strip_prefix(OURS) else {
            self.aside = plain_text::beginning(line, plain_text::LINE_CHARACTERS);
            return false;
        };
        let (what, value) = said.split_once(' ').unwrap_or((said, ""));
        let value = plain_text::beginning(value, plain_text::LINE_CHARACTERS);
        match what {
            "system" => self.system = value,
            "from" => self.from = value,
            "noexec" if self.noexec.len() < PLACES_NAMED => self.noexec.push(value),
            "free" => self.free_kib = value.parse().ok(),
            "gzip" => self.has_gzip = true,
            "folder" => self.folder = value,
            _ => {}
        }
        matches!(what, "folder" | "nowhere")
    }
}

impl Guard {
    /// Connects, and makes a folder for this host of this run.
    ///
    /// # Errors
    /// A message for the user.
    pub fn post(client: &SshClient, run: &str, host: &str, stop: &dyn Fn() -> bool) -> Result<Self, String> {
        let (errors, held) = KeptOutput::pipe().map_err(|error| format!("cannot read the output of ssh: {error}"))?;
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::from(held));
        let mut master =
            client.spawn(ConnectionRole::Master, &guard_script(run, host), pipes).map_err(|error| no_ssh(&error))?;
        let (input, Some(mut output)) = (master.stdin.take(), master.stdout.take()) else {
            return Err("ssh was started without pipes".to_owned());
        };
        let mut facts = MachineFacts::default();
        let mut greeting = LoginLines::of(&mut output, client.patience(TO_CONNECT), stop);
        let heard = loop {
            match greeting.next_line() {
                Ok(Some(line)) if facts.hear(&line) => break Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => break Err("ssh ended".to_owned()),
                Err(error) => break Err(error.to_string()),
            }
        };
        let patience = client.patience(TO_CONNECT);
        let mut guard = Self { master, input, _output: output, errors, patience, facts };
        match heard {
            Ok(()) if guard.facts.folder.is_empty() => {
                let why = nowhere(&guard.facts);
                guard.dismiss(stop);
                Err(why)
            }
            Ok(()) => Ok(guard),
            Err(why) => Err(guard.failed(&why, client)),
        }
    }

    /// Explains why there is no guard.
    fn failed(&mut self, why: &str, client: &SshClient) -> String {
        // The drop kills a master that took too long. A master that failed exits by itself soon.
        let status = await_end(&mut self.master, Duration::from_secs(1), &never).ok().flatten();
        let errors = self.errors.text();
        match status.and_then(|status| status.code()) {
            Some(255) => client::unreached(&errors, client.destination()),
            Some(code) => {
                let output = [errors, std::mem::take(&mut self.facts.aside)].join("\n");
                format!("its login shell failed (exit {code}): {}", last_line(&output))
            }
            None if self.facts == MachineFacts::default() && why == TOO_LONG => {
                let seconds = self.patience.as_secs_f64();
                client::unreached(&format!("{errors}\nno connection after {seconds} s\n"), client.destination())
            }
            None => format!("cannot examine the host: {why}"),
        }
    }

    /// Ends the guard in good order, so that it removes its folder. This takes a while if a runner
    /// must end first. Once the run must end at once, waits only for `TO_LET_GO`; the guard then
    /// continues alone.
    pub fn dismiss(&mut self, at_once: &dyn Fn() -> bool) {
        drop(self.input.take());
        let _ = await_end(&mut self.master, TO_END, at_once);
        if at_once() {
            let _ = await_end(&mut self.master, TO_LET_GO, &never);
            let _ = self.master.kill();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // A guard with a folder removes it at once. A guard without a folder may never answer.
        let within = if self.facts.folder.is_empty() { Duration::ZERO } else { TO_GO };
        if !matches!(await_end(&mut self.master, within, &never), Ok(Some(_))) {
            let _ = self.master.kill();
        }
        let _ = self.master.wait();
    }
}

/// Explains that ssh could not be started.
pub fn no_ssh(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "`ssh` is not on this machine (Debian's package is openssh-client)".to_owned();
    }
    format!("cannot start ssh: {error}")
}

fn nowhere(facts: &MachineFacts) -> String {
    if facts.noexec.is_empty() {
        return "no folder for temporary files is writable there: tried TMPDIR, /var/tmp, /tmp and the home folder"
            .to_owned();
    }
    format!(
        "its folders for temporary files do not allow programs to run ({}); set TMPDIR on the host to another folder",
        facts.noexec.join(", ")
    )
}

const TOO_LONG: &str = "the time limit has passed";

/// Reader of the lines that a machine prints up to the expected line. The output may be endless,
/// even within one line, so one time limit and one byte limit apply to all lines together.
pub struct LoginLines<'a, I> {
    input: &'a mut I,
    until: Instant,
    stop: &'a dyn Fn() -> bool,
    left_bytes: usize,
}

impl<'a, I: Read + AsFd> LoginLines<'a, I> {
    /// Creates a reader with this time limit. Reading fails early once `stop` returns true.
    pub fn of(input: &'a mut I, within: Duration, stop: &'a dyn Fn() -> bool) -> Self {
        Self { input, until: Instant::now() + within, stop, left_bytes: GREETING_BYTES }
    }

    /// Returns the next line, without reading any byte after it. `None` at the end of the input.
    ///
    /// # Errors
    /// `TimedOut`; too much output; the system's error; `Other` once the user wants to end.
    pub fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        loop {
            self.await_more()?;
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) if byte[0] == b'\n' => {
                    return Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()));
                }
                Ok(_) => bytes.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.left_bytes = self.left_bytes.saturating_sub(1);
            if self.left_bytes == 0 {
                let reason = format!("it printed more than {} KiB before the expected line", GREETING_BYTES >> 10);
                return Err(io::Error::other(reason));
            }
        }
    }

    /// Waits until there is input. Checks the clock each time, even if there is always input.
    fn await_more(&mut self) -> io::Result<()> {
        loop {
            if (self.stop)() {
                return Err(io::Error::other("interrupted by the user"));
            }
            let left = self.until.saturating_duration_since(Instant::now()).min(GLANCE);
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, TOO_LONG));
            }
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&*self.input, PollFlags::IN)], Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                waited => return waited.map(drop).map_err(Into::into),
            }
        }
    }
}

// Shell scripts for a machine at the other end of ssh. Any login shell passes them on to `sh`. They
// use only tools that every small system has. They must touch nothing but the folder that they made
// and the processes that were started from it.

/// Prefix of the guard's lines. A login shell may print other lines.
pub const OURS: &str = "plimsoll ";
/// Environment variable of the remote runner and its children. Its value is the guard's folder.
pub const MARK: &str = "PLIMSOLL_REMOTE";

/// Parents to try for the guard's folder: the user's choice, then a folder that is usually on disk,
/// then others.
const PLACES: &str = r#""$TMPDIR" /var/tmp /tmp "$HOME""#;

/// Shell function `end`: waits for the processes that were started from folder `$d`, kills those
/// that remain, and removes the folder. If the runner was killed, also removes its faults from the
/// kernel: packet loss, slow links, cgroups. Frozen processes cannot end, so they are thawed first.
/// Every removed item carries the folder's name or a number derived from it, so faults of other
/// runs on the machine remain. The function prints nothing: its reader is gone, and a write would
/// end the script.
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

/// Returns the guard's script. The script makes the folder, reports the machine's facts, and waits
/// until its input ends, for whatever reason. Then it calls `end`. It prints the lines `system`,
/// `from`, `noexec`, `free`, `gzip`, then `folder` or `nowhere`.
#[must_use]
fn guard_script(run: &str, host: &str) -> String {
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

/// Returns a script that receives this program on standard input and checks that it runs.
#[must_use]
fn receive_program(folder: &str, unpack: &str) -> String {
    shell(&format!("{unpack} >{folder}/plimsoll && chmod 700 {folder}/plimsoll && {folder}/plimsoll --version"))
}

/// Returns a script that receives a folder as a tar archive on standard input.
#[must_use]
fn receive_folder(folder: &str) -> String {
    // Reads all input, so that the sender's write does not fail.
    shell(&format!("cd {folder}/target && tar -xof - && cat >/dev/null"))
}

/// Returns a script that runs the copied program with `command` (`runner`, `generator`). The
/// program's output starts after a marked line.
#[must_use]
pub fn program_script(folder: &str, command: &str) -> String {
    shell(&format!(
        "cd {folder} && {MARK}={folder} && export {MARK} && echo {OURS}{command} && exec {folder}/plimsoll {command}"
    ))
}

/// Returns a script that removes the folders of this name that the guards of a run did not remove.
/// Prints `removed` and the folder for each.
#[must_use]
pub fn clean_script(run: &str, name: &str) -> String {
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
    // The name is replaced last, so that no placeholder inside it is replaced.
    shell(&script.replace("RUN", run).replace("HANDLE", &handle).replace("NAME", name))
}

/// Wraps a script for any login shell: one line in single quotes. The script contains no single
/// quote.
fn shell(script: &str) -> String {
    format!("exec sh -c '{script}'")
}

/// Whether a folder's name needs no quotes in these scripts.
#[must_use]
pub fn is_plain(folder: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    folder.starts_with('/') && folder.chars().all(is_plain)
}

// Copies this program and the target's folder to a host.

/// Time limit for copying the program, over a slow line.
const TO_SEND: Duration = Duration::from_secs(300);
/// Time limit for copying a target's folder, over a slow line.
const TO_SEND_FOLDER: Duration = Duration::from_secs(900);
/// Time limit for tar to end after its last byte.
const TO_END_TAR: Duration = Duration::from_secs(5);
/// Time limit for packing the program.
const TO_PACK: Duration = Duration::from_secs(60);
/// Space that a host needs in addition to the program, KiB.
const TO_SPARE_KIB: u64 = 64 * 1024;

/// Held while the program is packed. Hosts are reached in parallel, but the program is packed once.
static PACKING: Mutex<()> = Mutex::new(());

/// Copies this program into the guard's folder, and checks that it runs there.
///
/// # Errors
/// A message for the user: too little space, another C library, or a broken connection.
pub fn send_program(
    client: &SshClient,
    facts: &MachineFacts,
    program: &Path,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), String> {
    let size = fs::metadata(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?.len();
    fits(facts, size)?;
    let packed = packed(program, scratch, facts.has_gzip);
    let (path, unpack) = packed.as_ref().map_or((program, "cat"), |(path, unpack)| (path.as_path(), *unpack));
    let input = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let script = receive_program(&facts.folder, unpack);
    let outcome = client.run(ConnectionRole::Passenger, &script, input.into(), TO_SEND, stop);
    let outcome = outcome.map_err(|error| no_ssh(&error))?;
    if outcome.is_ok() {
        return Ok(());
    }
    if outcome.status.is_none() {
        return Err(format!(
            "copying this program to the host took longer than {} s",
            client.patience(TO_SEND).as_secs_f64()
        ));
    }
    if outcome.is_ssh() {
        return Err(client::unreached(&outcome.errors, client.destination()));
    }
    Err(client::does_not_run(&outcome.errors))
}

fn fits(facts: &MachineFacts, size: u64) -> Result<(), String> {
    let needed_kib = size / 1024 + TO_SPARE_KIB;
    match facts.free_kib {
        Some(free_kib) if free_kib < needed_kib => Err(format!(
            "too little space: {} MiB are free for {}, but {} MiB are needed; set TMPDIR on the host to another folder",
            free_kib / 1024,
            facts.folder,
            needed_kib.div_ceil(1024)
        )),
        _ => Ok(()),
    }
}

/// Makes a smaller copy of the program, once per run: without debug information, or compressed.
/// Returns its path and the command that unpacks it. `None` if neither works; the program is then
/// sent as it is.
pub fn packed(program: &Path, scratch: &Path, may_compress: bool) -> Option<(PathBuf, &'static str)> {
    let _alone = PACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let named = |suffix: &str| scratch.join(program.file_name().unwrap_or_default()).with_extension(suffix);
    let stripped = named("stripped");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(half(&stripped)).arg(program);
    if made(&stripped, || Ok(strip)) {
        return Some((stripped, "cat"));
    }
    let compressed = named("gz");
    let gzip = || {
        let mut gzip = Command::new("gzip");
        gzip.args(["-1", "-c"]).stdin(File::open(program)?).stdout(File::create(half(&compressed))?);
        Ok(gzip)
    };
    (may_compress && made(&compressed, gzip)).then_some((compressed, "gzip -dc"))
}

/// Returns the temporary path of a file that is being written.
fn half(path: &Path) -> PathBuf {
    path.with_extension("half")
}

/// Whether the file existed already or could be made by this command.
fn made(path: &Path, command: impl FnOnce() -> io::Result<Command>) -> bool {
    if path.exists() {
        return true;
    }
    let make = || -> io::Result<bool> {
        let mut command = command()?;
        command.stderr(Stdio::null());
        let mut child = linux::spawn(command)?;
        let status = await_end(&mut child, TO_PACK, &never)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let is_done = status.is_some_and(|status| status.success());
        if is_done {
            fs::rename(half(path), path)?;
        }
        Ok(is_done)
    };
    make().unwrap_or(false) || {
        let _ = fs::remove_file(half(path));
        false
    }
}

/// Copies a folder with all its files to the host, where it must not exist yet.
pub fn send_folder(
    client: &SshClient,
    facts: &MachineFacts,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<PathBuf, String> {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder).args(["-cf", "-", "."]).stdin(Stdio::null()).stdout(Stdio::piped());
    let pack = |error: io::Error| format!("cannot pack {} with tar: {error}", folder.display());
    let (errors, held) = KeptOutput::pipe().map_err(pack)?;
    tar.stderr(held);
    let mut tar = linux::spawn(tar).map_err(pack)?;
    let archive = tar.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let script = receive_folder(&facts.folder);
    let outcome = client.run(ConnectionRole::Passenger, &script, archive, TO_SEND_FOLDER, stop);
    // The receiver has read everything, or is gone.
    if await_end(&mut tar, TO_END_TAR, &never).map_err(pack)?.is_none() {
        tar.kill().map_err(pack)?;
    }
    let packed = tar.wait().map_err(pack)?;
    let outcome = outcome.map_err(|error| no_ssh(&error))?;
    if !outcome.is_ok() {
        let last = last_line(&outcome.errors);
        return Err(format!("cannot copy the target's folder {} to the host: {last}", folder.display()));
    }
    if !packed.success() {
        return Err(format!("cannot pack {} with tar: {}", folder.display(), last_line(&errors.text())));
    }
    Ok(Path::new(&facts.folder).join("target"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use fixture::{TestDir, is_alive, until};

    use super::*;

    fn heard(lines: &[&str]) -> (MachineFacts, bool) {
        let mut facts = MachineFacts::default();
        let is_last = lines.iter().fold(false, |_, line| facts.hear(line));
        (facts, is_last)
    }

    #[test]
    fn guard_lines_are_found_among_login_messages() {
        let lines = [
            "Welcome to pi1",
            "plimsoll system Linux armv7l",
            "plimsoll from 10.0.0.1 50000 10.0.0.11 22",
            "plimsoll noexec /tmp",
            "plimsoll free 4096",
            "plimsoll gzip",
            "plimsoll folder /var/tmp/plimsoll-run-1-n1.abc",
        ];
        let (facts, is_last) = heard(&lines);
        assert!(is_last);
        assert_eq!((facts.system.as_str(), facts.free_kib, facts.has_gzip), ("Linux armv7l", Some(4096), true));
        assert_eq!(facts.folder, "/var/tmp/plimsoll-run-1-n1.abc");
        assert!(!heard(&lines[..6]).1);
    }

    #[test]
    fn the_lack_of_a_usable_folder_is_explained() {
        let (facts, is_last) = heard(&["plimsoll system Linux x86_64", "plimsoll nowhere"]);
        assert!(is_last && nowhere(&facts).contains("is writable"));
        let (facts, _) = heard(&["plimsoll noexec /tmp", "plimsoll nowhere"]);
        assert!(nowhere(&facts).contains("do not allow programs") && nowhere(&facts).contains("/tmp"));
    }

    #[test]
    fn no_more_than_a_line_is_read() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"first\r\nsecond").unwrap();
        let line =
            |reader: &mut io::PipeReader, ms| LoginLines::of(reader, Duration::from_millis(ms), &never).next_line();
        assert_eq!(line(&mut reader, 10_000).unwrap().as_deref(), Some("first"));
        let mut rest = [0; 6];
        reader.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"second");
        assert_eq!(line(&mut reader, 50).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(writer);
        assert_eq!(line(&mut reader, 10_000).unwrap(), None);
    }

    /// Writes endlessly on a thread until the reader is closed.
    fn chatter(text: &'static [u8]) -> io::PipeReader {
        let (reader, mut writer) = io::pipe().unwrap();
        std::thread::Builder::new().spawn(move || while writer.write_all(text).is_ok() {}).unwrap();
        reader
    }

    #[test]
    fn an_endless_greeting_is_cut_off() {
        for text in [&b"x"[..], b"hello\n"] {
            let mut reader = chatter(text);
            let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &never);
            let error = std::iter::repeat_with(|| greeting.next_line()).find_map(Result::err).unwrap();
            assert!(error.to_string().contains("more than 256 KiB"), "{error}");
        }
        // There is always more to read, so the clock must end this.
        let mut reader = chatter(b"hello\n");
        let mut greeting = LoginLines::of(&mut reader, Duration::ZERO, &never);
        assert_eq!(greeting.next_line().unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &|| true);
        assert!(greeting.next_line().unwrap_err().to_string().contains("interrupted by the user"));
    }

    #[test]
    fn control_characters_of_guard_lines_are_escaped() {
        let (facts, _) = heard(&["\u{1b}[2Jhello", "plimsoll system Linux\u{7}", "plimsoll folder /tmp/\u{202e}x"]);
        assert_eq!((facts.aside.as_str(), facts.system.as_str()), ("\\u{1b}[2Jhello", "Linux\\u{7}"));
        assert!(!is_plain(&facts.folder), "{}", facts.folder);
    }

    const RUN: &str = "test-1";
    const NAME: &str = "plimsoll-run-test-1-n1";

    fn login(script: &str, temporary: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("TMPDIR", temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Runs the guard's script until it reports its folder.
    fn guarded(temporary: &Path) -> (Child, Vec<String>, PathBuf) {
        let mut guard = login(&guard_script(RUN, "n1"), temporary).spawn().unwrap();
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
    fn scripts_pass_through_any_login_shell() {
        let scripts = [
            guard_script(RUN, "n1"),
            clean_script(RUN, NAME),
            program_script("/t/x", "runner"),
            program_script("/t/x", "generator"),
            receive_program("/t/x", "cat"),
            receive_folder("/t/x"),
        ];
        for script in scripts {
            assert_eq!(script.matches('\'').count(), 2, "{script}");
            assert!(!script.contains(['\n', '!']), "{script}");
        }
    }

    #[test]
    fn the_guard_removes_its_private_folder_at_end_of_input() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = TestDir::new();
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
    fn only_processes_of_the_folder_are_killed() {
        let temporary = TestDir::new();
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
    fn clean_removes_the_folder_of_a_killed_guard() {
        let temporary = TestDir::new();
        let (mut guard, _, folder) = guarded(&temporary);
        guard.kill().unwrap();
        guard.wait().unwrap();
        let precious = temporary.join(format!("{NAME}0.abcdef"));
        fs::create_dir(&precious).unwrap();
        assert!(folder.is_dir());
        let output = login(&clean_script(RUN, NAME), &temporary).stdin(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("plimsoll removed {}\n", folder.display()));
        assert!(!folder.exists() && precious.is_dir());
    }

    #[test]
    fn names_are_safe_in_a_shell() {
        assert!(is_plain("/var/tmp/plimsoll-run-1-n1.Xy_0"));
        for folder in ["/my files/x", "/a;b", "relative", "", "/a'b"] {
            assert!(!is_plain(folder), "{folder}");
        }
    }
}
