//! Result files and folders whose paths the caller names. Another user cannot redirect them: a link
//! that another user made is replaced, not followed. A folder to which others can write is refused,
//! unless it is sticky, as /tmp is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lab::trusted;
use record::private::NewFile;

use crate::exit::Failure;

/// A file that is being written. A regular file appears at its path only when it is complete.
#[derive(Debug)]
pub enum NamedFile {
    /// New regular file, which replaces an existing entry of its name.
    Whole(NewFile),
    /// Existing device, pipe or socket: `/dev/stdout`, `>(less)`.
    Stream(File),
}

impl NamedFile {
    /// Begins to write a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, or others can write to its folder.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let destination = destination(path)?;
        let created = match fs::metadata(&destination) {
            Ok(found) if !found.is_file() && !found.is_dir() && is_followed(&destination) => {
                File::options().write(true).open(&destination).map(Self::Stream)
            }
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            _ => NewFile::shown(&destination).map(Self::Whole),
        };
        created.map_err(|error| cannot_write(path, error))
    }

    /// Moves a regular file to its path. `path` is only for the error message.
    pub fn finish(self, path: &Path) -> Result<(), Failure> {
        match self {
            Self::Whole(file) => file.finish().map_err(|error| cannot_write(path, error)),
            Self::Stream(_) => Ok(()),
        }
    }
}

impl Write for NamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Whole(file) => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a complete file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = NamedFile::create(path)?;
    file.write_all(bytes).map_err(|error| cannot_write(path, error))?;
    file.finish(path)
}

/// Returns the failure to write a file.
pub fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::File { what: format!("cannot write {}", path.display()), error }
}

/// Makes a folder and its parents. Other users cannot replace the caller's entries in it.
///
/// # Errors
///
/// If the folder cannot be made, or others can write to it.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    trusted::make_shared_folder(path).map_err(|error| refused(path, error))
}

/// Refuses a folder for root's results if another user can have written to it.
///
/// # Errors
///
/// If root is the caller and the folder is not trusted. Other callers are not checked: they write
/// only data that the folder's owner can see.
pub fn refuse_for_root(path: &Path) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() || !path.exists() {
        return Ok(());
    }
    trusted::folder(path).map(drop).map_err(|error| refused(path, error))
}

fn refused(path: &Path, error: lab::Error) -> Failure {
    match error {
        lab::Error::Distrusted(found) => Failure::Bad {
            what: format!("refusing to write into {}: {found}", path.display()),
            remedy: format!("{}; or use another folder", found.remedy()),
        },
        lab::Error::System { error, .. } => {
            Failure::File { what: format!("cannot write into {}", path.display()), error }
        }
        other => other.into(),
    }
}

/// Whether only root and the caller can have made the entry at this path.
fn is_followed(path: &Path) -> bool {
    trusted::folder(folder_of(path)).is_ok()
}

/// Returns the path to write to. Follows links that the caller made.
fn destination(path: &Path) -> Result<PathBuf, Failure> {
    let checked =
        |path: &Path| trusted::shared_folder(folder_of(path)).map_err(|error| refused(folder_of(path), error));
    let folder = checked(path)?;
    let name = path.file_name().ok_or_else(|| cannot_write(path, io::ErrorKind::IsADirectory.into()))?;
    match path.canonicalize() {
        Ok(found) if is_followed(path) && found.is_file() => checked(&found).map(|_| found),
        _ => Ok(folder.join(name)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use fixture::TestDir;

    use super::*;

    /// A folder `shared` of this mode, with a file `victim` beside it.
    struct Shared(TestDir);

    impl Shared {
        fn new(mode: u32) -> Self {
            let above = TestDir::new();
            above.write("victim", "precious");
            fs::create_dir(above.join("shared")).unwrap();
            fs::set_permissions(above.join("shared"), fs::Permissions::from_mode(mode)).unwrap();
            Self(above)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join("shared").join(name)
        }

        fn victim(&self) -> String {
            fs::read_to_string(self.0.join("victim")).unwrap()
        }
    }

    #[test]
    fn folders_that_others_can_write_to_are_refused() {
        let shared = Shared::new(0o777);
        let Err(failure) = write(&shared.path("page.html"), b"page") else { panic!("it was written") };
        assert!(failure.code() == 2 && failure.to_string().contains("chmod go-w"), "{failure}");
        assert!(make_folder(&shared.path("runs/deep")).is_err() && !shared.path("runs").exists());
    }

    #[test]
    fn links_are_replaced_in_sticky_folders_and_followed_in_own_folders() {
        let shared = Shared::new(0o1777);
        symlink(shared.0.join("victim"), shared.path("page.html")).unwrap();
        write(&shared.path("page.html"), b"page").unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(
            (shared.victim(), fs::read_to_string(shared.path("page.html")).unwrap()),
            ("precious".into(), "page".into())
        );
        make_folder(&shared.path("runs/deep")).unwrap_or_else(|failure| panic!("{failure}"));
        let own = Shared::new(0o755);
        symlink(own.0.join("victim"), own.path("page.html")).unwrap();
        write(&own.path("page.html"), b"page").unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(own.victim(), "page");
    }

    #[test]
    fn devices_are_written_to_and_not_replaced() {
        assert!(matches!(NamedFile::create(Path::new("/dev/null")), Ok(NamedFile::Stream(_))));
        let Err(failure) = write(Path::new("/dev/full"), b"page") else { panic!("it was written") };
        assert!(failure.to_string().contains("/dev/full"), "{failure}");
    }
}
