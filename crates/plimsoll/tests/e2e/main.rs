//! The binary from outside: real processes, real files, real signals. One test program for all, so that it links once.
//! What a library decides is tested in that library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accidents;
mod agent_groups;
mod agents;
mod article;
mod bad_files;
mod comparing;
mod connections;
mod contents;
mod corruptions;
mod costs;
mod courts;
mod crashes;
mod crews;
mod dead_outputs;
mod disturbances;
mod doctor;
mod documents;
mod faults_felt;
mod faults_over_ssh;
mod first_runs;
mod histories;
mod hits;
mod hits_by_tls;
mod hostile_hosts;
mod installs;
mod killed_labs;
mod labs;
mod local_attacks;
mod lost_labs;
mod machine;
mod members;
mod metrics;
mod open_loops;
mod other_labs;
mod outages;
mod over_ssh;
mod own_servers;
mod programs;
mod remote_machines;
mod replicas;
mod same_shape;
#[cfg(feature = "scripts")]
mod scripts;
mod searches;
mod secrets;
mod selfchecks;
mod slow_feeds;
mod slow_generators;
mod stage;
mod starts;
mod steps;
mod stores;
mod tiers;
mod words;
