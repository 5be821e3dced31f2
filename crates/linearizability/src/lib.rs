//! Checks whether the answers of a replicated store could come from a single copy: whether each
//! key's history is linearizable.
//!
//! Histories whose values are written once are decided by sorting (by zones, or by the versions in
//! the answers). All others go through a bounded search, which may end without a verdict. Neither
//! method reports a violation where there is none. Both may miss a failed comparison that is wrong,
//! on a key that is hardly ever idle or has many unknown outcomes.
//!
//! The verdict is exact under these assumptions: an operation takes effect between its start and
//! its end; no client writes one of the two highest numbers; with [`InitialValue::Unknown`], no
//! operation writes the initial value of the key.

mod carry;
mod checker;
mod cluster;
mod cluster_order;
mod edn;
mod explanation;
mod foreign_history;
mod initial_value;
mod jepsen;
mod jepsen_log;
mod key_history;
mod operation;
mod proof;
mod queue;
mod register;
mod search;
mod sessions;
mod set;
mod shrink;
mod value_table;
mod visited;
mod window;
mod written_history;
mod zones;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use carry::InitialValue;
pub use checker::{Checker, KeyVerdict, Linearizability, Settings, check};
pub use edn::{Edn, EdnError};
pub use explanation::Explanation;
pub use foreign_history::{
    ForeignHistory, ForeignObject, ForeignSettings, HistoryError, HistoryErrors, ObjectOperations, OperationLines,
};
pub use jepsen::read_jepsen;
pub use jepsen_log::{is_jepsen_log, read_jepsen_log};
pub use operation::{Access, Operation, Status};
pub use proof::Proof;
pub use queue::{QueueAccess, QueueOperation, QueueSettings, check_queue};
pub use search::{CallInterval, Extent, FinalState, Outlook, Searched, SequentialModel, search};
pub use sessions::{Guarantee, SessionViolation, check_sessions};
pub use set::{SetAccess, SetOperation, check_set};
pub use written_history::{operations_to_edn, operations_to_elle, operations_to_porcupine, separate_processes};
