//! `plimsoll clean`: removes what interrupted runs left.

use crate::exit::{Done, Failure};
use crate::output;

/// Cleans, and says what was removed, what was left alone and why.
pub fn run() -> Result<Done, Failure> {
    let mut cleaned = lab::registry::clean();
    for left in cleaned.unreached.iter().chain(&cleaned.left_alone) {
        output::say(left);
    }
    if !cleaned.removed.is_empty() {
        output::text(&(cleaned.removed.join("\n") + "\n"))?;
    } else if cleaned.failed.is_empty() {
        output::text("nothing was left\n")?;
    }
    // Each but the last, which is the command's own failure.
    let last = cleaned.failed.pop();
    for failed in &cleaned.failed {
        output::say(&failed.to_string());
    }
    last.map_or(Ok(Done::Well), |last| Err(last.into()))
}
