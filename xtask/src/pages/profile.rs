//! The page of a profile's keys, which the crate that checks them writes itself.

use super::Page;

pub const KIND: Page = Page { name: "profile", text: experiment::schema::profile_reference };
