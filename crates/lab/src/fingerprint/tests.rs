//! Tests of what shows in a mark and what does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::Scratch;

#[test]
fn a_changed_byte_shows_and_a_touched_file_does_not() {
    let folder = Scratch::new();
    folder.write("target.toml", "a = 1\n");
    folder.write("hooks/inspect", "exit 0\n");
    let program = folder.join("target.toml");
    let look = || versions(&program, Some("t"), Some(&folder));
    let before = look();
    assert_eq!(before.files.keys().collect::<Vec<_>>(), ["hooks/inspect", "target.toml"]);
    assert_eq!((before.target.as_deref(), &before.program), (Some("t"), &before.files.get("target.toml").cloned()));
    folder.write("hooks/inspect", "exit 0\n");
    assert_eq!(look(), before);
    folder.write("hooks/inspect", "exit 1\n");
    assert_ne!(look().files["hooks/inspect"], before.files["hooks/inspect"]);
}

#[test]
fn what_is_hidden_kept_by_an_interpreter_or_left_by_tests_is_left_out() {
    let folder = Scratch::new();
    for name in [".git/HEAD", "hooks/__pycache__/a.pyc", "hooks/.swp", "_build/ct/log.html", "a"] {
        folder.write(name, "x");
    }
    std::os::unix::fs::symlink(&*folder, folder.join("round")).unwrap();
    assert_eq!(files(&folder).keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let found = versions(Path::new("/no/such/program"), None, Some(Path::new("")));
    assert_eq!((found.program, found.target, found.files.len()), (None, None, 0));
}
