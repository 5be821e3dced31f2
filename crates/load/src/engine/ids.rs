//! Numbers of agents, connections and steps within a thread, each a type of its own, so that none
//! is taken for another.

/// An agent of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentId(u32);

/// A connection of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnId(u32);

/// A step of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepId(u16);

impl AgentId {
    /// No agent.
    pub const NONE: Self = Self(u32::MAX);

    /// The agent at that place. There are fewer agents than numbers for them.
    #[inline]
    pub const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    /// Its place.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ConnId {
    /// The connection of that number.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The connection at that place. There are fewer connections than numbers for them.
    #[inline]
    pub const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    /// Its number.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// Its place.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl StepId {
    /// The first step.
    pub const FIRST: Self = Self(0);

    /// The step at that place, if there can be so many.
    pub fn at(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    /// Its place.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A list whose places have such numbers.
macro_rules! indexed_by {
    ($id:ty, $list:ty, $item:ty) => {
        impl std::ops::Index<$id> for $list {
            type Output = $item;

            #[inline]
            fn index(&self, id: $id) -> &$item {
                &self[id.index()]
            }
        }

        impl std::ops::IndexMut<$id> for $list {
            #[inline]
            fn index_mut(&mut self, id: $id) -> &mut $item {
                &mut self[id.index()]
            }
        }
    };
}

pub(super) use indexed_by;
