//! Checks of the ways between folders.

use super::*;

#[test]
fn a_way_goes_up_as_far_as_it_must() {
    let way = |from: &str, to: &str| way(Path::new(from), Path::new(to));
    assert_eq!(way("/runs/pi", "/runs/pi/a/report.html"), "a/report.html");
    assert_eq!(way("/runs/pi", "/runs/b/report.html"), "../b/report.html");
    assert_eq!(way("/srv/my/pages", "/runs/b/report.html"), "../../../runs/b/report.html");
    assert_eq!(way("/", "/runs/b/report.html"), "runs/b/report.html");
}

#[test]
fn the_common_folder_is_the_deepest() {
    let common = |folders: &[&str]| common(&folders.iter().map(Path::new).collect::<Vec<_>>());
    assert_eq!(common(&["/runs/pi", "/runs/pi"]), Path::new("/runs/pi"));
    assert_eq!(common(&["/runs/pi", "/runs/pi2"]), Path::new("/runs"), "by names, not by letters");
    assert_eq!(common(&["/runs/pi/a", "/runs"]), Path::new("/runs"));
    assert_eq!(common(&["/a", "/b"]), Path::new("/"));
}
