//! Writer of orders to a generator, on its own thread, so that a generator that does not read
//! blocks no other work.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::generator::{monotonic_ns, named};
use crate::messages::GeneratorOrder;
use crate::roll_call::SILENCE_S;

/// Maximum number of waiting orders. It is larger than the number of pings until a silent generator
/// counts as lost, plus all other orders.
const WAITING: usize = 64;
/// Maximum number of pings whose answers are still accepted.
const PINGS_OUT: usize = 1024;

/// Additional sender of orders, which does not keep the stream open.
#[derive(Clone)]
pub(crate) struct OrderSender(Weak<SyncSender<QueuedOrder>>);

impl OrderSender {
    /// Sends an order. Returns false if the queue is full or the generator is gone.
    pub fn tell(&self, order: &GeneratorOrder) -> bool {
        self.0.upgrade().is_some_and(|queue| queue.try_send(QueuedOrder::Line(written(order))).is_ok())
    }
}

/// Writing end of a stream to a generator. Its methods never wait for the generator.
pub(crate) struct OrderWriter {
    queue: Arc<SyncSender<QueuedOrder>>,
    state: Arc<WriterState>,
    has_overflowed: bool,
}

#[derive(Default)]
struct WriterState {
    /// Start time of the current write. 0: none.
    writing_since_ns: AtomicU64,
    /// Interval number in the waiting acknowledgement. 0: none waits. A later acknowledgement
    /// covers all earlier ones.
    ack: AtomicU64,
    /// Send times of the pings without an answer, oldest first.
    pings_ns: Mutex<VecDeque<u64>>,
}

enum QueuedOrder {
    Line(String),
    /// A ping. Its time is set when it is written.
    Ping,
    Ack,
}

impl OrderWriter {
    /// Starts the writing thread. The thread ends when this writer is dropped and everything has
    /// been written, or when the stream fails.
    pub fn begin(orders: Box<dyn Write + Send>) -> io::Result<Self> {
        let (queue, queued) = sync_channel(WAITING);
        let state = Arc::new(WriterState::default());
        let shared = Arc::clone(&state);
        // The thread is not joined, because a hanging generator may block it until the generator's
        // process is ended.
        named("fleet-write", move || write_orders(orders, &queued, &shared))?;
        Ok(Self { queue: Arc::new(queue), state, has_overflowed: false })
    }

    /// Sends an order, after the earlier ones.
    pub fn tell(&mut self, order: &GeneratorOrder) {
        self.enqueue(QueuedOrder::Line(written(order)));
    }

    /// Returns an additional sender of orders.
    pub fn sender(&self) -> OrderSender {
        OrderSender(Arc::downgrade(&self.queue))
    }

    /// Asks for the generator's clock.
    pub fn ping(&mut self) {
        self.enqueue(QueuedOrder::Ping);
    }

    /// Whether a ping sent at this time has no answer yet. Counts the ping as answered.
    pub fn has_pinged(&self, t0_ns: u64) -> bool {
        let mut pings_ns = self.state.pings_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pings_ns.iter().position(|ping_ns| *ping_ns == t0_ns);
        place.is_some_and(|place| pings_ns.remove(place).is_some())
    }

    /// Acknowledges all intervals up to and including this one.
    pub fn acknowledge(&mut self, through: u64) {
        if self.state.ack.swap(through, Ordering::AcqRel) == 0 {
            self.enqueue(QueuedOrder::Ack);
        }
    }

    fn enqueue(&mut self, order: QueuedOrder) {
        match self.queue.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.has_overflowed = true,
            // A generator that gets no orders stops sending messages, and is then found to be lost.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Whether the generator does not read its orders: too many orders wait, or a write takes too
    /// long.
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
    // Serialisation cannot fail: an order's maps have names as keys.
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
    fn orders_arrive_in_order() {
        let (reader, writer) = pipe().unwrap();
        let mut writer = OrderWriter::begin(Box::new(writer)).unwrap();
        writer.tell(&GeneratorOrder::Begin { at_ns: 7 });
        writer.acknowledge(3);
        writer.tell(&GeneratorOrder::End);
        assert!(!writer.is_stuck());
        drop(writer);
        let ack = GeneratorOrder::Ack { through: 3 };
        assert_eq!(orders(reader), [GeneratorOrder::Begin { at_ns: 7 }, ack, GeneratorOrder::End]);
    }

    /// Regression test: a line longer than a pipe's buffer blocked the conductor until its reader
    /// continued.
    #[test]
    fn a_generator_that_does_not_read_does_not_block() {
        let (reader, writer) = pipe().unwrap();
        let mut writer = OrderWriter::begin(Box::new(writer)).unwrap();
        writer.enqueue(QueuedOrder::Line("x".repeat(4 << 20)));
        // At most one acknowledgement waits.
        (1..10_000).for_each(|through| writer.acknowledge(through));
        assert!(!writer.has_overflowed);
        (0..=WAITING).for_each(|_| writer.ping());
        assert!(writer.is_stuck());
        drop(reader);
    }
}
