//! Presence of a fleet's generators, and the second up to which all records are complete. Pure: the
//! caller passes messages and times.
//!
//! A generator is lost when its stream ends before its final message, or when no message has come
//! for [`SILENCE_S`]. After a loss the other generators measure a wrong load, so the first loss
//! ends the trial.

/// Time without a message after which a generator is lost, seconds. A generator sends at least one
/// message each second.
pub const SILENCE_S: f64 = 3.0;
/// Time without an interval after which a generator is lost although it answers pings, seconds.
const STALLED_S: f64 = 10.0;

/// Cause of a generator's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// The generator's stream ended before its final message.
    StreamEnded,
    /// The generator sent no message for too long.
    Silent,
    /// The generator answered pings but sent no interval for too long.
    Stalled,
    /// The generator does not read its orders.
    Deaf,
    /// The generator's data is inconsistent or incomplete.
    Incoherent,
}

/// A lost generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LostGenerator {
    /// Index of the generator.
    pub generator: usize,
    /// Time of the generator's last message, seconds since load start.
    pub heard_s: f64,
    /// Cause of the loss.
    pub cause: LossCause,
}

/// State of the generators of a running load.
#[derive(Debug)]
pub struct RollCall {
    members: Vec<RollCallEntry>,
    lost: Option<LostGenerator>,
}

#[derive(Debug, Clone)]
struct RollCallEntry {
    heard_s: f64,
    /// Time of the last interval. 0 before the first.
    interval_s: f64,
    /// Sequence number of the last interval.
    number: u64,
    /// Per thread, the second before which all its intervals have come.
    through: Vec<u64>,
    has_ended: bool,
}

impl RollCall {
    /// Makes the state of a load that starts at 0, with this many generators and threads per
    /// generator.
    #[must_use]
    pub fn new(generators: usize, threads_each: usize) -> Self {
        let member = RollCallEntry {
            heard_s: 0.0,
            interval_s: 0.0,
            number: 0,
            through: vec![0; threads_each],
            has_ended: false,
        };
        Self { members: vec![member; generators], lost: None }
    }

    /// Records a message from a generator.
    pub fn heard(&mut self, generator: usize, now_s: f64) {
        if let Some(member) = self.members.get_mut(generator) {
            member.heard_s = member.heard_s.max(now_s);
        }
    }

    /// Records an interval: its sequence number, its thread among the generator's threads, its
    /// start in seconds, and whether the thread ends with it. Each number must come once, and each
    /// thread's seconds in order.
    pub fn take(&mut self, generator: usize, now_s: f64, number: u64, (thread, second, is_last): (usize, u64, bool)) {
        self.heard(generator, now_s);
        let Some(member) = self.members.get_mut(generator) else { return };
        let is_next = number == member.number + 1 && !member.has_ended;
        match member.through.get_mut(thread) {
            Some(through) if is_next && *through == second => {
                *through = if is_last { u64::MAX } else { second + 1 };
                member.number = number;
                member.interval_s = member.interval_s.max(now_s);
            }
            _ => self.lose(generator, LossCause::Incoherent),
        }
    }

    /// Records a generator's final message, with the number of its intervals and whether its
    /// checksum was right.
    pub fn last_word(&mut self, generator: usize, now_s: f64, intervals: u64, is_sum_right: bool) {
        self.heard(generator, now_s);
        let Some(member) = self.members.get_mut(generator) else { return };
        let is_whole = member.number == intervals && member.through.iter().all(|through| *through == u64::MAX);
        if is_whole && is_sum_right {
            member.has_ended = true;
        } else {
            self.lose(generator, LossCause::Incoherent);
        }
    }

    /// Records the end of a generator's stream.
    pub fn stream_ended(&mut self, generator: usize) {
        if self.members.get(generator).is_some_and(|member| !member.has_ended) {
            self.lose(generator, LossCause::StreamEnded);
        }
    }

    /// Records that a generator does not read its orders. It is lost even if it still sends
    /// messages.
    pub fn takes_no_orders(&mut self, generator: usize) {
        if self.members.get(generator).is_some_and(|member| !member.has_ended) {
            self.lose(generator, LossCause::Deaf);
        }
    }

    /// Returns the first generator that is lost by this time.
    pub fn lost(&mut self, now_s: f64) -> Option<LostGenerator> {
        let mut members = self.members.iter();
        let silent = members.position(|member| !member.has_ended && now_s - member.heard_s > SILENCE_S);
        let mut members = self.members.iter();
        let stalled = members.position(|member| !member.has_ended && now_s - member.interval_s > STALLED_S);
        for (generator, cause) in [(silent, LossCause::Silent), (stalled, LossCause::Stalled)] {
            if let Some(generator) = generator {
                self.lose(generator, cause);
            }
        }
        self.lost
    }

    /// Whether all generators have sent their final messages.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.has_ended)
    }

    /// Returns the second before which all threads of all generators have complete records. Ended
    /// threads are complete.
    #[must_use]
    pub fn complete(&self) -> u64 {
        self.members.iter().flat_map(|member| &member.through).copied().min().unwrap_or(0)
    }

    fn lose(&mut self, generator: usize, cause: LossCause) {
        let heard_s = self.members.get(generator).map_or(0.0, |member| member.heard_s);
        self.lost.get_or_insert(LostGenerator { generator, heard_s, cause });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn cause(calls: &mut RollCall, now_s: f64) -> Option<(usize, LossCause)> {
        calls.lost(now_s).map(|lost| (lost.generator, lost.cause))
    }

    /// Makes two generators with two threads each, with all intervals up to this second.
    fn until(second: u64) -> RollCall {
        let mut calls = RollCall::new(2, 2);
        for at in 0..second {
            for generator in 0..2 {
                calls.take(generator, (at + 1) as f64, at * 2 + 1, (1, at, false));
                calls.take(generator, (at + 1) as f64, at * 2 + 2, (0, at, false));
            }
        }
        assert_eq!(cause(&mut calls, second as f64), None);
        calls
    }

    #[test]
    fn records_are_complete_up_to_the_slowest_thread() {
        let mut calls = until(3);
        assert_eq!(calls.complete(), 3);
        calls.take(0, 4.0, 7, (0, 3, false));
        calls.take(0, 4.0, 8, (1, 3, false));
        calls.take(1, 4.0, 7, (1, 3, false));
        assert_eq!(calls.complete(), 3, "the last thread is still out");
        calls.take(1, 4.0, 8, (0, 3, true));
        assert_eq!(calls.complete(), 4);
        assert!(!calls.is_over());
    }

    #[test]
    fn a_complete_load_has_no_loss() {
        let mut calls = until(2);
        for generator in 0..2 {
            calls.take(generator, 3.0, 5, (0, 2, true));
            calls.take(generator, 3.0, 6, (1, 2, true));
            calls.last_word(generator, 3.0, 6, true);
            calls.stream_ended(generator);
        }
        assert!(calls.is_over());
        assert_eq!(cause(&mut calls, 1e9), None, "who has said all may be silent");
    }

    #[test]
    fn a_stream_that_ends_early_is_a_loss() {
        let mut calls = until(2);
        calls.stream_ended(1);
        let lost = calls.lost(2.1).unwrap();
        assert_eq!(lost, LostGenerator { generator: 1, heard_s: 2.0, cause: LossCause::StreamEnded });
        calls.stream_ended(0);
        assert_eq!(calls.lost(9.0), Some(lost), "the first loss is the one that is told");
    }

    #[test]
    fn a_generator_that_takes_no_orders_is_lost() {
        let mut calls = until(2);
        for generator in 0..2 {
            calls.take(generator, 3.0, 5, (0, 2, true));
            calls.take(generator, 3.0, 6, (1, 2, true));
        }
        calls.last_word(0, 3.0, 6, true);
        calls.takes_no_orders(0);
        assert_eq!(cause(&mut calls, 3.0), None);
        calls.takes_no_orders(1);
        assert_eq!(cause(&mut calls, 3.0), Some((1, LossCause::Deaf)));
    }

    #[test]
    fn a_generator_without_messages_for_three_seconds_is_lost() {
        let mut calls = until(2);
        calls.heard(0, 4.5);
        calls.heard(1, 2.5);
        assert_eq!(cause(&mut calls, 5.5), None);
        assert_eq!(cause(&mut calls, 5.6), Some((1, LossCause::Silent)));
    }

    #[test]
    fn a_generator_that_never_says_anything_is_lost() {
        let mut calls = RollCall::new(3, 1);
        calls.heard(0, 2.0);
        calls.heard(2, 2.0);
        assert_eq!(cause(&mut calls, 3.1), Some((1, LossCause::Silent)));
    }

    #[test]
    fn a_generator_that_only_answers_pings_is_lost() {
        let mut calls = until(2);
        for second in 3..=13 {
            (0..2).for_each(|generator| calls.heard(generator, f64::from(second)));
        }
        assert_eq!(cause(&mut calls, 12.0), None);
        assert_eq!(cause(&mut calls, 12.1), Some((0, LossCause::Stalled)));
    }

    #[test]
    fn missing_or_repeated_intervals_are_a_loss() {
        for (what, number, part) in [
            ("an interval left out", 6, (0, 2, false)),
            ("one twice", 4, (0, 2, false)),
            ("a second left out", 5, (0, 3, false)),
            ("a second twice", 5, (0, 1, false)),
            ("a thread of another", 5, (2, 2, false)),
        ] {
            let mut calls = until(2);
            calls.take(1, 3.0, number, part);
            assert_eq!(cause(&mut calls, 3.0), Some((1, LossCause::Incoherent)), "{what}");
        }
    }

    #[test]
    fn an_inconsistent_final_message_is_a_loss() {
        for (what, intervals, is_sum_right, ends) in
            [("fewer came", 7, true, true), ("a wrong sum", 6, false, true), ("a thread goes on", 6, true, false)]
        {
            let mut calls = until(2);
            calls.take(0, 3.0, 5, (0, 2, true));
            calls.take(0, 3.0, 6, (1, 2, ends));
            calls.last_word(0, 3.0, intervals, is_sum_right);
            assert_eq!(cause(&mut calls, 3.0), Some((0, LossCause::Incoherent)), "{what}");
        }
    }
}
