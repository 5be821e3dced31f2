//! The engine: a thread per two cores, each with its own epoll loop, agents, timers and counters; they share nothing but orders to
//! stop. It must not know a protocol beyond the trait, and must not write a file.
//!
//! How true its times are. An answer's end is stamped right after the `recv` that brought its last byte, and not at the start of
//! the batch of events it belongs to: so it contains the time that this thread spent on the events before it in the batch (a few
//! microseconds each), and never less than the truth. The same stamp is the intended start of the agent's next operation (with no
//! think time) and, where that is sent at once, its send: encoding costs well under a microsecond and counts as service time. A send
//! is stamped before its system call. So an agent's operations tile its time, and Little's law holds exactly.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use record::clock::Clock;

use crate::protocols::Protocol;
use crate::{Error, Interval, Orders};

mod agent;
mod answer;
mod audit;
mod backlog;
mod limits;
mod link;
mod operation;
mod run_delay;
pub mod running;
pub mod script;
pub mod tally;
pub mod wheel;
mod worker;

use running::{Control, Running};
use script::Script;
use worker::Worker;

/// How long each of several addresses of a service is tried before the load.
const PROBE: Duration = Duration::from_secs(1);

/// [`crate::check`] for a protocol.
pub fn check<P: Protocol>(orders: &Orders) -> Result<(), Error> {
    let script = Script::<P>::compile(orders)?;
    limits::check(&script)
}

/// [`crate::start`] for a protocol.
pub fn start<P: Protocol>(orders: &Orders, clock: Clock, sink: SyncSender<Interval>) -> Result<Running, Error> {
    let script = Arc::new(Script::<P>::compile(orders)?);
    limits::check(&script)?;
    let addresses: Arc<[SocketAddr]> =
        script.authorities.iter().map(|authority| resolve(authority)).collect::<Result<_, _>>()?;
    let control = Arc::new(Control::default());
    let mut threads = Vec::new();
    for number in 0..script.threads {
        let worker =
            Worker::new(Arc::clone(&script), Arc::clone(&control), Arc::clone(&addresses), number, clock, sink.clone());
        let spawned = worker.and_then(|worker| {
            let named = std::thread::Builder::new().name(format!("load-{number}"));
            let alarm = Alarm(Arc::clone(&control));
            let ran = named.spawn(move || alarm.around(|| worker.run()));
            ran.map_err(|source| Error::System { doing: "cannot start an engine thread", source })
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                control.abort();
                return Err(error);
            }
        }
    }
    Ok(Running::new(control, threads))
}

/// Ends the other threads when one ends badly: what they measured would be of a load that nobody asked for.
struct Alarm(Arc<Control>);

impl Alarm {
    fn around<T>(self, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let ran = run();
        if ran.is_err() {
            self.0.abort();
        }
        ran
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}

/// The address of a service. Of several, the first that accepts a connection: `localhost` may mean `::1`, where nobody listens.
pub fn resolve(authority: &str) -> Result<SocketAddr, Error> {
    let wrong = |reason: String| Error::Service { service: authority.to_owned(), reason };
    let addresses: Vec<SocketAddr> = authority.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    let Some(first) = addresses.first() else { return Err(wrong("the name has no address".to_owned())) };
    if addresses.len() == 1 {
        return Ok(*first);
    }
    let answers = addresses.iter().find(|address| TcpStream::connect_timeout(address, PROBE).is_ok());
    Ok(*answers.unwrap_or(first))
}
