//! Tells the program how it is built: commit, compiler, profile. It must not fail where there is no clone or no git.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(revision) = said("git", &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=PLIMSOLL_REVISION={revision}");
        // Every commit and checkout is noted there.
        if let Some(log) = said("git", &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if let Some(version) = said(&rustc, &["--version"]) {
        println!("cargo::rustc-env=PLIMSOLL_RUSTC={version}");
    }
    if let Ok(profile) = std::env::var("PROFILE") {
        println!("cargo::rustc-env=PLIMSOLL_PROFILE={profile}");
    }
}

/// What a program says in one line; none if it is not there or fails.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty() && !text.contains('\n'))
}
