//! The line of those who wait, whatever comes in whatever order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::engine::agent::Place;
use crate::protocols::http::Http;
use crate::protocols::vsns::Vsns;

fn agents(count: u32) -> Vec<Agent> {
    (1..=count).map(|number| Agent::new(number, 0, Place { service: 0, requests: 0 }, 0)).collect()
}

/// Everybody in the line, in order.
fn line(agents: &[Agent], first: u32) -> Vec<u32> {
    let behind = |number: &u32| Some(agents[*number as usize].behind).filter(|number| *number != NOBODY);
    std::iter::successors(Some(first).filter(|number| *number != NOBODY), behind).collect()
}

#[test]
fn one_agent_asks_and_is_answered() {
    let mut agents = agents(1);
    let mut waiting = Waiting::default();
    for _ in 0..3 {
        assert_eq!(waiting.asked(), None, "nothing was sent");
        assert!(waiting.join(&mut agents, 0));
        assert_eq!((waiting.asked(), waiting.unsent()), (None, 0));
        waiting.all_sent();
        assert_eq!((waiting.asked(), waiting.unsent()), (Some(0), NOBODY));
        waiting.leave(&agents);
    }
    assert_eq!(waiting.disband(), NOBODY);
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let mut agents = agents(4);
    let mut waiting = Waiting::default();
    assert!(waiting.join(&mut agents, 2));
    assert!(!waiting.join(&mut agents, 0));
    waiting.all_sent();
    assert!(waiting.join(&mut agents, 3), "the first that was not sent");
    assert_eq!((waiting.asked(), waiting.unsent()), (Some(2), 3));
    waiting.leave(&agents);
    assert_eq!(waiting.asked(), Some(0));
    assert!(!waiting.join(&mut agents, 2), "who was answered comes again behind the others");
    waiting.leave(&agents);
    assert_eq!((waiting.asked(), waiting.unsent()), (None, 3), "nobody else was sent");
    assert_eq!(line(&agents, waiting.disband()), [3, 2]);
    assert_eq!((waiting.asked(), waiting.unsent(), waiting.disband()), (None, NOBODY, NOBODY));
}

#[test]
fn whatever_happens_the_line_is_what_a_list_would_be() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut agents = agents(6);
    let (mut waiting, mut list, mut sent) = (Waiting::default(), Vec::new(), 0);
    for _ in 0..20_000 {
        match random.u8(..10) {
            0 => {
                let first = waiting.disband();
                assert_eq!(line(&agents, first), list);
                (list, sent) = (Vec::new(), 0);
            }
            1 | 2 => {
                waiting.all_sent();
                sent = list.len();
            }
            3..6 if sent > 0 => {
                waiting.leave(&agents);
                list.remove(0);
                sent -= 1;
            }
            _ => {
                let free: Vec<u32> = (0..6).filter(|number| !list.contains(number)).collect();
                let Some(number) = random.choice(free) else { continue };
                assert_eq!(waiting.join(&mut agents, number as usize), sent == list.len());
                list.push(number);
            }
        }
        let asked = list.first().filter(|_| sent > 0).map(|number| *number as usize);
        assert_eq!(waiting.asked(), asked);
        assert_eq!(waiting.unsent(), list.get(sent).copied().unwrap_or(NOBODY));
    }
}

/// What an idle agent with a connection of its own takes, beside its two timers (32 bytes) and whatever its cycle keeps.
#[test]
fn an_idle_agent_is_small() {
    assert!(size_of::<Agent>() <= 112, "{}", size_of::<Agent>());
    assert!(size_of::<Connection<Http>>() <= 320, "{}", size_of::<Connection<Http>>());
    assert!(size_of::<Connection<Vsns>>() <= 128, "{}", size_of::<Connection<Vsns>>());
}
