//! Files whose bytes are values: `{file:photo.jpg}`. Each file is read once before the load, and
//! all templates of a process share its bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::input_files::InputFiles;

/// Size of the largest file that can be a value: 1 GiB.
pub const FILE_MAX: u64 = 1 << 30;

/// Files of a load's values, by name.
#[derive(Debug, Default)]
pub struct ValueFiles {
    files: InputFiles,
    read: RefCell<BTreeMap<String, Arc<ValueFile>>>,
}

/// A file whose bytes are a value.
#[derive(Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// Name of the file in the template.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl ValueFiles {
    /// Creates an empty set of files.
    pub fn new(files: &InputFiles) -> Self {
        Self { files: files.clone(), read: RefCell::default() }
    }

    /// Returns a file.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub fn get(&self, name: &str) -> Result<Arc<ValueFile>, String> {
        if let Some(file) = self.read.borrow().get(name) {
            return Ok(Arc::clone(file));
        }
        let path = self.files.path(name);
        let wrong = |reason: String| format!("cannot read `{}`: {reason}", path.display());
        let file = std::fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
        if !file.is_file() {
            return Err(wrong("it is not a regular file".to_owned()));
        }
        if file.len() > FILE_MAX {
            return Err(wrong("it is larger than 1 GiB".to_owned()));
        }
        let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let file = Arc::new(ValueFile { name: name.to_owned(), bytes });
        self.read.borrow_mut().insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_read_once() {
        let folder = fixture::TestDir::new();
        let path = folder.write("a.bin", "a\0b");
        let files = ValueFiles::new(&InputFiles::below(&*folder));
        let first = files.get("a.bin").unwrap();
        assert_eq!(first.bytes, b"a\0b");
        std::fs::remove_file(path).unwrap();
        assert!(Arc::ptr_eq(&first, &files.get("a.bin").unwrap()));
        for (name, reason) in [("b.bin", "No such file"), (".", "not a regular file")] {
            let refused = files.get(name).unwrap_err();
            assert!(refused.contains(reason) && refused.contains(name), "{refused}");
        }
    }
}
