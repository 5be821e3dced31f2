//! A text and the name under which errors speak of it. Reading it from a disk is the caller's work.

/// A text to be read, such as an experiment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Shown in errors; for a file, its path as the user gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
}
