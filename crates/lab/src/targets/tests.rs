//! Tests of finding and installing targets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::{Scratch, manifest};

#[test]
fn the_first_of_a_name_counts_and_what_is_no_target_does_not() {
    let (near, far) = (Scratch::new(), Scratch::new());
    near.write("vsns/target.toml", "near");
    far.write("vsns/target.toml", "far");
    far.write("redis/target.toml", "redis");
    far.write("_template/target.toml", "no");
    far.write("README.md", "no");
    far.write("empty/notes", "no");
    let found = all_in(&[near.join("missing"), near.to_path_buf(), far.to_path_buf()]);
    let found: Vec<_> = found.values().map(|target| (target.name.as_str(), target.source.as_str())).collect();
    assert_eq!(found, [("redis", "redis"), ("vsns", "near")]);
}

#[test]
fn echo_is_always_there() {
    let echo = find("echo").unwrap();
    assert!(echo.source.contains("[about]"), "{}", echo.source);
    assert!(all().is_sorted_by_key(|target| target.name.clone()));
    assert!(find("no such target").is_none());
}

fn installed(script: &str, apply: bool) -> (Result<Installed, Error>, Vec<String>) {
    let folder = Scratch::new();
    folder.script("hooks/install", script);
    let mut manifest = manifest(Vec::new());
    manifest.hooks.insert("install".to_owned(), "hooks/install".to_owned());
    let mut lines = Vec::new();
    let result = install(&folder, &manifest, apply, &mut |line| lines.push(line.to_owned()));
    (result, lines)
}

#[test]
fn check_tells_what_apply_would_do() {
    let (result, lines) =
        installed("[ $1 = check ] || exit 9; echo install erlang; echo; echo build it; exit 1", false);
    let missing = ["install erlang".to_owned(), "build it".to_owned()];
    assert_eq!((result.unwrap(), lines.as_slice()), (Installed::Missing(missing.to_vec()), missing.as_slice()));
    let (result, lines) = installed("exit 0", false);
    assert_eq!((result.unwrap(), lines.len()), (Installed::Complete, 0));
    let (result, _) = installed("echo broken >&2; exit 2", false);
    assert_eq!(result.err().unwrap().to_string(), "hook `install check` failed: exit status: 2: broken");
}

#[test]
fn apply_says_what_it_does_and_why_it_cannot() {
    let (result, lines) = installed("echo working; echo done >&2", true);
    assert_eq!(result.unwrap(), Installed::Complete);
    assert_eq!(lines.len(), 2);
    let (result, _) = installed("echo run: sudo apt-get install erlang; exit 1", true);
    let error = result.err().unwrap();
    assert_eq!(error.to_string(), "hook `install apply` failed: exit status: 1: run: sudo apt-get install erlang");
}

#[test]
fn a_target_without_the_hook_needs_nothing() {
    let folder = Scratch::new();
    let nothing = install(&folder, &manifest(Vec::new()), false, &mut |line| panic!("{line}"));
    assert_eq!(nothing.unwrap(), Installed::Complete);
}

#[test]
fn versions_are_those_of_what_is_installed() {
    let versions = |script: &str| {
        let folder = Scratch::new();
        folder.script("hooks/versions", script);
        let mut manifest = manifest(Vec::new());
        manifest.hooks.insert("versions".to_owned(), "hooks/versions".to_owned());
        versions(&folder, &manifest)
    };
    let said = versions("echo '{\"otp\": \"25.2.3\", \"protocol\": 2, \"odd\": null}'");
    assert_eq!(said, BTreeMap::from([("otp", "25.2.3"), ("protocol", "2")].map(|(a, b)| (a.to_owned(), b.to_owned()))));
    assert!(versions("exit 1").is_empty() && versions("echo 25").is_empty());
    assert!(super::versions(Path::new("."), &manifest(Vec::new())).is_empty());
}
