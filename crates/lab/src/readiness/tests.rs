//! Tests of single readiness attempts; waiting is tested with real processes in the site.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use super::*;
use crate::fixture::Lines;

/// A server that gives one answer to each connection, at its address.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::Builder::new()
        .spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut line = String::new();
                let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
                let _ = stream.write_all(answer.as_bytes());
            }
        })
        .unwrap();
    address
}

#[test]
fn http_is_ready_with_2xx_only() {
    let get = |answer| get(&format!("http://{}/health", answering(answer)), &Lines);
    assert_eq!(get("HTTP/1.1 200 OK\r\n\r\n"), Ok(()));
    assert_eq!(get("HTTP/1.0 204 \r\n\r\n"), Ok(()));
    assert_eq!(get("HTTP/1.1 503 Service Unavailable\r\n\r\n"), Err("status 503".to_owned()));
    assert_eq!(get("HTTP/1.1 302 Found\r\n\r\n"), Err("status 302".to_owned()));
    assert_eq!(get("SSH-2.0-OpenSSH\r\n"), Err("an answer that is not HTTP".to_owned()));
    assert_eq!(get(""), Err("an answer that is not HTTP".to_owned()));
}

#[test]
fn what_cannot_be_asked_is_said() {
    let other = format!("ftp://{}/", answering(""));
    assert_eq!(get(&other, &Lines), Err("readiness is asked by http or https, not by `ftp`".to_owned()));
    let secret = format!("https://{}/health?now", answering(""));
    assert_eq!(get(&secret, &Lines), Err(format!("asked `/health?now` of {}", secret.trim_end_matches("/health?now"))));
    let free = crate::ports::free(1).unwrap()[0];
    assert_eq!(reach(&format!("127.0.0.1:{free}")), Err("connection refused".to_owned()));
    let check = Check::Call { service: format!("127.0.0.1:{free}"), operation: "ping".to_owned() };
    assert_eq!(attempt(&check, &Lines), Err("connection refused".to_owned()));
    assert_eq!(check.to_string(), format!("call `ping` to 127.0.0.1:{free}"));
}

#[test]
fn a_call_must_be_ok() {
    let check = |answer| Check::Call { service: answering(answer), operation: "ping".to_owned() };
    assert_eq!(attempt(&check("ok\n"), &Lines), Ok(()));
    assert!(attempt(&check("busy\n"), &Lines).is_err());
    assert_eq!(attempt(&Check::Tcp(answering("")), &Lines), Ok(()));
}
