//! The page of the experiment file's keys, which the crate that checks them writes itself.

use super::Page;

pub const KIND: Page = Page { name: "experiment", text: experiment::schema::reference };
