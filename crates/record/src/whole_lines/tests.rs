//! Checks of the file that grows by whole lines. It must not repeat what the tests of its users check.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::scratch::Scratch;

fn word(line: &[u8]) -> Result<Option<String>, String> {
    match std::str::from_utf8(line) {
        Ok("skip") => Ok(None),
        Ok(text) if text.starts_with("bad") => Err("bad word".to_owned()),
        Ok(text) => Ok(Some(text.to_owned())),
        Err(error) => Err(error.to_string()),
    }
}

fn reading(content: &[u8]) -> Result<Records<String>, ReadError> {
    let scratch = Scratch::new("whole-lines");
    let path = scratch.path("words");
    fs::write(&path, content).unwrap();
    read_lines(&path, word)
}

#[test]
fn reads_what_is_whole() {
    let table: [(&[u8], &[&str], bool); 8] = [
        (b"", &[], false),
        (b"a\nb\n", &["a", "b"], false),
        (b"a\nskip\nb\n", &["a", "b"], false),
        (b"a\nb", &["a"], true),
        (b"a", &[], true),
        (b"a\nbad", &["a"], true),
        (b"a\nbad\n", &["a"], true),
        (b"a\n\xff\n", &["a"], true),
    ];
    for (content, items, torn) in table {
        let records = reading(content).unwrap();
        assert_eq!(records.items, items, "{content:?}");
        assert_eq!(records.torn, torn, "{content:?}");
    }
}

#[test]
fn a_broken_line_elsewhere_is_an_error_with_file_and_line() {
    for content in [&b"a\nbad one\nc\n"[..], b"a\nbad one\nc", b"a\nbad one\nx\ny\n"] {
        let message = reading(content).unwrap_err().to_string();
        assert!(message.ends_with("words:2: bad word"), "{message}");
    }
}

#[test]
fn a_missing_file_is_an_empty_one_and_a_folder_is_an_error() {
    let scratch = Scratch::new("whole-lines");
    assert_eq!(read_lines(&scratch.path("none"), word).unwrap(), Records::default());
    assert!(matches!(read_lines(&scratch.path(""), word), Err(ReadError::NotRegular { .. })));
}

#[test]
fn appending_removes_a_torn_tail() {
    let scratch = Scratch::new("whole-lines");
    let path = scratch.path("words");
    fs::write(&path, "one\ntw").unwrap();
    let mut file = LineFile::append(&path).unwrap();
    file.write(b"three\n").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\nthree\n");
}

#[test]
fn a_full_disk_is_an_error_and_not_a_panic() {
    let path = Path::new("/dev/full");
    if !path.exists() {
        return;
    }
    let mut file = LineFile { file: File::options().write(true).open(path).unwrap(), whole: 0, pending: Vec::new() };
    file.write(b"line\n").unwrap();
    assert!(file.flush().is_err());
    assert!(file.is_empty(), "what could not be written is not written twice");
}
