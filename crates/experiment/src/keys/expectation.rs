//! The keys of `expect` and `keep`: what an answer has to be, and what of it later steps may use. No text is read here.

use super::{Key, Kind};

/// `expect` of a step. Field names have dots (`header.etag`), which TOML reads as tables within tables.
pub(super) const EXPECT: Key = Key::new(
    "expect",
    Kind::Paths(&Kind::Either(
        &[Kind::Template, Kind::Table(COMPARISON)],
        "a template or a comparison, such as \"200\" or { one_of = [\"200\", \"201\"] }",
    )),
    "Field of the answer, or FIELD/JSON/POINTER = what it has to be; an answer that contradicts it is `wrong`",
)
.elsewhere(&["assert", "check"]);

/// `keep` of a step.
pub(super) const KEEP: Key = Key::new(
    "keep",
    Kind::Map(&Kind::Either(
        &[Kind::Text, Kind::Table(PART)],
        "\"request.FIELD\", \"answer.FIELD\" or { from = \"answer.FIELD\", matches = \"id=([0-9]+)\" }",
    )),
    "Slot = \"request.FIELD\", \"answer.FIELD\" or \"answer.FIELD/JSON/POINTER\"; later templates of the same cycle use {slot}",
)
.elsewhere(&["capture", "save", "extract"]);

const MATCHES: Key =
    Key::new("matches", Kind::Text, "A regular expression that matches somewhere in it; `^` and `$` are its ends")
        .elsewhere(&["match", "regex", "regexp", "pattern"]);
const CONTAINS: Key =
    Key::new("contains", Kind::Template, "A text that it has in it: a template").elsewhere(&["includes"]);
const ONE_OF: Key = Key::new("one_of", Kind::List(&Kind::Template), "Texts of which it is one: templates")
    .elsewhere(&["any_of", "oneOf", "in"]);

const LUA: Key =
    Key::new("lua", Kind::Text, "A function of the load's script that says yes to it: true, or anything but nil");

const COMPARISON: &[Key] = &[
    MATCHES,
    CONTAINS,
    ONE_OF,
    LUA,
    Key::new(
        "not",
        Kind::Either(
            &[Kind::Template, Kind::Table(&[MATCHES, CONTAINS, ONE_OF, LUA])],
            "a template or a comparison, such as \"0\" or { contains = \"error\" }",
        ),
        "What it must not be: a template, or a comparison of which nothing may hold",
    )
    .elsewhere(&["is_not"]),
];

const PART: &[Key] = &[
    Key::new(
        "from",
        Kind::Text,
        "What it is a part of: \"request.FIELD\", \"answer.FIELD\" or \"answer.FIELD/JSON/POINTER\"",
    )
    .required()
    .elsewhere(&["of", "field"]),
    Key::new("matches", Kind::Text, "A regular expression: its group is kept, or all that it matches if it has none")
        .required()
        .elsewhere(&["match", "regex", "regexp", "pattern"]),
];
