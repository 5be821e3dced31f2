//! The process that holds a virtual host's namespaces: makes them, starts the runner inside and waits for it.

use crate::runner::Setup;

/// Makes the host and starts this program again in it, as `plimsoll runner --inside`, with the setup as its first line and
/// what follows on our standard input after that; gives its exit code once it has ended.
pub fn keep(setup: &Setup) -> Result<i32, String> {
    Err(format!("this version cannot make virtual hosts such as {} yet", setup.host))
}
