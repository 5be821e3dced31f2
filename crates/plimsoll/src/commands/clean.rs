//! `plimsoll clean`: removes what interrupted runs left.

use crate::exit::{Done, Failure};
use crate::output;

/// Cleans, and says what was removed.
pub fn run() -> Result<Done, Failure> {
    let cleaned = lab::registry::clean()?;
    for unreached in &cleaned.unreached {
        output::say(unreached);
    }
    if cleaned.removed.is_empty() {
        output::text("nothing was left\n")?;
    } else {
        output::text(&(cleaned.removed.join("\n") + "\n"))?;
    }
    Ok(Done::Well)
}
