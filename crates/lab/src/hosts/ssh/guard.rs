//! The one connection to a host, and the guard at its other end, who makes a folder there and removes it when the connection
//! ends, whatever ends it. It must not know what the folder is for.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::client::{self, Client, Part, SshOutput, never};
use super::{complaint, scripts};
use crate::plain_text;

/// For connecting and the first look: names, keys and a slow machine's login included.
const TO_CONNECT: Duration = Duration::from_secs(40);
/// For the guard to end what is left there and to remove its folder.
const TO_END: Duration = Duration::from_secs(20);
/// For a guard that nothing was started beside.
const TO_GO: Duration = Duration::from_secs(5);
/// For whatever is let go of when all is to end at once: it goes by itself.
pub const TO_LET_GO: Duration = Duration::from_secs(1);
/// Whoever has said so much before what is waited for will not say that.
const GREETING_BYTES: usize = 256 << 10;
/// Places that are named where no program may run.
const PLACES: usize = 8;
/// How often whoever waits looks whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(100);

/// A guard, with the connection that carries all others to its host. Dropped, it is let go: it
/// removes its folder, now or when it notices.
#[derive(Debug)]
pub struct Guard {
    master: Child,
    /// As long as it is open, the guard stays.
    input: Option<ChildStdin>,
    _output: ChildStdout,
    errors: SshOutput,
    patience: Duration,
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
            self.aside = plain_text::beginning(line, plain_text::LINE_CHARACTERS);
            return false;
        };
        let (what, value) = said.split_once(' ').unwrap_or((said, ""));
        let value = plain_text::beginning(value, plain_text::LINE_CHARACTERS);
        match what {
            "system" => self.system = value,
            "from" => self.from = value,
            "noexec" if self.noexec.len() < PLACES => self.noexec.push(value),
            "free" => self.free_kib = value.parse().ok(),
            "gzip" => self.has_gzip = true,
            "folder" => self.folder = value,
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
    pub fn post(client: &Client, run: &str, host: &str, stop: &dyn Fn() -> bool) -> Result<Self, String> {
        let (errors, held) = SshOutput::pipe().map_err(|error| format!("cannot hear what ssh says: {error}"))?;
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::from(held));
        let mut master =
            client.spawn(Part::Master, &scripts::guard(run, host), pipes).map_err(|error| no_ssh(&error))?;
        let (input, Some(mut output)) = (master.stdin.take(), master.stdout.take()) else {
            return Err("ssh was started without pipes".to_owned());
        };
        let mut facts = Facts::default();
        let mut greeting = LoginLines::of(&mut output, client.patience(TO_CONNECT), stop);
        let heard = loop {
            match greeting.next_line() {
                Ok(Some(line)) if facts.hear(&line) => break Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => break Err("it ended".to_owned()),
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

    /// Why there is no guard.
    fn failed(&mut self, why: &str, client: &Client) -> String {
        // One that took too long is killed by the drop; one that ended is about to be gone.
        let status = client::await_end(&mut self.master, Duration::from_secs(1), &never).ok().flatten();
        let errors = self.errors.text();
        match status.and_then(|status| status.code()) {
            Some(255) => complaint::unreached(&errors, client.destination()),
            Some(code) => {
                let said = [errors, std::mem::take(&mut self.facts.aside)].join("\n");
                format!("its login shell did not do what was asked (exit {code}): {}", complaint::last_line(&said))
            }
            None if self.facts == Facts::default() && why == TOO_LONG => {
                let seconds = self.patience.as_secs_f64();
                complaint::unreached(&format!("{errors}\nno connection after {seconds} s\n"), client.destination())
            }
            None => format!("cannot look at it: {why}"),
        }
    }

    /// Ends it in good order: everything is removed at the other end, which takes a while if a runner has to be ended. Nobody
    /// waits for that once all is to end at once: the guard goes on without us.
    pub fn dismiss(&mut self, at_once: &dyn Fn() -> bool) {
        drop(self.input.take());
        let _ = client::await_end(&mut self.master, TO_END, at_once);
        if at_once() {
            let _ = client::await_end(&mut self.master, TO_LET_GO, &never);
            let _ = self.master.kill();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // One that has made its folder removes it at once; one that has not may never answer.
        let within = if self.facts.folder.is_empty() { Duration::ZERO } else { TO_GO };
        if !matches!(client::await_end(&mut self.master, within, &never), Ok(Some(_))) {
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

const TOO_LONG: &str = "it took too long";

/// What a machine says before what is waited for. It may never end, nor ever end a line: there is a time for all of it, however
/// much comes meanwhile, and a budget.
pub struct LoginLines<'a, I> {
    input: &'a mut I,
    until: Instant,
    stop: &'a dyn Fn() -> bool,
    left_bytes: usize,
}

impl<'a, I: Read + AsFd> LoginLines<'a, I> {
    /// What comes from there, for so long; not once it is to `stop`.
    pub fn of(input: &'a mut I, within: Duration, stop: &'a dyn Fn() -> bool) -> Self {
        Self { input, until: Instant::now() + within, stop, left_bytes: GREETING_BYTES }
    }

    /// The next line, read without a byte of what follows it. `None`: the end came first.
    ///
    /// # Errors
    /// `TimedOut`; that too much was said; what the system says; `Other` once the user wants an end.
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
                let reason = format!("it says more than {} KiB, and not what is waited for", GREETING_BYTES >> 10);
                return Err(io::Error::other(reason));
            }
        }
    }

    /// Waits until something can be read. The clock is looked at each time, also if something always can.
    fn await_more(&mut self) -> io::Result<()> {
        loop {
            if (self.stop)() {
                return Err(io::Error::other("the user wants an end"));
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn heard(lines: &[&str]) -> (Facts, bool) {
        let mut facts = Facts::default();
        let is_last = lines.iter().fold(false, |_, line| facts.hear(line));
        (facts, is_last)
    }

    #[test]
    fn a_guard_is_heard_through_what_a_login_says() {
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
    fn without_a_place_it_says_why() {
        let (facts, is_last) = heard(&["plimsoll system Linux x86_64", "plimsoll nowhere"]);
        assert!(is_last && nowhere(&facts).contains("can be written"));
        let (facts, _) = heard(&["plimsoll noexec /tmp", "plimsoll nowhere"]);
        assert!(nowhere(&facts).contains("must not run") && nowhere(&facts).contains("/tmp"));
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

    /// Writes without an end, from a thread, until nobody reads.
    fn chatter(text: &'static [u8]) -> io::PipeReader {
        let (reader, mut writer) = io::pipe().unwrap();
        std::thread::Builder::new().spawn(move || while writer.write_all(text).is_ok() {}).unwrap();
        reader
    }

    #[test]
    fn a_host_that_never_stops_talking_is_not_heard_for_ever() {
        for text in [&b"x"[..], b"hello\n"] {
            let mut reader = chatter(text);
            let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &never);
            let error = std::iter::repeat_with(|| greeting.next_line()).find_map(Result::err).unwrap();
            assert!(error.to_string().contains("more than 256 KiB"), "{error}");
        }
        // Within the budget, the clock decides, though there is always more to read.
        let mut reader = chatter(b"hello\n");
        let mut greeting = LoginLines::of(&mut reader, Duration::ZERO, &never);
        assert_eq!(greeting.next_line().unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &|| true);
        assert!(greeting.next_line().unwrap_err().to_string().contains("wants an end"));
    }

    #[test]
    fn what_a_guard_says_can_be_shown() {
        let (facts, _) = heard(&["\u{1b}[2Jhello", "plimsoll system Linux\u{7}", "plimsoll folder /tmp/\u{202e}x"]);
        assert_eq!((facts.aside.as_str(), facts.system.as_str()), ("\\u{1b}[2Jhello", "Linux\\u{7}"));
        assert!(!scripts::is_plain(&facts.folder), "{}", facts.folder);
    }
}
