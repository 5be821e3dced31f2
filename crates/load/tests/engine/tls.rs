//! HTTP and Redis by TLS: trusted certificates, results of failed handshakes, and otherwise the
//! same behaviour as without TLS.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use experiment::plan::{AuditAs, AuditEffect, Connections, Load, Step, Tls};
use fixture::TestDir;
use load::client::{self, CallError, Client};
use load::{LoadOrder, TlsTrust};
use record::events::Outcome;
use record::hlog::Time;
use rustls::{HandshakeKind, ServerConnection, StreamOwned};
use wire::protocols::redis::Redis;
use wire::testing::TestedProtocol as _;

use crate::secret::{Authority, Secret, Stream, always, expired};
use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step, try_play};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LOCAL: &[&str] = &["127.0.0.1", "service.example"];

fn get() -> Step {
    Step { expect: pairs(&["body=hello"]), ..step("get", &["path=/x"]) }
}

fn by_tls(service: &str, tls: Tls, load: Load) -> LoadOrder {
    LoadOrder { protocol: "http".into(), tls, ..orders(service, load) }
}

fn get_from(server: &Secret, tls: Tls) -> LoadRun {
    play(by_tls(&server.service(), tls, load(2, 0.15, vec![get()])))
}

fn connects(run: &LoadRun) -> (u64, u64) {
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    (rows().map(|row| row.connects).sum(), rows().map(|row| row.connect_failures).sum())
}

/// Asserts that every operation failed with this result, each at its connect.
fn assert_all_failed_by(run: &LoadRun, result: &str) {
    assert!(run.summary.failed > 0 && run.summary.ok + run.summary.wrong == 0, "{:?}", run.summary);
    assert_eq!(run.attempts(result), run.summary.failed, "{:?}", run.intervals[0].attempts);
    assert_eq!(connects(run), (0, run.summary.failed));
    assert_eq!(run.times_ns(Outcome::Failed, Time::Service), [0; 0], "nothing was sent");
}

#[test]
fn tls_12_and_13_work_with_a_private_ca() {
    let authority = Authority::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut config = authority.vouch_by(LOCAL, |_| {}, &[version]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let server = Secret::serve(config, |stream, request| {
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert!(request.starts_with(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:"));
            stream.write_all(HELLO).is_ok()
        });
        let run = get_from(&server, authority.trusted());
        assert!(run.summary.ok > 4 && run.summary.failed + run.summary.wrong == 0, "{:?}", run.summary);
        assert_eq!(connects(&run), (2, 0), "connections are kept");
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
        assert!(run.notices().is_empty(), "{:?}", run.notices());
    }
}

#[test]
fn redis_over_tls_logs_in_before_the_first_request() {
    let authority = Authority::new();
    let (config, log) = (Arc::new(authority.vouch(LOCAL, |_| {})), Arc::<Mutex<Vec<String>>>::default());
    let seen = Arc::clone(&log);
    let server = Secret::raw(move |socket| {
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
        while let Some(request) = Redis::read_request(&mut stream) {
            let words = String::from_utf8(request.body).unwrap();
            let reply: &[u8] = if words == "GET k" { b"$1\r\nv\r\n" } else { b"+OK\r\n" };
            seen.lock().unwrap().push(words);
            if stream.write_all(reply).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    });
    let service = server.service().replace("https://", "rediss://:{env:PATH}@") + "3";
    let get = Step { expect: pairs(&["value=v"]), ..step("get", &["key=k"]) };
    let orders = by_tls(&service, authority.trusted(), load(1, 0.15, vec![get]));
    let run = play(LoadOrder { protocol: "redis".into(), ..orders });
    assert!(run.summary.ok > 4 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), (1, 0), "the connection is kept");
    let trust = TlsTrust { tls: authority.trusted(), ..TlsTrust::default() };
    let mut client = client::connect_trusting("redis", &service, &trust, Duration::from_secs(20)).unwrap();
    assert_eq!(client.call("get", &pairs(&["key=k"])).unwrap().field("value"), Some(&b"v"[..]));
    let log = log.lock().unwrap();
    assert!(log[0].starts_with("AUTH ") && log[1] == "SELECT 3" && log[2] == "GET k", "{:?}", &log[1..3]);
}

#[test]
fn untrusted_certificates_are_refused() {
    let authority = Authority::new();
    let stranger = Authority::new();
    for (config, what) in [
        (authority.vouch(LOCAL, expired), "expired"),
        (authority.vouch(&["other.example"], |_| {}), "another's"),
        (stranger.vouch(LOCAL, |_| {}), "vouched for by a stranger"),
    ] {
        let server = Secret::serve(config, always(HELLO));
        assert_all_failed_by(&get_from(&server, authority.trusted()), "tls: bad certificate");
        // A client that does not verify certificates accepts it.
        let run = get_from(&server, Tls { insecure: true, ..Tls::default() });
        assert!(run.summary.ok > 0 && run.summary.failed == 0, "{what}: {:?}", run.summary);
    }
}

#[test]
fn a_self_signed_certificate_is_trusted_only_by_its_file() {
    let (config, file) = Authority::of_itself(LOCAL, |_| {});
    let server = Secret::serve(config, always(HELLO));
    let run = get_from(&server, file.trusted());
    assert!(run.summary.ok > 0 && run.summary.failed == 0, "{:?} {:?}", run.summary, run.notices());
    assert_all_failed_by(&get_from(&server, Authority::new().trusted()), "tls: bad certificate");
    let (config, file) = Authority::of_itself(&["other.example"], |_| {});
    assert_all_failed_by(&get_from(&Secret::serve(config, always(HELLO)), file.trusted()), "tls: bad certificate");
    let (config, file) = Authority::of_itself(LOCAL, expired);
    let run = get_from(&Secret::serve(config, always(HELLO)), file.trusted());
    assert_all_failed_by(&run, "tls: bad certificate");
    assert!(run.notices().iter().any(|notice| notice.contains("expired")), "the reason is told: {:?}", run.notices());
}

#[test]
fn the_server_name_can_be_configured() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(&["service.example"], |_| {}), |stream, _| {
        assert_eq!(stream.conn.server_name(), Some("service.example"));
        stream.write_all(HELLO).is_ok()
    });
    assert_all_failed_by(&get_from(&server, authority.trusted()), "tls: bad certificate");
    let named = Tls { server_name: Some("service.example".into()), ..authority.trusted() };
    assert!(get_from(&server, named).summary.ok > 0);
}

/// A forward proxy. It answers a tunnel request with `answer`. If that opens the tunnel, the proxy
/// passes bytes both ways.
fn proxy(to: SocketAddr, answer: &'static str) -> (Secret, String) {
    let proxy = Secret::raw(move |mut client| {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|count| count == 1) {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        if !head.starts_with(&format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n")) {
            return;
        }
        // Sends the answer in two pieces, as a slow proxy would.
        let (first, rest) = answer.split_at(7);
        let said = [first, rest].into_iter().all(|piece| client.write_all(piece.as_bytes()).is_ok());
        let Some(target) = TcpStream::connect(to).ok().filter(|_| said && answer.contains(" 200 ")) else { return };
        let (mut from_target, mut to_client) = (target.try_clone().unwrap(), client.try_clone().unwrap());
        let back = std::thread::Builder::new().spawn(move || drop(std::io::copy(&mut from_target, &mut to_client)));
        let _ = std::io::copy(&mut client, &mut &target);
        let _ = target.shutdown(Shutdown::Both);
        let _ = back.unwrap().join();
    });
    let url = proxy.service().replace("https://", "http://");
    (proxy, url)
}

#[test]
fn a_forward_proxy_opens_tunnels_or_refuses_them() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), always(HELLO));
    let to: SocketAddr = server.service().trim_start_matches("https://").trim_end_matches('/').parse().unwrap();
    let (_proxy, url) = proxy(to, "HTTP/1.1 200 Connection established\r\nVia: here\r\n\r\n");
    let through = Tls { proxy: Some(url), ..authority.trusted() };
    let run = play(by_tls(&server.service(), through.clone(), load(2, 0.5, vec![get()])));
    assert!(run.summary.ok > 0 && run.summary.failed + run.summary.wrong == 0, "{:?}", run.summary);
    assert_eq!(connects(&run).1, 0);
    let trust = TlsTrust { tls: through, ..TlsTrust::default() };
    let mut client = client::connect_trusting("http", &server.service(), &trust, Duration::from_secs(5)).unwrap();
    let answer = client.call("get", &BTreeMap::from([("path".to_owned(), "/".to_owned())])).unwrap();
    assert_eq!(answer.field("body"), Some(&b"hello"[..]));

    let (_proxy, url) = proxy(to, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    let refused = Tls { proxy: Some(url), ..authority.trusted() };
    assert_all_failed_by(&get_from(&server, refused.clone()), "proxy: 407");
    let trust = TlsTrust { tls: refused, ..TlsTrust::default() };
    let error = client::connect_trusting("http", &server.service(), &trust, Duration::from_secs(5)).unwrap_err();
    assert!(error.to_string().contains("answered `HTTP/1.1 407 Proxy Authentication Required`"), "{error}");
}

#[test]
fn servers_without_valid_tls_fail_the_handshake() {
    let authority = Authority::new();
    let said = |answer: &'static [u8]| {
        Secret::raw(move |mut socket| {
            let _ = socket.read(&mut [0; 1000]);
            let _ = socket.write_all(answer);
            let _ = socket.read(&mut [0; 1000]);
        })
    };
    let clear = said(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    assert_all_failed_by(&get_from(&clear, authority.trusted()), "tls: handshake failed");
    let alert = said(&[21, 3, 3, 0, 2, 2, 40]);
    assert_all_failed_by(&get_from(&alert, authority.trusted()), "tls: refused by the target: handshake failure");
    let short = Secret::raw(|mut socket| {
        let _ = socket.read(&mut [0; 1000]);
    });
    assert_all_failed_by(&get_from(&short, authority.trusted()), "tls: closed in the handshake");
    // Unread bytes cause a reset.
    assert_all_failed_by(&get_from(&Secret::raw(drop), authority.trusted()), "tls: closed in the handshake");
    let silent = Secret::raw(|mut socket| while socket.read(&mut [0; 1000]).is_ok_and(|count| count > 0) {});
    let mut load = load(2, 0.15, vec![get()]);
    load.timeout_s = 0.05;
    let run = play(by_tls(&silent.service(), authority.trusted(), load));
    assert_all_failed_by(&run, "connect timeout");
}

#[test]
fn plain_http_to_a_tls_server_fails() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), always(HELLO));
    let service = server.service().replace("https", "http");
    let run = play(by_tls(&service, Tls::default(), load(2, 0.1, vec![get()])));
    assert!(run.summary.failed > 0 && run.summary.ok == 0);
    let bad = run.attempts("bad answer") + run.attempts("connection closed") + run.attempts("connection reset");
    assert_eq!(bad, run.summary.failed);
}

#[test]
fn unencrypted_bytes_after_the_handshake_break_the_session() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), |stream, _| {
        stream.sock.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_ok()
    });
    let run = get_from(&server, authority.trusted());
    assert!(run.summary.failed > 0 && run.summary.ok == 0);
    assert_eq!(run.attempts("tls: broken"), run.summary.failed);
    assert!(connects(&run).0 >= run.summary.failed, "the connection was there");
}

#[test]
fn an_answer_without_length_needs_a_close_notification() {
    let authority = Authority::new();
    const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nhello";
    let clean = Secret::serve(authority.vouch(LOCAL, |_| {}), |stream, _| {
        stream.write_all(ENDLESS).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        false
    });
    let run = get_from(&clean, authority.trusted());
    assert!(run.summary.ok > 2 && run.summary.failed + run.summary.wrong == 0, "{:?}", run.summary);
    let cut = Secret::serve(authority.vouch(LOCAL, |_| {}), |stream, _| {
        stream.write_all(ENDLESS).unwrap();
        false
    });
    let run = get_from(&cut, authority.trusted());
    assert!(run.summary.failed > 0 && run.summary.ok == 0, "{:?}", run.summary);
    assert_eq!(run.attempts("connection closed"), run.summary.failed);
}

#[test]
fn sessions_are_resumed_without_keep_alive() {
    let authority = Authority::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = Secret::serve(authority.vouch_by(LOCAL, |_| {}, &[version]), always(HELLO));
        let mut load = load(1, 0.2, vec![get()]);
        load.connections = Connections { keep_alive: false, pipeline: 1 };
        let run = play(by_tls(&server.service(), authority.trusted(), load));
        assert!(run.summary.ok > 2 && run.summary.failed == 0, "{:?}", run.summary);
        assert_eq!(connects(&run), (run.summary.ok, 0));
        let handshakes = server.handshakes.lock().unwrap();
        assert_eq!(handshakes[0], HandshakeKind::Full);
        assert!(handshakes[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{handshakes:?}");
        // The handshake counts towards the latency, and not towards the service time.
        let sum = |time| run.times_ns(Outcome::Ok, time).iter().sum::<u64>();
        assert!(sum(Time::Latency) > sum(Time::Service));
    }
}

#[test]
fn large_requests_and_answers() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), |stream, request| {
        let length = request.len() - request.windows(4).position(|end| end == b"\r\n\r\n").unwrap() - 4;
        let body = vec![b'x'; length / 4];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Got: {length}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&body).is_ok() && stream.flush().is_ok()
    });
    let post = Step {
        expect: pairs(&["header.x-got=3000000"]),
        keep: pairs(&["got=answer.body"]),
        ..step("post", &["path=/", "body={bytes:3000000}"])
    };
    let again = Step { expect: pairs(&["body={got}"]), ..post.clone() };
    let mut orders = by_tls(&server.service(), authority.trusted(), load(2, 0.0, vec![post, again]));
    orders.purpose = load::LoadPurpose::Prepare { count: 4 };
    assert_eq!(play(orders).summary.ok, 8);
}

#[test]
fn a_closed_idle_connection_is_reopened() {
    let authority = Authority::new();
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), |stream, _| {
        stream.write_all(HELLO).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        false
    });
    let mut load = load(1, 0.5, vec![get()]);
    load.think_s = 0.1;
    let run = play(by_tls(&server.service(), authority.trusted(), load));
    assert!(run.summary.ok >= 2 && run.summary.failed == 0, "{:?}", run.summary);
}

#[test]
fn services_with_and_without_tls_can_be_mixed() {
    let authority = Authority::new();
    let secret = Secret::serve(authority.vouch(LOCAL, |_| {}), always(HELLO));
    let clear = Server::http(|_| Reply::Bytes(HELLO.to_vec()));
    let mut orders = by_tls("", authority.trusted(), load(4, 0.1, vec![get()]));
    orders.services = vec![secret.service(), format!("http://{}", clear.service())];
    let run = play(orders);
    assert!(run.summary.ok > 8 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(connects(&run), (4, 0));
    assert_eq!(secret.handshakes.lock().unwrap().len(), 2);
}

#[test]
fn a_missing_ca_file_is_an_error() {
    let tls = Tls { ca: Some("no-such-file.pem".into()), ..Tls::default() };
    let error = try_play(by_tls("https://127.0.0.1:1/", tls, load(1, 0.1, vec![get()]))).err().unwrap();
    assert!(error.to_string().contains("no-such-file.pem"), "{error}");
}

#[test]
fn the_client_certificate_is_sent_on_request() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let folder = TestDir::new();
    let file = |name: &str, text: &str| Some(folder.write(name, text).display().to_string());
    let (cert, key) = clients.identity();
    let apart = Tls { cert: file("cert.pem", &cert), key: file("key.pem", &key), ..authority.trusted() };
    let both = Tls { cert: file("both.pem", &format!("{key}{cert}")), ..authority.trusted() };
    let strangers = authority.identity();
    let stranger = Tls { cert: file("other.pem", &format!("{}{}", strangers.0, strangers.1)), ..authority.trusted() };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = Secret::serve(authority.vouch_and_ask(LOCAL, &clients, &[version]), always(HELLO));
        for tls in [apart.clone(), both.clone()] {
            let run = get_from(&server, tls);
            assert!(run.summary.ok > 0 && run.summary.failed == 0, "{:?} {:?}", run.summary, run.notices());
        }
        // In TLS 1.3, the refusal arrives after the client's first request.
        for (tls, refusal) in [(authority.trusted(), "certificate required"), (stranger.clone(), "")] {
            let told = AuditAs {
                effect: AuditEffect::Write,
                key: "k".into(),
                value: Some("request.body".into()),
                ..AuditAs::default()
            };
            let set = Step { audit: true, audit_as: Some(told), ..step("put", &["path=/x", "body=v"]) };
            let run = play(by_tls(&server.service(), tls, load(2, 0.15, vec![set])));
            assert!(run.summary.ok == 0 && run.summary.failed > 0, "{:?}", run.summary);
            let told = &run.intervals[0].attempts;
            let refusal = format!("tls: refused by the target: {refusal}");
            assert!(told.iter().all(|attempt| attempt.result.starts_with(&refusal)), "{told:?}");
            assert_eq!(connects(&run).1, run.summary.failed, "each is a connect that failed");
            assert!(run.history().iter().all(|line| line.applied == Some(false)), "nothing was read");
        }
    }
    for (tls, words) in [
        (Tls { cert: apart.cert.clone(), ..authority.trusted() }, "the file has no private key: set `tls.key`"),
        (Tls { key: apart.cert.clone(), ..apart.clone() }, "the file has no private key, or the key is encrypted"),
        (Tls { cert: apart.key.clone(), key: apart.key.clone(), ..authority.trusted() }, "the file has no certificate"),
        (Tls { key: both.cert.clone(), cert: stranger.cert, ..authority.trusted() }, "cannot be used with its key"),
    ] {
        let refused = try_play(by_tls("https://127.0.0.1:1/", tls, load(1, 0.1, vec![get()]))).err();
        let refused = refused.unwrap_or_else(|| panic!("played: {words}")).to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn the_client_for_single_calls() {
    const PATIENCE: Duration = Duration::from_secs(5);
    let authority = Authority::new();
    let served = |stream: &mut Stream, request: &[u8]| match request.starts_with(b"GET /last ") {
        true => stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").is_err(),
        false => stream.write_all(HELLO).is_ok(),
    };
    let server = Secret::serve(authority.vouch(LOCAL, |_| {}), served);
    let trust = TlsTrust { tls: authority.trusted(), ..TlsTrust::default() };
    let get = |client: &mut Client, path: &str| client.call("get", &BTreeMap::from([("path".into(), path.into())]));
    let mut client = client::connect_trusting("http", &server.service(), &trust, PATIENCE).unwrap();
    for _ in 0..3 {
        let answer = get(&mut client, "/x").unwrap();
        assert_eq!((answer.ok, answer.field("body")), (true, Some(&b"hello"[..])));
    }
    assert_eq!(server.handshakes.lock().unwrap().len(), 1);
    // The connection was cut without a close notification, so the answer may be incomplete.
    assert!(matches!(get(&mut client, "/last"), Err(CallError::Lost(_))));
    assert!(get(&mut client, "/x").unwrap().ok, "and connects again");
    let refused =
        |service: &str, trust: &TlsTrust, patience| match client::connect_trusting("http", service, trust, patience) {
            Err(CallError::Connect { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
    let stranger = TlsTrust { tls: Authority::new().trusted(), ..TlsTrust::default() };
    // The authority's file was deleted with it.
    assert!(refused(&server.service(), &stranger, PATIENCE).contains("ca.pem"));
    let other = Authority::new();
    let stranger = TlsTrust { tls: other.trusted(), ..TlsTrust::default() };
    assert_eq!(
        refused(&server.service(), &stranger, PATIENCE),
        "tls: bad certificate: it is not signed by the trusted CA, but by another CA of the same name"
    );
    let drip = Secret::raw(|mut socket: TcpStream| {
        // A record that never ends, one byte at a time. Each wait is short, but the timeout must
        // cover all of them together.
        let pause = Duration::from_millis(20);
        let (_sender, nothing) = std::sync::mpsc::channel::<()>();
        while socket.write_all(&[22]).is_ok() && nothing.recv_timeout(pause).is_err() {}
    });
    let patience = Duration::from_millis(100);
    let reason = refused(&drip.service(), &trust, patience);
    assert!(reason == "tls: handshake failed" || reason.starts_with("timed out after"), "{reason}");
}
