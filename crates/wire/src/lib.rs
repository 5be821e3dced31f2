//! Bytes and values of operations: what templates, feeds and scripts write into requests, and how
//! each protocol encodes requests and decodes answers. Knows no sockets, agents or clocks.

pub mod answer_budget;
pub mod cause;
pub mod cookies;
pub mod error;
pub mod excerpt;
pub mod feed_stream;
pub mod http2;
pub mod in_order;
pub mod input_files;
pub mod open_words;
pub mod pointer;
pub mod protobuf;
pub mod protocols;
pub mod redirection;
pub mod session;
pub mod slot_names;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod values;
