//! Tests of destinations: every form, and what must never reach ssh.
#![allow(clippy::unwrap_used)]

use super::Destination;

#[test]
fn every_form_is_taken_apart() {
    for (text, host, port) in [
        ("pi1", "pi1", None),
        ("pi@10.0.0.11", "pi@10.0.0.11", None),
        ("pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
        ("pi1:22", "pi1", Some(22)),
        ("ssh://pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
        ("ssh://pi1/", "pi1", None),
        ("me@home@pi1", "me@home@pi1", None),
        ("fe80::1", "fe80::1", None),
        ("[fe80::1]", "fe80::1", None),
        ("pi@[fe80::1]:2222", "pi@fe80::1", Some(2222)),
    ] {
        let destination = Destination::read(text).unwrap();
        assert_eq!((destination.host.as_str(), destination.port), (host, port), "{text}");
        assert_eq!(destination.text, text);
    }
}

#[test]
fn an_option_is_no_destination() {
    for text in [
        "",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=x",
        "me@-x",
        "a b",
        "a;b",
        "a$(b)",
        "@pi1",
        "pi@",
        "pi1:",
        "a\nb",
    ] {
        Destination::read(text).unwrap_err();
    }
    for text in ["pi1:0", "pi1:70000", "pi1:ssh", "[fe80::1]x"] {
        assert!(Destination::read(text).unwrap_err().contains("is no port"), "{text}");
    }
}

#[test]
fn ssh_gets_it_after_its_options() {
    let arguments = |text| Destination::read(text).unwrap().arguments().join(" ");
    assert_eq!(arguments("pi@pi1:2222"), "-p 2222 -- pi@pi1");
    assert_eq!(arguments("pi1"), "-- pi1");
}
