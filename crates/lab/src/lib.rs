//! Hosts, targets, faults and probes. The lab starts a target on its hosts, watches the target,
//! injects faults, and always stops the target.

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
mod member_programs;
pub mod needs;
pub mod placement;
pub mod platforms;
mod process_log;
pub mod profiles;
mod readiness;
pub mod registry;
pub mod sampling;
mod scrape;
mod session;
mod system_program;
pub mod targets;
pub(crate) mod tiers;
pub mod trusted;
mod untrusted_path;

pub use caller::Caller;
pub use deployment::{Deployment, HostEvent, HostTask, LabGenerator, MemberAnswer, NotUp, TaskEnd};
pub use deployment_spec::{DeploymentSpec, StorageFigures};
pub use error::{Error, UNKNOWN_NAME};
pub use hooks::{Hook, OutputStream};
pub use member_programs::{MemberProgramEnd, MemberPrograms};
pub use placement::ClientPlacement;
pub use readiness::UrlParts;
pub use registry::cleanup::{CleanupReport, clean};
pub use tiers::check as check_storage;
pub use untrusted_path::{TrustProblem, UntrustedPath};
