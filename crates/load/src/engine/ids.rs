//! Ids of agents and steps within a thread. Agents and steps have different id types, so that their
//! ids cannot be confused.

/// Id of an agent within its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentId(u32);

/// Id of a step within the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepId(u16);

impl AgentId {
    /// No agent.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the id of the agent at this index. Every index fits into an id.
    #[inline]
    pub const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl StepId {
    pub const FIRST: Self = Self(0);

    /// Returns the id of the step at this index, or `None` if the index does not fit.
    pub fn at(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Lets a list be indexed by ids of type `$id`.
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
