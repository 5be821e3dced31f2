//! Configures a host's interfaces. It must not make any.

use super::{Envelope, Refusal, Wiring};

/// Addresses, up, routes, the profile's link limits.
pub fn wire(wiring: &Wiring, envelope: &Envelope) -> Result<(), Refusal> {
    let _ = (wiring, envelope);
    Err(Refusal::Cannot { reason: "this version cannot wire hosts yet".to_owned() })
}
