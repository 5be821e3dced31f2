//! What `plimsoll new` writes is an experiment. That it plans with a full catalog is tested beside the golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Example, example};
use crate::catalog::Catalog;

#[test]
fn what_is_not_known_is_said() {
    let catalog = Catalog::default();
    let told = |example_for| example(&example_for, &catalog).unwrap_err().to_string();
    assert_eq!(told(Example::Target("vsns".into())), "there is no target `vsns`");
    assert_eq!(told(Example::Url("localhost".into())), "`localhost` is not a URL: there is no `://`");
    assert_eq!(told(Example::Url("gopher://x".into())), "no protocol goes by `gopher`");
}
