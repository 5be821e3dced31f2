//! House rules as a test.
fn main() {}
