//! Fuzz targets for the messages between a conductor and its generators. A message that is accepted
//! is valid and can be encoded again.

use std::sync::Arc;
use std::time::Duration;

use fleet::clock_offset::{ClockComparison, ClockExchange};
use fleet::messages::{GeneratorMessage, GeneratorOrder};
use fleet::roll_call::RollCall;
use load::{IntervalTerms, IntervalText};
use record::clock::Clock;

/// Reads orders to a generator line by line, up to the first invalid line.
pub fn orders(input: &[u8]) {
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let Ok(order) = serde_json::from_slice::<GeneratorOrder>(line) else { return };
        // A decoded order can be encoded and decoded again.
        serde_json::from_slice::<GeneratorOrder>(&serde_json::to_vec(&order).unwrap()).unwrap();
        if let GeneratorOrder::Setup(setup) = order {
            let slice = setup.slice;
            assert!(slice.mine().start == slice.first && slice.mine().len() <= slice.count as usize);
            // Compiles as much as is possible without a file or a socket.
            let _ = load::operation_names(&setup.load);
        }
    }
}

const THREADS: u32 = 2;

/// Reads messages of a generator as a session does. Intervals that reach the recorder belong to
/// this load, and a missing interval is reported as a loss.
pub fn generators(input: &[u8]) {
    let operations: Arc<[String]> = ["get".to_owned()].into();
    let terms = IntervalTerms { operations, threads: THREADS, services: 1, slot_s: 0.001 };
    let (mut calls, mut clock) = (RollCall::new(1, THREADS as usize), ClockComparison::default());
    let trial = Clock::starting_in(Duration::ZERO);
    for (now_s, line) in input.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(said) = GeneratorMessage::parse(line) else { break };
        serde_json::from_slice::<GeneratorMessage>(&serde_json::to_vec(&said).unwrap()).unwrap();
        let (complete, now_s) = (calls.complete(), now_s as f64);
        match said {
            GeneratorMessage::Pong { t0_ns, t1_ns, t2_ns } => compared(&mut clock, [t0_ns, t1_ns, t2_ns]),
            GeneratorMessage::Interval { number, of } => {
                let place = (of.thread as usize, of.start_s.max(0.0) as u64, of.is_last);
                if let Ok(interval) = of.into_interval(trial, &terms) {
                    assert!(interval.thread < THREADS && interval.threads == THREADS && interval.services == 1);
                    assert!(interval.start_s >= 0.0 && interval.end_s >= interval.start_s);
                    // The index of every slot fits into a `u64`.
                    let _ = interval.first_slot.checked_add(interval.slots.len() as u64 + 1).unwrap();
                    let text = IntervalText::of(&interval).unwrap();
                    let again = text.clone().into_interval(trial, &terms).unwrap();
                    assert_eq!(IntervalText::of(&again).unwrap(), text, "an interval is passed on unchanged");
                    calls.take(0, now_s, number, place);
                }
            }
            GeneratorMessage::Summary { intervals, .. } => calls.last_word(0, now_s, intervals, true),
            GeneratorMessage::Ready { .. }
            | GeneratorMessage::Reached { .. }
            | GeneratorMessage::Called { .. }
            | GeneratorMessage::Stored
            | GeneratorMessage::Refused { .. }
            | GeneratorMessage::Failed { .. } => {
                calls.heard(0, now_s);
            }
        }
        assert!(calls.complete() >= complete, "what was complete stays so");
    }
    calls.stream_ended(0);
    assert!(calls.is_over() || calls.lost(0.0).is_some(), "either all has come, or it is a loss");
}

fn compared(clock: &mut ClockComparison, [t0_ns, t1_ns, t2_ns]: [u64; 3]) {
    let exchange = ClockExchange { t0_ns, t1_ns, t2_ns, t3_ns: t0_ns.saturating_add(1_000_000) };
    clock.take(exchange);
    if let Some(offset) = clock.at(u64::MAX) {
        let _ = offset.there_ns(u64::MAX);
    }
    let _ = clock.at(0).map(|offset| offset.there_ns(0));
}
