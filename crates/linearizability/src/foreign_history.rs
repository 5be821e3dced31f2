//! Histories that other programs wrote: operations on registers, sets or queues, with the lines of
//! the file that tell of them.

use std::collections::HashMap;
use std::fmt;

use crate::carry::InitialValue;
use crate::checker::{Settings, check};
use crate::edn::{Edn, EdnError};
use crate::key_history::Linearizability;
use crate::operation::Operation;
use crate::queue::{QueueOperation, QueueSettings, check_queue};
use crate::set::{SetOperation, check_set};

/// A history of another program.
#[derive(Debug)]
pub struct ForeignHistory {
    /// Objects in the order in which they occur.
    pub objects: Vec<ForeignObject>,
    pub(crate) names: ValueNames,
}

/// An object that clients operated on.
#[derive(Debug)]
pub struct ForeignObject {
    /// `None` if the history has no keys.
    pub key: Option<String>,
    pub operations: ObjectOperations,
    /// Lines of each operation.
    pub lines: Vec<OperationLines>,
}

/// Operations on an object, by its kind.
#[derive(Debug)]
pub enum ObjectOperations {
    Register(Vec<Operation>),
    Set(Vec<SetOperation>),
    Queue(Vec<QueueOperation>),
}

/// Numbers of the lines of an operation, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationLines {
    pub start: usize,
    /// `None` if no answer came.
    pub end: Option<usize>,
}

/// Conditions of the check of a foreign history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignSettings {
    /// Value of a register before its first operation. Sets and queues are empty at first.
    pub initial: InitialValue,
    /// Whether values may leave a queue in any order.
    pub any_order: bool,
}

impl ForeignHistory {
    /// Returns the name of a value in the file.
    pub fn value_name(&self, value: u64) -> String {
        self.names.name(value)
    }

    /// Returns the number of a value that has this name in the file.
    pub fn value_of(&self, name: &str) -> Option<u64> {
        match name.parse::<i64>() {
            Ok(number) if number >= 0 => Some(number as u64),
            _ => self.names.texts.iter().position(|text| text == name).map(|place| FIRST_NAME + place as u64),
        }
    }

    /// Returns the operations on registers. Each key's number is its place.
    pub fn registers(self) -> Vec<Operation> {
        let registers = self.objects.into_iter().map(|object| match object.operations {
            ObjectOperations::Register(operations) => operations,
            ObjectOperations::Set(_) | ObjectOperations::Queue(_) => Vec::new(),
        });
        registers.flatten().collect()
    }
}

impl ForeignObject {
    /// Checks the object's history. The proof of a violation refers to positions in `lines`.
    pub fn check(&self, settings: ForeignSettings) -> Linearizability {
        match &self.operations {
            ObjectOperations::Register(operations) => {
                let settings = Settings { initial: settings.initial, ..Settings::default() };
                let verdict = check(operations, settings).into_iter().next();
                verdict.map_or(Linearizability::Linearizable, |register| register.verdict)
            }
            ObjectOperations::Set(operations) => check_set(operations, Settings::default()),
            ObjectOperations::Queue(operations) => {
                check_queue(operations, QueueSettings { is_ordered: !settings.any_order, ..QueueSettings::default() })
            }
        }
    }
}

/// Number of the first value that is not written as a number.
const FIRST_NAME: u64 = 1 << 63;

/// Numbers of values that are no natural numbers.
#[derive(Debug, Default)]
pub(crate) struct ValueNames {
    numbers: HashMap<String, u64>,
    texts: Vec<String>,
}

impl ValueNames {
    /// Returns the number of a value, or `None` for `nil`.
    pub fn number(&mut self, value: &Edn) -> Option<u64> {
        match value {
            Edn::Nil => None,
            Edn::Number(number) if *number >= 0 => Some(*number as u64),
            other => {
                let next = FIRST_NAME + self.texts.len() as u64;
                let text = other.to_string();
                let number = *self.numbers.entry(text.clone()).or_insert(next);
                if number == next {
                    self.texts.push(text);
                }
                Some(number)
            }
        }
    }

    fn name(&self, value: u64) -> String {
        let place = value.checked_sub(FIRST_NAME).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.texts.get(place)).map_or_else(|| value.to_string(), Clone::clone)
    }
}

/// A line that is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryError {
    /// Number of the line, from 1.
    pub line: usize,
    pub what: String,
}

/// All errors of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryErrors(pub Vec<HistoryError>);

/// Most errors that are shown.
const SHOWN: usize = 20;

impl fmt::Display for HistoryErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().take(SHOWN).enumerate() {
            let between = if place == 0 { "" } else { "\n" };
            write!(f, "{between}line {}: {}", error.line, error.what)?;
        }
        if self.0.len() > SHOWN { write!(f, "\nand {} more", self.0.len() - SHOWN) } else { Ok(()) }
    }
}

impl std::error::Error for HistoryErrors {}

impl From<HistoryError> for HistoryErrors {
    fn from(error: HistoryError) -> Self {
        Self(vec![error])
    }
}

impl From<EdnError> for HistoryErrors {
    fn from(error: EdnError) -> Self {
        Self(vec![HistoryError { line: error.line, what: error.what.to_owned() }])
    }
}
