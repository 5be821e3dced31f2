//! `follow`: whether an operation follows redirects, and how many.

use crate::keys::KeyType;
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;

/// Number of redirects in a row that `follow = true` allows, as browsers' fetch libraries do.
const USUAL: u32 = 10;
/// Largest number of redirects in a row.
const MOST: i64 = 100;

/// Type of `follow`.
pub(super) const FOLLOW: KeyType = KeyType::Either(
    &[KeyType::Boolean, KeyType::Whole { min: 0, max: MOST }],
    "true (at most 10 in a row), false, or the largest number in a row, such as 3",
);

/// Reads `follow`: the largest number of redirects in a row, or `None` if the section has no such
/// key.
pub(super) fn read(section: &Section<'_>) -> Option<u32> {
    let node = section.node("follow")?;
    let usual = if section.boolean("follow") { USUAL } else { 0 };
    Some(node.number().map_or(usual, |most| most as u32))
}

/// Whether no redirects are followed.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_none(most: &u32) -> bool {
    *most == 0
}

/// Reports `follow` for a protocol without redirects.
pub(super) fn check(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let Some(protocol) = context.protocol.filter(|_| read(section).is_some_and(|most| most > 0)) else { return };
    let answers = protocol.operations.iter().flat_map(|operation| operation.answers);
    if !answers.into_iter().any(|field| field.name == "header.*") {
        context.problems.push(
            Problem::new(section.place("follow"), format!("the protocol `{}` has no redirects", protocol.name))
                .expected("redirects belong to HTTP")
                .hint("remove it"),
        );
    }
}
