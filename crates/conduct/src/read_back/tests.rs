//! Tests of who is asked for a key, against small name services.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A name service that holds these keys, each with its own name as value.
fn holding(keys: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        for stream in listener.incoming().flatten() {
            std::thread::Builder::new().spawn(move || while answer(&stream, keys).is_some() {}).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    address
}

/// Reads a frame `load` and answers it.
fn answer(mut stream: &TcpStream, keys: &[&str]) -> Option<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    let text = String::from_utf8_lossy(&frame).into_owned();
    let found = keys.iter().find(|key| text.ends_with(**key));
    let (status, value) = found.map_or((1, ""), |key| (0, *key));
    let mut reply = u32::try_from(value.len() + 5).unwrap().to_be_bytes().to_vec();
    reply.extend(&frame[..4]);
    reply.push(status);
    reply.extend(value.as_bytes());
    stream.write_all(&reply).ok()
}

struct Scratch(PathBuf);

impl Scratch {
    fn with(history: &[History]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("plimsoll-conduct-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let mut writer = Writer::create(&TrialFolder::at(&path).history()).unwrap();
        history.iter().for_each(|line| writer.write(line).unwrap());
        writer.flush().unwrap();
        Self(path)
    }

    /// What was found, by key.
    fn found(&self) -> Vec<(String, Option<String>)> {
        let all = lines::read::<History>(&TrialFolder::at(&self.0).history()).unwrap().items;
        all.into_iter().filter(|line| line.by == By::Audit).map(|line| (line.key, line.value)).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wrote(agent: Option<u32>, key: &str, at_s: f64, applied: bool) -> History {
    History {
        at_s,
        by: if agent.is_some() { By::Load } else { By::Prepare },
        agent,
        effect: "write".to_owned(),
        space: "s".to_owned(),
        key: key.to_owned(),
        value: Some(key.to_owned()),
        outcome: if applied { Outcome::Ok } else { Outcome::Failed },
        applied: Some(applied),
    }
}

fn read(scratch: &Scratch, services: &[String], give_up: &dyn Fn() -> bool) -> ReadBack {
    let clock = Clock::starting_in(Duration::ZERO);
    read_back(&TrialFolder::at(&scratch.0), "vsns", services, clock, false, give_up).unwrap()
}

fn found(key: &str, value: Option<&str>) -> (String, Option<String>) {
    (key.to_owned(), value.map(str::to_owned))
}

#[test]
fn a_key_is_missed_only_where_it_was_written() {
    let services = [holding(&["first"]), holding(&["second", "prepared", "moved"])];
    let history = [
        wrote(Some(1), "first", 1.0, true),
        wrote(Some(2), "second", 1.0, true),
        // Agent 3 goes where agent 1 goes, and there is no such key.
        wrote(Some(3), "third", 1.0, true),
        wrote(None, "prepared", -1.0, true),
        wrote(None, "gone", -1.0, true),
        // The second wrote it last; the first was refused.
        wrote(Some(1), "moved", 1.0, true),
        wrote(Some(2), "moved", 2.0, true),
        wrote(Some(1), "moved", 3.0, false),
    ];
    let scratch = Scratch::with(&history);
    assert_eq!(read(&scratch, &services, &|| false), ReadBack { keys: 6, unread: 0 });
    let expected = [
        found("first", Some("first")),
        found("gone", None),
        found("moved", Some("moved")),
        found("prepared", Some("prepared")),
        found("second", Some("second")),
        found("third", None),
    ];
    assert_eq!(scratch.found(), expected);
}

#[test]
fn nobody_vouches_for_a_service_that_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    // It is asked once, and given up when it has not answered.
    let services = [silent, holding(&["copied"])];
    let scratch = Scratch::with(&[wrote(Some(1), "copied", 1.0, true), wrote(Some(1), "own", 1.0, true)]);
    let clock = Clock::starting_in(Duration::ZERO);
    let folder = TrialFolder::at(&scratch.0);
    let mut reader = Reader {
        operation: read_operation("vsns").unwrap(),
        links: services.iter().map(|service| Link::to("vsns", service)).collect(),
        give_up: &|| false,
    };
    // As after all patience with it.
    reader.links[0].down_since = Some(Instant::now() - PATIENCE - PATIENCE);
    let keys = audited_keys(&folder).unwrap();
    assert_eq!(read_all(&folder, &mut reader, keys, clock).unwrap(), ReadBack { keys: 1, unread: 1 });
    assert_eq!(scratch.found(), [found("copied", Some("copied"))]);
}

#[test]
fn an_end_that_is_asked_for_leaves_the_rest_unread() {
    let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true)]);
    assert_eq!(read(&scratch, &[holding(&["first"])], &|| true), ReadBack { keys: 0, unread: 1 });
}

#[test]
fn where_the_protocol_reads_no_key_the_members_are_its_read_back() {
    let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true)]);
    let clock = Clock::starting_in(Duration::ZERO);
    let read = |protocol, told| read_back(&TrialFolder::at(&scratch.0), protocol, &[], clock, told, &|| false).unwrap();
    assert_eq!(read("none", true), ReadBack { keys: 1, unread: 0 });
    assert_eq!(read("none", false), ReadBack { keys: 0, unread: 0 });
    assert_eq!(scratch.found(), []);
}

/// A Redis server that holds the key `first`, and knows no spaces.
fn redis() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut asked) {
                let is_held = &asked[..count] == b"*2\r\n$3\r\nGET\r\n$5\r\nfirst\r\n";
                stream.write_all(if is_held { b"$1\r\nv\r\n" } else { b"$-1\r\n" }).unwrap();
            }
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    address
}

#[test]
fn where_there_are_no_spaces_the_key_alone_is_asked_for() {
    let scratch = Scratch::with(&[wrote(Some(1), "first", 1.0, true), wrote(Some(1), "other", 1.0, true)]);
    let clock = Clock::starting_in(Duration::ZERO);
    let done = read_back(&TrialFolder::at(&scratch.0), "redis", &[redis()], clock, false, &|| false).unwrap();
    assert_eq!(done, ReadBack { keys: 2, unread: 0 });
    assert_eq!(scratch.found(), [found("first", Some("v")), found("other", None)]);
}
