//! Bad experiment files, and what is said about each. A message is part of the interface: read it before you accept it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use known::{catalog, files, here, read, source};

#[test]
fn every_bad_file_says_what_is_wrong() {
    let files = files(&here().join("tests/bad"));
    assert!(files.len() >= 20);
    let catalog = catalog();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let problems = experiment::read(&source(&path), &[], &catalog).expect_err(&name);
        assert!(problems.as_slice().is_sorted_by_key(|problem| problem.place.span.start), "{name}");
        insta::assert_snapshot!(name, problems.render(false));
    }
}

const FILE: &str = r#"
[target]
use = "vsns"

[load]
agents = 10
time   = "30s"

[[load.cycle]]
call = "save"
with = { space = "a", key = "k", value = "v" }

[[fault]]
name = "oops"
kind = "kill"
at   = "20s"
"#;

#[test]
fn bad_sets_say_which_of_them() {
    let problems = read(
        FILE,
        &[
            "load.time=10s",
            "load.agnets=3",
            "load.agents=many",
            "x",
            "fault.ops.at=3s",
            "load.cycle.save.with.key={seq",
        ],
    );
    insta::assert_snapshot!("set", problems.unwrap_err());
}

#[test]
fn a_set_that_every_variant_undoes() {
    let file = format!(
        "{FILE}\n[[variant]]\nname = \"a\"\nload = {{ ramp = \"1s\" }}\n[[variant]]\nname = \"b\"\nload = {{ ramp = \"2s\" }}\n"
    );
    insta::assert_snapshot!("set_without_effect", read(&file, &["load.ramp=3s"]).unwrap_err());
}

#[test]
fn colours_only_when_asked() {
    let source = experiment::source::Source { name: "x.toml".into(), text: "title = 1\n".into() };
    let problems = experiment::read(&source, &[], &catalog()).unwrap_err();
    assert!(problems.render(true).contains('\u{1b}') && !problems.render(false).contains('\u{1b}'));
    assert_eq!(problems.to_string().lines().next(), Some("x.toml:1:1: the section [target] is missing"));
}
