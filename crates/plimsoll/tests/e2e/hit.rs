//! `plimsoll hit` against the built-in echo server: its output, the files that it keeps, and that
//! it leaves nothing behind.

use std::fs;
use std::net::TcpStream;

use fixture::{free_address, refusing_address};

use crate::sandbox::{Playing, Sandbox, number, until};

/// Starts an echo server, and returns it with its URL. It ends when dropped.
pub fn echo(sandbox: &Sandbox, more: &[&str]) -> (Playing, String) {
    let address = free_address().to_string();
    let server = sandbox.start(&[&["echo", "--listen", &address][..], more].concat());
    until("the echo server listens", || TcpStream::connect(&address).is_ok());
    (server, format!("http://{address}/"))
}

/// Checks that the folders of private files are empty after the server ended.
fn leaves_nothing(sandbox: &Sandbox, server: Playing) {
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn hit_plays_a_load_and_prints_a_summary() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let played = sandbox.play(&["hit", &url, "-c", "4", "-t", "2s", "--accept"]).exits(0);
    for words in [
        "4 agents got",
        "operations ",
        "p99.9",
        "outcomes ",
        "failed 0",
        "latency of all",
        "█",
        "generator",
        "--print ",
    ] {
        assert!(played.stdout.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    for line in played.stdout.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    assert!(!played.stdout.contains('\x1b') && !played.stderr.contains('\x1b'), "no colours on a pipe");
    let played = played.says(&["4 agents on GET", &url]);
    assert!(!played.stderr.contains("plimsoll-run-"), "a private folder is nobody's business: {}", played.stderr);
    leaves_nothing(&sandbox, server);
}

#[test]
fn json_has_the_format_of_run_and_counts_every_request() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let results = sandbox.play(&["hit", &url, "-c", "2", "-t", "2s", "--json", "--accept"]).exits(0).json();
    assert_eq!(number(&results, "/format"), 1.0);
    let ok = number(&results, "/trials/0/outcomes/ok");
    assert!(ok > 0.0);
    assert_eq!(number(&results, "/trials/0/latency_us/count"), ok, "no warm-up is cut off");
    assert_eq!(number(&results, "/trials/0/steady/from_s"), 0.0);
    leaves_nothing(&sandbox, server);
}

#[test]
fn the_number_of_requests_is_exact_at_a_rate() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let results = sandbox.play(&["hit", &url, "-n", "301", "-r", "200", "--json", "--accept"]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 301.0);
    leaves_nothing(&sandbox, server);
}

#[test]
fn the_number_of_requests_is_exact_in_a_closed_loop() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    for (requests, agents) in [("10k", "32"), ("7", "64"), ("1", "1")] {
        let line = ["hit", &url, "-n", requests, "-c", agents, "--json", "--accept"];
        let results = sandbox.play(&line).exits(0).json();
        let ok = number(&results, "/trials/0/outcomes/ok");
        assert_eq!(ok, if requests == "10k" { 10_000.0 } else { requests.parse().unwrap() });
        assert_eq!(number(&results, "/trials/0/outcomes/unfinished"), 0.0);
        // All requests count, over the time that they took.
        let took_s = number(&results, "/trials/0/measured_s/1");
        let per_s = number(&results, "/trials/0/throughput/operations_per_s");
        assert!((per_s * took_s - ok).abs() < 1e-6 * ok, "{ok} in {took_s} s are {per_s}/s");
    }
    let played = sandbox.play(&["hit", &url, "-n", "500", "-c", "4", "--accept"]).exits(0);
    for words in ["status 200 (500)", "/s received", "500 in all"] {
        assert!(played.stdout.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    played.says(&["500 requests, 10m at most"]);
    // --time still limits the load.
    let (slow, url) = echo(&sandbox, &["--delay", "0.2"]);
    let results = sandbox.play(&["hit", &url, "-n", "1M", "-c", "2", "-t", "1s", "--json", "--accept"]).exits(0).json();
    let ok = number(&results, "/trials/0/outcomes/ok");
    assert!((1.0..=14.0).contains(&ok), "{ok}");
    drop(slow);
    leaves_nothing(&sandbox, server);
}

#[test]
fn debug_shows_one_request_with_its_answer() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let line = ["hit", &url, "--debug", "-d", "{\"a\": 1}", "-H", "X-Braces: {}", "-H", "Authorization: Bearer s3cret"];
    let played = sandbox.play(&line).exits(0);
    for words in ["> POST / HTTP/1.1\n", "> X-Braces: {}\n", "> {\"a\": 1}", "< HTTP/1.1 200 OK\n", "status 200 after "]
    {
        assert!(played.stdout.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    assert!(!played.stdout.contains("s3cret"), "{}", played.stdout);
    drop(server);
    sandbox.play(&["hit", &url, "--debug"]).exits(4).says(&["no answer from", "start the server first"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn failures_have_a_latency_and_a_status() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &["--errors-for", "0.05", "--errors-every", "0.05", "--error-status", "500"]);
    let played = sandbox.play(&["hit", &url, "-t", "1s", "-c", "2", "--accept"]).exits(0);
    for words in ["status 500 (", "\n  failed ", "p99.9", "--debug"] {
        assert!(played.stdout.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    leaves_nothing(&sandbox, server);
}

#[test]
fn options_of_other_tools_are_mapped_to_ours() {
    let sandbox = Sandbox::new();
    for (option, words) in [("-z", "the duration is -t"), ("-q", "--rate"), ("-o", "--json"), ("--h2", "--http2")] {
        sandbox.play(&["hit", "http://127.0.0.1:1/", option, "5"]).exits(2).says(&[option, words, "coming-from.md"]);
    }
    sandbox.play(&["hit", "http://127.0.0.1:1/", "--latency"]).exits(2).says(&["always shown"]);
    let unknown = sandbox.play(&["hit", "http://no-such-host.invalid/"]).exits(4);
    unknown.says(&["no-such-host.invalid", "getent hosts"]);
}

#[test]
fn unexpected_answers_are_wrong_and_failures_have_a_cause() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let options = ["hit", &url, "-c", "2", "-t", "1s", "--accept"];
    let wrong = sandbox.play(&[&options[..], &["--expect", "status=201", "--json"]].concat()).exits(0).json();
    assert_eq!(number(&wrong, "/trials/0/outcomes/ok"), 0.0);
    assert!(number(&wrong, "/trials/0/outcomes/wrong") > 0.0);
    let right = ["--expect", "status=200", "--expect", "header.content-length=14", "--json"];
    let right = sandbox.play(&[&options[..], &right].concat()).exits(0).json();
    assert_eq!(number(&right, "/trials/0/outcomes/wrong"), 0.0);
    leaves_nothing(&sandbox, server);
    let (server, url) = echo(&sandbox, &["--errors-for", "0.05", "--errors-every", "0.05"]);
    let failed = sandbox.play(&["hit", &url, "-c", "2", "-t", "1s", "--accept"]).exits(0);
    assert!(failed.stdout.contains("status 503"), "{}", failed.stdout);
    leaves_nothing(&sandbox, server);
}

#[test]
fn a_load_without_success_is_void_and_shows_examples() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let url = format!("{url}items?token=s3cret-t0ken");
    let options = ["hit", &url, "-c", "2", "-n", "20", "-H", "Authorization: Bearer s3cret-t0ken"];
    let expects = ["--expect", "status=200", "--expect", "body=another text"];
    let void = sandbox.play(&[&options[..], &expects].concat()).exits(6);
    // The text may be wrapped anywhere.
    let said = void.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["no operation succeeded", "for example", "`body = another text` does not hold", "/items?…"] {
        assert!(said.contains(words), "no `{words}` in:\n{}", void.stdout);
    }
    let json = sandbox.play(&[&options[..], &expects, &["--accept", "--json"]].concat()).exits(0).json();
    let examples = json.pointer("/trials/0/examples").unwrap().as_array().unwrap();
    assert_eq!(examples.len(), 1, "{examples:?}");
    assert_eq!(examples[0]["expectation"], "body = another text");
    assert!(examples[0]["answer"].as_str().unwrap().starts_with("HTTP/1.1 200 OK"));
    assert!(!json["trials"].to_string().contains("s3cret-t0ken"), "{}", json["trials"]);
    leaves_nothing(&sandbox, server);
}

#[test]
fn braces_are_sent_literally_and_bodies_are_posted() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let body = "{\"name\": \"{not a placeholder}\"}";
    let options = ["hit", &url, "-c", "1", "-t", "1s", "--json", "--accept", "-d", body, "-H", "X-Braces: {}"];
    let results = sandbox.play(&options).exits(0).json();
    assert!(number(&results, "/trials/0/operations/post/outcomes/ok") > 0.0);
    leaves_nothing(&sandbox, server);
}

#[test]
fn the_page_and_the_folder_are_kept_where_asked() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let page = sandbox.path().join("page.html");
    let page = page.to_str().unwrap();
    let played = sandbox.play(&["hit", &url, "-c", "2", "-t", "1s", "--report", page, "--accept"]).exits(0);
    assert!(played.stdout.contains(page), "{}", played.stdout);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("GET http:") && html.contains("127.0.0.1"), "what was hit stands on it");
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(outside), "the page must be self-contained: {outside}");
    }
    let runs = sandbox.path().join("runs");
    sandbox.play(&["hit", &url, "-c", "2", "-t", "1s", "--out", runs.to_str().unwrap(), "--accept"]).exits(0);
    let run = sandbox.run_folder();
    assert!(fs::read_to_string(run.join("experiment.toml")).unwrap().starts_with("# Made by `plimsoll hit`"));
    sandbox.play(&["show", run.to_str().unwrap()]).exits(0);
    leaves_nothing(&sandbox, server);
}

#[test]
fn the_printed_experiment_can_be_run() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let printed = sandbox.play(&["hit", &url, "-c", "3", "-t", "1s", "--expect", "status=200", "--print"]).exits(0);
    assert!(printed.stderr.is_empty(), "{}", printed.stderr);
    let file = sandbox.file("hit.toml", &printed.stdout);
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    leaves_nothing(&sandbox, server);
}

#[test]
fn an_interrupted_hit_prints_partial_results() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let mut playing = sandbox.start(&["hit", &url, "-c", "2", "-t", "600s", "--accept"]);
    // The first line about the load appears after some seconds.
    playing.wait_for_words("/s ok");
    playing.signal("INT");
    let played = playing.wait().exits(130);
    assert!(played.stdout.contains("partial") && played.stdout.contains("operations "), "{}", played.stdout);
    assert_eq!(played.stdout.matches("interrupted").count(), 1, "said once: {}", played.stdout);
    assert!(!played.stderr.contains("interrupted"), "who did it knows it: {}", played.stderr);
    leaves_nothing(&sandbox, server);
}

#[test]
fn the_next_hit_cleans_up_after_a_killed_hit() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let mut playing = sandbox.start(&["hit", &url, "-c", "2", "-t", "600s"]);
    playing.wait_for_words("/s ok");
    playing.signal("KILL");
    playing.wait();
    assert!(fs::read_dir(sandbox.path().join("scratch")).unwrap().next().is_some(), "a kill leaves the private folder");
    sandbox.play(&["hit", &url, "-c", "1", "-t", "1s", "--accept"]).exits(0).says(&["left by an interrupted run"]);
    leaves_nothing(&sandbox, server);
}

#[test]
fn a_refused_connection_is_reported() {
    let sandbox = Sandbox::new();
    let url = format!("http://{}/", refusing_address());
    let page = sandbox.path().join("page.html");
    sandbox.play(&["hit", &url, "--report", page.to_str().unwrap()]).exits(4).says(&["nothing answers", "refused"]);
    assert!(!page.exists());
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn bad_options_are_reported_together_and_nothing_is_created() {
    let sandbox = Sandbox::new();
    let options = ["hit", "http://127.0.0.1:1/", "-H", "nonsense", "--expect", "sttaus=200", "--poisson"];
    sandbox.play(&options).exits(2).says(&["nonsense", "sttaus", "--poisson needs --rate"]);
    sandbox.play(&["hit", "http://127.0.0.1:1/", "-t", "10"]).exits(2).says(&["--time 10", "write --time 10s"]);
    sandbox.play(&["hit"]).exits(2).says(&["URL"]);
    sandbox.play(&["hit", "http://127.0.0.1:1/", "-c", "0"]).exits(2);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
