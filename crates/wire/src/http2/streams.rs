//! The open streams of a connection, found by their ids in constant time.

use super::frames::LARGEST_WINDOW;

/// Open streams of a connection, and the ids of the next ones. The place of a stream follows from
/// its id. If that place is taken, the id is left out, as RFC 9113, 5.1.1 allows.
#[derive(Debug)]
pub struct StreamTable<S> {
    /// A power of two of places, or none.
    places: Vec<StreamSlot<S>>,
    open: u32,
    next_id: u32,
}

/// A stream. The id is 0 if the place is free.
#[derive(Debug, Default)]
pub struct StreamSlot<S> {
    pub id: u32,
    /// Id of the request.
    pub request: u32,
    /// Number of bytes that the target takes now on this stream. May be negative (RFC 9113, 6.9.2).
    pub window: i64,
    /// Number of received bytes since the last WINDOW_UPDATE for the stream.
    pub received: u32,
    /// Whether the header block of the answer has arrived.
    pub has_head: bool,
    /// Rest of the request's body.
    pub upload: Option<Upload>,
    pub state: S,
}

/// The rest of a request's body, which waits for the target's windows.
#[derive(Debug, Default)]
pub struct Upload {
    pub bytes: Vec<u8>,
    /// Number of `bytes` that are sent.
    pub sent: usize,
    /// Whether the body ends after `bytes`.
    pub ends: bool,
}

impl Upload {
    /// Empties the upload for the next body.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.sent, self.ends) = (0, false);
    }
}

impl<S> Default for StreamTable<S> {
    fn default() -> Self {
        Self { places: Vec::new(), open: 0, next_id: 1 }
    }
}

impl<S: Default> StreamTable<S> {
    /// Returns the number of open streams.
    #[inline]
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Whether no id is left.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.next_id > LARGEST_WINDOW
    }

    /// Whether a stream with this id has been open. The target opens no streams.
    pub fn was_open(&self, id: u32) -> bool {
        id % 2 == 1 && id < self.next_id
    }

    /// Returns the place and the id of the next stream, or `None` if no id is left. The place is
    /// free until [`Self::occupy`] is called. `spare` are tables of connections that are gone.
    #[inline]
    pub fn next(&mut self, spare: &mut Vec<Vec<StreamSlot<S>>>) -> Option<(usize, u32)> {
        if 2 * (self.open as usize + 1) > self.places.len() {
            self.grow(spare);
        }
        while self.next_id <= LARGEST_WINDOW {
            let (id, place) = (self.next_id, self.place(self.next_id));
            if self.places[place].id == 0 {
                return Some((place, id));
            }
            self.next_id += 2;
        }
        None
    }

    /// Opens the stream that [`Self::next`] has returned.
    #[inline]
    pub fn occupy(&mut self, place: usize) {
        self.places[place].id = self.next_id;
        self.next_id += 2;
        self.open += 1;
    }

    /// Closes a stream.
    #[inline]
    pub fn free(&mut self, place: usize) {
        self.places[place].id = 0;
        self.open -= 1;
    }

    /// Returns the place of an open stream.
    #[inline]
    pub fn find(&self, id: u32) -> Option<usize> {
        let place = self.place(id);
        (id != 0 && self.places.get(place)?.id == id).then_some(place)
    }

    /// Returns the place of the first open stream for which `is_it` is true.
    pub fn position(&self, is_it: impl Fn(&StreamSlot<S>) -> bool) -> Option<usize> {
        self.places.iter().position(|stream| stream.id != 0 && is_it(stream))
    }

    /// Returns all open streams.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut StreamSlot<S>> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }

    #[inline]
    pub fn at(&self, place: usize) -> Option<&StreamSlot<S>> {
        self.places.get(place)
    }

    #[inline]
    pub fn at_mut(&mut self, place: usize) -> &mut StreamSlot<S> {
        &mut self.places[place]
    }

    /// Takes the memory of the table. All streams are closed.
    pub fn reset(&mut self, spare: &mut Vec<Vec<StreamSlot<S>>>) {
        let places = std::mem::take(self).places;
        if !places.is_empty() {
            spare.push(places);
        }
    }

    #[inline]
    fn place(&self, id: u32) -> usize {
        (id >> 1) as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, spare: &mut Vec<Vec<StreamSlot<S>>>) {
        const FEWEST: usize = 2;
        let count = (2 * self.places.len()).max(FEWEST);
        let mut places = if self.places.is_empty() { spare.pop().unwrap_or_default() } else { Vec::new() };
        if places.len() < count {
            places.resize_with(count, StreamSlot::default);
        }
        std::mem::swap(&mut self.places, &mut places);
        for stream in places.into_iter().filter(|stream| stream.id != 0) {
            let place = self.place(stream.id);
            self.places[place] = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(table: &mut StreamTable<u32>) -> u32 {
        let (place, id) = table.next(&mut Vec::new()).unwrap();
        table.at_mut(place).state = id;
        table.occupy(place);
        id
    }

    #[test]
    fn streams_are_found_by_their_ids() {
        let mut table = StreamTable::default();
        assert_eq!(table.find(1), None);
        let mut random = fastrand::Rng::with_seed(2);
        let mut ids = Vec::new();
        for _ in 0..5000 {
            if ids.len() < 50 && random.bool() {
                let id = open(&mut table);
                assert!(id % 2 == 1 && ids.last().is_none_or(|last| id > *last) && !ids.contains(&id));
                ids.push(id);
            } else if !ids.is_empty() {
                let id = ids.remove(random.usize(..ids.len()));
                let place = table.find(id).unwrap();
                table.free(place);
                assert_eq!(table.find(id), None);
                assert!(table.was_open(id));
            }
            assert_eq!(table.open() as usize, ids.len());
            for id in &ids {
                assert_eq!(table.at(table.find(*id).unwrap()).map(|stream| stream.state), Some(*id));
            }
        }
    }

    #[test]
    fn ids_run_out() {
        let mut table = StreamTable { next_id: LARGEST_WINDOW - 2, ..StreamTable::default() };
        assert_eq!([open(&mut table), open(&mut table)], [LARGEST_WINDOW - 2, LARGEST_WINDOW]);
        assert!(table.is_used_up() && table.next(&mut Vec::new()).is_none());
        let mut spare = Vec::new();
        table.reset(&mut spare);
        assert_eq!((open(&mut table), spare.len()), (1, 1));
        assert!(!table.was_open(3) && !table.was_open(2));
    }
}
