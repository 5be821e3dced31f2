//! Search for profile files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::targets::search_path;
use crate::trusted;

/// Environment variable with additional folders of profiles, separated by `:`.
const VARIABLE: &str = "PLIMSOLL_PROFILES";
/// Size limit of a profile, bytes.
const PROFILE_BYTES: u64 = 1 << 20;

/// The built-in profiles.
const BUILT_IN: &[(&str, &str)] = &[
    ("cloud-vm-2vcpu", include_str!("../packed/profiles/cloud-vm-2vcpu.toml")),
    ("office-pc-512m", include_str!("../packed/profiles/office-pc-512m.toml")),
    ("opteron-2212", include_str!("../packed/profiles/opteron-2212.toml")),
    ("opteron-vm", include_str!("../packed/profiles/opteron-vm.toml")),
    ("raspberry-pi-2", include_str!("../packed/profiles/raspberry-pi-2.toml")),
    ("raspberry-pi-2-fast-disk", include_str!("../packed/profiles/raspberry-pi-2-fast-disk.toml")),
    ("raspberry-pi-5", include_str!("../packed/profiles/raspberry-pi-5.toml")),
    ("search-server-optane", include_str!("../packed/profiles/search-server-optane.toml")),
    ("search-server-sata", include_str!("../packed/profiles/search-server-sata.toml")),
    ("server-nvme", include_str!("../packed/profiles/server-nvme.toml")),
    ("server-sata", include_str!("../packed/profiles/server-sata.toml")),
    ("xeon-vm-1core", include_str!("../packed/profiles/xeon-vm-1core.toml")),
    ("xeon-vm-2core", include_str!("../packed/profiles/xeon-vm-2core.toml")),
    ("xeon-vm-4core", include_str!("../packed/profiles/xeon-vm-4core.toml")),
];

/// A profile file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFile {
    /// The file's name without `.toml`.
    pub name: String,
    /// Path of the file. Only a file name for a built-in profile.
    pub path: PathBuf,
    /// Content of the file.
    pub source: String,
}

/// Returns all profiles, sorted by name. Searches `$PLIMSOLL_PROFILES`, then `profiles` next to the
/// experiment file (or in the working folder without an experiment), then `profiles` next to this
/// program, then the built-in profiles. Takes the first profile of each name.
#[must_use]
pub fn all(experiment: Option<&Path>) -> Vec<ProfileFile> {
    let mut found = all_in(&search_path(VARIABLE, "profiles", experiment));
    for (name, source) in BUILT_IN {
        let path = PathBuf::from(format!("{name}.toml"));
        let built_in = ProfileFile { name: (*name).to_owned(), path, source: (*source).to_owned() };
        found.entry(built_in.name.clone()).or_insert(built_in);
    }
    found.into_values().collect()
}

fn all_in(path: &[PathBuf]) -> BTreeMap<String, ProfileFile> {
    let mut found = BTreeMap::new();
    for file in path.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        let path = file.path();
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
        if !is_toml || name.starts_with(['_', '.']) {
            continue;
        }
        // A profile is data, so any owner is accepted. But reading a pipe or a device would block.
        if let Ok(source) = trusted::read_regular(&path, PROFILE_BYTES) {
            found.entry(name.clone()).or_insert(ProfileFile { name, path, source });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fixture::TestDir;

    use super::*;

    #[test]
    fn the_first_profile_of_a_name_is_used() {
        let (near, far) = (TestDir::new(), TestDir::new());
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
}
