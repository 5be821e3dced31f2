//! Tests of the server on real sockets. No test requires speed. Delays are only tested for a
//! minimum.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::tests::{connect, read, read_to_end, with_server};
use crate::{Options, ServedProtocol, Stall};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\nHello, world!\n";
const OK_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n";
const CLOSING: &[u8] = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";

/// Returns a `load` of the key in the space `s`, and its answer.
fn load(id: u32, key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let key_length = u16::try_from(key.len()).unwrap().to_be_bytes();
    let request =
        [&length(4 + 1 + 3 + 2 + key.len()), &id.to_be_bytes()[..], b"\x02\0\x01s", &key_length, key].concat();
    (request, [&length(5 + key.len()), &id.to_be_bytes()[..], &[0], key].concat())
}

fn vsns() -> Options {
    Options { protocol: ServedProtocol::Vsns, ..Options::default() }
}

#[test]
fn answers_keep_the_order_of_requests() {
    with_server(&Options::default(), |address| {
        let mut stream = connect(address);
        for _ in 0..3 {
            stream.write_all(GET).unwrap();
            assert_eq!(read(&mut stream, OK.len()), OK);
        }
        let head = GET.strip_prefix(b"GET").unwrap();
        stream
            .write_all(
                &[GET, b"HEAD", head, GET, b"POST /healthz HTTP/1.1\r\nContent-Length: 4\r\n\r\nGET ", GET].concat(),
            )
            .unwrap();
        let answers = [OK, OK_HEAD, OK, OK, OK].concat();
        assert_eq!(read(&mut stream, answers.len()), answers);
    });
}

#[test]
fn a_request_may_be_split_anywhere() {
    let request = [&b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"[..], GET].concat();
    with_server(&Options::default(), |address| {
        let mut stream = connect(address);
        for split in 1..request.len() {
            stream.write_all(&request[..split]).unwrap();
            stream.write_all(&request[split..]).unwrap();
            assert_eq!(read(&mut stream, 2 * OK.len()), [OK, OK].concat(), "split at {split}");
        }
        for byte in &request {
            stream.write_all(&[*byte]).unwrap();
        }
        assert_eq!(read(&mut stream, 2 * OK.len()), [OK, OK].concat());
    });
}

#[test]
fn frames_may_be_split_and_are_answered_in_order() {
    let (request, answer) = load(0x0102_0304, b"some key");
    with_server(&vsns(), |address| {
        let mut stream = connect(address);
        for split in 1..request.len() {
            stream.write_all(&request[..split]).unwrap();
            stream.write_all(&request[split..]).unwrap();
            assert_eq!(read(&mut stream, answer.len()), answer, "split at {split}");
        }
        let (requests, answers): (Vec<_>, Vec<_>) = (0..1000).map(|id| load(id, id.to_string().as_bytes())).unzip();
        stream.write_all(&requests.concat()).unwrap();
        assert_eq!(read(&mut stream, answers.concat().len()), answers.concat());
    });
}

#[test]
fn a_large_frame_and_a_large_body_pass() {
    let value = vec![b'v'; 5 << 20];
    with_server(&vsns(), |address| {
        let mut stream = connect(address);
        let length = u32::try_from(value.len()).unwrap();
        // Before the value: id 4, opcode 1, space 3, key 3, the value's own length 4.
        let head = [&(length + 15).to_be_bytes(), &b"\0\0\0\x09\x01\0\x01s\0\x01k"[..], &length.to_be_bytes()].concat();
        let (next, answer) = load(10, b"k");
        stream.write_all(&[&head[..], &value, &next].concat()).unwrap();
        let answers = [&b"\0\0\0\x05\0\0\0\x09\0"[..], &answer].concat();
        assert_eq!(read(&mut stream, answers.len()), answers);
    });
    with_server(&Options::default(), |address| {
        let mut stream = connect(address);
        let head = format!("PUT / HTTP/1.1\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n", value.len());
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(read(&mut stream, 25), b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&value).unwrap();
        stream.write_all(GET).unwrap();
        assert_eq!(read(&mut stream, 2 * OK.len()), [OK, OK].concat());
    });
}

#[test]
fn close_is_honoured_after_the_last_answer() {
    for delay_s in [0.0, 0.02] {
        with_server(&Options { delay_s, ..Options::default() }, |address| {
            let mut stream = connect(address);
            stream.write_all(&[GET, CLOSING].concat()).unwrap();
            let text = read_to_end(&mut stream);
            assert_eq!(text.matches("200 OK").count(), 2, "{text}");
            assert!(text.contains("Connection: close\r\n"), "{text}");
        });
    }
}

#[test]
fn a_half_closed_client_gets_its_answers() {
    for delay_s in [0.0, 0.02] {
        with_server(&Options { delay_s, ..Options::default() }, |address| {
            let mut stream = connect(address);
            stream.write_all(&[GET, GET, b"GET / HT"].concat()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&mut stream).as_bytes(), [OK, OK].concat());
        });
    }
}

#[test]
fn garbage_closes_only_its_connection() {
    with_server(&Options::default(), |address| {
        let mut good = connect(address);
        let mut bad = connect(address);
        // More than the server reads at once. The answer must not be lost because of unread input.
        bad.write_all(&[b"\x16\x03\x01 nonsense\r\n\r\n".to_vec(), vec![b'x'; 300_000]].concat()).unwrap();
        assert!(read_to_end(&mut bad).starts_with("HTTP/1.1 400 Bad Request\r\n"));
        let mut long = connect(address);
        long.write_all(&[b"GET / HTTP/1.1\r\nA: ".to_vec(), vec![b'x'; 70 << 10]].concat()).unwrap();
        assert!(read_to_end(&mut long).starts_with("HTTP/1.1 431 "));
        good.write_all(GET).unwrap();
        assert_eq!(read(&mut good, OK.len()), OK);
    });
    with_server(&vsns(), |address| {
        let mut good = connect(address);
        let mut bad = connect(address);
        bad.write_all(GET).unwrap();
        let mut answer = Vec::new();
        bad.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"\0\0\0\x05/ HT\x05");
        let (request, answer) = load(1, b"k");
        good.write_all(&request).unwrap();
        assert_eq!(read(&mut good, answer.len()), answer);
    });
}

/// Writes until the server accepts no more, and only then reads the answers.
fn read_late(mut stream: TcpStream) {
    const MOST: usize = 200_000;
    stream.set_nonblocking(true).unwrap();
    let (mut written, batch) = (0, GET.repeat(1000));
    while written < MOST * GET.len() {
        match stream.write(&batch[written % GET.len()..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    let rest = GET[written % GET.len()..].to_vec();
    let requests = (written + rest.len()) / GET.len();
    std::thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || writer.write_all(&rest).unwrap());
        for number in 0..requests {
            assert_eq!(read(&mut stream, OK.len()), OK, "answer {number} of {requests}");
        }
    });
}

#[test]
fn a_client_that_reads_late_gets_every_answer() {
    for (delay_s, unsent_limit_bytes) in [(0.0, 1 << 20), (0.0, 100), (0.001, 1 << 20), (0.001, 50_000)] {
        let options = Options { delay_s, unsent_limit_bytes, ..Options::default() };
        with_server(&options, |address| read_late(connect(address)));
    }
}

#[test]
fn early_disconnects_do_not_affect_others() {
    for delay_s in [0.0, 0.01] {
        with_server(&Options { delay_s, body_bytes: 75_000 * 14, ..Options::default() }, |address| {
            for _ in 0..50 {
                let mut stream = connect(address);
                stream.write_all(&GET.repeat(10)).unwrap();
                drop(stream);
            }
            let mut stream = connect(address);
            stream.write_all(CLOSING).unwrap();
            assert!(read_to_end(&mut stream).ends_with(&"Hello, world!\n".repeat(1000)));
        });
    }
}

#[test]
fn answers_are_delayed_at_least_as_long_as_configured() {
    let delay = Duration::from_millis(30);
    with_server(&Options { delay_s: delay.as_secs_f64(), ..vsns() }, |address| {
        let (first, second) = (load(1, b"first"), load(2, b"second"));
        let answers = [first.1, second.1].concat();
        let mut streams: Vec<(TcpStream, Instant)> = (0..20).map(|_| (connect(address), Instant::now())).collect();
        for (stream, sent) in &mut streams {
            stream.write_all(&first.0).unwrap();
            *sent = Instant::now();
            stream.write_all(&second.0).unwrap();
        }
        for (stream, sent) in &mut streams {
            assert_eq!(read(stream, answers.len()), answers);
            assert!(sent.elapsed() >= delay);
        }
    });
}

#[test]
fn a_100_continue_is_not_delayed_but_keeps_its_order() {
    let put = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    let invitation = b"HTTP/1.1 100 Continue\r\n\r\n";
    // If it were delayed, the read would time out.
    with_server(&Options { delay_s: 3600.0, ..Options::default() }, |address| {
        let mut stream = connect(address);
        stream.write_all(put).unwrap();
        assert_eq!(read(&mut stream, invitation.len()), invitation);
    });
    with_server(&Options { delay_s: 0.02, ..Options::default() }, |address| {
        let mut stream = connect(address);
        stream.write_all(&[GET, put].concat()).unwrap();
        assert_eq!(read(&mut stream, OK.len() + invitation.len()), [OK, invitation].concat());
        stream.write_all(b"x").unwrap();
        assert_eq!(read(&mut stream, OK.len()), OK);
    });
}

#[test]
fn configured_errors_begin_after_their_interval() {
    let options = Options { errors_for_s: 0.05, errors_every_s: 0.05, ..Options::default() };
    with_server(&options, |address| {
        let mut stream = connect(address);
        stream.write_all(CLOSING).unwrap();
        assert!(read_to_end(&mut stream).starts_with("HTTP/1.1 200 OK"));
        let began = Instant::now();
        let mut status = String::new();
        while !status.starts_with("HTTP/1.1 503 Service Unavailable") {
            assert!(began.elapsed() < Duration::from_secs(20), "no error came");
            let mut stream = connect(address);
            stream.write_all(CLOSING).unwrap();
            status = read_to_end(&mut stream);
        }
    });
}

#[test]
fn errors_are_counted() {
    let options = Options { errors_for_s: 0.05, errors_every_s: 0.2, ..Options::default() };
    let mut seen = Vec::new();
    let book = with_server(&options, |address| {
        let (began, mut was_ok) = (Instant::now(), true);
        while seen.len() < 3 || !was_ok {
            assert!(began.elapsed() < Duration::from_secs(20), "too few spells: {seen:?}");
            let mut stream = connect(address);
            stream.write_all(CLOSING).unwrap();
            let is_ok = read_to_end(&mut stream).starts_with("HTTP/1.1 200");
            if !is_ok && was_ok {
                seen.push(0);
            }
            if let Some(last) = seen.last_mut().filter(|_| !is_ok) {
                *last += 1;
            }
            was_ok = is_ok;
        }
    });
    let counted = book.errors;
    assert_eq!(book.stalls, []);
    // A slow client may merge two periods, so only the sums must agree.
    assert_eq!(counted.iter().map(|errors| errors.answers).sum::<u64>(), seen.iter().sum());
    assert!(counted.len() >= seen.len());
    assert!(counted.iter().all(|errors| errors.first_unix_s <= errors.last_unix_s && errors.first_unix_s > 1e9));
    assert!(counted.windows(2).all(|pair| pair[0].last_unix_s < pair[1].first_unix_s));
}

#[test]
fn stalls_are_recorded() {
    let options = Options { stall_s: 0.05, stall_every_s: 0.1, work: 10, ..Options::default() };
    let book = with_server(&options, |address| {
        let (mut stream, began) = (connect(address), Instant::now());
        let (mut buffer, mut answers) = ([0; 1000], 0);
        while began.elapsed() < Duration::from_millis(300) || answers < 10 {
            stream.write_all(GET).unwrap();
            answers += u32::from(stream.read(&mut buffer).unwrap() > 0);
        }
    });
    assert!(!book.stalls.is_empty() && book.errors.is_empty(), "{book:?}");
    let lasted = |stall: &Stall| stall.last_unix_s - stall.first_unix_s;
    assert!(book.stalls.iter().all(|stall| stall.first_unix_s > 1e9 && lasted(stall) > 0.0), "{book:?}");
    assert!(book.stalls.windows(2).all(|pair| pair[0].last_unix_s < pair[1].first_unix_s), "{book:?}");
}

#[test]
fn a_stalled_server_answers_nothing_and_can_stop() {
    // As long as its interval: it never ends.
    let options = Options { stall_s: 0.05, stall_every_s: 0.05, ..Options::default() };
    with_server(&options, |address| {
        let mut stream = connect(address);
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut answer = vec![0; OK.len()];
        while {
            stream.write_all(GET).unwrap();
            stream.read_exact(&mut answer).is_ok()
        } {}
        let error = stream.read_exact(&mut answer).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    });
}

#[test]
fn hundreds_of_connections_share_the_loop() {
    with_server(&Options { delay_s: 0.001, ..Options::default() }, |address| {
        for _ in 0..2 {
            let mut streams: Vec<TcpStream> = (0..400).map(|_| connect(address)).collect();
            for stream in &mut streams {
                stream.write_all(&GET.repeat(3)).unwrap();
            }
            for stream in &mut streams {
                assert_eq!(read(stream, 3 * OK.len()), OK.repeat(3));
            }
        }
    });
}
