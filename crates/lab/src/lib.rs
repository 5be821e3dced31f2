//! Hosts, targets, faults and probes: the target of one trial is put on its hosts, watched,
//! broken, and always taken down.

mod caller;
mod deployment;
mod deployment_spec;
mod error;
#[cfg(test)]
mod fakes;
pub mod faults;
pub mod fingerprints;
mod hooks;
mod host;
mod host_process;
pub mod hosts;
pub mod placement;
mod process_log;
pub mod profiles;
mod readiness;
pub mod registry;
pub mod sampling;
mod scrape;
mod session;
pub mod targets;
pub mod trusted;
mod untrusted_path;

pub use caller::Caller;
pub use deployment::{Deployment, HostEvent, MemberAnswer, NotUp};
pub use deployment_spec::DeploymentSpec;
pub use error::{Error, UNKNOWN_NAME};
pub use hooks::{Hook, OutputStream};
pub use placement::ClientPlacement;
pub use readiness::UrlParts;
pub use registry::cleanup::{CleanupReport, clean};
pub use untrusted_path::{TrustProblem, UntrustedPath};
