//! Properties of a protocol that affect how a connection is made.

use std::sync::Arc;

use wire::session::SessionProtocol;

/// The part of a protocol that affects how a connection is made.
#[derive(Debug, Clone)]
pub struct OpeningRules {
    pub(super) services: Arc<[ServiceOpening]>,
    pub(super) runs_programs: bool,
    pub(super) may_refuse_unasked: fn(u8) -> bool,
}

#[derive(Debug)]
pub(super) struct ServiceOpening {
    /// Address of the service, or the text for its programs.
    pub(super) authority: String,
    pub(super) speaks_first: bool,
}

impl OpeningRules {
    /// Returns the rules of a protocol for these services.
    pub fn of<P: SessionProtocol>(services: &[P]) -> Self {
        let opening = |service: &P| ServiceOpening {
            authority: service.authority().to_owned(),
            speaks_first: P::SPEAKS_UNASKED || service.speaks_first(),
        };
        Self {
            services: services.iter().map(opening).collect(),
            runs_programs: P::RUNS_PROGRAMS,
            may_refuse_unasked: P::may_refuse_unasked,
        }
    }
}
