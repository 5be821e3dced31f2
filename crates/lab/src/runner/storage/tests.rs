//! Tests of what is asked of fio and of how its answer is read, on one that was recorded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::Scratch;

const RECORDED: &str = include_str!("../../../fixtures/fio/3.33.json");

#[test]
fn what_fio_said_is_read() {
    let is = figures(&format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{RECORDED}\n"), true);
    let is = is.unwrap();
    assert!((is.storage_read_per_s.unwrap() - 54_656.34).abs() < 0.01);
    assert!((is.storage_write_per_s.unwrap() - 30_677.32).abs() < 0.01);
    assert!((is.storage_sync_us.unwrap() - 15.0987).abs() < 0.001);
    assert_eq!(is.storage_unmeasured, None);
    let cached = figures(RECORDED, false).unwrap();
    assert_eq!((cached.storage_read_per_s, cached.storage_write_per_s), (None, is.storage_write_per_s));
    assert!(cached.storage_unmeasured.unwrap().contains("page cache"));
}

#[test]
fn what_fio_did_not_do_is_no_figure() {
    let no_space = RECORDED.replacen("\"error\": 0", "\"error\": 28", 1);
    assert_ne!(no_space, RECORDED);
    assert!(figures(&no_space, true).unwrap_err().contains("No space"));
    let nothing_done = RECORDED.replace("54656.343656", "0.0");
    assert_ne!(nothing_done, RECORDED);
    assert_eq!(figures(&nothing_done, true).unwrap().storage_read_per_s, None);
    assert_eq!(figures("fio: cannot", true), Err("fio failed".to_owned()));
    assert_eq!(figures("{ \"jobs\": [", true), Err("fio's answer is not JSON".to_owned()));
    assert_eq!(figures("{ \"jobs\": [] }", true), Err("fio did not read".to_owned()));
}

#[test]
fn the_time_is_halved_and_the_name_kept_whole() {
    let arguments = arguments(Path::new("/a:b/f"), 4096, 1.0, true);
    for wanted in ["--filename=/a\\:b/f", "--runtime=500ms", "--size=4096", "--direct=1", "--fdatasync=1"] {
        assert!(arguments.iter().any(|argument| argument == wanted), "{wanted}: {arguments:?}");
    }
}

#[test]
fn a_folder_is_measured_and_left_empty() {
    let folder = Scratch::new();
    let take_for = |folder: &Path, for_s| Measure { folder, groups: &[], is_throttled: false }.take(for_s);
    let take = |folder: &Path| take_for(folder, 0.2);
    let mut is = take(&folder);
    // On a busy machine a short one may be over before anything was done.
    if is.storage_unmeasured.is_none() && (is.storage_read_per_s.is_none() || is.storage_sync_us.is_none()) {
        is = take_for(&folder, 20.0);
    }
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0);
    match &is.storage_unmeasured {
        Some(reason) => assert!(is.storage_read_per_s.is_none() && !reason.is_empty()),
        None => assert!(is.storage_read_per_s.is_some() && is.storage_sync_us.is_some()),
    }
    let nowhere = take(&folder.join("no/such/folder"));
    assert!(nowhere.storage_unmeasured.is_some() && nowhere.storage_write_per_s.is_none());
}
