//! The engine, the client and the recorder against small servers in this process. No test asserts that something is fast.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod http;
mod limits;
mod open;
mod outcomes;
mod prepare;
mod records;
mod register;
mod retries;
mod server;
mod services;
mod setting;
mod steps;
