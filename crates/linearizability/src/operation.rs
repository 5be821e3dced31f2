//! Operations on the keys of a store, as their clients saw them.

/// An operation on one key, with the interval in which it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Client that waited for the answer. A client has at most one open operation.
    pub process: u32,
    pub key: u64,
    pub start_ns: i64,
    /// `None` if no answer came. The operation may then take effect at any time after its start.
    pub end_ns: Option<i64>,
    pub access: Access,
    pub status: Status,
    /// Version that the answer carried: of the value read, or given to the value written. A later
    /// write to the key has a higher version.
    pub version: Option<u64>,
}

/// Kind of operation and its values. `None` stands for an absent key. The two highest values are
/// reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read {
        value: Option<u64>,
    },
    Write {
        value: u64,
    },
    Delete,
    /// Writes `to` if the value is `from`.
    CompareAndSet {
        from: Option<u64>,
        to: Option<u64>,
    },
}

/// Effect of an operation, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The operation took effect; a read returned its value.
    Applied,
    /// A compare-and-set found another value. If the answer carried that value, record a read.
    Unequal,
    /// The operation had no effect for certain: it was refused.
    Failed,
    /// The operation may have taken effect, or may still do so.
    Unknown,
}

/// Value of an absent key inside this crate.
pub(crate) const ABSENT: u64 = u64::MAX;

/// A value that no operation sees any more.
pub(crate) const FORGOTTEN: u64 = u64::MAX - 1;

/// Start of everything that happened before the first operation.
pub(crate) const BEFORE_ALL: i64 = i64::MIN;

/// End of an operation without an answer.
pub(crate) const NEVER: i64 = i64::MAX;

/// Compact form of an operation, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    /// Position of the operation in the order of `push`.
    pub operation: usize,
    pub start: i64,
    /// [`NEVER`] if the effect is unknown.
    pub end: i64,
    pub act: Act,
    /// Version plus one, or 0 without a version.
    pub version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Read(u64),
    Write(u64),
    Swap {
        from: u64,
        to: u64,
    },
    /// A comparison that found another value.
    Differs(u64),
}

impl Act {
    /// Returns the value that the operation leaves, if it writes.
    pub fn written(self) -> Option<u64> {
        match self {
            Self::Write(value) | Self::Swap { to: value, .. } => Some(value),
            Self::Read(_) | Self::Differs(_) => None,
        }
    }

    /// Returns the value that the operation saw.
    pub fn seen(self) -> Option<u64> {
        match self {
            Self::Read(value) | Self::Swap { from: value, .. } => Some(value),
            Self::Write(_) | Self::Differs(_) => None,
        }
    }
}

impl Item {
    /// Whether the operation may never have happened.
    pub fn is_optional(&self) -> bool {
        self.end == NEVER
    }
}

/// Returns the interval of an operation's effect, wider by `clock_error_ns` on both sides, or
/// `None` if it certainly had no effect.
pub(crate) fn effect_interval(
    (start_ns, end_ns): (i64, Option<i64>),
    status: Status,
    clock_error_ns: i64,
) -> Option<(i64, i64)> {
    let end = match status {
        Status::Failed | Status::Unequal => return None,
        Status::Unknown => NEVER,
        Status::Applied => end_ns.map_or(NEVER, |end| end.saturating_add(clock_error_ns).min(NEVER - 1)),
    };
    let start = start_ns.saturating_sub(clock_error_ns).clamp(BEFORE_ALL + 1, NEVER - 1);
    Some((start, end.max(start)))
}

impl Operation {
    /// Returns the compact form with an interval that is wider by `clock_error_ns` on both sides.
    /// Returns `None` if the operation constrains nothing.
    pub(crate) fn item(&self, operation: usize, clock_error_ns: i64) -> Option<Item> {
        let id = |value: Option<u64>| value.unwrap_or(ABSENT);
        let act = match (self.access, self.status) {
            (_, Status::Failed) => return None,
            (Access::Read { value }, Status::Applied) => Act::Read(id(value)),
            (Access::CompareAndSet { from, to }, Status::Applied) if from == to => Act::Read(id(from)),
            (Access::CompareAndSet { from, to }, Status::Unknown) if from == to => return None,
            (Access::Write { value }, Status::Applied | Status::Unknown) => Act::Write(value),
            (Access::Delete, Status::Applied | Status::Unknown) => Act::Write(ABSENT),
            (Access::CompareAndSet { from, to }, Status::Applied | Status::Unknown) => {
                Act::Swap { from: id(from), to: id(to) }
            }
            (Access::CompareAndSet { from, .. }, Status::Unequal) => Act::Differs(id(from)),
            _ => return None,
        };
        let end = match self.status {
            Status::Unknown => NEVER,
            _ => self.end_ns.map_or(NEVER, |end| end.saturating_add(clock_error_ns).min(NEVER - 1)),
        };
        // An observation without an end is no observation.
        if end == NEVER && act.written().is_none() {
            return None;
        }
        let start = self.start_ns.saturating_sub(clock_error_ns).max(BEFORE_ALL + 1);
        let version = self.version.map_or(0, |version| version.saturating_add(1));
        Some(Item { operation, start, end: end.max(start), act, version })
    }
}
