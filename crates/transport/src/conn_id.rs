//! Ids of connections within a thread.

/// Id of a connection within its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnId(u32);

impl ConnId {
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the id of the connection at this index. Every index fits into an id.
    #[inline]
    pub const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
