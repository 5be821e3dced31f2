//! Tests of the little that is read of a URL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn places() {
    let place = |url: &str| Place::parse(url).map(|place| (place.scheme, place.host, place.port, place.path));
    let is =
        |scheme: &str, host: &str, port, path: &str| Ok((scheme.to_owned(), host.to_owned(), port, path.to_owned()));
    assert_eq!(place("http://10.0.0.7:8080/a?b#c"), is("http", "10.0.0.7", 8080, "/a?b"));
    assert_eq!(place("http://example.org"), is("http", "example.org", 80, "/"));
    assert_eq!(place("https://user:secret@example.org?x"), is("https", "example.org", 443, "/?x"));
    assert_eq!(place("127.0.0.1:7000"), is("", "127.0.0.1", 7000, "/"));
    assert_eq!(place("http://[::1]:81/"), is("http", "::1", 81, "/"));
    assert_eq!(place("http://[::1]/"), is("http", "::1", 80, "/"));
    assert_eq!(place("vsns://n1"), Err("`vsns://n1` names no port".to_owned()));
    assert_eq!(place("http://:80/"), Err("`http://:80/` names no host".to_owned()));
    assert_eq!(place("n1:many"), Err("`many` in `n1:many` is not a port".to_owned()));
}
