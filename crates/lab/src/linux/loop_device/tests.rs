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
fn limits_are_written_as_the_kernel_wants_them() {
    let disk = Disk { write_iops: Some(200.0), read_bytes_per_s: Some(0.2), ..Disk::default() };
    assert_eq!(unified(&disk), "riops=max wiops=200 rbps=1 wbps=max");
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
        io::Result::Ok(())
    })
    .unwrap();
    assert_eq!(announced.last(), Some(&attached.device), "it is told before");
    assert_eq!(backing(&attached.device).as_ref(), Some(&file));

    let disk = Disk { write_iops: Some(123.0), ..Disk::default() };
    throttle(&attached.device, &disk, None).unwrap();
    let limits = || {
        let root = root_group()?;
        fs::read_to_string(root.join("blkio.throttle.write_iops_device")).ok()
    };
    let line = format!("{} 123\n", number(&attached.device).unwrap());
    assert!(limits().is_none_or(|text| text.contains(&line)));
    unthrottle(&attached.device).unwrap();
    assert!(limits().is_none_or(|text| !text.contains(&line)));

    detach(&attached.device, &folder.join("another")).unwrap();
    assert!(backing(&attached.device).is_some(), "not with another file");
    let device = attached.device.clone();
    drop(attached);
    until("the kernel lets it go", || backing(&device).as_ref() != Some(&file));
}
