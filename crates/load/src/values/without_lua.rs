//! Scripts in a program that was built without their interpreter (feature `scripts`): none can be
//! read, and so there is no function of one.

use std::sync::Arc;

use super::ValueSource;
use crate::{Error, InputFiles};

/// A script; there is none.
#[derive(Debug, PartialEq)]
pub enum Program {}

/// A function of a script; there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {}

impl Program {
    /// # Errors
    /// Always: there is no interpreter.
    pub fn read(file: &str, _files: &InputFiles, _slots: &[String]) -> Result<Arc<Self>, Error> {
        Err(Error::Script {
            script: file.to_owned(),
            reason: "this plimsoll was built without scripts; `cargo build --release --features scripts` builds one \
                     with them, and takes a C++ compiler"
                .to_owned(),
        })
    }

    /// Its file, as given.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// The function of that name.
    pub fn function(program: &Arc<Self>, _name: &str) -> Result<Function, String> {
        match **program {}
    }
}

/// What went wrong in a script: nothing.
pub fn failure() -> Option<String> {
    None
}

/// Nothing is open.
pub fn close() {}

impl Function {
    /// Appends the value that it gives.
    pub fn write(&self, _source: &ValueSource<'_>, _seed: u64, _out: &mut Vec<u8>) {
        match *self {}
    }

    /// Whether it says yes to the text.
    pub fn accepts(&self, _text: &[u8], _source: &ValueSource<'_>, _seed: u64) -> bool {
        match *self {}
    }
}
