//! Templates: each placeholder, each mistake with its place, and text to template and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::{Arithmetic, Part, Template};

fn parts(text: &str) -> Vec<Part> {
    Template::parse(text).unwrap().parts
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn every_placeholder() {
    assert_eq!(parts("plain"), [text("plain")]);
    assert_eq!(parts("{agent}-{seq}"), [Part::Agent(Arithmetic::Plain), text("-"), Part::Seq(Arithmetic::Plain)]);
    assert_eq!(parts("{seq%100}"), [Part::Seq(Arithmetic::Modulo(100))]);
    assert_eq!(parts("{seq-20}{agent+1}"), [Part::Seq(Arithmetic::Minus(20)), Part::Agent(Arithmetic::Plus(1))]);
    assert_eq!(parts("{bytes:100}"), [Part::Bytes(100)]);
    assert_eq!(parts("{uniform:1..9}"), [Part::Uniform { from: 1, to: 9 }]);
    assert_eq!(parts("{zipf:1..9}"), [Part::Zipf { from: 1, to: 9, exponent: 1.0 }]);
    assert_eq!(parts("{zipf:1..9:1.2}"), [Part::Zipf { from: 1, to: 9, exponent: 1.2 }]);
    assert_eq!(parts("{feed.users.e-mail}"), [Part::Feed { feed: "users".into(), column: "e-mail".into() }]);
    assert_eq!(parts("{saved}"), [Part::Slot("saved".into())]);
    assert_eq!(parts("{env:TOKEN}"), [Part::Env("TOKEN".into())]);
    assert_eq!(parts("{lua.Order_id2}"), [Part::Script("Order_id2".into())]);
    assert_eq!(parts("{lua}"), [Part::Slot("lua".into())]);
    assert_eq!(parts(""), []);
}

#[test]
fn doubled_braces_are_braces() {
    assert_eq!(parts("{{\"query\": {{}}}}"), [text("{\"query\": {}}")]);
    assert_eq!(parts("{{{seq}}}"), [text("{"), Part::Seq(Arithmetic::Plain), text("}")]);
}

#[test]
fn mistakes_are_underlined() {
    for (text, underlined) in [
        ("a{seq", "{seq"),
        ("a}b", "}"),
        ("a{}b", "{}"),
        ("{bytes}", "bytes"),
        ("{bytes:x}", "x"),
        ("{bytes:0}", "0"),
        ("{uniform:9..1}", "9..1"),
        ("{uniform:1}", "1"),
        ("{zipf:1..9:0}", "0"),
        ("{zipf:1..9:x}", "x"),
        ("{zipf:1-9:1}", "1-9"),
        ("{gauss:1..9}", "gauss"),
        ("{seq*2}", "seq*2"),
        ("{seq+x}", "+x"),
        ("{seq%0}", "%0"),
        ("{slot+1}", "slot+1"),
        ("{Seq}", "Seq"),
        ("{feed.users}", "feed.users"),
        ("{env:9}", "9"),
        ("{lua.}", "lua."),
        ("{lua.a-b}", "lua.a-b"),
        ("é{env:}", ""),
        ("é{ seq }", " seq "),
    ] {
        let error = Template::parse(text).unwrap_err();
        assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
        assert!(!error.hint.is_empty());
    }
}

#[test]
fn arithmetic_stays_above_zero() {
    assert_eq!(Arithmetic::Minus(20).apply(5), 0);
    assert_eq!(Arithmetic::Plus(1).apply(u64::MAX), u64::MAX);
    assert_eq!(Arithmetic::Modulo(100).apply(250), 50);
}

proptest! {
    #[test]
    fn any_text_is_a_template_or_an_error_in_it(input in any::<String>()) {
        match Template::parse(&input) {
            Ok(template) => prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template),
            Err(error) => prop_assert!(input.get(error.at).is_some()),
        }
    }

    #[test]
    fn placeholders_come_back(input in "([a-z{}:.%+-]|seq|agent|bytes:[0-9]|uniform:1\\.\\.[0-9]|\\{|\\}){0,12}") {
        if let Ok(template) = Template::parse(&input) {
            prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template);
        }
    }
}
