//! `make dist`: the tarball and the Debian package with the tested program, used without a
//! checkout, and the action for builds on GitHub.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sandbox::{Sandbox, root};

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the files below a folder, as sorted relative paths.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found.into_iter().map(|path| path.strip_prefix(folder).unwrap().to_path_buf()).collect()
}

#[test]
fn packages_are_complete_and_run_without_the_checkout() {
    let sandbox = Sandbox::new();
    let (out, opened) = (sandbox.path().join("out"), sandbox.path().join("opened"));
    let built = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
    let told = run(Command::new(root().join("scripts/dist.sh")).arg(&out).env("BUILT", built));
    let packages: Vec<&str> = told.lines().collect();
    let [tarball, deb] = packages[..] else { panic!("{told}") };
    fs::create_dir(&opened).unwrap();
    run(Command::new("tar")
        .args(["--extract", "--strip-components", "1", "--directory"])
        .arg(&opened)
        .arg("--file")
        .arg(tarball));
    let from_tarball = files(&opened);
    let of_deb = sandbox.path().join("deb");
    run(Command::new("dpkg-deb").args(["--extract", deb]).arg(&of_deb));
    let mut from_deb = files(&of_deb.join("usr"));
    from_deb.retain(|path| !path.ends_with("copyright"));
    assert_eq!(from_deb, from_tarball, "they hold the same");
    for file in [
        "bin/plimsoll",
        "bin/plimsoll-runner",
        "share/bash-completion/completions/plimsoll",
        "share/zsh/vendor-completions/_plimsoll",
        "share/fish/vendor_completions.d/plimsoll.fish",
        "share/man/man1/plimsoll.1.gz",
        "share/man/man1/plimsoll-hit.1.gz",
        "share/doc/plimsoll/README.md",
        "share/doc/plimsoll/docs/formats.md",
        "share/doc/plimsoll/targets/README.md",
    ] {
        assert!(from_deb.contains(&PathBuf::from(file)), "no {file} in {from_deb:#?}");
    }
    let field = |name: &str| run(Command::new("dpkg-deb").args(["--field", deb, name]));
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    assert!(field("Depends").contains("libc6"), "{}", field("Depends"));

    let mut command = Command::new(of_deb.join("usr/bin/plimsoll"));
    command.args(["run", "01-first-run", "--accept", "--set", "load.time=300ms", "--set", "load.warmup=0s", "--plain"]);
    command.current_dir(&opened).env("PLIMSOLL_DATA", sandbox.path().join("data"));
    command.env("XDG_RUNTIME_DIR", sandbox.path().join("registry")).env("TMPDIR", sandbox.path().join("scratch"));
    let played = run(&mut command);
    assert!(played.contains("First run"), "{played}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn cargo_binstall_finds_the_programs_where_dist_puts_them() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let script = fs::read_to_string(root().join("scripts/dist.sh")).unwrap();
    let name = "plimsoll-{ version }-{ target-arch }-linux-musl";
    assert!(manifest.contains(&format!("/{name}.tar.gz\"")) && manifest.contains(&format!("\"{name}/bin/{{ bin }}\"")));
    assert!(script.contains("\"plimsoll-$version-$arch-linux-musl\"") && script.contains("$root/bin/plimsoll-runner"));
}

#[test]
fn the_action_plays_an_experiment_and_writes_a_summary() {
    let sandbox = Sandbox::new();
    let file = |name: &str| sandbox.path().join(name);
    let play = |inputs: &[(&str, &str)]| {
        let mut command = Command::new(root().join("action/play"));
        for name in ["RUN", "COMPARE", "METRICS", "ARGUMENTS"] {
            command.env(name, "");
        }
        command.env("GATE", "5%").env("PROGRAM", env!("CARGO_BIN_EXE_plimsoll")).envs(inputs.iter().copied());
        command.env("RUNNER_TEMP", sandbox.path()).env("GITHUB_STEP_SUMMARY", file("summary"));
        command.env("GITHUB_OUTPUT", file("outputs")).env("PLIMSOLL_DATA", file("data"));
        command.env("XDG_RUNTIME_DIR", file("registry")).env("TMPDIR", file("scratch"));
        command.stdin(Stdio::null()).output().unwrap().status.code()
    };
    let short = "--accept --set load.time=300ms --set load.warmup=0s";
    assert_eq!(play(&[("RUN", "01-first-run"), ("ARGUMENTS", short)]), Some(0));
    assert!(fs::read_to_string(file("summary")).unwrap().contains("First run"));
    let outputs = fs::read_to_string(file("outputs")).unwrap();
    let folder = outputs.lines().find_map(|line| line.strip_prefix("folder=")).unwrap();
    assert!(outputs.contains("exit-code=0\n"), "{outputs}");
    let names: Vec<PathBuf> = files(Path::new(folder));
    for name in ["plimsoll.xml", "plimsoll.md", "report.html", "analysis.json"] {
        assert!(names.iter().any(|path| path.ends_with(name)), "no {name} in {names:?}");
    }
    assert_eq!(play(&[]), Some(2), "neither");
    assert_eq!(play(&[("RUN", "no-such-file.toml")]), Some(2));
    assert!(fs::read_to_string(file("outputs")).unwrap().contains("exit-code=2\n"));
}
