//! Layouts: holes are filled, and lengths that never change are literal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::values::Template;
use crate::values::tests::{names, source};

fn arguments(texts: &[&str]) -> Vec<Argument> {
    let compile = |(stream, text): (usize, &&str)| Argument {
        name: format!("a{stream}"),
        template: Template::compile(text, stream as u64, &names()).unwrap(),
    };
    texts.iter().enumerate().map(compile).collect()
}

fn written(layout: &Layout, arguments: &[Argument]) -> Vec<u8> {
    let mut out = Vec::new();
    layout.write(7, &Values { source: source(3, 12), arguments }, &mut out);
    out
}

#[test]
fn a_frame_with_lengths() {
    let arguments = arguments(&["k-{seq}", "{agent}"]);
    let mut builder = Builder::default();
    let frame = builder.length(Width::U32);
    builder.begin(frame).id().bytes(&[9]);
    let key = builder.length(Width::U16);
    builder.begin(key).value(&arguments, 0).end(key);
    let value = builder.length(Width::U32);
    builder.begin(value).value(&arguments, 1).end(value).end(frame);
    let layout = builder.finish().unwrap();
    assert_eq!(written(&layout, &arguments), b"\0\0\0\x10\0\0\0\x07\x09\0\x04k-12\0\0\0\x013");
}

#[test]
fn constant_lengths_are_literal() {
    let arguments = arguments(&["key", "{bytes:5}"]);
    let mut builder = Builder::default();
    let frame = builder.length(Width::U32);
    builder.begin(frame);
    let key = builder.length(Width::U16);
    builder.begin(key).value(&arguments, 0).end(key).value(&arguments, 1).end(frame);
    let layout = builder.finish().unwrap();
    assert_eq!(layout.segments.len(), 2, "{layout:?}");
    let out = written(&layout, &arguments);
    assert_eq!(&out[..9], b"\0\0\0\x0a\0\x03key");
    assert_eq!(out.len(), 14);
}

#[test]
fn decimal_lengths() {
    for (body, expected) in [("", "n: 0\r\n"), ("{bytes:12}", "n: 12\r\n"), ("s{seq}", "n:          3\r\n")] {
        let arguments = arguments(&[body]);
        let mut builder = Builder::default();
        builder.bytes(b"n: ");
        let length = builder.length(Width::Decimal);
        builder.bytes(b"\r\n").begin(length).value(&arguments, 0).end(length);
        let layout = builder.finish().unwrap();
        let out = written(&layout, &arguments);
        assert!(out.starts_with(expected.as_bytes()), "{:?}", String::from_utf8_lossy(&out));
    }
}

#[test]
fn too_long_for_its_length() {
    let arguments = arguments(&["{bytes:70000}"]);
    let mut builder = Builder::default();
    let key = builder.length(Width::U16);
    builder.begin(key).value(&arguments, 0).end(key);
    assert!(builder.finish().is_err());
}
