//! A virtual host as the lab holds it: its keeper, its disk, its cables; ended and made again. It must not know what runs on
//! it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use record::events::HostFigures;
use rustix::process::Signal;

use super::switch::Switch;
use super::volume::Volume;
use super::{KIND, keeper};
use crate::Error;
use crate::attended::Machine;
use crate::linux::{pidfd, procfs, spawn};
use crate::plain_text;
use crate::registry::{Ledger, MARK};
use crate::remains::Group;
use crate::runner::session::Session;
use crate::runner::{Order, Setup, Wiring};

/// For a keeper to make its host.
const START_PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);
/// Of what a keeper said, so much of the end is looked at for its last words.
const WORDS_BYTES: i64 = 16 << 10;
/// Where the target's folder is inside.
pub const TARGET: &str = "/run/plimsoll/target";

/// A process that holds a host's namespaces, and the conversation with the runner inside.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    name: String,
    words: PathBuf,
    /// The user wants an end at once.
    at_once: Arc<AtomicBool>,
}

impl Kept {
    /// Starts `plimsoll runner` and tells it what to be. `words` gets what it says on standard error.
    pub fn start(
        plimsoll: &Path,
        setup: &Setup,
        words: &Path,
        ledger: &Ledger,
        at_once: &Arc<AtomicBool>,
    ) -> Result<(Self, Arc<Session>), Error> {
        let doing = || format!("start host {}", setup.host);
        let errors = File::create(words).map_err(Error::system(format!("write {}", words.display())))?;
        let mut command = Command::new(plimsoll);
        command.arg("runner").env(MARK, ledger.id());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        ledger.announce(&setup.host, "runner")?;
        let mut child = spawn::spawn(command).map_err(Error::system(doing()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (name, words) = (setup.host.clone(), words.to_path_buf());
        let mut kept = Self { keeper: child, name, words, at_once: Arc::clone(at_once) };
        // Its output is our order book: who else is in its group has the mark.
        let registered = ledger.started(&Group::of(kept.pid(), Vec::new()));
        let (Some(input), Some(output)) = (input, output) else {
            return Err(Error::System { doing: doing(), error: std::io::ErrorKind::BrokenPipe.into() });
        };
        let session = registered
            .and_then(|()| Session::open(Box::new(input), Box::new(output), setup, START_PATIENCE, at_once))
            .map_err(|error| kept.explained(error))
            .inspect_err(|_| drop(kept.kill()))?;
        Ok((kept, session))
    }

    /// The process that holds the namespaces.
    pub fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// With what it said on standard error: a panic, or what the linker could not find.
    fn explained(&self, error: Error) -> Error {
        let said = self.last_words().unwrap_or_default();
        let Error::Host { host, reason } = error else { return error };
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let quoted = |last: &str| plain_text::beginning(last.trim(), plain_text::LINE_CHARACTERS);
        Error::Host { host, reason: last.map_or(reason.clone(), |last| format!("{reason} ({})", quoted(last))) }
    }

    fn last_words(&self) -> std::io::Result<String> {
        let mut file = File::open(&self.words)?;
        if file.metadata()?.len().cast_signed() > WORDS_BYTES {
            file.seek(SeekFrom::End(-WORDS_BYTES))?;
        }
        let mut said = Vec::new();
        file.take(WORDS_BYTES.cast_unsigned()).read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Has what was stopped go on: the keeper and the first process inside. Who stands still notices no end.
    fn wake(&self) -> Option<procfs::Stat> {
        let pid = self.pid();
        let first = procfs::alive().into_iter().find(|stat| stat.parent == pid);
        for process in procfs::stat(pid).iter().chain(&first) {
            pidfd::signal(process, Signal::CONT);
        }
        first
    }

    /// Ends it and all that is inside, at once, and waits until all of that is gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        if self.has_ended() {
            return Ok(());
        }
        // The first process inside takes all others with it, and the keeper ends when all are gone. Killed itself, it
        // would not be waited for.
        let pid = self.pid();
        if let Some(first) = self.wake() {
            pidfd::signal(&first, Signal::KILL);
            pidfd::await_end(pid, PATIENCE);
        }
        if !self.has_ended() {
            let _ = self.keeper.kill();
            pidfd::await_end(pid, PATIENCE);
        }
        if self.has_ended() {
            return Ok(());
        }
        Err(Error::Host { host: self.name.clone(), reason: "it does not end, most likely for a disk".to_owned() })
    }

    /// Waits for its end; kills it when the time is over, or at once if that is wanted.
    pub fn end(&mut self) -> Result<(), Error> {
        if !self.has_ended() && !self.at_once.load(Ordering::SeqCst) {
            self.wake();
            pidfd::await_end(self.pid(), PATIENCE);
        }
        self.kill()
    }

    pub fn has_ended(&mut self) -> bool {
        // What cannot be waited for is not there.
        !matches!(self.keeper.try_wait(), Ok(None))
    }
}

/// A virtual host.
#[derive(Debug)]
pub struct Virtual {
    /// Its number in the lab.
    pub index: usize,
    pub plimsoll: PathBuf,
    pub setup: Setup,
    pub wiring: Wiring,
    /// The address that it is known by.
    pub address: String,
    /// The target's folder on the machine, which is shown at [`TARGET`].
    pub target: Option<PathBuf>,
    /// Its private folder on the machine.
    pub folder: PathBuf,
    pub volume: Option<Volume>,
    pub switch: Arc<Switch>,
    pub ledger: Arc<Ledger>,
    /// The user wants an end at once.
    pub at_once: Arc<AtomicBool>,
    pub kept: Option<Kept>,
    /// Started already and not yet handed out.
    pub session: Option<Arc<Session>>,
}

impl Virtual {
    /// Makes its namespaces, without cables.
    pub fn start(&mut self) -> Result<Arc<Session>, Error> {
        let words = self.folder.join("runner.log");
        let (kept, session) = Kept::start(&self.plimsoll, &self.setup, &words, &self.ledger, &self.at_once)?;
        self.kept = Some(kept);
        Ok(session)
    }

    /// Has it configure the cables that are plugged in.
    pub fn wire(&self, session: &Session) -> Result<(), Error> {
        session.ask(Order::Wire(self.wiring.clone()), PATIENCE).map(drop)
    }
}

impl Machine for Virtual {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn addresses(&self) -> Vec<String> {
        self.wiring.interfaces.iter().map(|interface| interface.address.to_string()).collect()
    }

    fn plimsoll(&self) -> PathBuf {
        keeper::program()
    }

    fn bring(&self, _session: &Session, target: &Path) -> Result<PathBuf, Error> {
        if target.as_os_str().is_empty() {
            return Ok(PathBuf::from(keeper::FOLDER));
        }
        let found = target.canonicalize().map_err(Error::system(format!("find {}", target.display())))?;
        if self.target.as_ref() == Some(&found) {
            return Ok(PathBuf::from(TARGET));
        }
        let reason = format!("{} is not the folder that it was made with", target.display());
        Err(Error::Host { host: self.setup.host.clone(), reason })
    }

    fn boot(&mut self) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let session = self.start()?;
        let pid = self.kept.as_ref().map(Kept::pid).unwrap_or_default();
        self.switch.plug(&[(self.index, pid)])?;
        self.wire(&session)?;
        Ok(session)
    }

    fn crash(&mut self) -> Result<(), Error> {
        // First the cable: a machine without power says no farewell to its clients. The kernel would remove a network that nobody
        // is in only after a while, and its name is needed at once.
        self.switch.unplug(self.index);
        match self.kept.take() {
            Some(mut kept) => kept.kill(),
            None => Ok(()),
        }
    }

    fn figures(&self) -> HostFigures {
        let envelope = &self.setup.envelope;
        let cpus = (!envelope.cpus.is_empty()).then(|| ranges(&envelope.cpus));
        HostFigures { address: Some(self.address.clone()), cpus, ..HostFigures::default() }
    }

    fn close(&mut self) {
        self.session = None;
        if let Some(mut kept) = self.kept.take() {
            // What is left is found by its mark at the end of the run.
            let _ = kept.end();
        }
        self.volume = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        self.close();
    }
}

/// `0-3,6`.
fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_named_by_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 6, 8, 9]), "0-2,6,8-9");
        assert_eq!(ranges(&[3]), "3");
    }
}
