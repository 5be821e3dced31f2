//! Connections by token. A token is never used again, so an event or an answer that comes late for a closed connection
//! finds nobody.

use crate::connection::Connection;

/// Names a connection: its slot, and how many had that slot before it.
pub(crate) type Token = u64;

/// Slots there may be; tokens above are free for what is no connection.
const MOST: u32 = u32::MAX - 15;

/// All open connections.
#[derive(Debug)]
pub(crate) struct Slots<M> {
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<M> {
    generation: u32,
    connection: Option<Connection<M>>,
}

impl<M> Slots<M> {
    /// None yet.
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Takes a connection in. `None`: there are too many to be told apart.
    pub fn insert(&mut self, connection: Connection<M>) -> Option<Token> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).ok().filter(|index| *index < MOST)?;
                self.slots.push(Slot { generation: 0, connection: None });
                index
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.connection = Some(connection);
        Some(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// The connection, unless it has been closed.
    pub fn get(&mut self, token: Token) -> Option<&mut Connection<M>> {
        let (index, generation) = parts(token);
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation == generation { slot.connection.as_mut() } else { None }
    }

    /// Closes the connection.
    pub fn remove(&mut self, token: Token) {
        let (index, generation) = parts(token);
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.generation == generation
            && slot.connection.take().is_some()
        {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}

/// Index and generation.
fn parts(token: Token) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let halves = (token as u32, (token >> 32) as u32);
    halves
}
