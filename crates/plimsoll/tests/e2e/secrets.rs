//! Secrets, which are in no record and no output of a run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::hit::echo;
use crate::sandbox::{Played, Sandbox};

const PLANTED: [&str; 6] =
    ["pl4nted-bearer", "pl4nted-cookie", "pl4nted-tenant", "pl4nted-body", "pl4nted-login", "pl4nted-variable"];

/// Returns this path, and every file and folder below it.
fn all_in(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_path_buf()];
    if path.is_dir() {
        found.extend(fs::read_dir(path).unwrap().flat_map(|entry| all_in(&entry.unwrap().path())));
    }
    found
}

/// Checks that no planted secret is in the run folder or in the output.
fn is_clean(run: &Path, played: &[&Played]) {
    for file in all_in(run).into_iter().filter(|path| path.is_file()) {
        let bytes = fs::read(&file).unwrap();
        for secret in PLANTED {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {}", file.display());
        }
    }
    for played in played {
        for secret in PLANTED {
            assert!(!played.stdout.contains(secret), "{secret} in {}", played.stdout);
            assert!(!played.stderr.contains(secret), "{secret} in {}", played.stderr);
        }
    }
}

fn experiment(url: &str) -> String {
    format!(
        "title = \"Secrets\"\nasks = \"a\"\nsecret = [\"x-tenant\", \"body\"]\n[target]\nurl = \"{url}\"\n\
         [load]\nagents = 2\ntime = \"1500ms\"\n\
         # not \"Bearer pl4nted-bearer\" again\n\
         [[load.cycle]]\ncall = \"post\"\nwith.path = \"/\"\nwith.body = '{{{{\"pin\": \"pl4nted-body\"}}}}'\n\
         with.header.authorization = \"Bearer pl4nted-bearer\"\nwith.header.cookie = \"sid=pl4nted-cookie\"\n\
         with.header.x-tenant = \"pl4nted-tenant\"\nwith.header.x-api-key = \"{{env:PLANTED}}\"\n"
    )
}

#[test]
fn a_run_records_and_prints_no_secret() {
    let sandbox = Sandbox::new();
    let (_server, url) = echo(&sandbox, &[]);
    let file = sandbox.file("secrets.toml", experiment(&url));
    let variable = ("PLANTED", "pl4nted-variable");
    let runs = sandbox.runs().display().to_string();
    let words =
        ["run", &file, "--set", "load.cycle.post.with.header.x-token=pl4nted-tenant", "--out", &runs, "--accept"];
    let run = sandbox.play_with(variable, &words).exits(0);
    let folder = sandbox.run_folder();
    let shown = sandbox.play(&["show", folder.to_str().unwrap()]).exits(0);
    let analyzed = sandbox.play(&["analyze", folder.to_str().unwrap(), "--json"]).exits(0);
    let checked = sandbox.play(&["check", &file, "--json"]).exits(0);
    is_clean(&folder, &[&run, &shown, &analyzed, &checked]);
    let recorded = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    for kept in
        ["[redacted header.authorization]", "[redacted body]", "{env:PLANTED}", "x-token=[redacted header.x-tenant]"]
    {
        assert!(recorded.contains(kept), "no {kept} in {recorded}");
    }
}

#[test]
fn the_target_receives_the_secrets() {
    let sandbox = Sandbox::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let hit =
        sandbox.start(&["hit", &url, "-c", "1", "-t", "1s", "-H", "Authorization: Bearer pl4nted-bearer", "--accept"]);
    // The first connection may only check whether the server listens.
    let mut request = Vec::new();
    while !String::from_utf8_lossy(&request).contains("\r\n\r\n") {
        let (mut stream, _) = listener.accept().unwrap();
        request.clear();
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = std::io::Read::read(&mut stream, &mut piece) {
            request.extend(&piece[..count]);
            if request.ends_with(b"\r\n\r\n") {
                break;
            }
        }
    }
    assert!(String::from_utf8_lossy(&request).contains("Bearer pl4nted-bearer"));
    drop(listener);
    drop(hit);
}

#[test]
fn a_login_in_a_url_is_in_no_record() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("login.toml", experiment("http://me:pl4nted-login@127.0.0.1:1"));
    let played = sandbox.run(&[&file]);
    assert_ne!(played.code, 0);
    is_clean(&sandbox.runs(), &[&played]);
    let hit = sandbox.play(&["hit", "http://me:pl4nted-login@127.0.0.1:1/"]).exits(2);
    is_clean(&sandbox.runs(), &[&hit]);
}

#[test]
fn a_hit_records_no_secret_and_points_to_the_environment() {
    let sandbox = Sandbox::new();
    let (_server, url) = echo(&sandbox, &[]);
    let runs = sandbox.runs().display().to_string();
    let played = sandbox
        .play(&[
            "hit",
            &url,
            "-c",
            "2",
            "-t",
            "1s",
            "--accept",
            "--out",
            &runs,
            "-H",
            "Authorization: Bearer pl4nted-bearer",
            "-H",
            "X-Tenant: pl4nted-tenant",
            "--secret",
            "X-Tenant",
            "-d",
            "{\"pin\": \"pl4nted-body\"}",
            "--secret",
            "body",
        ])
        .exits(0)
        .says(&["`Authorization`", "{env:NAME}"]);
    is_clean(&sandbox.run_folder(), &[&played]);
    let refused = sandbox.play(&["hit", &url, "--secret", "x-tokn"]).exits(2);
    refused.says(&["x-tokn"]);
}

#[test]
fn a_credential_in_a_query_is_in_no_record() {
    let sandbox = Sandbox::new();
    let (_server, url) = echo(&sandbox, &[]);
    let runs = sandbox.runs().display().to_string();
    let url = format!("{url}x?access_token=pl4nted-bearer&page=2&password=pl4nted-login");
    let played = sandbox.play(&["hit", &url, "-c", "2", "-t", "1s", "--accept", "--out", &runs]).exits(0);
    let name = sandbox.run_folder().display().to_string();
    assert!(!name.contains("pl4nted"), "{name}");
    is_clean(&sandbox.run_folder(), &[&played]);
    let once = sandbox.play(&["hit", &url, "--debug"]).exits(0);
    is_clean(&sandbox.runs(), &[&once]);
}

#[test]
fn a_resumed_run_reads_its_secrets_again() {
    let sandbox = Sandbox::new();
    let (_server, url) = echo(&sandbox, &[]);
    let file = sandbox.file("secrets.toml", experiment(&url) + "[sweep]\n\"load.agents\" = [1, 2]\n");
    let variable = ("PLANTED", "pl4nted-variable");
    let runs = sandbox.runs().display().to_string();
    // Without the variable, the run does not begin.
    let words = ["run", &file, "--out", &runs, "--accept"];
    let first = sandbox.play(&words).exits(2);
    assert!(first.stderr.contains("PLANTED"), "{}", first.stderr);
    assert!(sandbox.any_run_folder().is_none());
    sandbox.play_with(variable, &words).exits(0);
    let folder = sandbox.run_folder();
    fs::remove_dir_all(folder.join("trials/002")).unwrap();
    let resume = ["run", "--resume", folder.to_str().unwrap(), "--accept"];
    let resumed = sandbox.play_with(variable, &resume).exits(0);
    is_clean(&folder, &[&resumed]);
    // Without the file, the secrets are unknown.
    fs::remove_file(&file).unwrap();
    fs::remove_dir_all(folder.join("trials/002")).unwrap();
    let lost = sandbox.play_with(variable, &resume).exits(2);
    lost.says(&["header.authorization", "body", "secrets.toml", "{env:NAME}"]);
}

#[test]
fn only_the_owner_can_read_a_run_folder() {
    for umask in ["0000", "0077"] {
        let mut sandbox = Sandbox::new();
        sandbox.within(&format!("umask {umask}; exec \"$@\""), Path::new("/"));
        sandbox.run(&["experiments/01-first-run.toml", "--set", "load.time=1500ms"]).exits(0);
        for path in all_in(&sandbox.run_folder()) {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{mode:o} {}", path.display());
        }
    }
}
