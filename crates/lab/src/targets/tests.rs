//! Tests of finding and installing targets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;

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
    let targets: Vec<_> = found.targets.iter().map(|target| (target.name.as_str(), target.source.as_str())).collect();
    assert_eq!(targets[1..], [("redis", "redis"), ("vsns", "near")]);
    assert!(found.refused.is_empty(), "{found:?}");
}

#[test]
fn echo_is_always_there() {
    let found = all(None);
    let echo = found.targets.iter().find(|target| target.name == "echo").unwrap();
    assert!(echo.source.contains("[about]"), "{}", echo.source);
    assert!(found.targets.is_sorted_by_key(|target| target.name.clone()));
    check(&echo.path).unwrap();
}

#[test]
fn the_built_in_target_cannot_be_replaced() {
    let folder = Scratch::new();
    let manifest = folder.write("echo/target.toml", &built_in().source);
    let found = all_in(&[folder.to_path_buf()]);
    assert!(found.refused.is_empty() && found.targets == [built_in()], "a checkout has the same one: {found:?}");
    fs::write(&manifest, built_in().source + "[hooks]\ninstall = \"hook\"\n").unwrap();
    let found = all_in(&[folder.to_path_buf()]);
    assert_eq!(found.targets, [built_in()]);
    let why = &found.refused["echo"].why;
    assert!(why.contains("echo is named like the built-in target, which cannot be replaced"), "{why}");
}

#[test]
fn a_target_that_others_can_write_is_refused() {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let folder = Scratch::new();
    let manifest = folder.write("vsns/target.toml", "vsns");
    let hook = folder.script("vsns/hooks/install", "true");
    let refused = || all_in(&[folder.to_path_buf()]).refused.get("vsns").cloned();
    assert_eq!(refused(), None);
    for path in [&manifest, &folder.join("vsns"), &folder.to_path_buf()] {
        let before = fs::metadata(path).unwrap().permissions().mode();
        mode(path, 0o777);
        let refused = refused().unwrap();
        let path_as_found = path.canonicalize().unwrap();
        assert!(refused.why.contains(&format!("{} belongs to ", path_as_found.display())), "{refused:?}");
        assert!(refused.why.contains("mode 0777: everybody may write to it"), "{refused:?}");
        assert!(refused.remedy.contains("chmod go-w") && refused.remedy.contains("PLIMSOLL_TARGETS"), "{refused:?}");
        mode(path, before);
    }
    // What is in it is looked at before any of it is run.
    check(&folder.join("vsns")).unwrap();
    mode(&hook, 0o757);
    assert!(
        matches!(check(&folder.join("vsns")), Err(Error::Distrusted(found)) if found.path.ends_with("hooks/install"))
    );
}

#[test]
fn the_first_of_a_name_counts_also_if_it_is_refused() {
    let (near, far) = (Scratch::new(), Scratch::new());
    near.write("vsns/target.toml", "near");
    far.write("vsns/target.toml", "far");
    fs::set_permissions(near.join("vsns"), fs::Permissions::from_mode(0o777)).unwrap();
    let found = all_in(&[near.to_path_buf(), far.to_path_buf()]);
    assert!(found.refused.contains_key("vsns") && found.targets == [built_in()], "{found:?}");
}

/// A target whose hook `install` is this script.
fn installable(script: &str) -> (Scratch, Manifest) {
    let folder = Scratch::new();
    folder.script("hooks/install", script);
    let mut manifest = manifest(Vec::new());
    manifest.hooks.insert("install".to_owned(), "hooks/install".to_owned());
    (folder, manifest)
}

#[test]
fn check_tells_what_apply_would_do() {
    let checked = |script: &str| {
        let (folder, manifest) = installable(script);
        missing(&folder, &manifest, &BTreeMap::new())
    };
    let missing = checked("[ $1 = check ] || exit 9; echo install erlang; echo; echo build it; exit 1");
    assert_eq!(missing.unwrap(), ["install erlang", "build it"]);
    assert_eq!(checked("exit 0").unwrap(), [""; 0]);
    let broken = checked("echo broken >&2; exit 2").err().unwrap();
    assert_eq!(broken.to_string(), "hook `install check` failed: exit status: 2: broken");
}

#[test]
fn apply_says_what_it_does_and_why_it_cannot() {
    let applied = |script: &str| {
        let (folder, manifest) = installable(script);
        let mut lines = Vec::new();
        let result = apply(&folder, &manifest, &BTreeMap::new(), &mut |line| lines.push(line.to_owned()));
        (result, lines)
    };
    let (result, lines) = applied("echo working; echo done >&2");
    assert_eq!((result.is_ok(), lines.len()), (true, 2));
    let (result, _) = applied("echo run: sudo apt-get install erlang; exit 1");
    let error = result.err().unwrap();
    assert_eq!(error.to_string(), "hook `install apply` failed: exit status: 1: run: sudo apt-get install erlang");
}

#[test]
fn packages_are_asked_for_by_name_and_hooks_need_not_know_that_word() {
    let asked = |script: &str| {
        let (folder, manifest) = installable(script);
        packages(&folder, &manifest, &BTreeMap::new()).unwrap()
    };
    assert_eq!(asked("[ $1 = packages ] && printf 'make\\nhaproxy\\n'"), ["make", "haproxy"]);
    assert_eq!(asked("echo 'usage: install check|apply'; exit 2"), [""; 0]);
}

#[test]
fn a_hook_about_installing_is_told_the_parameters_that_it_asks_for() {
    use experiment::manifest::{Parameter, Takes};
    let (folder, mut manifest) = installable("env | sed -n 's/^PLIMSOLL_WITH_//p' | sort");
    for (name, default) in [("proxy", "apache"), ("copies", "disc")] {
        let parameter = Parameter { takes: Takes::Text, default: default.to_owned(), help: String::new() };
        manifest.parameters.insert(name.to_owned(), parameter);
    }
    let with = BTreeMap::from([("proxy".to_owned(), "haproxy".to_owned())]);
    let told = |manifest: &Manifest| packages(&folder, manifest, &with).unwrap();
    assert_eq!(told(&manifest), ["COPIES=disc", "PROXY=haproxy"]);
    manifest.install_with = Some(vec!["proxy".to_owned()]);
    assert_eq!(told(&manifest), ["PROXY=haproxy"]);
    manifest.install_with = Some(Vec::new());
    assert_eq!(told(&manifest), [""; 0]);
}

#[test]
fn a_target_without_the_hook_needs_nothing() {
    let (folder, manifest, with) = (Scratch::new(), manifest(Vec::new()), BTreeMap::new());
    assert_eq!(missing(&folder, &manifest, &with).unwrap(), [""; 0]);
    assert_eq!(packages(&folder, &manifest, &with).unwrap(), [""; 0]);
    assert!(apply(&folder, &manifest, &with, &mut |line| panic!("{line}")).is_ok());
}

#[test]
fn versions_are_those_of_what_is_installed() {
    let versions = |script: &str| {
        let folder = Scratch::new();
        folder.script("hooks/versions", script);
        let mut manifest = manifest(Vec::new());
        manifest.hooks.insert("versions".to_owned(), "hooks/versions".to_owned());
        versions(&folder, &manifest, &BTreeMap::new())
    };
    let said = versions("echo '{\"otp\": \"25.2.3\", \"protocol\": 2, \"odd\": null}'");
    assert_eq!(said, BTreeMap::from([("otp", "25.2.3"), ("protocol", "2")].map(|(a, b)| (a.to_owned(), b.to_owned()))));
    assert!(versions("exit 1").is_empty() && versions("echo 25").is_empty());
    assert!(super::versions(Path::new("."), &manifest(Vec::new()), &BTreeMap::new()).is_empty());
}
