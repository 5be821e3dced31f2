//! Tests of finding profiles.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use super::*;
use crate::fixture::Scratch;

#[test]
fn the_first_of_a_name_counts_and_what_is_no_profile_does_not() {
    let (near, far) = (Scratch::new(), Scratch::new());
    near.write("board.toml", "near");
    far.write("board.toml", "far");
    far.write("server.toml", "server");
    far.write("_template.toml", "no");
    far.write("notes.txt", "no");
    let found = all_in(&[near.join("missing"), near.to_path_buf(), far.to_path_buf()]);
    let found: Vec<_> = found.values().map(|profile| (profile.name.as_str(), profile.source.as_str())).collect();
    assert_eq!(found, [("board", "near"), ("server", "server")]);
}

#[test]
fn every_bundled_profile_is_built_in() {
    let bundled = all_in(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles")]);
    let bundled: Vec<_> = bundled.values().map(|file| (file.name.as_str(), file.source.as_str())).collect();
    assert_eq!(bundled, BUILT_IN);
    assert!(all(None).is_sorted_by_key(|profile| profile.name.clone()));
}
