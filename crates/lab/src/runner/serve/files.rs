//! The host's private folders, and files as they are sent and fetched. It must not remove anything outside of the host's
//! folder.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::runner::{LINE_BYTES, Refusal, Setup};

/// Where the host's folders are.
pub struct Room {
    folder: PathBuf,
    /// It goes with the host.
    is_temporary: bool,
}

impl Room {
    /// The folder that the setup names, or a temporary one. One that is there already holds the data of the host, which was
    /// cut off and is made again.
    pub fn make(setup: &Setup) -> Result<Self, String> {
        if !setup.folder.as_os_str().is_empty() {
            let folder = setup.folder.clone();
            fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            return Ok(Self { folder, is_temporary: false });
        }
        // With the host's name: two hosts of a run may be on one machine.
        let folder = std::env::temp_dir().join(format!("plimsoll-run-{}.{}", setup.run, setup.host));
        let made = DirBuilder::new().mode(0o700).create(&folder).or_else(|error| {
            let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
            let there = error.kind() == ErrorKind::AlreadyExists;
            // In a folder that all may write, somebody may have been here first.
            if there && folder.symlink_metadata().is_ok_and(is_ours) { Ok(()) } else { Err(error) }
        });
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder, is_temporary: true })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path as it is meant: absolute, or in the host's folder.
    pub fn at(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// An empty folder of that name.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, Refusal> {
        let path = self.named(name)?;
        let made = remove(&path).and_then(|()| fs::create_dir_all(&path));
        made.map_err(|error| Refusal::system(format!("make {}", path.display()), &error))?;
        Ok(path)
    }

    pub fn remove_folder(&self, name: &str) -> Result<(), Refusal> {
        let path = self.named(name)?;
        remove(&path).map_err(|error| Refusal::system(format!("remove {}", path.display()), &error))
    }

    fn named(&self, name: &str) -> Result<PathBuf, Refusal> {
        let mut parts = Path::new(name).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(_)), None) => Ok(self.folder.join(name)),
            _ => Err(Refusal::system(format!("use the folder `{name}`"), &"that is no name of a folder")),
        }
    }

    /// Removes what it made.
    pub fn end(&self) {
        if self.is_temporary {
            let _ = remove(&self.folder);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Writes a piece of a file, with the folders above it.
pub fn put(path: &Path, mode: u32, at: u64, content: &str) -> Result<(), Refusal> {
    let content = STANDARD.decode(content).map_err(|error| Refusal::system("read base64", &error))?;
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::options().create(true).write(true).truncate(at == 0).open(path)?;
        file.write_all_at(&content, at)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    };
    write().map_err(|error| Refusal::system(format!("write {}", path.display()), &error))
}

/// Reads a piece of a file, in base64.
pub fn read(path: &Path, at: u64, bytes: u64) -> Result<String, Refusal> {
    // It has to fit into a line.
    let bytes = usize::try_from(bytes.min(LINE_BYTES / 2)).unwrap_or(usize::MAX);
    let read = || -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let mut content = Vec::new();
        let mut piece = vec![0; bytes.min(1 << 20)];
        while content.len() < bytes {
            let wanted = piece.len().min(bytes - content.len());
            match file.read_at(&mut piece[..wanted], at + content.len() as u64)? {
                0 => break,
                count => content.extend_from_slice(&piece[..count]),
            }
        }
        Ok(content)
    };
    read()
        .map(|content| STANDARD.encode(content))
        .map_err(|error| Refusal::system(format!("read {}", path.display()), &error))
}
