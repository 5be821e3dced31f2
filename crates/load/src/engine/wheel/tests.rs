//! The wheel against a plain list.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn pop_all(wheel: &mut Wheel, now_ns: u64) -> BTreeSet<(u32, u64)> {
    std::iter::from_fn(|| wheel.pop(now_ns)).collect()
}

#[test]
fn fires_when_due_and_not_before() {
    let hour = 3_600_000_000_000;
    for due_ns in
        [0, 1, 16_383, 16_384, 4_194_304, 4_194_305, 10_000_000, 1_073_741_824, 10_000_000_000, hour, 365 * 24 * hour]
    {
        let mut wheel = Wheel::new(1);
        wheel.set(0, due_ns);
        if due_ns > 0 {
            assert_eq!(wheel.pop(due_ns - 1), None, "{due_ns}");
            assert!(wheel.soonest_ns() <= due_ns);
            assert!(wheel.soonest_ns() >= due_ns.saturating_sub(1) || due_ns > 4_194_304, "{due_ns}");
        }
        assert_eq!(wheel.pop(due_ns), Some((0, due_ns)), "{due_ns}");
        assert_eq!(wheel.pop(u64::MAX), None);
        assert_eq!((wheel.soonest_ns(), wheel.is_exact()), (u64::MAX, false));
    }
}

#[test]
fn one_that_is_set_in_the_past_fires_at_once() {
    let mut wheel = Wheel::new(2);
    assert_eq!(wheel.pop(5_000_000_000), None);
    wheel.set(1, 7);
    assert_eq!(wheel.pop(5_000_000_000), Some((1, 7)));
}

proptest! {
    #[test]
    fn agrees_with_a_list(
        steps in prop::collection::vec((prop::collection::vec((0_u32..40, 0_u32..44), 0..6), 0_u32..40), 1..60)
    ) {
        let mut wheel = Wheel::new(40);
        let mut set: BTreeSet<(u32, u64)> = BTreeSet::new();
        let mut now_ns = 0_u64;
        for (timers, pause) in steps {
            for (timer, magnitude) in timers {
                if set.iter().all(|(known, _)| *known != timer) {
                    let due_ns = now_ns + (1_u64 << magnitude) - 1 + u64::from(timer);
                    wheel.set(timer, due_ns);
                    set.insert((timer, due_ns));
                }
            }
            prop_assert!(set.iter().all(|(_, due_ns)| wheel.soonest_ns() <= *due_ns));
            // Whoever waits for it awake waits for a timer.
            prop_assert!(!wheel.is_exact() || set.iter().any(|(_, due_ns)| wheel.soonest_ns() == *due_ns));
            now_ns += 1_u64 << pause;
            let due: BTreeSet<(u32, u64)> = set.iter().copied().filter(|(_, due_ns)| *due_ns <= now_ns).collect();
            prop_assert_eq!(pop_all(&mut wheel, now_ns), due.clone());
            set.retain(|timer| !due.contains(timer));
        }
    }
}
