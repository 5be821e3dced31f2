//! A host with a runner: whatever the lab wants of it is asked of the runner, and what has to be done from outside is done by
//! whoever made the host. It must not know which kind that is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use record::events::HostFigures;

use crate::Error;
use crate::hosts::{Host, Output, Process, Start};
use crate::runner::session::Session;
use crate::runner::{Control, Order, Program};

/// For a host to undo everything at its end.
const END_PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// What holds a runner: a virtual host, or a real machine behind ssh.
pub(crate) trait Machine: Send {
    /// Name of the host's kind.
    fn kind(&self) -> &'static str;

    /// The address that its members listen on.
    fn address(&self) -> &str;

    /// Every address of it.
    fn addresses(&self) -> Vec<String> {
        vec![self.address().to_owned()]
    }

    /// Where this program is on it.
    fn plimsoll(&self) -> PathBuf;

    /// Makes the target's folder available; where it is on it.
    fn bring(&self, session: &Session, target: &Path) -> Result<PathBuf, Error>;

    /// Starts it, and its runner.
    fn boot(&mut self) -> Result<Arc<Session>, Error>;

    /// Ends it at once, as if its power failed.
    fn crash(&mut self) -> Result<(), Error>;

    /// What is known of it from outside.
    fn figures(&self) -> HostFigures;

    /// Removes what is left of it, after the session was closed.
    fn close(&mut self);
}

/// A host with a runner.
pub(crate) struct Attended {
    name: String,
    session: Arc<Session>,
    machine: Box<dyn Machine>,
    figures: HostFigures,
}

impl Attended {
    /// Starts the machine. If it cannot be started, nothing is left of it.
    pub fn raise(name: &str, mut machine: Box<dyn Machine>) -> Result<Self, Error> {
        let session = machine.boot().inspect_err(|_| machine.close())?;
        // What the runner cannot say is not known; a runner that is gone is noticed soon enough.
        let inside = session.figures().unwrap_or_default();
        let figures = both(machine.figures(), inside);
        Ok(Self { name: name.to_owned(), session, machine, figures })
    }

    /// Measures it for a profile.
    pub fn measure(&self) -> Result<String, Error> {
        self.session.measure_machine()
    }
}

/// What is known from outside, and for the rest what is known inside.
fn both(outside: HostFigures, inside: HostFigures) -> HostFigures {
    HostFigures {
        address: outside.address.or(inside.address),
        cores: outside.cores.or(inside.cores),
        core_speed: outside.core_speed.or(inside.core_speed),
        quota_period_s: outside.quota_period_s.or(inside.quota_period_s),
        cpus: outside.cpus.or(inside.cpus),
        memory_bytes: outside.memory_bytes.or(inside.memory_bytes),
        link_bits_per_s: outside.link_bits_per_s.or(inside.link_bits_per_s),
        storage_read_per_s: outside.storage_read_per_s.or(inside.storage_read_per_s),
        storage_write_per_s: outside.storage_write_per_s.or(inside.storage_write_per_s),
        storage_sync_us: outside.storage_sync_us.or(inside.storage_sync_us),
        storage_unmeasured: outside.storage_unmeasured.or(inside.storage_unmeasured),
    }
}

impl Host for Attended {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.machine.kind()
    }

    fn figures(&self) -> HostFigures {
        self.figures.clone()
    }

    fn address(&self) -> &str {
        self.machine.address()
    }

    fn addresses(&self) -> Vec<String> {
        self.machine.addresses()
    }

    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        self.session.ports(count)
    }

    fn check_port(&self, port: u16) -> Result<(), Error> {
        self.session.ask(Order::CheckPort { port }, PATIENCE).map(drop)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.session.make_folder(name)
    }

    fn remove_folder(&self, name: &str) {
        // What cannot be removed now goes with the host.
        let _ = self.session.remove_folder(name);
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Process>, Error> {
        self.session.start(start)
    }

    fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        self.machine.bring(&self.session, target)
    }

    fn plimsoll(&self) -> PathBuf {
        self.machine.plimsoll()
    }

    fn run(&self, program: &Program, input: &str, within: Duration) -> Result<Output, Error> {
        self.session.run(program, input, within)
    }

    fn measure_storage(&self, within: Duration) -> Result<HostFigures, Error> {
        self.session.measure_storage(within)
    }

    fn impose(&self, key: &str, control: &Control) -> Result<(), Error> {
        self.session.impose(key, control)
    }

    fn lift(&self, key: &str) -> Result<(), Error> {
        self.session.lift(key)
    }

    fn crash(&mut self) -> Result<(), Error> {
        self.session.expect_end("its power was cut");
        self.machine.crash()?;
        // At once, and not only when the pipe has been read to its end.
        self.session.give_up("its power was cut");
        Ok(())
    }

    fn boot(&mut self) -> Result<(), Error> {
        self.session.give_up("it was started again");
        self.session = self.machine.boot()?;
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.session.is_open()
    }

    fn session(&self) -> Option<Arc<Session>> {
        Some(Arc::clone(&self.session))
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if self.session.is_open() {
            self.session.close(END_PATIENCE);
        }
        self.machine.close();
    }
}

#[cfg(test)]
mod tests;
