//! The runner: a small program inside each host, whether Plimsoll made the host or reaches it over
//! ssh. It reads orders from standard input and replies on standard output, one JSON text per line.
//! At the end of input it undoes everything.

mod connected;
mod control_groups;
mod controls;
mod cores;
pub mod environment;
pub mod external_target;
mod load_average;
pub mod machine;
mod messages;
mod orders;
pub mod plain_text;
pub mod ports;
pub mod probes;
pub mod process_tree;
mod program_run;
pub mod program_signals;
mod restart_detector;
pub mod sample_reader;
pub mod sample_source;
mod serve;
pub mod shim;
mod stoppable_thread;
mod wiring;

pub use control_groups::{Usage, make_top, top_of};
pub use messages::{HostLines, LINE_BYTES, OrderRefusal, OrderReply, RunnerMessage};
pub use orders::{
    Bind, Envelope, FOLDER_PREFIX, HOST_MARK, Injection, InterfaceSpec, Isolation, MARK, NumberedOrder, Order,
    ProgramSpec, Setup, TierFolder, TierMount, VERSION, VolumeSpec, Wiring, folder_name,
};
pub use program_run::KEPT_BYTES;
pub use serve::{serve, serve_standard_streams};
