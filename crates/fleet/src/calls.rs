//! Single calls of the target that a generator makes, where it reaches what this machine may not: reading back, the fault `call`.
//!
//! They go beside everything else that a generator is told and says, so that neither a load nor its conductor waits for them.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use load::TlsTrust;
use load::client::{CallError, ClientAnswer};

use crate::messages::{GeneratorCall, GeneratorOrder};
use crate::order_writer::OrderSender;

/// What the way to a generator and back may take beside the call itself.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// How often is looked whether anybody wants the answer still.
const GLANCE: Duration = Duration::from_millis(50);

type CallResult = Result<ClientAnswer, CallError>;

/// Calls that wait for their answer.
#[derive(Default)]
pub(crate) struct PendingCalls(Mutex<CallsState>);

#[derive(Default)]
struct CallsState {
    last: u64,
    waiting: BTreeMap<u64, SyncSender<CallResult>>,
    /// The generator says nothing any more.
    has_ended: bool,
}

impl PendingCalls {
    fn lock(&self) -> std::sync::MutexGuard<'_, CallsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new call; `None` where nobody can answer it.
    fn begin(&self, answer: SyncSender<CallResult>) -> Option<u64> {
        let mut state = self.lock();
        if state.has_ended {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.waiting.insert(number, answer);
        Some(number)
    }

    fn forget(&self, number: u64) {
        self.lock().waiting.remove(&number);
    }

    /// The generator's answer. One that nobody waits for any more is dropped.
    pub fn answer(&self, number: u64, came: CallResult) {
        if let Some(answer) = self.lock().waiting.remove(&number) {
            // Whoever asked may have given up just now.
            let _ = answer.try_send(came);
        }
    }

    /// There will be no more answers: who waits is told by the end of its channel.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.waiting.clear();
    }
}

/// Has a generator call the target.
#[derive(Clone)]
pub struct GeneratorCaller {
    generator: String,
    orders: OrderSender,
    calls: Arc<PendingCalls>,
}

impl GeneratorCaller {
    pub(crate) fn new(generator: &str, orders: OrderSender, calls: Arc<PendingCalls>) -> Self {
        Self { generator: generator.to_owned(), orders, calls }
    }

    /// Calls an operation of a service: a connection may take `within`, and the answer as long. It is left off where `given_up` says so.
    ///
    /// # Errors
    /// If there is no answer, also where the generator is gone: then nobody knows whether the operation took effect.
    pub fn call(
        &self,
        (protocol, service): (&str, &str),
        trust: &TlsTrust,
        within: Duration,
        (operation, with): (&str, &BTreeMap<String, String>),
        given_up: &dyn Fn() -> bool,
    ) -> CallResult {
        let (answer, answered) = sync_channel(1);
        let gone = || CallError::Lost(format!("the generator {} is gone", self.generator));
        let number = self.calls.begin(answer).ok_or_else(gone)?;
        let call = GeneratorCall {
            number,
            protocol: protocol.to_owned(),
            service: service.to_owned(),
            tls: trust.tls.clone(),
            files: trust.files.absolute_folder(),
            within_s: within.as_secs_f64(),
            operation: operation.to_owned(),
            with: with.clone(),
        };
        if !self.orders.tell(&GeneratorOrder::Call(Box::new(call))) {
            self.calls.forget(number);
            return Err(gone());
        }
        let until = Instant::now() + 2 * within + ON_THE_WAY;
        loop {
            match answered.recv_timeout(GLANCE) {
                Ok(came) => return came,
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until && !given_up() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.calls.forget(number);
                    return Err(CallError::Timeout(within));
                }
            }
        }
    }
}
