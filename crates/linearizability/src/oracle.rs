//! Reference verdict: tries all orders of a few operations.

use crate::carry::InitialValue;
use crate::operation::{ABSENT, Act, Item, NEVER, Operation};

/// State of the register in the reference.
#[derive(Debug, Clone, Copy)]
struct Reference {
    /// `None` for any value that is seen first.
    value: Option<u64>,
    version: Version,
}

/// Version plus one, as in [`Item`].
#[derive(Debug, Clone, Copy)]
enum Version {
    Exactly(u64),
    /// Greater than this, since the last write told no version.
    Above(u64),
}

/// Whether some order of the operations on one key fits their times, values and versions.
/// Operations with unknown outcome may be left out.
pub(crate) fn has_linearization(operations: &[Operation], initial: InitialValue) -> bool {
    let items: Vec<Item> = operations.iter().enumerate().filter_map(|(place, it)| it.item(place, 0)).collect();
    let value = match initial {
        InitialValue::Absent => Some(ABSENT),
        InitialValue::Value(value) => Some(value),
        InitialValue::Unknown | InitialValue::Seen => None,
    };
    let spans: Vec<(i64, i64)> = items.iter().map(|item| (item.start, item.end)).collect();
    let step = |state: &Reference, place: usize| state.step(&items[place]).into_iter().collect();
    extends(&spans, &mut vec![false; items.len()], &Reference { value, version: Version::Exactly(0) }, &step)
}

/// Whether the operations that are not done have an order that fits. `spans` has their starts and
/// ends. An operation that ends [`NEVER`] may be left out. `step` returns the states that an
/// operation can leave.
pub(crate) fn extends<S>(
    spans: &[(i64, i64)],
    done: &mut [bool],
    state: &S,
    step: &impl Fn(&S, usize) -> Vec<S>,
) -> bool {
    let left: Vec<usize> = (0..spans.len()).filter(|&place| !done[place]).collect();
    let horizon = left.iter().map(|&place| spans[place].1).min().unwrap_or(NEVER);
    if horizon == NEVER {
        return true;
    }
    for place in left.into_iter().filter(|&place| spans[place].0 <= horizon) {
        done[place] = true;
        let found = step(state, place).iter().any(|after| extends(spans, done, after, step));
        done[place] = false;
        if found {
            return true;
        }
    }
    false
}

impl Reference {
    fn step(self, item: &Item) -> Option<Self> {
        let is = |value: u64| self.value.is_none_or(|current| current == value);
        match item.act {
            Act::Read(value) => {
                is(value).then_some(Self { value: Some(value), version: self.version.read(item.version)? })
            }
            Act::Write(value) => Some(Self { value: Some(value), version: self.version.write(item.version)? }),
            Act::Swap { from, to } => {
                is(from).then_some(Self { value: Some(to), version: self.version.write(item.version)? })
            }
            Act::Differs(value) => (self.value != Some(value)).then_some(self),
        }
    }
}

impl Version {
    fn read(self, version: u64) -> Option<Self> {
        match self {
            _ if version == 0 => Some(self),
            Self::Exactly(known) => (known == version || known == 0).then_some(Self::Exactly(version)),
            Self::Above(known) => (version > known).then_some(Self::Exactly(version)),
        }
    }

    fn write(self, version: u64) -> Option<Self> {
        match self {
            Self::Exactly(known) if version == 0 => Some(Self::Above(known)),
            Self::Above(known) if version == 0 => Some(Self::Above(known + 1)),
            Self::Exactly(known) => (version > known).then_some(Self::Exactly(version)),
            Self::Above(known) => (version > known + 1).then_some(Self::Exactly(version)),
        }
    }
}
