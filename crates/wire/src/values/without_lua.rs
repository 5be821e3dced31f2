//! Stand-in for scripts in a program built without the feature `scripts`. No script can be read, so
//! no functions exist.

use std::sync::Arc;

use super::ValueSource;
use crate::error::Error;
use crate::input_files::InputFiles;

/// A script. The type has no values.
#[derive(Debug, PartialEq)]
pub enum Program {}

/// A function of a script. The type has no values.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {}

impl Program {
    /// Returns an error: there is no interpreter.
    pub fn read(file: &str, _files: &InputFiles, _slots: &[String]) -> Result<Arc<Self>, Error> {
        Err(Error::Script {
            script: file.to_owned(),
            reason: "this plimsoll was built without scripts; `cargo build --release --features scripts` builds one \
                     with them, and takes a C++ compiler"
                .to_owned(),
        })
    }

    /// Returns the script's file.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// Returns the function with this name.
    pub fn function(program: &Arc<Self>, _name: &str) -> Result<Function, String> {
        match **program {}
    }
}

/// Returns `None`: no script can fail.
pub fn failure() -> Option<String> {
    None
}

/// Does nothing.
pub fn close() {}

impl Function {
    /// Appends the function's value.
    pub fn write(&self, _source: &ValueSource<'_>, _seed: u64, _out: &mut Vec<u8>) {
        match *self {}
    }

    /// Whether the function accepts the text.
    pub fn accepts(&self, _text: &[u8], _source: &ValueSource<'_>, _seed: u64) -> bool {
        match *self {}
    }
}
