//! Errors of the files that supply values.

/// The reason why a feed or a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A feed cannot be read.
    #[error("feed `{feed}`: {reason}")]
    Feed { feed: String, reason: String },
    /// A script cannot be read, or failed while the load ran.
    #[error("script `{script}`: {reason}")]
    Script {
        /// The script's file, as given.
        script: String,
        reason: String,
    },
}
