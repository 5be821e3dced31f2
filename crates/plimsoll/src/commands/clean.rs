//! `plimsoll clean`: removes what interrupted runs left.

use crate::exit::{Done, Failure};

/// Cleans, and says what was removed.
pub fn run() -> Result<Done, Failure> {
    let cleaned = lab::registry::clean()?;
    for line in &cleaned.removed {
        println!("{line}");
    }
    if cleaned.removed.is_empty() {
        println!("nothing was left");
    }
    Ok(Done::Well)
}
