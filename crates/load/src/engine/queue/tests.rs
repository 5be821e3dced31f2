//! The queue against plain ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn agrees_with_plain_queues(most in 0_usize..12, steps in prop::collection::vec((0_usize..5, 0_u32..3), 1..200)) {
        let mut queue = Queue::new(most, Overflow::Drop, (0..5).map(|_| 0));
        let mut plain = vec![VecDeque::new(); 5];
        for (number, (agent, what)) in steps.into_iter().enumerate() {
            if what == 0 {
                prop_assert_eq!(queue.pop(agent), plain[agent].pop_front());
            } else {
                let has_room = plain.iter().map(VecDeque::len).sum::<usize>() < most;
                prop_assert_eq!(queue.push(agent, number as u64), has_room);
                if has_room {
                    plain[agent].push_back(number as u64);
                }
            }
            prop_assert!(queue.places.len() <= most, "it holds no more than it may");
        }
    }
}
