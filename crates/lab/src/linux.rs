//! Verbs over the kernel: start a process, look it up in /proc, signal exactly it. The only room with `unsafe`.
//! It must not know what a target, a run or a trial is.

pub mod cgroup;
pub mod clock;
pub mod loop_device;
pub mod mount;
pub mod namespace;
pub mod network;
pub mod pidfd;
pub mod procfs;
pub mod spawn;
