//! Tests of the engine, the client and the recorder against small servers in this process. No test
//! asserts that something is fast.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent_stages;
mod backlog;
mod checks;
mod client;
mod connections;
mod cookies;
mod counters;
mod decoding;
mod encoding;
mod etcd;
mod event_streams;
mod expectations;
mod feeds;
mod greetings;
mod groups;
mod grpc;
mod hostile;
mod http;
mod http2;
mod limits;
mod lines;
mod memcached;
mod multiplexed;
mod nginx;
mod open;
mod outcomes;
mod parallel;
mod pipelines;
mod prepare;
mod programs;
mod rates;
mod records;
mod redirects;
mod redis;
mod register;
mod retries;
#[cfg(feature = "scripts")]
mod scripts;
mod secret;
mod server;
mod services;
mod sessions;
mod setting;
mod sites;
mod steps;
mod tls;
mod units;
mod unsendable;
mod values;
mod websocket;
