//! The workspace as the rules see it: its text files, and the dependencies between its crates.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::studies::kept;

/// Folders without files that we wrote.
const SKIPPED: [&str; 6] = [".git", "target", "runs", "_build", "ebin", "node_modules"];

/// Extensions and whole names of the files that rules may look at.
const TEXT: [&str; 21] = [
    "c",
    "conf",
    "css",
    "csv",
    "erl",
    "hrl",
    "html",
    "js",
    "json",
    "md",
    "mk",
    "py",
    "rs",
    "sh",
    "src",
    "svg",
    "toml",
    "txt",
    "yml",
    "Makefile",
    ".gitignore",
];

/// Everything the rules look at.
#[derive(Debug, Default)]
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
    /// Text files below results/. They are generated, so rules for written text do not apply.
    pub kept: Vec<File>,
    /// Size of results/ on disk, bytes.
    pub kept_bytes: usize,
    /// Paths of all files, including pictures.
    pub paths: Vec<String>,
    /// Names of the workspace's crates.
    pub crates: Vec<String>,
    /// Dependencies among the workspace's crates.
    pub edges: Vec<Edge>,
}

/// A text file.
#[derive(Debug)]
pub struct File {
    /// Path relative to the workspace, with `/`.
    pub path: String,
    pub text: String,
}

/// A dependency of one workspace crate on another.
#[derive(Debug)]
pub struct Edge {
    /// The crate that depends.
    pub from: String,
    /// The crate on which `from` depends.
    pub to: String,
    /// Whether only the tests of `from` depend on `to`.
    pub only_tests: bool,
}

impl Tree {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    /// A folder or file that cannot be read, or a `cargo metadata` that fails, in words.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.add_crates(&metadata(root)?);
        Ok(tree)
    }

    /// A tree of these files, for canaries.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self { paths: files.iter().map(|(path, _)| (*path).into()).collect(), ..Self::default() };
        files.iter().for_each(|(path, text)| tree.add_text((*path).into(), (*text).into()));
        tree
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }

    /// The Rust files except tests, benches and examples.
    pub fn rust_without_tests(&self) -> impl Iterator<Item = &File> {
        let only_tests = self.rooms_of_tests();
        self.rust().filter(move |file| {
            let in_folder = file.path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
            let in_room = only_tests.iter().any(|room| {
                file.path.strip_prefix(room.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
            !in_folder && !in_room
        })
    }

    /// Paths, without `.rs`, of the modules that are declared under `#[cfg(test)]`.
    fn rooms_of_tests(&self) -> Vec<String> {
        let mut rooms = Vec::new();
        for file in self.rust() {
            for declared in file.text.split("#[cfg(test)]").skip(1) {
                let line = declared.trim_start().lines().next().unwrap_or_default();
                if let Some((_, name)) = line.strip_suffix(';').and_then(|line| line.split_once("mod ")) {
                    rooms.push(format!("{}{name}", file.rooms()));
                }
            }
        }
        rooms
    }

    /// The text of the file at `path`; empty if there is no such file.
    pub fn text_of(&self, path: &str) -> &str {
        self.files.iter().chain(&self.kept).find(|file| file.path == path).map_or("", |file| &file.text)
    }

    /// Whether there is a file or a folder at `path`.
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty() || self.paths.iter().any(|known| known == path || known.starts_with(&inside))
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let failed = |problem: std::io::Error| format!("{}: {problem}", folder.display());
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &path)?;
            } else if kind.is_file() {
                self.add(&entry.path(), &name, path);
            }
        }
        Ok(())
    }

    fn add(&mut self, place: &Path, name: &str, path: String) {
        self.paths.push(path.clone());
        // Files that are named like text but are not UTF-8 are left out, such as test fixtures.
        let text = if path.starts_with(kept::FOLDER) {
            let bytes = fs::read(place).unwrap_or_default();
            self.kept_bytes += bytes.len();
            kept::text(bytes)
        } else {
            is_text(place, name).then(|| fs::read_to_string(place).ok()).flatten()
        };
        if let Some(text) = text {
            self.add_text(path, text);
        }
    }

    fn add_text(&mut self, path: String, text: String) {
        let files = if path.starts_with(kept::FOLDER) { &mut self.kept } else { &mut self.files };
        files.push(File { path, text });
    }

    /// Takes crates and edges from the JSON of `cargo metadata --no-deps`.
    pub fn add_crates(&mut self, metadata: &Value) {
        let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
        self.crates = packages.iter().map(|package| room(&package["name"])).collect();
        for package in packages {
            for dependency in package["dependencies"].as_array().map_or(&[][..], Vec::as_slice) {
                let to = room(&dependency["name"]);
                if self.crates.contains(&to) && dependency["path"].is_string() {
                    let only_tests = dependency["kind"] == "dev";
                    self.edges.push(Edge { from: room(&package["name"]), to, only_tests });
                }
            }
        }
    }
}

impl File {
    /// The extension: `rs`, `md`, …; empty if the name has none.
    pub fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The path without its last part; empty at the top.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The folder of the modules that this file declares.
    pub fn rooms(&self) -> String {
        let folder = match self.name() {
            "lib.rs" | "main.rs" => self.folder(),
            _ => self.path.trim_end_matches(".rs"),
        };
        format!("{folder}/")
    }
}

/// Returns a package's name without the prefix that it has in registries.
fn room(package: &Value) -> String {
    let name = package.as_str().unwrap_or_default();
    name.strip_prefix("plimsoll-").unwrap_or(name).to_owned()
}

/// Whether a file is text, by its name. A file without an extension is text if it begins with `#!`.
fn is_text(path: &Path, name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => TEXT.contains(&extension),
        _ => TEXT.contains(&name) || fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!")),
    }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]).current_dir(root);
    let output = cargo.output().map_err(|problem| format!("cargo metadata: {problem}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|problem| format!("cargo metadata: {problem}"))
}
