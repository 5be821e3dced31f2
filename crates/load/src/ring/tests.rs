//! The ring on pairs of sockets; where the system permits no ring there is nothing to test. It must not need a network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rustix::event::epoll;
use rustix::fd::AsFd;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A ring and an epoll instance that it watches.
fn ring() -> Option<(Ring, rustix::fd::OwnedFd)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    Ring::open(1, epoll.as_fd()).ok().map(|ring| (ring, epoll))
}

/// What happens next.
fn next(ring: &mut Ring) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    ring.wait(SECOND_NS, Gathering::NONE, &mut arrivals).unwrap();
    arrivals
}

/// All bytes until something else happens, or a second without anything.
fn drain(ring: &mut Ring, socket: &UnixStream) -> (Vec<u8>, Option<Arrival>) {
    let (mut bytes, mut into) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let arrivals = next(ring);
        if arrivals.is_empty() {
            return (bytes, None);
        }
        for arrival in arrivals {
            match arrival {
                Arrival::Bytes { token, place, length, is_last } => {
                    let length = ring.take(place, length, &mut into);
                    bytes.extend_from_slice(&into[..length]);
                    if is_last {
                        ring.receive(token, socket.as_fd()).unwrap();
                    }
                }
                Arrival::Starved(token) => ring.receive(token, socket.as_fd()).unwrap(),
                other => return (bytes, Some(other)),
            }
        }
    }
}

#[test]
fn bytes_go_out_and_come_in() {
    let Some((mut ring, _epoll)) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let token = Token::new(7, 3);
    ring.receive(token, ours.as_fd()).unwrap();
    for round in 0..100 {
        ring.send(token, ours.as_fd(), format!("question {round}").as_bytes());
        ring.hand_over().unwrap();
        let mut asked = [0; 64];
        let count = theirs.read(&mut asked).unwrap();
        assert_eq!(&asked[..count], format!("question {round}").as_bytes());
        theirs.write_all(format!("answer {round}").as_bytes()).unwrap();
        let [Arrival::Bytes { token: of, place, length, .. }] = next(&mut ring)[..] else { panic!("no bytes") };
        let mut answer = [0; 64];
        let length = ring.take(place, length, &mut answer);
        assert_eq!((of, &answer[..length]), (token, format!("answer {round}").as_bytes()));
    }
    drop(theirs);
    assert_eq!(next(&mut ring), [Arrival::Ended(token)]);
}

#[test]
fn a_flood_is_received_whole_and_in_order() {
    let Some((mut ring, _epoll)) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let flood: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let sent = flood.clone();
    let writer = std::thread::Builder::new().spawn(move || theirs.write_all(&sent)).unwrap();
    let token = Token::new(0, 0);
    ring.receive(token, ours.as_fd()).unwrap();
    let (bytes, end) = drain(&mut ring, &ours);
    assert!(bytes == flood, "{} of {} bytes", bytes.len(), flood.len());
    assert_eq!(end, Some(Arrival::Ended(token)));
    writer.join().unwrap().unwrap();
}

#[test]
fn what_a_full_socket_does_not_take_is_told() {
    let Some((mut ring, _epoll)) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let token = Token::new(1, 1 << 29);
    let long: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    ring.send(token, ours.as_fd(), &long);
    let [Arrival::Unsent { token: of, taken }] = next(&mut ring)[..] else { panic!("all of it was taken") };
    assert_eq!(of, token);
    assert!(taken > 0 && taken < long.len());
    assert!(ring.unsent(token, taken) == &long[taken..]);
    let mut came = vec![0; taken];
    theirs.read_exact(&mut came).unwrap();
    assert!(came == long[..taken]);
    // Nothing goes out by itself later, and the next send stands alone.
    theirs.set_nonblocking(true).unwrap();
    assert!(theirs.read(&mut came).is_err());
    ring.send(token, ours.as_fd(), b"next");
    ring.hand_over().unwrap();
    let count = theirs.read(&mut came).unwrap();
    assert_eq!(&came[..count], b"next");
}

#[test]
fn a_closed_socket_is_mute_and_ended() {
    let Some((mut ring, _epoll)) = ring() else { return };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let token = Token::new(2, 0);
    ring.receive(token, ours.as_fd()).unwrap();
    drop(theirs);
    ring.send(token, ours.as_fd(), b"hello");
    let mut told = next(&mut ring);
    while told.len() < 2 {
        let more = next(&mut ring);
        assert!(!more.is_empty(), "{told:?}");
        told.extend(more);
    }
    assert!(told.contains(&Arrival::Mute(token, Errno::PIPE)) && told.contains(&Arrival::Ended(token)), "{told:?}");
}

#[test]
fn what_comes_soon_is_gathered_and_what_does_not_is_not_waited_for() {
    let Some((mut ring, _epoll)) = ring() else { return };
    let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
    for (number, (ours, _)) in pairs.iter().enumerate() {
        ring.receive(Token::new(number, 0), ours.as_fd()).unwrap();
    }
    for (here, wanted, within_us) in [(3, 3, 400_000), (2, 3, 1_000), (1, 3, 0), (3, 1, 1_000)] {
        for (_, theirs) in &pairs[..here] {
            (&*theirs).write_all(b"x").unwrap();
        }
        let mut came = 0;
        while came < here {
            let mut arrivals = Vec::new();
            ring.wait(SECOND_NS, Gathering { arrivals: wanted, within_us }, &mut arrivals).unwrap();
            assert!(!arrivals.is_empty(), "{came} of {here}");
            came += arrivals.len();
            for arrival in arrivals {
                let Arrival::Bytes { place, length, .. } = arrival else { panic!("{arrival:?}") };
                ring.take(place, length, &mut [0]);
            }
        }
        assert_eq!(came, here);
    }
}

#[test]
fn the_watched_is_told_of() {
    let Some((mut ring, epoll)) = ring() else { return };
    let mut arrivals = Vec::new();
    ring.wait(0, Gathering::NONE, &mut arrivals).unwrap();
    assert!(arrivals.is_empty() && !ring.is_watched_ready());
    for _ in 0..3 {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &ours, epoll::EventData::new_u64(1), flags).unwrap();
        theirs.write_all(b"x").unwrap();
        ring.wait(SECOND_NS, Gathering::NONE, &mut arrivals).unwrap();
        assert!(arrivals.is_empty() && ring.is_watched_ready());
        let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&Default::default())).unwrap();
        assert_eq!(events.len(), 1);
        ring.watched_was_emptied();
    }
}
