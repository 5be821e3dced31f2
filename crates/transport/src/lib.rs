//! Sockets: connections by epoll, io_uring and TLS, programs behind sockets, and a blocking client
//! for single operations. This crate knows no particular protocol, no agents and no schedules.

pub mod buffer_pool;
pub mod client;
pub mod conn_id;
pub mod connections;
pub mod error;
pub mod program_worker;
pub mod ring;
pub mod service_address;
pub mod source_addresses;
pub mod tls;
pub mod tunnel;
