//! The engine: a thread per two cores, each with its own loop over epoll or io_uring, agents,
//! timers and counters; they share nothing but orders to stop.
//!
//! How true its times are. An answer's end is stamped right after the `recv` that brought its last
//! byte, and not at the start of the batch of events it belongs to: so it contains the time that
//! this thread spent on the events before it in the batch (a few microseconds each), and never less
//! than the truth. The same stamp is the intended start of the agent's next operation (with no
//! think time) and, where that is sent at once, its send: encoding costs well under a microsecond
//! and counts as service time. A send is stamped before its system call. So an agent's operations
//! tile its time, and Little's law holds exactly. Where looking at an answer takes more than
//! comparing bytes, what follows is stamped anew after it, like what follows a pause.
//!
//! Where the kernel's ring carries the bytes of kept connections, an answer's end is stamped right
//! after the call that brought it with others, and a request right before the call that takes it
//! with up to 15 others: so its service time contains their sending, some microseconds each, and
//! again never less than the truth. What the agent waits in between belongs to the latency.
//!
//! Where agents share a connection, requests that become ready in the same turn of the loop go out
//! together, and each is stamped then. A connection and its TLS handshake belong to the latency of
//! the operations that wait for it, and to no service time.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use experiment::plan::Failover;
use record::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::feed_stream::FeedReaders;
use crate::protocols::Protocol;
use crate::service_address::ServiceAddress;
use crate::tunnel::TunnelRequest;
use crate::{Error, LoadOrder, StartLoad, ThreadInterval};

mod agent_group;
mod agents;
mod bulk_keys;
mod connections;
mod control;
pub mod expectation;
mod ids;
mod limits;
mod pacing;
mod pipelines;
pub mod pointer;
mod run_delay;
pub mod script;
pub mod thread_stats;
pub mod timer_wheel;
mod units;
mod worker;

use connections::ConnectPaths;
use control::LoadControl;
use limits::SourceAddresses;
use script::Script;
use thread_stats::ThreadTotals;
use worker::Worker;

/// [`crate::check`] for a protocol.
pub fn check<P: Protocol>(orders: &LoadOrder) -> Result<(), Error> {
    let script = Script::<P>::compile(orders)?;
    limits::check(&script)?;
    // Where a name leads to is seen at the start.
    let tunnels = tunnels(orders, &script.services)?;
    let entrances = script.services.iter().zip(&tunnels).map(|(service, tunnel)| entrance(service, tunnel.as_ref()));
    let addresses: Vec<ServiceAddress> = entrances.filter_map(ServiceAddress::written).collect();
    sources_of(orders, &script, &addresses).map(drop)
}

/// [`crate::compile`] for a protocol.
pub fn compile<P: Protocol>(orders: &LoadOrder) -> Result<StartLoad, Error> {
    let script = Arc::new(Script::<P>::compile(orders)?);
    limits::check(&script)?;
    let tunnels = tunnels(orders, &script.services)?;
    let addresses = script.services.iter().zip(&tunnels).map(|(service, tunnel)| address_of(service, tunnel.as_ref()));
    let addresses: Arc<[ServiceAddress]> = addresses.collect::<Result<_, _>>()?;
    let tunnels: Arc<[Option<TunnelRequest>]> = tunnels.into();
    let sources = Arc::new(sources_of(orders, &script, &addresses)?);
    sources.try_out()?;
    let paths = ConnectPaths { addresses, tunnels, sources };
    Ok(Box::new(move |clock, sink| start(&script, &paths, clock, &sink)))
}

/// Starts the threads of a compiled load.
fn start<P: Protocol>(
    script: &Arc<Script<P>>,
    paths: &ConnectPaths,
    clock: Clock,
    sink: &SyncSender<ThreadInterval>,
) -> Result<RunningLoad, Error> {
    let control = Arc::new(LoadControl::default());
    let readers = FeedReaders::start(script.streams().map(Arc::clone));
    let readers =
        readers.map_err(|source| Error::System { doing: "cannot start a thread that reads a feed", source })?;
    let mut threads = Vec::new();
    for number in script.mine.clone() {
        let worker = Worker::new(Arc::clone(script), Arc::clone(&control), paths.clone(), number, clock, sink.clone());
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
    Ok(RunningLoad { control, threads, _readers: readers })
}

/// Where the connections to each service come from; from nowhere where programs are run.
fn sources_of<P: Protocol>(
    orders: &LoadOrder,
    script: &Script<P>,
    services: &[ServiceAddress],
) -> Result<SourceAddresses, Error> {
    if P::RUNS_PROGRAMS {
        return Ok(SourceAddresses::default());
    }
    let connections = script.places.connections_in(script.mine.clone());
    let each = match script.reconnects.failover {
        // The threads of a slice may have more of one service than of another.
        Failover::None if orders.slice.is_some() => script.most_to_a_service(),
        Failover::None => connections.div_ceil(script.places.services.max(1)),
        // All may come to one.
        Failover::Next => connections,
    };
    SourceAddresses::of(&orders.load.from, services, each, limits::ports())
}

/// Ends the other threads when one ends badly: what they measured would be of a load that nobody
/// asked for.
struct Alarm(Arc<LoadControl>);

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

/// Where a service's clients connect to; nowhere where programs are run.
fn address_of<P: Protocol>(service: &P, tunnel: Option<&TunnelRequest>) -> Result<ServiceAddress, Error> {
    if P::RUNS_PROGRAMS {
        return Ok(ServiceAddress::Network((Ipv4Addr::UNSPECIFIED, 0).into()));
    }
    ServiceAddress::resolve(entrance(service, tunnel))
}

/// What is connected to: the proxy, where a tunnel leads to the service.
fn entrance<'a, P: Protocol>(service: &'a P, tunnel: Option<&'a TunnelRequest>) -> &'a str {
    tunnel.map_or(service.authority(), |tunnel| tunnel.proxy.as_str())
}

/// The tunnels to those services that are spoken to by TLS, where a proxy is named.
fn tunnels<P: Protocol>(orders: &LoadOrder, services: &[P]) -> Result<Vec<Option<TunnelRequest>>, Error> {
    let tunnel = |service: &P| {
        let proxy = orders.tls.proxy.as_deref().filter(|_| service.tls_host().is_some())?;
        Some(TunnelRequest::of(proxy, service.authority()))
    };
    let tunnels = services.iter().map(|service| tunnel(service).transpose());
    tunnels.collect::<Result<_, _>>().map_err(|reason| Error::Setting(format!("tls.proxy: {reason}")))
}

/// What a load came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Operations that ended `ok`.
    pub ok: u64,
    /// … `failed`.
    pub failed: u64,
    /// … `timeout`.
    pub timeout: u64,
    /// … `wrong`.
    pub wrong: u64,
    /// Operations that were open at the end.
    pub unfinished: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Full cycles.
    pub cycles: u64,
    /// Operations that were due and were dropped: the backlog was full.
    pub dropped: u64,
}

/// A load that runs. Dropping it aborts the load and waits for the threads.
#[derive(Debug)]
pub struct RunningLoad {
    control: Arc<LoadControl>,
    threads: Vec<JoinHandle<Result<ThreadTotals, Error>>>,
    /// They end with it.
    _readers: FeedReaders,
}

impl RunningLoad {
    /// No new operations from now on; open ones are given the load's drain.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Ends now; what is open is unfinished.
    pub fn abort(&self) {
        self.control.abort();
    }

    /// Whether every thread has ended and handed over its last interval.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end. The intervals must be taken meanwhile, by another thread if the channel
    /// can fill up.
    ///
    /// # Errors
    /// The first thing that ended a thread early; that nobody takes the records only if there is no
    /// other.
    pub fn join(mut self) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let mut first = Ok(());
        for thread in self.threads.drain(..) {
            match thread.join().unwrap_or(Err(Error::Panicked)) {
                Ok(totals) => summary.add(&totals),
                Err(error) if matches!(first, Ok(()) | Err(Error::RecorderGone)) => first = Err(error),
                Err(_) => {}
            }
        }
        first.map(|()| summary)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.control.abort();
        for thread in self.threads.drain(..) {
            // Whoever drops a load does not want to know what it came to.
            drop(thread.join());
        }
    }
}

impl Summary {
    fn add(&mut self, totals: &ThreadTotals) {
        let [ok, failed, timeout, wrong, unfinished] = totals.outcomes;
        self.ok += ok;
        self.failed += failed;
        self.timeout += timeout;
        self.wrong += wrong;
        self.unfinished += unfinished;
        self.attempts += totals.attempts;
        self.cycles += totals.cycles;
        self.dropped += totals.dropped;
    }
}
