//! `plimsoll export` of the golden run, and live metrics of a load on the echo server: other
//! programs get the recorded figures.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use fixture::free_address;
use linearizability::{Edn, Linearizability, Settings, check, read_jepsen};

use crate::hit::echo;
use crate::sandbox::{Sandbox, json, number, root, until};

const GOLDEN: &str = "crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes";

/// Parses a table without quoted cells. Returns its rows by column.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| columns.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn csv_rows_match_the_recorded_seconds() {
    let sandbox = Sandbox::new();
    let golden = root().join(GOLDEN);
    let csv = sandbox.play(&["export", golden.to_str().unwrap(), "--csv"]).exits(0).stdout;
    let rows = rows(&csv);
    let attempts = fs::read_to_string(golden.join("trials/001/attempts.csv")).unwrap();
    for line in attempts.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [at_s, operation, result, count] = cells[..] else { panic!("{line}") };
        let is_it = |row: &&BTreeMap<&str, &str>| {
            row["trial"] == "001"
                && row["figure"] == "attempts"
                && (row["operation"], row["result"]) == (operation, result)
                && row["at_s"].parse::<f64>() == at_s.parse()
        };
        let found = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {line}"));
        assert_eq!(found["value"], count, "{line}");
        assert!(found["unix_s"].starts_with("17951"), "{found:?}");
    }
    let out = sandbox.path().join("seconds.csv");
    let words = ["export", golden.to_str().unwrap(), "--csv", "--out", out.to_str().unwrap()];
    assert!(sandbox.play(&words).exits(0).stdout.is_empty());
    assert_eq!(fs::read_to_string(&out).unwrap(), csv);
}

#[test]
fn csv_of_trials_matches_the_results() {
    let sandbox = Sandbox::new();
    let golden = root().join(GOLDEN);
    let csv = sandbox.play(&["export", golden.to_str().unwrap(), "--csv", "--trials"]).exits(0).stdout;
    let results = json(&golden.join("analysis.json"));
    let trials = results["trials"].as_array().unwrap();
    let rows = rows(&csv);
    assert_eq!(rows.len(), trials.len());
    for (row, trial) in rows.iter().zip(trials) {
        assert_eq!(row["verdict"], trial["verdict"]["is"]);
        for (column, pointer) in
            [("outcomes.ok", "/outcomes/ok"), ("throughput.operations_per_s", "/throughput/operations_per_s")]
        {
            assert_eq!(row[column].parse::<f64>().unwrap(), number(trial, pointer), "{column}");
        }
    }
}

/// A register of three clients. The last read returns a value that was overwritten.
const REGISTER: &str = r#"{"at_s":1.0,"start_s":0.5,"by":"load","agent":1,"effect":"write","space":"s","key":"r","value":"a","outcome":"ok","applied":true}
{"at_s":2.0,"start_s":1.5,"by":"load","agent":2,"effect":"cas","space":"s","key":"r","value":"b","from":"a","equal":true,"version":7,"outcome":"ok","applied":true}
{"at_s":2.1,"start_s":1.6,"by":"load","agent":3,"effect":"cas","space":"s","key":"r","value":"c","from":"x","equal":false,"outcome":"failed","applied":false}
{"at_s":9.0,"start_s":2.5,"by":"load","agent":1,"effect":"write","space":"s","key":"r","value":"d","outcome":"timeout","applied":null}
{"at_s":3.0,"start_s":2.6,"by":"load","agent":1,"effect":"read","space":"s","key":"r","value":"a","outcome":"ok","applied":true}
{"at_s":3.0,"start_s":2.6,"by":"load","agent":1,"effect":"read","space":"s","key":"alone","value":null,"outcome":"ok","applied":true}
"#;

/// A register that had a value before the load.
const OLDER: &str = r#"{"at_s":1.0,"start_s":0.5,"by":"load","agent":1,"effect":"read","space":"s","key":"r","value":"old","outcome":"ok","applied":true}
{"at_s":2.0,"start_s":1.5,"by":"load","agent":1,"effect":"write","space":"s","key":"r","value":"a","outcome":"ok","applied":true}
"#;

#[test]
fn histories_are_read_back_by_the_checkers_formats() {
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("run");
    fs::create_dir_all(run.join("trials/001")).unwrap();
    fs::create_dir_all(run.join("trials/002")).unwrap();
    fs::copy(root().join(GOLDEN).join("plan.json"), run.join("plan.json")).unwrap();
    fs::write(run.join("trials/001/history.jsonl"), REGISTER).unwrap();
    let run = run.to_str().unwrap();
    let export = |more: &[&str]| sandbox.play(&[&["export", run, "--history"], more].concat());
    let verdicts = |text: &str| {
        let operations = read_jepsen(text, false).unwrap().registers();
        let settings = Settings { brief_proofs: true, ..Settings::default() };
        (operations.len(), check(&operations, settings).into_iter().map(|key| key.verdict).collect::<Vec<_>>())
    };
    let (operations, found) = verdicts(&export(&["jepsen", "--trial", "001"]).exits(0).stdout);
    assert!(operations == 5 && matches!(found.as_slice(), [Linearizability::Violation(_)]), "{found:?}");
    let elle = export(&["elle", "--key", "s/r", "--trial", "001"]).exits(0).stdout;
    let events = Edn::read_all(&elle).unwrap();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event.get("type")?.as_str()).collect();
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!(["invoke", "ok", "fail", "info"].map(count), [5, 3, 1, 1]);
    let porcupine = export(&["porcupine", "--trial", "001"]).exits(0).stdout;
    assert!(porcupine.starts_with("INFO  jepsen.util - 1\t:invoke\t:write\t0\n"), "{porcupine}");
    assert_eq!(porcupine.lines().count(), 10);
    export(&["jepsen", "--trial", "001", "--key", "s/x"]).exits(2).says(&["no audited key `s/x`"]);
    export(&["jepsen", "--trial", "009"]).exits(2).says(&["no trial 009"]);
    export(&["jepsen"]).exits(2).says(&["there are 2"]);
    fs::write(format!("{run}/trials/002/history.jsonl"), OLDER).unwrap();
    let porcupine = export(&["porcupine", "--trial", "002"]).exits(0).stdout;
    assert_eq!(porcupine.lines().count(), 6, "the older value is written first: {porcupine}");
    assert!(porcupine.starts_with("INFO  jepsen.util - 1\t:invoke\t:write\t0\n"), "{porcupine}");
}

/// Parses the format as far as this test needs: each family in one piece, rising times, and the end
/// mark.
#[test]
fn openmetrics_are_well_formed_and_count_operations() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let runs = sandbox.path().join("runs");
    let hit = ["hit", &url, "-n", "500", "-c", "4", "--json", "--accept", "--out", runs.to_str().unwrap()];
    sandbox.play(&hit).exits(0);
    drop(server);
    let text = sandbox.play(&["export", runs.to_str().unwrap(), "--openmetrics"]).exits(0).stdout;
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    let mut families: Vec<&str> = Vec::new();
    let mut last: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let name = family.split(' ').next().unwrap();
            assert!(!families.contains(&name), "{name} twice");
            families.push(name);
        } else if !line.starts_with('#') {
            let (series, rest) = line.rsplit_once("} ").unwrap();
            assert!(series.starts_with(families.last().unwrap()), "{line}");
            let (value, at) = rest.split_once(' ').unwrap();
            let (value, at): (f64, f64) = (value.parse().unwrap(), at.parse().unwrap());
            assert!(last.get(series).is_none_or(|(before, _)| *before < at), "{line}");
            last.insert(series, (at, value));
        }
    }
    let ok = last
        .iter()
        .find(|(series, _)| series.starts_with("plimsoll_operations_total") && series.contains("outcome=\"ok\""));
    assert_eq!(ok.map(|(_, (_, value))| *value), Some(500.0), "{text}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn prometheus_can_scrape_a_live_run() {
    let sandbox = Sandbox::new();
    let address = free_address();
    let ask = |path: &str| -> Option<String> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let playing = sandbox.start_run(&[
        "experiments/01-first-run.toml",
        "--set",
        "load.time=20s",
        "--serve-metrics",
        &address.to_string(),
    ]);
    let mut scraped = String::new();
    until("operations are told", || {
        scraped = ask("/metrics").unwrap_or_default();
        let told =
            scraped.lines().find(|line| line.starts_with("plimsoll_operations_total{") && line.contains("\"ok\""));
        told.is_some_and(|line| !line.ends_with(" 0"))
    });
    assert!(scraped.starts_with("HTTP/1.1 200 OK\r\n") && scraped.contains("trial=\"001\""), "{scraped}");
    assert!(scraped.contains("plimsoll_latency_seconds_bucket{") && scraped.contains("le=\"+Inf\""), "{scraped}");
    assert!(ask("/").unwrap().starts_with("HTTP/1.1 404 "));
    sandbox
        .play(&["run", "experiments/01-first-run.toml", "--serve-metrics", &address.to_string()])
        .exits(2)
        .says(&["--serve-metrics"]);
    playing.signal("INT");
    playing.wait().exits(130);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_page_follows_a_run_and_becomes_its_report() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&["experiments/01-first-run.toml", "--set", "load.time=10m", "--watch"]);
    let url = playing.wait_for_line("watch: http://");
    let (host, path) = url.split_once('/').unwrap();
    let ask = |path: &str, more: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes()).unwrap();
        stream
    };
    let mut page = String::new();
    ask(&format!("/{path}"), "").read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<h1>First run</h1>"), "{page}");
    // One reader that stops when the charts are drawn, which takes long on a busy machine, and one
    // that reads to the end of the run.
    let mut whole = ask(&format!("/{path}events"), "Accept-Encoding: gzip\r\n");
    let mut stopped = BufReader::new(ask(&format!("/{path}events"), ""));
    let mut line = String::new();
    while !line.contains("t001-outcomes-1") {
        line.clear();
        assert!(stopped.read_line(&mut line).unwrap() > 0, "no charts");
    }
    playing.signal("INT");
    let mut bytes = Vec::new();
    whole.read_to_end(&mut bytes).unwrap();
    playing.wait().exits(130);
    drop(stopped);
    let body = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let mut events = String::new();
    // The compressed stream of events has no end mark.
    let _ = flate2::read::GzDecoder::new(&bytes[body..]).read_to_string(&mut events);
    let all = |name: &str| -> Vec<serde_json::Value> {
        let mark = format!("event: {name}\ndata: ");
        let data = events.split("\n\n").filter_map(|event| event.split_once(&mark));
        data.map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
    };
    let parts = all("parts");
    let has =
        |name: &str, text: &str| parts.iter().any(|part| part[name].as_str().is_some_and(|part| part.contains(text)));
    assert!(has("verdict", "Trial 1 of 1: load") && has("figures", "ok&#x2f;s") && has("plan", "running"), "{events}");
    assert!(has("charts", "id=\"t001-outcomes-1\""), "{events}");
    let report = fs::read_to_string(sandbox.run_folder().join("report.html")).unwrap();
    assert_eq!(all("report"), [serde_json::Value::from(report)]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// A panel for a name that is never written would stay empty.
#[test]
fn the_dashboard_uses_exported_metrics() {
    let sandbox = Sandbox::new();
    let text = sandbox.play(&["export", root().join(GOLDEN).to_str().unwrap(), "--openmetrics"]).exits(0).stdout;
    let dashboard = json(&root().join("docs/grafana/plimsoll.json"));
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let (name, rest) = query[query.find("plimsoll_").unwrap()..].split_once('{').unwrap();
            let sample = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
            let sample = sample.unwrap_or_else(|| panic!("no {name}"));
            // A query may use only labels that exist, or labels that may be empty.
            for label in rest.split_once('}').unwrap().0.split(", ").filter(|label| !label.ends_with("=\"\"")) {
                let label = label.split(['=', '~']).next().unwrap();
                assert!(sample.contains(&format!("{label}=\"")), "{query}: no {label} in {sample}");
            }
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                assert!(sample.contains(&format!("{label}=\"")), "{legend}: no {label} in {sample}");
            }
            asked += 1;
        }
    }
    assert!(asked > 10, "{asked}");
}

/// The writer's own tests check the content of a file. This test checks that it has the columns of
/// the CSV and the bytes of figures.
#[test]
fn parquet_has_the_columns_of_the_csv() {
    let sandbox = Sandbox::new();
    let (golden, out) = (root().join(GOLDEN), sandbox.path().join("figures.parquet"));
    let (golden, out) = (golden.to_str().unwrap(), out.to_str().unwrap());
    for trials in [&[][..], &["--trials"]] {
        let csv = sandbox.play(&[&["export", golden, "--csv"][..], trials].concat()).exits(0).stdout;
        sandbox.play(&[&["export", golden, "--parquet", "--out", out][..], trials].concat()).exits(0);
        let bytes = fs::read(out).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        for column in csv.lines().next().unwrap().split(',') {
            assert!(has(column.as_bytes()), "no column {column}");
        }
        for row in rows(&csv).iter().take(3) {
            let number = if trials.is_empty() { row["value"] } else { row["throughput.operations_per_s"] };
            assert!(has(&number.parse::<f64>().unwrap().to_le_bytes()), "no {number}");
        }
    }
    sandbox.play(&["export", golden, "--parquet"]).exits(2).says(&["--out"]);
}

#[test]
fn export_requires_a_format_and_existing_paths() {
    let sandbox = Sandbox::new();
    let golden = root().join(GOLDEN);
    let golden = golden.to_str().unwrap();
    sandbox.play(&["export", golden]).exits(2).says(&["--csv", "--openmetrics"]);
    sandbox.play(&["export", golden, "--csv", "--openmetrics"]).exits(2).says(&["cannot be used with"]);
    sandbox.play(&["export", golden, "--openmetrics", "--trials"]).exits(2).says(&["--csv"]);
    let empty = sandbox.path().join("registry");
    sandbox.play(&["export", empty.to_str().unwrap(), "--csv"]).exits(2).says(&["not a run folder", "plimsoll run"]);
    let nowhere = sandbox.path().join("no/such/file");
    let words = ["export", golden, "--csv", "--out", nowhere.to_str().unwrap()];
    sandbox.play(&words).exits(1).says(&["cannot write into", "no/such"]);
}
