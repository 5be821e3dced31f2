//! Redirects that an operation follows: the request that comes next, and the reasons why a redirect
//! is not followed.

use std::fmt;

/// The redirects that an operation has followed so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redirection {
    /// Number of redirects.
    pub count: u32,
    /// Whether the next request is a GET or HEAD without a body.
    pub drops_body: bool,
    /// Target of the next request.
    pub target: Vec<u8>,
}

impl Redirection {
    /// Begins an operation.
    #[inline]
    pub fn begin(&mut self) {
        (self.count, self.drops_body) = (0, false);
    }
}

/// The reason why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unfollowed {
    /// The destination has another scheme, host or port.
    Elsewhere,
    /// The operation has followed as many redirects as it may.
    TooMany,
    /// The destination is longer than the limit.
    TooLong,
}

/// Formats the reason, which follows `not followed: `.
impl fmt::Display for Unfollowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Elsewhere => "a redirect to another scheme, host or port",
            Self::TooMany => "too many redirects in a row",
            Self::TooLong => "a redirect to an address of more than 8 KiB",
        })
    }
}
