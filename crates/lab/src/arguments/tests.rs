//! Tests of reading arguments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn with(value: impl Into<Value>) -> BTreeMap<String, Value> {
    BTreeMap::from([("x".to_owned(), value.into())])
}

/// The value, or what is wrong with it.
fn read<T>(value: impl Into<Value>, read: impl Fn(&mut Arguments<'_>) -> T) -> Result<T, String> {
    let with = with(value);
    let mut arguments = Arguments::new(&with);
    let made = read(&mut arguments);
    arguments.finish(made).map_err(|wrongs| wrongs[0].what.clone())
}

#[test]
fn quantities_have_units() {
    let bits = |text: &str| read(text, |arguments| arguments.bits_per_s("x"));
    assert_eq!(bits("10mbit"), Ok(Some(1e7)));
    assert_eq!(bits("1.5 Gbit/s"), Ok(Some(1.5e9)));
    assert_eq!(bits("fast").unwrap_err(), "`x = \"fast\"` is not a rate");
    for bad in ["10", "10mb", "0mbit", "mbit", "", "1.2.3mbit", "-1mbit"] {
        assert!(bits(bad).is_err(), "{bad}");
    }
    let bytes = |text: &str| read(text, |arguments| arguments.bytes("x"));
    assert_eq!(
        (bytes("512MiB"), bytes("0B"), bytes("2GB")),
        (Ok(Some(512 << 20)), Ok(Some(0)), Ok(Some(2_000_000_000)))
    );
    assert!(bytes("512").is_err() && bytes("9999999999TiB").is_err());
    let rate = |text: &str| read(text, |arguments| arguments.bytes_per_s("x"));
    assert_eq!(rate("20MB/s"), Ok(Some(2e7)));
    assert!(rate("20MB").is_err());
}

#[test]
fn a_bare_number_is_no_quantity() {
    assert_eq!(read(10, |arguments| arguments.bits_per_s("x")).unwrap_err(), "`x = 10` is not a rate");
    assert_eq!(read(10, |arguments| arguments.seconds("x")).unwrap_err(), "`x = 10` is not a duration");
}

#[test]
fn numbers_have_bounds() {
    let number = |value: Value| read(value, |arguments| arguments.number("x", 0.0, 100.0));
    assert_eq!(
        (number(5.into()), number("5%".into()), number(100.into())),
        (Ok(Some(5.0)), Ok(Some(5.0)), Ok(Some(100.0)))
    );
    for bad in [Value::from(0), 101.into(), "much".into(), "NaN".into(), "-1".into()] {
        assert!(number(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn offsets_may_be_negative() {
    let offset = |text: &str| read(text, |arguments| arguments.signed_seconds("x"));
    assert_eq!((offset("-5s"), offset("250ms"), offset("+1m")), (Ok(Some(-5.0)), Ok(Some(0.25)), Ok(Some(60.0))));
    assert!(offset("--5s").is_err() && offset("5").is_err());
}

#[test]
fn words_are_listed() {
    let word = |text: &str| read(text, |arguments| arguments.word("x", &["halves", "ring"]));
    assert_eq!(word("ring"), Ok("ring"));
    let with = with("rings");
    let mut arguments = Arguments::new(&with);
    assert_eq!(
        (arguments.word("y", &["halves", "ring"]), arguments.word("x", &["halves", "ring"])),
        ("halves", "halves")
    );
    let wrongs = arguments.finish(()).unwrap_err();
    assert_eq!(wrongs[0].argument, Some("x"));
    assert_eq!(wrongs[0].hint.as_deref(), Some("there are: halves, ring"));
}
