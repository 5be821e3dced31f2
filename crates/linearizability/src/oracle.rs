//! Reference verdict: tries all orders of a few operations.

use crate::carry::InitialValue;
use crate::operation::{ABSENT, Act, Item, Operation};

/// Whether some order of the operations on one key fits their times and values. Operations with
/// unknown outcome may be left out.
pub(crate) fn has_linearization(operations: &[Operation], initial: InitialValue) -> bool {
    let items: Vec<Item> = operations.iter().enumerate().filter_map(|(place, it)| it.item(place, 0)).collect();
    let state = match initial {
        InitialValue::Absent => Some(ABSENT),
        InitialValue::Value(value) => Some(value),
        InitialValue::Unknown => None,
    };
    extends(&items, &mut vec![false; items.len()], state)
}

fn extends(items: &[Item], done: &mut [bool], state: Option<u64>) -> bool {
    let open = |done: &[bool]| (0..items.len()).filter(|&place| !done[place]).collect::<Vec<_>>();
    let left = open(done);
    if left.iter().all(|&place| items[place].is_optional()) {
        return true;
    }
    let horizon = left.iter().map(|&place| items[place].end).min().unwrap_or_default();
    for place in left {
        let item = &items[place];
        if item.start > horizon {
            continue;
        }
        // An unknown state becomes the value that is seen first.
        let is = |value: u64| state.is_none_or(|state| state == value);
        let after = match item.act {
            Act::Read(value) => is(value).then_some(Some(value)),
            Act::Write(value) => Some(Some(value)),
            Act::Swap { from, to } => is(from).then_some(Some(to)),
            Act::Differs(value) => (state != Some(value)).then_some(state),
        };
        if let Some(after) = after {
            done[place] = true;
            let found = extends(items, done, after);
            done[place] = false;
            if found {
                return true;
            }
        }
    }
    false
}
