//! Broken TOML: each mistake once, in its place, and the rest of the file still read.

use std::sync::Arc;

use super::parse;
use crate::source::Source;

fn problems(text: &str) -> (Vec<String>, Vec<String>) {
    let source = Arc::new(Source { name: "f".to_owned(), text: text.to_owned() });
    let (table, problems) = parse(&source);
    let told = problems.iter().map(|problem| {
        let (line, column) = problem.place.line_and_column();
        format!("{line}:{column} {} `{}`", problem.what, problem.place.text())
    });
    (told.collect(), table.entries.into_iter().map(|entry| entry.key).collect())
}

#[test]
fn each_mistake_once_and_the_rest_is_read() {
    let text = "title = \"abc\nagents = \nfoo = = 3\n[load\nx = 1\n[a]\ntime = 30s\nb = [1, 2\nc = 3\n\
        d = \"\"\"never\n[[fault]]\nname = 'x\nsome words\n[b]\n";
    let (told, keys) = problems(text);
    assert_eq!(
        told,
        [
            "1:9 this text is never closed `\"abc`",
            "2:1 `agents` has no value `agents =`",
            "3:7 this is not TOML: extra `=` `=`",
            "4:1 this section's name is never closed `[load`",
            "7:8 a duration is written in quotes `30s`",
            "8:5 this list is never closed `[1, 2`",
            "10:5 this text is never closed `\"\"\"never`",
            "12:8 this text is never closed `'x`",
            "13:1 this is not `key = value` `some words`",
        ]
    );
    assert_eq!(keys, ["a", "fault", "b"]);
}

#[test]
fn what_is_written_twice() {
    let (told, keys) = problems("a = 1\na = 2\n[b]\nc = 1\n[b]\nc = 1\n[c]\nbad\n");
    assert_eq!(
        told,
        ["8:1 this is not `key = value` `bad`", "5:2 `b` is written twice `b`", "2:1 `a` is written twice `a`"]
    );
    assert_eq!(keys, ["a", "b", "c"]);
}
