//! What the histories of audited keys say about the data: each file one check. It must not know how a history came about.

pub(crate) mod lost_writes;
