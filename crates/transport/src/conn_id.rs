//! Numbers of connections within a thread.

/// Number of a connection of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnId(u32);

impl ConnId {
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Creates the number of the connection at this index. There are fewer connections than
    /// numbers.
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
