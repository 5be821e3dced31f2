//! The load engine: threads that run agents over epoll or io_uring.
//!
//! There is one thread per two cores. Each thread has its own event loop, agents, timers and
//! counters. Besides the read-only load, threads share only the orders to stop, cycle limits,
//! streamed feeds and the memory budget for answers.
//!
//! Accuracy of times. The end of an answer is stamped right after the `recv` that returned its last
//! byte, not at the start of its batch of events. The stamp includes the time that the thread spent
//! on earlier events of the batch (a few microseconds each), so a measured time is never shorter
//! than the true time. Without think time, the same stamp is the intended start of the agent's next
//! operation. If the operation is sent at once, the stamp is also its send time: encoding takes
//! well under a microsecond and counts as service time. A send is stamped before its system call.
//! An agent's operations therefore cover its time without gaps, and Little's law holds exactly. If
//! evaluating an answer takes more than comparing bytes, a new stamp is taken afterwards, as after
//! a pause.
//!
//! With io_uring, which carries the bytes of kept connections, the end of an answer is stamped
//! right after the system call that returned the answer together with others. A request is stamped
//! right before the system call that submits it with up to 15 others. Its service time includes the
//! sending of the others, some microseconds each, and again is never shorter than the truth. The
//! agent's wait before the submission counts as latency.
//!
//! If agents share a connection, requests that become ready in the same turn of the loop are sent
//! together and stamped at that time. Connecting and the TLS handshake count towards the latency of
//! the operations that wait for the connection, and towards no service time.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use experiment::plan::Failover;
use record::clock::Clock;
use serde::{Deserialize, Serialize};
use transport::connections::ConnectPaths;
use transport::service_address::ServiceAddress;
use transport::source_addresses::{SourceAddresses, ports};
use transport::tunnel::TunnelRequest;
use wire::feed_stream::FeedReaders;
use wire::session::SessionProtocol;

use crate::{Error, LoadOrder, StartLoad, ThreadInterval, TransportError};

mod agent_group;
mod agents;
mod bulk_keys;
mod control;
mod counters;
pub mod expectation;
mod ids;
mod limits;
mod load_settings;
mod pacing;
mod pipelines;
pub mod places;
mod run_delay;
pub mod script;
mod sites;
pub mod thread_stats;
pub mod timer_wheel;
mod units;
mod worker;

use control::LoadControl;
use script::Script;
use thread_stats::ThreadTotals;
use worker::Worker;

/// Implements [`crate::check`] for a protocol.
pub fn check<P: SessionProtocol>(orders: &LoadOrder) -> Result<(), Error> {
    let script = Script::<P>::check(orders)?;
    limits::check(&script)?;
    // Host names are resolved at the start of the load, not here.
    let tunnels = tunnels(orders, &script.services)?;
    let entrances = script.services.iter().zip(&tunnels).map(|(service, tunnel)| entrance(service, tunnel.as_ref()));
    let addresses: Vec<ServiceAddress> = entrances.filter_map(ServiceAddress::written).collect();
    sources_of(orders, &script, &addresses).map(drop)
}

/// Implements [`crate::compile`] for a protocol.
pub fn compile<P: SessionProtocol>(orders: &LoadOrder) -> Result<StartLoad, Error> {
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
fn start<P: SessionProtocol>(
    script: &Arc<Script<P>>,
    paths: &ConnectPaths,
    clock: Clock,
    sink: &SyncSender<ThreadInterval>,
) -> Result<RunningLoad, Error> {
    let control = Arc::new(LoadControl::default());
    let readers = FeedReaders::start(script.streams().map(Arc::clone));
    let readers = readers
        .map_err(|source| TransportError::System { doing: "cannot start a thread that reads a feed", source })?;
    let mut threads = Vec::new();
    for number in script.mine.clone() {
        let worker = Worker::new(Arc::clone(script), Arc::clone(&control), paths.clone(), number, clock, sink.clone());
        let spawned = worker.and_then(|worker| {
            let named = std::thread::Builder::new().name(format!("load-{number}"));
            let guard = AbortOnError(Arc::clone(&control));
            let ran = named.spawn(move || guard.around(|| worker.run()));
            ran.map_err(|source| TransportError::System { doing: "cannot start an engine thread", source }.into())
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

/// Returns the source addresses of the connections to each service. Empty for a protocol that runs
/// programs.
fn sources_of<P: SessionProtocol>(
    orders: &LoadOrder,
    script: &Script<P>,
    services: &[ServiceAddress],
) -> Result<SourceAddresses, Error> {
    if P::RUNS_PROGRAMS {
        return Ok(SourceAddresses::default());
    }
    let connections = script.places.connections_in(script.mine.clone());
    let each = match script.reconnects.failover {
        // The threads of a slice may have more connections to one service than to another.
        Failover::None if orders.slice.is_some() => script.most_to_a_service(),
        Failover::None => connections.div_ceil(script.places.services.max(1)),
        // With failover, all connections may lead to one service.
        Failover::Next => connections,
    };
    // Any of the further connections may lead to one service.
    let each = match script.has_lanes {
        true => each + script.further_connections(),
        false => each.max(script.further_connections()),
    };
    Ok(SourceAddresses::of(&orders.load.from, services, each, ports())?)
}

/// Aborts the load if the guarded thread ends with an error or panics. The remaining threads would
/// measure a smaller load than the experiment describes.
struct AbortOnError(Arc<LoadControl>);

impl AbortOnError {
    fn around<T>(self, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let ran = run();
        if ran.is_err() {
            self.0.abort();
        }
        ran
    }
}

impl Drop for AbortOnError {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}

/// Returns the address to which a service's clients connect. Unspecified for a protocol that runs
/// programs.
fn address_of<P: SessionProtocol>(service: &P, tunnel: Option<&TunnelRequest>) -> Result<ServiceAddress, Error> {
    if P::RUNS_PROGRAMS {
        return Ok(ServiceAddress::Network((Ipv4Addr::UNSPECIFIED, 0).into()));
    }
    Ok(ServiceAddress::resolve(entrance(service, tunnel))?)
}

/// Returns the authority to connect to: the proxy if a tunnel leads to the service, or else the
/// service.
fn entrance<'a, P: SessionProtocol>(service: &'a P, tunnel: Option<&'a TunnelRequest>) -> &'a str {
    tunnel.map_or(service.authority(), |tunnel| tunnel.proxy.as_str())
}

/// Returns a tunnel for each service that uses TLS, if the experiment names a proxy.
fn tunnels<P: SessionProtocol>(orders: &LoadOrder, services: &[P]) -> Result<Vec<Option<TunnelRequest>>, Error> {
    let tunnel = |(index, service): (usize, &P)| {
        let tls = sites::tls_of(orders, index);
        let proxy = tls.proxy.as_deref().filter(|_| service.tls_host().is_some())?;
        Some(TunnelRequest::of(proxy, service.authority()))
    };
    let tunnels = services.iter().enumerate().map(|service| tunnel(service).transpose());
    tunnels.collect::<Result<_, _>>().map_err(|reason| Error::Setting(format!("tls.proxy: {reason}")))
}

/// Totals of a finished load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of operations that ended `ok`.
    pub ok: u64,
    /// Number of operations that ended `failed`.
    pub failed: u64,
    /// Number of operations that ended `timeout`.
    pub timeout: u64,
    /// Number of operations that ended `wrong`.
    pub wrong: u64,
    /// Number of operations that were open at the end of the load.
    pub unfinished: u64,
    /// Number of attempts that ended.
    pub attempts: u64,
    /// Number of complete cycles.
    pub cycles: u64,
    /// Number of operations that were due and were dropped because the backlog was full.
    pub dropped: u64,
}

/// A running load. Dropping it aborts the load and waits for the threads.
#[derive(Debug)]
pub struct RunningLoad {
    control: Arc<LoadControl>,
    threads: Vec<JoinHandle<Result<ThreadTotals, Error>>>,
    /// Threads that read feeds. Dropping the value ends them.
    _readers: FeedReaders,
}

impl RunningLoad {
    /// Stops the load: no new operation starts, and open operations get the load's drain time.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Ends the load now. Open operations count as unfinished.
    pub fn abort(&self) {
        self.control.abort();
    }

    /// Whether every thread has ended and handed over its last interval.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end of the load. During the wait, the caller must take the intervals, on
    /// another thread if the channel can fill up.
    ///
    /// # Errors
    /// The first error that ended a thread early. [`Error::RecorderGone`] is returned only if there
    /// is no other error.
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
            // The caller that drops a load has no use for its results.
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
