//! Histories in the format of Jepsen: maps in edn, one for each start and end of an operation.

use std::collections::HashMap;

use crate::edn::Edn;
use crate::foreign_history::{
    ForeignHistory, ForeignObject, HistoryError, HistoryErrors, ObjectOperations, OperationLines, ValueNames,
};
use crate::operation::{Access, Operation, Status};
use crate::queue::{QueueAccess, QueueOperation};
use crate::set::{SetAccess, SetOperation};

#[cfg(test)]
mod tests;

/// Reads a history of registers (the functions `read`, `write` and `cas`), of sets (`add`,
/// `remove`, `contains` and `read`) or of queues (`enqueue`, `dequeue` and `drain`). Values are
/// pairs of a key and a value if there are several registers, sets or queues; a key may also be in
/// the field `key`.
///
/// The time of an event is its position, as Jepsen's checkers have it. As in these, a register's
/// read of `nil` tells nothing if `nil_is_unknown`, and operations that failed did not happen.
///
/// # Errors
/// Text that is no edn, and all events that are no start or end of such an operation.
pub fn read_jepsen(text: &str, nil_is_unknown: bool) -> Result<ForeignHistory, HistoryErrors> {
    let events = Edn::read_lines(text)?;
    let mut errors = Vec::new();
    let calls = pair_events(&events, &mut errors);
    let Some(kind) = kind_of(&calls).filter(|_| !calls.is_empty()) else {
        errors.push(HistoryError { line: 1, what: format!("no operation of a client: expected {EVENT}") });
        return Err(HistoryErrors(errors));
    };
    let is_pair = |call: &JepsenCall<'_>| matches!(call.asked, Edn::List(pair) if pair.len() == 2);
    let mut put_values = calls.iter().filter(|call| matches!(call.function, "add" | "enqueue")).peekable();
    let is_keyed = put_values.peek().is_some() && put_values.all(is_pair);
    let mut import = JepsenImport { kind, is_keyed, nil_is_unknown, ..JepsenImport::default() };
    for call in &calls {
        if let Err(what) = import.add(call) {
            errors.push(HistoryError { line: call.told_at(), what });
        }
    }
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.line);
        return Err(HistoryErrors(errors));
    }
    Ok(ForeignHistory { objects: import.objects, names: import.names })
}

const EVENT: &str = "maps such as {:process 0, :type :invoke, :f :write, :value 1}";

/// An operation: its start, and its end if there is one.
struct JepsenCall<'e> {
    process: i64,
    function: &'e str,
    key: Option<&'e Edn>,
    asked: &'e Edn,
    answer: &'e Edn,
    status: Status,
    /// Positions of the events.
    start: i64,
    end: Option<i64>,
    lines: OperationLines,
}

impl JepsenCall<'_> {
    /// Returns the line with the answer.
    fn told_at(&self) -> usize {
        self.lines.end.unwrap_or(self.lines.start)
    }
}

/// Pairs the starts and the ends of operations.
fn pair_events<'e>(events: &'e [(usize, Edn)], errors: &mut Vec<HistoryError>) -> Vec<JepsenCall<'e>> {
    let mut open: HashMap<i64, usize> = HashMap::new();
    let mut calls: Vec<JepsenCall<'e>> = Vec::new();
    for (at, (line, event)) in events.iter().enumerate() {
        let mut refuse = |what: String| errors.push(HistoryError { line: *line, what });
        let word = |name: &str| event.get(name).and_then(Edn::as_str);
        let value = event.get("value").unwrap_or(&Edn::Nil);
        let process = match event.get("process") {
            Some(Edn::Number(process)) => *process,
            // Events of the nemesis are no operations.
            Some(_) => continue,
            None => {
                refuse(format!("no event of a process: expected {EVENT}"));
                continue;
            }
        };
        match word("type") {
            Some("invoke") => {
                let Some(function) = word("f") else {
                    refuse("the event has no function :f, such as :f :read".to_owned());
                    continue;
                };
                open.insert(process, calls.len());
                calls.push(JepsenCall {
                    process,
                    function,
                    key: event.get("key"),
                    asked: value,
                    answer: &Edn::Nil,
                    status: Status::Unknown,
                    start: at as i64,
                    end: None,
                    lines: OperationLines { start: *line, end: None },
                });
            }
            Some(kind @ ("ok" | "fail" | "info")) => match open.remove(&process).and_then(|place| calls.get_mut(place))
            {
                Some(call) => call.end_as(kind, at as i64, *line, value),
                None if kind == "info" => {}
                None => refuse(format!("process {process} ends an operation that it did not start")),
            },
            Some(other) => refuse(format!("the type :{other} is none of :invoke, :ok, :fail and :info")),
            None => refuse("the event has no :type, such as :type :invoke".to_owned()),
        }
    }
    calls
}

impl<'e> JepsenCall<'e> {
    fn end_as(&mut self, kind: &str, at: i64, line: usize, value: &'e Edn) {
        self.lines.end = Some(line);
        match kind {
            "ok" => (self.status, self.end, self.answer) = (Status::Applied, Some(at), value),
            "fail" => (self.status, self.end) = (Status::Failed, Some(at)),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ObjectKind {
    #[default]
    Register,
    Set,
    Queue,
}

/// Returns the kind of the objects of a history, or `None` without operations.
fn kind_of(calls: &[JepsenCall<'_>]) -> Option<ObjectKind> {
    let kind = |call: &JepsenCall<'_>| match call.function {
        "add" | "remove" | "contains" => Some(ObjectKind::Set),
        "enqueue" | "dequeue" | "drain" => Some(ObjectKind::Queue),
        "write" | "cas" => Some(ObjectKind::Register),
        _ => None,
    };
    let first = calls.first().map(|_| ObjectKind::Register);
    calls.iter().find_map(kind).or(first)
}

#[derive(Default)]
struct JepsenImport {
    kind: ObjectKind,
    /// Whether the values of sets and queues are pairs of key and value.
    is_keyed: bool,
    nil_is_unknown: bool,
    names: ValueNames,
    places: HashMap<Option<String>, usize>,
    objects: Vec<ForeignObject>,
}

impl JepsenImport {
    fn add(&mut self, call: &JepsenCall<'_>) -> Result<(), String> {
        match self.kind {
            ObjectKind::Register => self.add_to_register(call),
            ObjectKind::Set => self.add_to_set(call),
            ObjectKind::Queue => self.add_to_queue(call),
        }
    }

    /// Returns the object of a key, and its place.
    fn object(&mut self, key: Option<&Edn>, call: &JepsenCall<'_>) -> (&mut ForeignObject, u64) {
        let key = key.or(call.key).map(Edn::to_string);
        let next = self.objects.len();
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            let operations = match self.kind {
                ObjectKind::Register => ObjectOperations::Register(Vec::new()),
                ObjectKind::Set => ObjectOperations::Set(Vec::new()),
                ObjectKind::Queue => ObjectOperations::Queue(Vec::new()),
            };
            self.objects.push(ForeignObject { key, operations, lines: Vec::new() });
        }
        (&mut self.objects[place], place as u64)
    }

    fn add_to_register(&mut self, call: &JepsenCall<'_>) -> Result<(), String> {
        let (key, asked) = register_value(call.asked, call.function);
        let mut status = call.status;
        let access = match call.function {
            "read" => {
                let value = self.names.number(register_value(call.answer, call.function).1);
                if value.is_none() && self.nil_is_unknown && status == Status::Applied {
                    status = Status::Unknown;
                }
                Access::Read { value }
            }
            "write" => self.names.number(asked).map_or(Access::Delete, |value| Access::Write { value }),
            "cas" => match asked {
                Edn::List(pair) if pair.len() == 2 => {
                    Access::CompareAndSet { from: self.names.number(&pair[0]), to: self.names.number(&pair[1]) }
                }
                _ => return Err("the value of `cas` is no pair of the old and the new value, such as [1 2]".to_owned()),
            },
            other => return Err(unknown_function(other, "read, write and cas", "a register")),
        };
        let (object, key) = self.object(key, call);
        let (process, start_ns, end_ns) = (call.process as u32, call.start, call.end);
        object.lines.push(call.lines);
        if let ObjectOperations::Register(operations) = &mut object.operations {
            operations.push(Operation { process, key, start_ns, end_ns, access, status, version: None });
        }
        Ok(())
    }

    /// Splits a value into key and value, if the history has keys.
    fn split<'e>(&self, value: &'e Edn) -> Result<(Option<&'e Edn>, &'e Edn), String> {
        match value {
            Edn::List(pair) if self.is_keyed && pair.len() == 2 => Ok((pair.first(), &pair[1])),
            Edn::Nil => Ok((None, value)),
            _ if self.is_keyed => Err(format!("the value {value} is no pair of key and value, unlike others")),
            _ => Ok((None, value)),
        }
    }

    /// Returns the key of a call, its value, and the value of its answer.
    fn key_and_values<'e>(&self, call: &JepsenCall<'e>) -> Result<(Option<&'e Edn>, &'e Edn, &'e Edn), String> {
        let (asked_key, asked) = self.split(call.asked)?;
        let (key, answer) = self.split(call.answer)?;
        match asked_key.or(key).or(call.key) {
            None if self.is_keyed => Err("the operation has no key, unlike others".to_owned()),
            key => Ok((key, asked, answer)),
        }
    }

    fn one(&mut self, value: &Edn, function: &str) -> Result<u64, String> {
        self.names.number(value).ok_or_else(|| format!("`{function}` has no value"))
    }

    /// Returns the values of an answer that is a list.
    fn many(&mut self, answer: &Edn, function: &str) -> Result<Vec<u64>, String> {
        let refuse = || format!("the value {answer} of `{function}` is no list of values, such as #{{1 2}}");
        let Edn::List(items) = answer else { return Err(refuse()) };
        items.iter().map(|item| self.names.number(item).ok_or_else(refuse)).collect()
    }

    fn add_to_set(&mut self, call: &JepsenCall<'_>) -> Result<(), String> {
        let (key, asked, answer) = self.key_and_values(call)?;
        let mut status = call.status;
        let access = match call.function {
            "add" => SetAccess::Add { element: self.one(asked, "add")? },
            "remove" => SetAccess::Remove { element: self.one(asked, "remove")? },
            "contains" => {
                let is_present = match (status, answer) {
                    (Status::Applied, Edn::List(pair)) => pair.get(1).and_then(Edn::as_str) == Some("true"),
                    (Status::Applied, _) => {
                        return Err("the answer of `contains` is no pair such as [1 true]".to_owned());
                    }
                    _ => false,
                };
                let asked = if let (Status::Applied, Edn::List(pair)) = (status, answer) { &pair[0] } else { asked };
                SetAccess::Find { element: self.one(asked, "contains")?, is_present }
            }
            "read" if status == Status::Applied && *answer != Edn::Nil => {
                SetAccess::Read { elements: self.many(answer, "read")? }
            }
            "read" => {
                // A read of nil tells nothing.
                status = if status == Status::Applied { Status::Unknown } else { status };
                SetAccess::Read { elements: Vec::new() }
            }
            other => return Err(unknown_function(other, "add, remove, contains and read", "a set")),
        };
        let (object, _) = self.object(key, call);
        object.lines.push(call.lines);
        if let ObjectOperations::Set(operations) = &mut object.operations {
            operations.push(SetOperation { start_ns: call.start, end_ns: call.end, access, status });
        }
        Ok(())
    }

    fn add_to_queue(&mut self, call: &JepsenCall<'_>) -> Result<(), String> {
        let (key, asked, answer) = self.key_and_values(call)?;
        let mut accesses = Vec::new();
        match call.function {
            "enqueue" => accesses.push(QueueAccess::Enqueue { value: self.one(asked, "enqueue")? }),
            "dequeue" => accesses.push(QueueAccess::Dequeue { value: self.names.number(answer) }),
            "drain" if call.status == Status::Applied => {
                let taken = self.many(answer, "drain")?;
                accesses.extend(taken.into_iter().map(|value| QueueAccess::Dequeue { value: Some(value) }));
                accesses.push(QueueAccess::Dequeue { value: None });
            }
            "drain" if call.status == Status::Failed => {}
            "drain" => return Err("a `drain` without an answer may have taken any number of values".to_owned()),
            other => return Err(unknown_function(other, "enqueue, dequeue and drain", "a queue")),
        }
        let (object, _) = self.object(key, call);
        if let ObjectOperations::Queue(operations) = &mut object.operations {
            for access in accesses {
                operations.push(QueueOperation { start_ns: call.start, end_ns: call.end, access, status: call.status });
                object.lines.push(call.lines);
            }
        }
        Ok(())
    }
}

/// Splits the value of a register's operation into key and value.
fn register_value<'e>(value: &'e Edn, function: &str) -> (Option<&'e Edn>, &'e Edn) {
    match (value, function) {
        (Edn::List(pair), "read" | "write") if pair.len() == 2 => (pair.first(), &pair[1]),
        (Edn::List(pair), "cas") if matches!(pair.get(1), Some(Edn::List(_))) => (pair.first(), &pair[1]),
        _ => (None, value),
    }
}

fn unknown_function(function: &str, known: &str, object: &str) -> String {
    format!("the function `{function}` is none of {known}: other operations of the history are those of {object}")
}
