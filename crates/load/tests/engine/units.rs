//! Units of work that operations do, and the parts of their answers that failed.

use std::collections::BTreeMap;
use std::time::Duration;

use experiment::plan::{Step, UnitAmount};
use load::recorder::Recorder;
use record::clock::Clock;
use record::folder::RunFolder;
use record::rows::{self, UnitSecond};

use crate::server::{Reply, Request, Server};
use crate::setting::{LoadRun, load, orders, play, step};

/// Answers a bulk of four documents, of which one is rejected and one refused. On each connection,
/// the answer to the fifth request ends within its JSON, and the sixth is answered with 429.
fn bulk(request: &Request) -> Reply {
    let items = r#"{"errors": true, "items": [{"index": {"_id": "1", "status": 201}}, {"index": {"status": 200}},
        {"index": {"status": 429, "error": {"type": "rejected", "status": 9}}}, {"create": {"status": 409}}]}"#;
    let (status, body) = match request.number % 6 {
        5 => ("200 OK", &items[..items.len() / 2]),
        0 => ("429 Too Many Requests", "{}"),
        _ => ("200 OK", items),
    };
    Reply::Bytes(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn played(units: Option<UnitAmount>, parts: Option<&str>) -> LoadRun {
    let server = Server::http(bulk);
    let bulk = Step { units, parts: parts.map(str::to_owned), ..step("post", &["path=/_bulk", "body=x"]) };
    let mut orders = orders(&format!("http://{}/", server.service()), load(2, 0.1, vec![bulk]));
    orders.protocol = "http".into();
    play(orders)
}

/// Returns the counts by status. Units have an empty status.
fn counted(run: &LoadRun) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for count in run.intervals.iter().flat_map(|interval| &interval.units) {
        *counts.entry(count.status.as_str()).or_default() += count.count;
    }
    counts
}

const PARTS: &str = "answer.body/items/*/*/status";

#[test]
fn failed_parts_count_no_units() {
    let run = played(None, Some(PARTS));
    let (ok, wrong) = (run.summary.ok, run.summary.wrong);
    assert!(ok > 4 && wrong > 0 && run.summary.failed > 0, "{:?}", run.summary);
    assert_eq!(run.attempts("status 429"), run.summary.failed);
    let counted = counted(&run);
    assert_eq!(counted, [("", 2 * ok), ("200", ok), ("201", ok), ("409", ok), ("429", ok)].into());
    let notice_count =
        run.notices().into_iter().filter(|notice| notice.contains("their units are not counted")).count();
    assert_eq!(notice_count, 1, "{:?}", run.notices());
}

#[test]
fn units_are_fixed_or_read_from_the_answer() {
    let run = played(Some(UnitAmount::Fixed(500)), None);
    assert_eq!(counted(&run), [("", 500 * run.summary.ok)].into());
    assert_eq!(run.summary.wrong, 0, "nobody looks into the answers");
    let run = played(Some(UnitAmount::Fixed(1_000)), Some(PARTS));
    assert_eq!(counted(&run)[""], 500 * run.summary.ok, "half of the parts did their share");
    let run = played(Some(UnitAmount::Told("answer.body/items".into())), None);
    assert_eq!(counted(&run), [("", 4 * run.summary.ok)].into());
    assert!(run.summary.wrong > 0);
    let run = played(Some(UnitAmount::Told("answer.body/items/0/index/status".into())), None);
    assert_eq!(counted(&run), [("", 201 * run.summary.ok)].into());
}

#[test]
fn recorded_units_equal_counted_units() {
    let run = played(None, Some(PARTS));
    let parent = fixture::TestDir::new();
    let folder = RunFolder::create(&parent, "units", std::time::SystemTime::UNIX_EPOCH).unwrap();
    let trial = folder.create_trial("001").unwrap();
    let mut recorder = Recorder::create(&trial, Clock::starting_in(Duration::ZERO), 1.0).unwrap();
    assert!(!trial.units().exists(), "loads without units have no such file");
    let counts =
        counted(&run).into_iter().map(|(status, count)| (status.to_owned(), count)).collect::<BTreeMap<_, _>>();
    run.intervals.into_iter().for_each(|interval| drop(recorder.take(interval).unwrap()));
    recorder.finish().unwrap();
    let rows: Vec<UnitSecond> = rows::read(&trial.units()).unwrap().items;
    let mut read: BTreeMap<String, u64> = BTreeMap::new();
    rows.iter().for_each(|row| *read.entry(row.status.clone()).or_default() += row.count);
    assert_eq!(read, counts);
    assert!(rows.iter().all(|row| row.operation == "post" && row.at_s > 0.0));
}
