//! Tests of Redis: addresses, exact bytes of commands, replies of both RESP versions cut at any
//! place, and invalid replies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces, shown};

fn redis() -> Redis {
    Redis::open("redis://127.0.0.1:6379").unwrap()
}

fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Redis> {
    compile(&redis(), operation, with, wants).unwrap()
}

fn sent(operation: &str, with: &[(&str, &str)]) -> String {
    String::from_utf8(encode(&compiled(operation, with, &[]), 1)).unwrap()
}

fn get() -> Compiled<Redis> {
    compiled("get", &[("key", "k")], &["value", "status", "text"])
}

fn command() -> Compiled<Redis> {
    compiled("command", &[("arguments", "ANY")], &["value", "count", "status", "text"])
}

fn number(word: &str) -> u8 {
    let known = REFUSALS.iter().position(|refusal| refusal.name == word);
    known.map_or_else(|| open_word(REFUSALS, word.as_bytes()).unwrap(), |number| u8::try_from(number).unwrap())
}

fn error(word: &str) -> AttemptCause {
    AttemptCause::Answer(number(word))
}

fn greeted_by(word: &str) -> AttemptCause {
    AttemptCause::Greeted(number(word))
}

#[test]
fn tls_needs_the_scheme_rediss() {
    for (service, authority, host) in [
        ("redis://host:1", "host:1", None),
        ("rediss://host:1/2", "host:1", Some("host")),
        ("rediss://:{env:PATH}@[::1]:6380", "[::1]:6380", Some("::1")),
    ] {
        let redis = Redis::open(service).unwrap();
        assert_eq!((redis.authority(), redis.tls_host()), (authority, host), "{service}");
    }
}

#[test]
fn services() {
    for (service, authority, greeting) in [
        ("127.0.0.1:6379", "127.0.0.1:6379", None),
        ("redis://host:1", "host:1", None),
        ("redis://host:1/", "host:1", None),
        ("redis://host:1/0", "host:1", None),
        ("redis://[::1]:6379/12", "[::1]:6379", Some(("*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n", 1))),
    ] {
        let redis = Redis::open(service).unwrap();
        let sent = redis.place.greeting.as_ref();
        let said = sent.map(|greeting| (std::str::from_utf8(&greeting.bytes).unwrap(), greeting.replies));
        assert_eq!((redis.authority(), said), (authority, greeting), "{service}");
    }
    for service in ["", "host", "redis://host", "redis://:1", "host:x", "host:70000", "http://host:1", "redis://h:1/x"]
    {
        assert!(Redis::open(service).is_err(), "{service}");
    }
}

#[test]
fn credentials_come_from_the_environment() {
    let path = std::env::var("PATH").unwrap();
    let auth = |user: &str| {
        let (count, user) =
            if user.is_empty() { (2, String::new()) } else { (3, format!("${}\r\n{user}\r\n", user.len())) };
        format!("*{count}\r\n$4\r\nAUTH\r\n{user}${}\r\n{path}\r\n", path.len())
    };
    for (service, expected, answers) in [
        ("redis://:{env:PATH}@host:1", auth(""), 1),
        ("redis://me:{env:PATH}@host:1/0", auth("me"), 1),
        ("redis://me:{env:PATH}@host:1/3", auth("me") + "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n", 2),
    ] {
        let redis = Redis::open(service).unwrap();
        let greeting = redis.place.greeting.as_ref().unwrap();
        assert_eq!((std::str::from_utf8(&greeting.bytes).unwrap(), greeting.replies), (expected.as_str(), answers));
        assert_eq!(redis.authority(), "host:1");
    }
    for (service, why) in [
        ("redis://:secret@host:1", "environment"),
        ("redis://me:x{env:PATH}@host:1", "environment"),
        ("redis://:@host:1", "environment"),
        ("redis://me@host:1", "redis://USER:"),
        ("redis://:{env:PLIMSOLL_NO_SUCH_VARIABLE}@host:1", "PLIMSOLL_NO_SUCH_VARIABLE"),
    ] {
        let refused = Redis::open(service).unwrap_err();
        assert!(refused.contains(why) && !refused.contains("secret"), "{service}: {refused}");
    }
}

#[test]
fn commands_byte_for_byte() {
    let table = [
        ("get", &[("key", "k")][..], "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
        ("get", &[("key", "k-{agent}")], "*2\r\n$3\r\nGET\r\n$3\r\nk-3\r\n"),
        ("set", &[("key", "k"), ("value", "")], "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"),
        ("set", &[("key", "{agent}"), ("value", "é {seq}")], "*3\r\n$3\r\nSET\r\n$1\r\n3\r\n$5\r\né 12\r\n"),
        (
            "set",
            &[("key", "k"), ("value", "{agent+9999999998}x")],
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\n10000000001x\r\n",
        ),
        ("del", &[("key", "k")], "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"),
        ("incr", &[("key", "k")], "*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"),
        ("enqueue", &[("key", "k"), ("value", "{seq}")], "*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$2\r\n12\r\n"),
        ("dequeue", &[("key", "k")], "*2\r\n$4\r\nLPOP\r\n$1\r\nk\r\n"),
        ("add_to_set", &[("key", "k"), ("value", "{seq}")], "*3\r\n$4\r\nSADD\r\n$1\r\nk\r\n$2\r\n12\r\n"),
        ("members", &[("key", "k")], "*2\r\n$8\r\nSMEMBERS\r\n$1\r\nk\r\n"),
        ("ping", &[], "*1\r\n$4\r\nPING\r\n"),
        ("command", &[("arguments", "INFO")], "*1\r\n$4\r\nINFO\r\n"),
        (
            "command",
            &[("arguments", " HSET  u:{agent} 'full name' \"{seq} {seq}\" ''")],
            "*5\r\n$4\r\nHSET\r\n$3\r\nu:3\r\n$9\r\nfull name\r\n$5\r\n12 12\r\n$0\r\n\r\n",
        ),
    ];
    for (operation, with, expected) in table {
        assert_eq!(sent(operation, with), expected);
    }
    let fixed = sent("set", &[("key", "k"), ("value", "{bytes:100}")]);
    assert!(fixed.starts_with("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\n") && fixed.len() == 128, "{fixed}");
}

#[test]
fn invalid_commands_are_refused() {
    for (operation, with, wants) in [
        ("get", &[][..], &[][..]),
        ("set", &[("key", "k")], &[]),
        ("get", &[("key", "k"), ("space", "s")], &[]),
        ("get", &[("key", "k")], &["removed"]),
        ("command", &[("arguments", " ")], &[]),
        ("command", &[("arguments", "SET 'k")], &[]),
    ] {
        assert!(compile(&redis(), operation, with, wants).is_err(), "{operation} {with:?} {wants:?}");
    }
}

#[test]
fn answers() {
    let set = compiled("set", &[("key", "k"), ("value", "v")], &["status", "text"]);
    let del = compiled("del", &[("key", "k")], &["removed"]);
    let incr = compiled("incr", &[("key", "k")], &["value"]);
    let ping = compiled("ping", &[], &["status"]);
    let enqueue = compiled("enqueue", &[("key", "k"), ("value", "v")], &["length"]);
    let dequeue = compiled("dequeue", &[("key", "k")], &["value", "status", "text"]);
    let found = |value| Seen::answer(AttemptCause::Ok, true, "ok", &[Some(value), Some("ok"), None]);
    let missing = Seen::answer(AttemptCause::Ok, true, "not_found", &[None, Some("not_found"), None]);
    let refused = |word, reusable, text| Seen::answer(error(word), reusable, word, &[None, Some(word), Some(text)]);
    let table = [
        (&get(), "$2\r\nhi\r\n", found("hi")),
        (&get(), "$0\r\n\r\n", found("")),
        (&enqueue, ":7\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("7")])),
        (&dequeue, "$2\r\nhi\r\n", found("hi")),
        (&dequeue, "$-1\r\n", missing.clone()),
        (&get(), "$4\r\n\r\n\r\n\r\n", found("\r\n\r\n")),
        (&get(), "$-1\r\n", missing.clone()),
        (&get(), "_\r\n", missing),
        (&get(), "=6\r\ntxt:hi\r\n", found("hi")),
        (&get(), ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$2\r\nhi\r\n", found("hi")),
        (&get(), "|1\r\n+ttl\r\n:3600\r\n$2\r\nhi\r\n", found("hi")),
        (&get(), "-ERR no\r\n", refused("err", true, "ERR no")),
        (&get(), "-WRONGTYPE that\r\n", refused("wrongtype", true, "WRONGTYPE that")),
        (&get(), "-Module-Error that\r\n", refused("module-error", true, "Module-Error that")),
        (&get(), "-\r\n", refused("other", true, "")),
        (&get(), "!10\r\nREADONLY x\r\n", refused("readonly", true, "READONLY x")),
        (&get(), "-MOVED 3999 127.0.0.1:6381\r\n", refused("moved", true, "MOVED 3999 127.0.0.1:6381")),
        (&get(), "-LOADING\r\n", refused("loading", true, "LOADING")),
        (
            &get(),
            "-ERR max number of clients reached\r\n",
            refused("maxclients", false, "ERR max number of clients reached"),
        ),
        (&get(), ":1\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&get(), "*0\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&set, "+OK\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("ok"), None])),
        (&set, "$-1\r\n", Seen::answer(AttemptCause::Ok, true, "nil", &[Some("nil"), None])),
        (&set, "$2\r\nhi\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&del, ":1\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("1")])),
        (&del, "$-1\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&incr, ":-5\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("-5")])),
        (&incr, "+OK\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("OK")])),
        (&ping, "+PONG\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("ok")])),
        (&ping, "$4\r\nPONG\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("ok")])),
    ];
    for (request, bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(request, 1, bytes.as_bytes(), false), expected, "{bytes:?}");
    }
}

#[test]
fn sets() {
    let add = compiled("add_to_set", &[("key", "k"), ("value", "v")], &["added"]);
    let members = compiled("members", &[("key", "k")], &["value", "count", "status", "text"]);
    let list = |value, count| Seen::answer(AttemptCause::Ok, true, "ok", &[Some(value), Some(count), Some("ok"), None]);
    let wrong = [None, None, Some("wrongtype"), Some("WRONGTYPE that")];
    let table = [
        (&add, ":1\r\n", Seen::answer(AttemptCause::Ok, true, "ok", &[Some("1")])),
        (&add, "*0\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&members, "*0\r\n", list("[]", "0")),
        (&members, "*2\r\n$1\r\na\r\n$3\r\n\"\r\n\r\n", list(r#"["a","\"\r\n"]"#, "2")),
        (&members, "~1\r\n$2\r\n\u{e9}\r\n", list("[\"\u{e9}\"]", "1")),
        (&members, "-WRONGTYPE that\r\n", Seen::answer(error("wrongtype"), true, "wrongtype", &wrong)),
        (&members, "*-1\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&members, "$1\r\na\r\n", Seen::Bad(AttemptCause::BadAnswer)),
        (&members, ":1\r\n", Seen::Bad(AttemptCause::BadAnswer)),
    ];
    for (request, bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(request, 1, bytes.as_bytes(), false), expected, "{bytes:?}");
    }
}

#[test]
fn answers_to_any_command() {
    let plain = |value| Seen::answer(AttemptCause::Ok, true, "ok", &[Some(value), None, Some("ok"), None]);
    let list = |value, count| Seen::answer(AttemptCause::Ok, true, "ok", &[Some(value), Some(count), Some("ok"), None]);
    let nil = Seen::answer(AttemptCause::Ok, true, "nil", &[None, None, Some("nil"), None]);
    let table = [
        ("+OK\r\n", plain("OK")),
        (":1000\r\n", plain("1000")),
        ("$3\r\na\nb\r\n", plain("a\nb")),
        ("#t\r\n", plain("t")),
        (",1.5e3\r\n", plain("1.5e3")),
        ("(3492890328409238509324850943850943825024385\r\n", plain("3492890328409238509324850943850943825024385")),
        ("$-1\r\n", nil.clone()),
        ("*-1\r\n", nil.clone()),
        ("_\r\n", nil),
        ("*0\r\n", list("", "0")),
        ("%0\r\n", list("", "0")),
        ("*3\r\n$1\r\na\r\n:2\r\n$-1\r\n", list("a\n2\n", "3")),
        ("*2\r\n*2\r\n+a\r\n+b\r\n*1\r\n*0\r\n", list("a\nb", "2")),
        ("%2\r\n+k\r\n:1\r\n+l\r\n~2\r\n#t\r\n_\r\n", list("k\n1\nl\nt\n", "2")),
        // An attribute in a list is not an element.
        ("*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n|0\r\n:2\r\n", list("a\nb\n1\n2", "2")),
        // In a list, an error is an element.
        ("*2\r\n+OK\r\n-ERR no\r\n", list("OK\nERR no", "2")),
    ];
    for (bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(&command(), 1, bytes.as_bytes(), false), expected, "{bytes:?}");
    }
}

#[test]
fn hostile_answers() {
    let deep = "*1\r\n".repeat(17);
    let table = [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", AttemptCause::BadAnswer),
        ("\r\n", AttemptCause::BadAnswer),
        ("+OK\n", AttemptCause::BadAnswer),
        ("$\r\n", AttemptCause::BadAnswer),
        ("$-2\r\n", AttemptCause::BadAnswer),
        ("$+2\r\nab\r\n", AttemptCause::BadAnswer),
        ("$2\r\nabc\r\n", AttemptCause::BadAnswer),
        ("$2x\r\nab\r\n", AttemptCause::BadAnswer),
        ("$67108865\r\n", AttemptCause::TooLong),
        ("$67108864\r\n", AttemptCause::TooLong),
        ("$99999999999999999999999\r\n", AttemptCause::TooLong),
        ("*99999999\r\n", AttemptCause::TooLong),
        ("%30000000\r\n", AttemptCause::TooLong),
        (deep.as_str(), AttemptCause::TooLong),
        (":\r\n", AttemptCause::BadAnswer),
        (":1a\r\n", AttemptCause::BadAnswer),
        ("#x\r\n", AttemptCause::BadAnswer),
        ("_x\r\n", AttemptCause::BadAnswer),
        ("=3\r\nabc\r\n", AttemptCause::BadAnswer),
        ("$?\r\n", AttemptCause::BadAnswer),
        ("*2\r\n+a\r\nb\r\n", AttemptCause::BadAnswer),
    ];
    for (bytes, cause) in table {
        assert_eq!(is_the_same_in_pieces(&command(), 1, bytes.as_bytes(), false), Seen::Bad(cause), "{bytes:?}");
    }
    let endless = format!("+{}", "x".repeat(64 * 1024));
    assert_eq!(feed(&command(), &mut (), 1, &[endless.as_bytes()], false), Seen::Bad(AttemptCause::TooLong));
    for cut_off in
        ["", "+O", "+OK\r", "$2\r\nab", "$2\r\nab\r", "*2\r\n+a\r\n", "*2\r\n$1\r\na\r\n|1\r\n+x\r\n", ">1\r\n+x\r\n"]
    {
        assert_eq!(is_the_same_in_pieces(&command(), 1, cut_off.as_bytes(), true), Seen::More, "{cut_off:?}");
    }
}

#[test]
fn bytes_after_an_answer_are_left() {
    let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&get(), 1, b"$2\r\nhi\r\n$1\r\nx\r\n", false) else {
        panic!("no answer")
    };
    assert_eq!(surplus, b"$1\r\nx\r\n");
}

#[test]
fn errors_are_classified_by_their_first_word() {
    let told = |reply: &str| {
        let cause = AttemptCause::Answer(refused(Reply(reply.as_bytes())));
        (cause.text(REFUSALS), cause.is_harmless(REFUSALS))
    };
    for (reply, cause, harmless) in [
        ("-WRONGTYPE Operation against a key\r\n", "answer: wrongtype", true),
        ("-BUSYKEY Target key name already exists.\r\n", "answer: busykey", true),
        ("-ERR something\r\n", "answer: err", false),
        ("-IOERR error or timeout\r\n", "answer: ioerr", false),
        // A script may have written data before the error.
        ("-WRONGTYPE Operation against a key script: 87b, on @user_script:1.\r\n", "answer: wrongtype", false),
    ] {
        assert_eq!(told(reply), (cause.to_owned(), harmless), "{reply}");
    }
    assert!(AttemptCause::Greeted(refused(Reply(b"-ERR DB index is out of range\r\n"))).is_harmless(REFUSALS));
}

#[test]
fn cluster_redirects_come_with_advice() {
    let advice = |word: &str| Redis::advice(error(word));
    assert!(advice("moved").is_some_and(|text| text.contains("Redis Cluster")) && advice("crossslot").is_some());
    assert_eq!(advice("wrongtype"), None);
}

#[test]
fn greetings_are_answered_one_by_one() {
    let redis = Redis::open("redis://:{env:PATH}@host:1/3").unwrap();
    let greeted = |input: &str| redis.greeted(&mut Decoder::default(), input.as_bytes(), &mut Vec::new());
    assert_eq!(greeted("+OK\r\n+OK\r\n"), Opening::Open { used: 10 });
    assert_eq!(greeted("+OK\r\n+OK\r\n+OK\r\n"), Opening::Open { used: 10 });
    for not_whole in ["", "+OK\r\n", "+OK\r\n+O"] {
        assert_eq!(greeted(not_whole), Opening::Wait { used: 0 });
    }
    assert_eq!(greeted("-WRONGPASS invalid\r\n"), Opening::Refused(greeted_by("wrongpass")));
    assert_eq!(greeted("+OK\r\n-ERR DB index is out of range\r\n"), Opening::Refused(greeted_by("err")));
    assert_eq!(greeted("SSH-2.0\r\n"), Opening::Refused(AttemptCause::BadAnswer));
    let too_long = format!("$60000000\r\n{}", "x".repeat(GREETED_LIMIT));
    assert_eq!(greeted(&too_long), Opening::Refused(AttemptCause::TooLong));
}

#[test]
fn only_reading_operations_change_nothing() {
    let changes = |operation, with: &[(&str, &str)]| Redis::may_change(&compiled(operation, with, &[]).request);
    assert!(!changes("get", &[("key", "k")]) && !changes("ping", &[]));
    assert!(changes("set", &[("key", "k"), ("value", "v")]) && changes("command", &[("arguments", "GET k")]));
}

/// Encodes a command as the specification says, independently of the tested code.
fn reference(words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}

proptest! {
    #[test]
    fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
        let (left, right) = bytes.split_at(cut.min(bytes.len()));
        for compiled in [get(), command()] {
            feed(&compiled, &mut (), 1, &[left, right], ends);
        }
    }

    #[test]
    fn reply_like_bytes_never_panic(text in "([-+:$*_#,(!=%~>|][-0-9t]{0,3}\r\n){0,12}", ends: bool) {
        is_the_same_in_pieces(&command(), 1, text.as_bytes(), ends);
    }

    #[test]
    fn commands_agree_with_the_reference(key in "[a-z]{1,20}", value in "[a-z ]{0,120}") {
        prop_assert_eq!(sent("set", &[("key", &key), ("value", &value)]), reference(&["SET", &key, &value]));
        let written = sent("set", &[("key", &format!("{key}{{agent}}")), ("value", &format!("{{seq}}{value}"))]);
        prop_assert_eq!(written, reference(&["SET", &format!("{key}3"), &format!("12{value}")]));
        let any = sent("command", &[("arguments", &format!("SET {key}{{agent}} '{value}'"))]);
        prop_assert_eq!(any, reference(&["SET", &format!("{key}3"), &value]));
    }

    #[test]
    fn values_are_decoded_unchanged(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reply = format!("${}\r\n", value.len()).into_bytes();
        reply.extend_from_slice(&value);
        reply.extend_from_slice(b"\r\n");
        let text = shown(&value);
        let expected = Seen::answer(AttemptCause::Ok, true, "ok", &[Some(&text), Some("ok"), None]);
        prop_assert_eq!(is_the_same_in_pieces(&get(), 1, &reply, false), expected);
    }

    #[test]
    fn lists_are_decoded_unchanged(texts in prop::collection::vec("[a-z]{0,10}", 0..20)) {
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        let count = texts.len().to_string();
        let expected = Seen::answer(AttemptCause::Ok, true, "ok", &[Some(&texts.join("\n")), Some(&count), Some("ok"), None]);
        prop_assert_eq!(is_the_same_in_pieces(&command(), 1, reference(&words).as_bytes(), false), expected);
    }
}
