//! What a generator is told, on its way: a thread of its own writes it, so that a generator that does not read holds up nobody else.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::generator::{monotonic_ns, named};
use crate::messages::GeneratorOrder;
use crate::roll_call::SILENCE_S;

/// Orders that may wait: more pings than are sent until a generator is lost by its silence, and all that is ever told beside them.
const WAITING: usize = 64;
/// Pings whose answers are still taken.
const PINGS_OUT: usize = 1024;

/// Another way to tell a generator something, which does not keep its stream open.
#[derive(Clone)]
pub(crate) struct OrderSender(Weak<SyncSender<QueuedOrder>>);

impl OrderSender {
    /// Tells it to the generator; false if it takes nothing now, or is gone.
    pub fn tell(&self, order: &GeneratorOrder) -> bool {
        self.0.upgrade().is_some_and(|queue| queue.try_send(QueuedOrder::Line(written(order))).is_ok())
    }
}

/// The writing end of a stream to a generator. Nothing here waits for the generator.
pub(crate) struct OrderWriter {
    queue: Arc<SyncSender<QueuedOrder>>,
    state: Arc<WriterState>,
    has_overflowed: bool,
}

#[derive(Default)]
struct WriterState {
    /// Since when it writes what it writes now; 0: it does not.
    writing_since_ns: AtomicU64,
    /// The acknowledgement that waits; 0: none does. A later one says all that an earlier one did.
    ack: AtomicU64,
    /// When the pings without an answer were asked, oldest first.
    pings_ns: Mutex<VecDeque<u64>>,
}

enum QueuedOrder {
    Line(String),
    /// Asked when it is written.
    Ping,
    Ack,
}

impl OrderWriter {
    /// Starts the thread. It ends when this is dropped and all has been written, or the stream is gone.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn begin(orders: Box<dyn Write + Send>) -> io::Result<Self> {
        let (queue, queued) = sync_channel(WAITING);
        let state = Arc::new(WriterState::default());
        let shared = Arc::clone(&state);
        // Not joined: a generator that stands still may keep it until its process is ended.
        named("fleet-write", move || write_orders(orders, &queued, &shared))?;
        Ok(Self { queue: Arc::new(queue), state, has_overflowed: false })
    }

    /// Tells it to the generator in time.
    pub fn tell(&mut self, order: &GeneratorOrder) {
        self.enqueue(QueuedOrder::Line(written(order)));
    }

    /// For whoever tells the generator something beside this.
    pub fn sender(&self) -> OrderSender {
        OrderSender(Arc::downgrade(&self.queue))
    }

    /// Asks for the generator's clock.
    pub fn ping(&mut self) {
        self.enqueue(QueuedOrder::Ping);
    }

    /// Whether there was a ping at this time whose answer has not come yet; it has then.
    pub fn has_pinged(&self, t0_ns: u64) -> bool {
        let mut pings_ns = self.state.pings_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pings_ns.iter().position(|ping_ns| *ping_ns == t0_ns);
        place.is_some_and(|place| pings_ns.remove(place).is_some())
    }

    /// All intervals through this one have come.
    pub fn acknowledge(&mut self, through: u64) {
        if self.state.ack.swap(through, Ordering::AcqRel) == 0 {
            self.enqueue(QueuedOrder::Ack);
        }
    }

    fn enqueue(&mut self, order: QueuedOrder) {
        match self.queue.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.has_overflowed = true,
            // A generator that hears nothing any more says nothing any more: that is where it shows.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Whether the generator does not take what it is told: too much waits, or it has been written for too long.
    pub fn is_stuck(&self) -> bool {
        let since_ns = self.state.writing_since_ns.load(Ordering::Acquire);
        let for_ns = if since_ns == 0 { 0 } else { monotonic_ns().saturating_sub(since_ns) };
        self.has_overflowed || for_ns as f64 * 1e-9 > SILENCE_S
    }
}

fn write_orders(mut orders: Box<dyn Write + Send>, queued: &Receiver<QueuedOrder>, state: &WriterState) {
    for order in queued {
        let line = match order {
            QueuedOrder::Line(line) => line,
            QueuedOrder::Ping => {
                let t0_ns = monotonic_ns();
                let mut pings_ns = state.pings_ns.lock().unwrap_or_else(PoisonError::into_inner);
                if pings_ns.len() == PINGS_OUT {
                    pings_ns.pop_front();
                }
                pings_ns.push_back(t0_ns);
                written(&GeneratorOrder::Ping { t0_ns })
            }
            QueuedOrder::Ack => written(&GeneratorOrder::Ack { through: state.ack.swap(0, Ordering::AcqRel) }),
        };
        state.writing_since_ns.store(monotonic_ns().max(1), Ordering::Release);
        let is_gone = orders.write_all(line.as_bytes()).and_then(|()| orders.flush()).is_err();
        state.writing_since_ns.store(0, Ordering::Release);
        if is_gone {
            return;
        }
    }
}

fn written(order: &GeneratorOrder) -> String {
    // An order has always a text: its maps have names as keys.
    let mut line = serde_json::to_string(order).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::io::{BufRead as _, BufReader, pipe};

    use super::*;

    fn orders(reader: impl io::Read) -> Vec<GeneratorOrder> {
        BufReader::new(reader).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }

    #[test]
    fn orders_arrive_as_they_were_told() {
        let (reader, writer) = pipe().unwrap();
        let mut told = OrderWriter::begin(Box::new(writer)).unwrap();
        told.tell(&GeneratorOrder::Begin { at_ns: 7 });
        told.acknowledge(3);
        told.tell(&GeneratorOrder::End);
        assert!(!told.is_stuck());
        drop(told);
        let ack = GeneratorOrder::Ack { through: 3 };
        assert_eq!(orders(reader), [GeneratorOrder::Begin { at_ns: 7 }, ack, GeneratorOrder::End]);
    }

    /// A line longer than a pipe holds used to hold up the conductor until its reader went on.
    #[test]
    fn a_generator_that_does_not_read_is_stuck_and_holds_up_nobody() {
        let (reader, writer) = pipe().unwrap();
        let mut told = OrderWriter::begin(Box::new(writer)).unwrap();
        told.enqueue(QueuedOrder::Line("x".repeat(4 << 20)));
        // However many come, one acknowledgement waits.
        (1..10_000).for_each(|through| told.acknowledge(through));
        assert!(!told.has_overflowed);
        (0..=WAITING).for_each(|_| told.ping());
        assert!(told.is_stuck());
        drop(reader);
    }
}
