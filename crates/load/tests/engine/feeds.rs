//! Feeds that are read ahead, under the engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use experiment::plan::{Feed, Load, Step, StepOrder};
use fixture::TestDir;
use load::Error;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, step, try_play};

/// Returns a server that accepts all requests, and the number of times that each posted line
/// arrived.
fn collector() -> (Server, Arc<Mutex<BTreeMap<String, u32>>>) {
    let lines: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let seen = Arc::clone(&lines);
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        let mut seen = seen.lock().unwrap();
        body.lines().for_each(|line| *seen.entry(line.to_owned()).or_default() += 1);
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    (server, lines)
}

/// Returns a feed that streams this file.
fn stream(file: &Path) -> Feed {
    let file = file.to_str().unwrap().to_owned();
    Feed { name: "docs".into(), file, stream: true, ends: true, ..Feed::default() }
}

fn posted(server: &Server, feed: Feed, load: Load) -> Result<LoadRun, Error> {
    let load = Load { feeds: vec![feed], threads: Some(2), time_s: 60.0, ..load };
    let mut orders = orders(&format!("http://{}/", server.service()), load);
    orders.protocol = "http".into();
    try_play(orders)
}

fn documents(count: u32) -> String {
    (0..count).map(|id| format!("{{\"id\": {id}}}\n")).collect()
}

#[test]
fn each_record_is_sent_once_before_the_load_ends() {
    let folder = TestDir::new();
    let file = folder.write("docs.json.zst", zstd::encode_all(documents(5_000).as_bytes(), 1).unwrap());
    let (server, lines) = collector();
    let feed = Feed { batch: 7, before: Some("{\"index\":{}}".into()), ..stream(&file) };
    let post = step("post", &["path=/_bulk", "body={feed.docs.lines}"]);
    // Other steps of the mix take no records.
    let mixed =
        Load { order: StepOrder::Mix, ..load(4, 1.0, vec![post, Step { weight: 2, ..step("get", &["path=/"]) }]) };
    let run = posted(&server, feed, mixed).unwrap();
    let lines = lines.lock().unwrap();
    assert_eq!(lines["{\"index\":{}}"], 5_000);
    assert_eq!(lines.len(), 5_001);
    assert!(documents(5_000).lines().all(|line| lines[line] == 1));
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    assert_eq!(rows().filter_map(|row| row.feed_records).sum::<u64>(), 5_000);
    let length = fs::metadata(&file).unwrap().len();
    assert_eq!(rows().filter_map(|row| row.feed_bytes).sum::<u64>(), length, "bytes are the file's, packed as it is");
    assert!(rows().all(|row| row.feed_wait_s.is_some() && row.feed_bytes.is_some() == (row.thread == 0)));
}

#[test]
fn a_truncated_file_ends_the_load_with_an_error() {
    let folder = TestDir::new();
    let file = folder.write("cut.json", format!("{}{{\"id\": 9", documents(300)).as_bytes());
    let (server, lines) = collector();
    let posts = load(2, 1.0, vec![step("post", &["path=/", "body={feed.docs.line}"])]);
    let error = posted(&server, stream(&file), posts).err().unwrap();
    assert!(matches!(&error, Error::Values(wire::error::Error::Feed { .. })));
    assert!(error.to_string().ends_with("it ends in mid-line: line 301 is no whole JSON"), "{error}");
    assert!(lines.lock().unwrap().values().all(|count| *count == 1), "what was sound may have been sent");
}

#[test]
fn values_of_a_record_hold_for_the_whole_cycle() {
    let rows: String = (0..400).map(|row| format!("k{row},v{row}\n")).collect();
    let folder = TestDir::new();
    let file = folder.write("rows.csv", format!("key,value\n{rows}").as_bytes());
    let (server, lines) = collector();
    let steps = vec![
        step("post", &["path=/", "body=1 {feed.docs.key}"]),
        step("post", &["path=/", "body=2 {feed.docs.key} {feed.docs.value}"]),
    ];
    posted(&server, stream(&file), load(5, 1.0, steps)).unwrap();
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 800);
    assert!((0..400).all(|row| lines[&format!("1 k{row}")] == 1 && lines[&format!("2 k{row} v{row}")] == 1));
}
