//! Tests of loop devices, with devices of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rustix::process::geteuid;

use super::*;
use crate::fixture::{Scratch, until};

#[test]
fn only_loop_devices_are_ones() {
    let of = |path: &str| is_one(Path::new(path));
    assert!(of("/dev/loop0") && of("/dev/loop12"));
    assert!(!of("/dev/loop") && !of("/dev/loop-control") && !of("/dev/sda") && !of("/dev/loop1/../sda"));
}

#[test]
fn a_device_is_ours_until_it_is_let_go() {
    if !geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: loop devices need root");
        return;
    }
    let folder = Scratch::new();
    let file = folder.join("volume");
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let mut announced = Vec::new();
    let attached = attach(&file, |device| {
        announced.push(device.to_path_buf());
        Ok(())
    })
    .unwrap();
    assert_eq!(announced.last(), Some(&attached.device), "it is told before");
    assert_eq!(backing(&attached.device).as_ref(), Some(&file));

    assert!(!detach(&attached.device, &folder.join("another")).unwrap(), "it has another file");
    assert!(backing(&attached.device).is_some());
    let device = attached.device.clone();
    drop(attached);
    until("the kernel lets it go", || backing(&device).as_ref() != Some(&file));
}
