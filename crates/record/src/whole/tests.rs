//! Checks of whole files: what is no regular file is refused at once, and so is a format of a later version.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::net::UnixListener;
use std::process::Command;

use super::*;
use crate::folder::{RunFolder, TrialFolder};
use crate::lines;
use crate::rows::{self, Sample};
use crate::scratch::Scratch;

#[test]
fn a_fifo_socket_device_or_folder_in_place_of_a_record_is_refused_at_once() {
    let scratch = Scratch::new("no-regular-file");
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = UnixListener::bind(scratch.path("socket")).unwrap();
    fs::create_dir(scratch.path("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", scratch.path("device")).unwrap();
    for (name, what) in [("fifo", "a FIFO"), ("socket", "a socket"), ("folder", "a folder"), ("device", "a device")] {
        let path = scratch.path(name);
        let said = [
            read_json::<Value>(&path).unwrap_err().to_string(),
            read_text(&path).unwrap_err().to_string(),
            rows::read::<Sample>(&path).unwrap_err().to_string(),
            lines::read_events(&path).unwrap_err().to_string(),
            crate::hlog::read(&path).unwrap_err().to_string(),
        ];
        assert!(
            said.iter().all(|said| said.contains(&format!("is {what}, and a record is a regular file"))),
            "{said:?}"
        );
    }
    assert!(lines::Writer::<Value>::append(&fifo).unwrap_err().to_string().contains("a FIFO"));
}

#[test]
fn a_format_of_a_later_version_is_refused_and_says_who_wrote_it() {
    let scratch = Scratch::new("later-format");
    let folder = RunFolder::at(scratch.path("").as_path());
    fs::write(folder.environment(), r#"{"plimsoll": "9.8.7"}"#).unwrap();
    fs::write(folder.analysis(), r#"{"format": 99, "new": []}"#).unwrap();
    fs::write(folder.ending(), r#"{"format": 2, "how": "done", "reason": null}"#).unwrap();
    let said = folder.read_results().unwrap_err().to_string();
    assert!(said.contains("a later version of Plimsoll (format 99, by version 9.8.7; this one, "), "{said}");
    assert!(said.contains("read it with that version"), "{said}");
    assert!(matches!(folder.read_ending(), Err(ReadError::Later { format: 2, .. })));
    assert!(matches!(folder.refuse_later_results(), Err(ReadError::Later { format: 99, .. })));
    fs::write(folder.environment(), r#"{"format": 3, "plimsoll": "\u001b[2J"}"#).unwrap();
    let said = folder.read_environment().unwrap_err().to_string();
    assert!(said.contains("(format 3; this one"), "{said}");

    let trial = TrialFolder::at(&scratch.path(""));
    fs::write(trial.events(), "{\"at_s\":0.0,\"event\":\"clock\",\"unix_s\":1.0,\"format\":7}\n").unwrap();
    assert!(matches!(lines::read_events(&trial.events()), Err(ReadError::Later { format: 7, .. })));
}

#[test]
fn a_format_that_is_known_or_not_said_is_read() {
    let scratch = Scratch::new("known-format");
    let path = scratch.path("file.json");
    for (text, is_read) in [
        ("{}", true),
        (r#"{"format": null}"#, true),
        (r#"{"format": 1}"#, true),
        (r#"{"format": -1}"#, false),
        (r#"{"format": 1e99}"#, false),
        (r#"{"format": "1"}"#, false),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(read_json_up_to::<Value>(&path, 1).is_ok(), is_read, "{text}");
    }
    fs::write(&path, "not JSON").unwrap();
    assert!(refuse_later(&path, 1).is_ok(), "what is broken is for its reader to say");
}
