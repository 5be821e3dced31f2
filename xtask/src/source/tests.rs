//! Tests of the little grammar: what hides code, and what only looks as if it did.

use super::{code_only, functions};

#[test]
fn comments_and_literals_are_blanked() {
    for (source, kept) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("f(\"x { y\")", "f(       )"),
        ("f(\"a \\\" b\")", "f(        )"),
        ("r#\"a \" b\"# + r", "           + r"),
        ("b\"x\" br\"y\"", "          "),
        ("let row = raw(b'x');", "let row = raw(b   );"),
        ("'{' + '\\'' + '\\u{7b}'", "    +      +         "),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
    ] {
        assert_eq!(code_only(source), kept, "{source}");
    }
}

#[test]
fn lines_stay_where_they_are() {
    let source = "/* 1\n2 */ a\n\"3\n4\" b\n";
    assert_eq!(code_only(source).lines().count(), source.lines().count());
}

#[test]
fn functions_are_measured_with_their_braces() {
    let source = "trait T { fn no_body(&self) -> [u8; 4]; }\n\nfn f(x: [u8; 2]) {\n    if a { b }\n    \"}\";\n}\n";
    let found = functions(&code_only(source));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].line, found[0].length), ("f", 3, 4));
}

#[test]
fn function_pointers_are_not_functions() {
    assert_eq!(functions("struct S { check: fn(&str) -> bool }"), []);
}
