//! The run folder: its file names, clock, writers, and readers that tolerate a file that was cut
//! off. The live half of Plimsoll writes run folders through this crate; the analysis half reads
//! only run folders. This crate must not know how values are measured or what they mean.

pub mod calibration;
pub mod checked_file;
pub mod clock;
pub mod compared;
pub mod environment;
#[warn(missing_docs)]
pub mod events;
pub mod folder;
pub mod hlog;
pub mod lines;
pub mod looks;
pub mod metric_history;
pub mod private;
pub mod replicas;
#[warn(missing_docs)]
pub mod results;
#[warn(missing_docs)]
pub mod rows;
pub mod selfcheck;
mod table;

pub use checked_file::{ReadError, Records};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A temporary folder for one test.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("plimsoll-record-{name}-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
