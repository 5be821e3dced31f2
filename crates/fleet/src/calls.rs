//! Single operations on the target that a generator performs, because this machine may be unable to
//! reach the target. They read data back, or serve the fault `call`.
//!
//! These operations are independent of the load's messages, so that neither a load nor its
//! conductor waits for them.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use load::TlsTrust;
use load::client::{CallError, ClientAnswer};

use crate::messages::{GeneratorCall, GeneratorOrder};
use crate::order_writer::OrderSender;

/// Time allowed for the messages to a generator and back, in addition to the operation.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// Interval of checks whether the caller has given up.
const GLANCE: Duration = Duration::from_millis(50);

type CallResult = Result<ClientAnswer, CallError>;

/// Operations that wait for an answer.
#[derive(Default)]
pub(crate) struct PendingCalls(Mutex<CallsState>);

#[derive(Default)]
struct CallsState {
    last: u64,
    waiting: BTreeMap<u64, SyncSender<CallResult>>,
    /// Whether the generator has ended.
    has_ended: bool,
}

impl PendingCalls {
    fn lock(&self) -> std::sync::MutexGuard<'_, CallsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new operation and returns its id, or `None` if the generator has ended.
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

    /// Passes on the generator's answer. Drops it if the caller no longer waits.
    pub fn answer(&self, number: u64, came: CallResult) {
        if let Some(answer) = self.lock().waiting.remove(&number) {
            // The caller may have given up just now.
            let _ = answer.try_send(came);
        }
    }

    /// Marks the end of all answers. Callers notice the end of their channels.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.waiting.clear();
    }
}

/// Performs operations through a generator.
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

    /// Performs an operation on a service. Connecting may take `within`, and so may the answer.
    /// Stops waiting if `given_up` returns true.
    ///
    /// # Errors
    /// There is no answer, for example because the generator has ended. The operation may have
    /// taken effect.
    pub fn call(
        &self,
        (protocol, service): (&str, &str),
        trust: &TlsTrust,
        within: Duration,
        (operation, with): (&str, &BTreeMap<String, String>),
        given_up: &dyn Fn() -> bool,
    ) -> CallResult {
        let (answer, answered) = sync_channel(1);
        let number = self.calls.begin(answer).ok_or_else(|| self.gone())?;
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
            return Err(self.gone());
        }
        let until = Instant::now() + 2 * within + ON_THE_WAY;
        loop {
            match answered.recv_timeout(GLANCE) {
                Ok(came) => return came,
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until && !given_up() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.calls.forget(number);
                    return Err(CallError::Timeout(within));
                }
            }
        }
    }

    fn gone(&self) -> CallError {
        CallError::Lost(format!("the generator {} is gone", self.generator))
    }
}
