//! The one connection to a host, and the guard at its other end, who makes a folder there and removes it when the connection
//! ends, whatever ends it. It must not know what the folder is for.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::client::{self, Client, Part};
use super::{complaint, scripts};

/// For connecting and the first look: names, keys and a slow machine's login included.
const TO_CONNECT: Duration = Duration::from_secs(40);
/// For the guard to end what is left there and to remove its folder.
const TO_END: Duration = Duration::from_secs(20);
/// For a guard that nothing was started beside.
const TO_GO: Duration = Duration::from_secs(5);

/// A guard, with the connection that carries all others to its host. Dropped, it is let go: it
/// removes its folder, now or when it notices.
#[derive(Debug)]
pub struct Guard {
    master: Child,
    /// As long as it is open, the guard stays.
    input: Option<ChildStdin>,
    _output: ChildStdout,
    errors: File,
    /// What it found.
    pub facts: Facts,
}

/// What a guard says of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `uname -sm`.
    pub system: String,
    /// `SSH_CONNECTION`.
    pub from: String,
    /// Places for temporary files where no program may run.
    pub noexec: Vec<String>,
    /// Space where the folder is, KiB.
    pub free_kib: Option<u64>,
    /// Whether there is gzip.
    pub has_gzip: bool,
    /// The folder.
    pub folder: String,
    /// The last line that was not the guard's: the login shell's own word.
    pub aside: String,
}

impl Facts {
    /// Takes in a line. True: it was the last.
    fn hear(&mut self, line: &str) -> bool {
        let Some(said) = line.strip_prefix(scripts::OURS) else {
            line.clone_into(&mut self.aside);
            return false;
        };
        let (what, value) = said.split_once(' ').unwrap_or((said, ""));
        match what {
            "system" => value.clone_into(&mut self.system),
            "from" => value.clone_into(&mut self.from),
            "noexec" => self.noexec.push(value.to_owned()),
            "free" => self.free_kib = value.parse().ok(),
            "gzip" => self.has_gzip = true,
            "folder" => value.clone_into(&mut self.folder),
            _ => {}
        }
        matches!(what, "folder" | "nowhere")
    }
}

impl Guard {
    /// Connects, and has a folder made for that host of that run.
    ///
    /// # Errors
    /// In words, for the user.
    pub fn post(client: &Client, run: &str, host: &str) -> Result<Self, String> {
        let errors = client::memory().map_err(|error| format!("no memory for what ssh says: {error}"))?;
        let held = errors.try_clone().map_err(|error| format!("no memory for what ssh says: {error}"))?;
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::from(held));
        let mut master =
            client.spawn(Part::Master, &scripts::guard(run, host), pipes).map_err(|error| no_ssh(&error))?;
        let (input, Some(mut output)) = (master.stdin.take(), master.stdout.take()) else {
            return Err("ssh was started without pipes".to_owned());
        };
        let until = Instant::now() + TO_CONNECT;
        let mut facts = Facts::default();
        let heard = loop {
            match line(&mut output, until) {
                Ok(Some(line)) if facts.hear(&line) => break Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => break Err("it ended"),
                Err(_) => break Err("it took too long"),
            }
        };
        let mut guard = Self { master, input, _output: output, errors, facts };
        match heard {
            Ok(()) if guard.facts.folder.is_empty() => {
                let why = nowhere(&guard.facts);
                guard.dismiss();
                Err(why)
            }
            Ok(()) => Ok(guard),
            Err(why) => Err(guard.failed(why, client)),
        }
    }

    /// Why there is no guard.
    fn failed(&mut self, why: &str, client: &Client) -> String {
        // One that took too long is killed by the drop; one that ended is about to be gone.
        let status = client::await_end(&mut self.master, Duration::from_secs(1)).ok().flatten();
        let errors = client::written(&mut self.errors).unwrap_or_default();
        match status.and_then(|status| status.code()) {
            Some(255) => complaint::unreached(&errors, client.destination()),
            Some(code) => {
                let said = [errors, std::mem::take(&mut self.facts.aside)].join("\n");
                format!("its login shell did not do what was asked (exit {code}): {}", complaint::last_line(&said))
            }
            None if self.facts == Facts::default() => {
                let seconds = TO_CONNECT.as_secs();
                complaint::unreached(&format!("{errors}\nno connection after {seconds} s\n"), client.destination())
            }
            None => format!("cannot look at it: {why}"),
        }
    }

    /// Ends it in good order: everything is removed at the other end, which takes a while if a runner has to be ended.
    pub fn dismiss(&mut self) {
        drop(self.input.take());
        let _ = client::await_end(&mut self.master, TO_END);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // One that has made its folder removes it at once; one that has not may never answer.
        let within = if self.facts.folder.is_empty() { Duration::ZERO } else { TO_GO };
        if !matches!(client::await_end(&mut self.master, within), Ok(Some(_))) {
            let _ = self.master.kill();
        }
        let _ = self.master.wait();
    }
}

/// In the user's words: ssh could not be started.
pub fn no_ssh(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "there is no `ssh` on this machine (Debian's package is openssh-client)".to_owned();
    }
    format!("cannot start ssh: {error}")
}

fn nowhere(facts: &Facts) -> String {
    if facts.noexec.is_empty() {
        return "no folder for temporary files can be written to there: not TMPDIR, /var/tmp, /tmp nor the home folder"
            .to_owned();
    }
    format!("programs must not run in its folders for temporary files ({}); set TMPDIR there", facts.noexec.join(", "))
}

/// Reads one line and not a byte more. `None`: the end came first.
///
/// # Errors
/// `TimedOut`, or what the system says.
pub fn line(input: &mut (impl Read + AsFd), until: Instant) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => continue,
            waited => waited?,
        };
        let mut byte = [0];
        match input.read(&mut byte)? {
            0 => return Ok(None),
            _ if byte[0] == b'\n' => return Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
            _ => bytes.push(byte[0]),
        }
    }
}

#[cfg(test)]
mod tests;
