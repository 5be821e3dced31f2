//! Names of slots as small numbers, so that the result of an attempt can name a slot.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Names of all slots of the loads that this process has compiled. Never emptied: its size is
/// bounded by the experiments' texts.
static NAMES: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());

/// The name of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotName(u16);

impl SlotName {
    /// Returns the name. Allocates memory if the name is new. `None` after 65,536 names.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let number = names.iter().position(|known| **known == *name).unwrap_or(names.len());
        let found = u16::try_from(number).ok().map(Self)?;
        if number == names.len() {
            names.push(name.into());
        }
        Some(found)
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_str(names.get(usize::from(self.0)).map_or("slot", |name| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_number_each() {
        let (token, id) = (SlotName::of("token").unwrap(), SlotName::of("id").unwrap());
        assert_eq!((SlotName::of("token"), token == id), (Some(token), false));
        assert_eq!((token.to_string(), id.to_string()), ("token".to_owned(), "id".to_owned()));
    }
}
