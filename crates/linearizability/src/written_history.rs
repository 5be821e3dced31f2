//! Histories of registers in the formats of other checkers: Jepsen's edn, Elle's registers, and the
//! logs that Porcupine's tests read.

use std::collections::HashMap;

use crate::operation::{Access, Operation, Status};

/// Writes a history for Jepsen's checkers, one event a line, in the order of time. Values of
/// events are pairs of key and value if there are several keys.
///
/// A process that got no answer is renamed for its next operation, as Jepsen does. A comparison
/// that found another value becomes a failed operation: these checkers know no other word for it.
pub fn operations_to_edn(operations: &[Operation]) -> String {
    let has_keys = operations.windows(2).any(|pair| pair[0].key != pair[1].key);
    let line = |event: LogEvent| {
        let operation = &operations[event.place];
        let (function, value) = function_and_value(operation, event.is_end);
        let value = if has_keys { format!("[{} {value}]", operation.key) } else { value };
        let time = if event.is_end { operation.end_ns } else { Some(operation.start_ns) };
        let time = time.map_or(String::new(), |time| format!(", :time {time}"));
        let kind = event_kind(operation, event.is_end);
        format!("{{:process {}, :type :{kind}, :f :{function}, :value {value}{time}}}\n", event.process)
    };
    log_events(operations).into_iter().map(line).collect()
}

/// Writes a history of one key in the format of the etcd logs that Porcupine's tests read.
/// Porcupine checks comparisons that found another value. In the format every failed comparison is
/// such a comparison. Operations that certainly had no effect are therefore left out, and so are
/// reads without an answer. Returns `None` for deletes and for comparisons with an absent key,
/// which the format does not have.
pub fn operations_to_porcupine(operations: &[Operation]) -> Option<String> {
    let has = |operation: &Operation| match operation.access {
        Access::Read { .. } | Access::Write { .. } => true,
        Access::CompareAndSet { from, to } => from.is_some() && to.is_some(),
        Access::Delete => false,
    };
    if !operations.iter().all(has) {
        return None;
    }
    let tells = |operation: &Operation| match operation.status {
        Status::Failed => false,
        Status::Unknown => !matches!(operation.access, Access::Read { .. }),
        Status::Applied | Status::Unequal => true,
    };
    let operations: Vec<Operation> = operations.iter().copied().filter(tells).collect();
    let line = |event: LogEvent| {
        let operation = &operations[event.place];
        let (function, value) = function_and_value(operation, event.is_end);
        let kind = event_kind(operation, event.is_end);
        let value = if kind == "info" { ":timed-out".to_owned() } else { value };
        format!("INFO  jepsen.util - {}\t:{kind}\t:{function}\t{value}\n", event.process)
    };
    Some(log_events(&operations).into_iter().map(line).collect())
}

/// Writes a history for Elle's checker of registers (`rw-register`): each operation is a
/// transaction of micro-operations on one key. A comparison that found another value becomes a
/// failed one. Elle needs values that are written once, and its registers know no deletes: returns
/// `None` if there are some.
pub fn operations_to_elle(operations: &[Operation]) -> Option<String> {
    if operations.iter().any(|operation| operation.access == Access::Delete) {
        return None;
    }
    let line = |(index, event): (usize, LogEvent)| {
        let operation = &operations[event.place];
        let is_known = event_kind(operation, event.is_end) == "ok";
        let key = operation.key;
        let text = |value: Option<u64>| value.filter(|_| is_known).map_or("nil".to_owned(), |value| value.to_string());
        let transaction = match operation.access {
            Access::Read { value } => format!("[:r {key} {}]", text(value)),
            Access::Write { value } => format!("[:w {key} {value}]"),
            Access::CompareAndSet { from, to } => {
                format!("[:r {key} {}] [:w {key} {}]", text(from), to.map_or("nil".to_owned(), |to| to.to_string()))
            }
            Access::Delete => String::new(),
        };
        let time = if event.is_end { operation.end_ns } else { Some(operation.start_ns) };
        let time = time.map_or(String::new(), |time| format!(", :time {time}"));
        let (process, kind) = (event.process, event_kind(operation, event.is_end));
        format!("{{:index {index}, :type :{kind}, :process {process}, :f :txn, :value [{transaction}]{time}}}\n")
    };
    Some(log_events(operations).into_iter().enumerate().map(line).collect())
}

/// Gives operations of a process that overlap to processes of their own, as other checkers need.
pub fn separate_processes(operations: &mut [Operation]) {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|&place| operations[place].start_ns);
    let mut next = operations.iter().map(|operation| operation.process + 1).max().unwrap_or_default();
    // Per process, its names and the ends of their last operations.
    let mut names: HashMap<u32, Vec<(u32, i64)>> = HashMap::new();
    for place in order {
        let operation = &mut operations[place];
        let known = names.entry(operation.process).or_insert_with(|| vec![(operation.process, i64::MIN)]);
        let free = known.iter().position(|(_, end)| *end < operation.start_ns).unwrap_or_else(|| {
            known.push((next, i64::MIN));
            next += 1;
            known.len() - 1
        });
        operation.process = known[free].0;
        known[free].1 = operation.end_ns.unwrap_or(operation.start_ns);
    }
}

/// Start or end of an operation.
struct LogEvent {
    place: usize,
    is_end: bool,
    process: u32,
}

/// Returns the events in the order of time. Starts come before ends of the same time: such
/// operations overlap.
fn log_events(operations: &[Operation]) -> Vec<LogEvent> {
    let mut times: Vec<(i64, bool, usize)> = Vec::with_capacity(operations.len() * 2);
    for (place, operation) in operations.iter().enumerate() {
        times.push((operation.start_ns, false, place));
        times.push((operation.end_ns.unwrap_or(i64::MAX), true, place));
    }
    times.sort_unstable();
    let mut next = operations.iter().map(|operation| operation.process + 1).max().unwrap_or_default();
    let mut renamed: HashMap<u32, u32> = HashMap::new();
    let mut names = vec![0; operations.len()];
    let event = |(_, is_end, place): (i64, bool, usize)| {
        let operation = &operations[place];
        if !is_end {
            names[place] = *renamed.get(&operation.process).unwrap_or(&operation.process);
            if event_kind(operation, true) == "info" {
                renamed.insert(operation.process, next);
                next += 1;
            }
        }
        LogEvent { place, is_end, process: names[place] }
    };
    times.into_iter().map(event).collect()
}

fn event_kind(operation: &Operation, is_end: bool) -> &'static str {
    match operation.status {
        _ if !is_end => "invoke",
        Status::Applied if operation.end_ns.is_some() => "ok",
        Status::Applied | Status::Unknown => "info",
        Status::Failed | Status::Unequal => "fail",
    }
}

fn function_and_value(operation: &Operation, is_end: bool) -> (&'static str, String) {
    let text = |value: Option<u64>| value.map_or("nil".to_owned(), |value| value.to_string());
    match operation.access {
        Access::Read { value } => ("read", text(value.filter(|_| is_end))),
        Access::Write { value } => ("write", value.to_string()),
        Access::Delete => ("write", "nil".to_owned()),
        Access::CompareAndSet { from, to } => ("cas", format!("[{} {}]", text(from), text(to))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{Settings, check};
    use crate::edn::Edn;
    use crate::foreign_history::ForeignSettings;
    use crate::jepsen::read_jepsen;
    use crate::key_history::Linearizability;
    use crate::simulation::{PLANTS, Shape, correct_history, planted};

    #[test]
    fn a_written_history_has_the_same_verdicts() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let shape = Shape { unknown: 0.1, ..Shape::PLAIN };
            let mut history = correct_history(shape, 4, &mut rng);
            history.extend(
                correct_history(shape, 5, &mut rng)
                    .into_iter()
                    .map(|operation| Operation { process: operation.process + shape.processes, ..operation }),
            );
            if rng.bool() {
                let plant = PLANTS[seed as usize % PLANTS.len()];
                let rename = |operation: Operation| Operation { process: operation.process + 100, ..operation };
                history.extend(planted(plant, 5, 1_000, 1_000).into_iter().map(rename));
            }
            let read = read_jepsen(&operations_to_edn(&history), false).unwrap();
            let read = read.objects.iter().map(|object| (object.key.clone(), object.check(ForeignSettings::default())));
            let written = check(&history, Settings::default()).into_iter();
            let written = written.map(|key| (Some(key.key.to_string()), key.verdict));
            let sorted = |verdicts: &mut dyn Iterator<Item = (Option<String>, Linearizability)>| {
                let mut kinds: Vec<_> =
                    verdicts.map(|(key, verdict)| (key, std::mem::discriminant(&verdict))).collect();
                kinds.sort_by(|one, other| one.0.cmp(&other.0));
                kinds
            };
            assert_eq!(sorted(&mut { read }), sorted(&mut { written }), "seed {seed}");
        }
    }

    #[test]
    fn elle_gets_transactions() {
        let at = |access, status, end_ns, process| Operation {
            process,
            key: 4,
            start_ns: 10,
            end_ns,
            access,
            status,
            version: None,
        };
        let cas = Access::CompareAndSet { from: Some(7), to: Some(8) };
        let mut history = vec![
            at(Access::Write { value: 7 }, Status::Applied, Some(20), 1),
            at(Access::Read { value: Some(7) }, Status::Applied, Some(30), 1),
            at(cas, Status::Unequal, Some(40), 2),
            at(cas, Status::Unknown, None, 3),
        ];
        separate_processes(&mut history);
        assert_eq!(history.iter().map(|operation| operation.process).collect::<Vec<_>>(), [1, 4, 2, 3]);
        let events = Edn::read_all(&operations_to_elle(&history).unwrap()).unwrap();
        let ends: Vec<String> = events[4..].iter().map(|event| format!("{:?}", event.get("value").unwrap())).collect();
        let kinds: Vec<_> = events[4..].iter().map(|event| event.get("type").and_then(Edn::as_str).unwrap()).collect();
        assert_eq!(kinds, ["ok", "ok", "fail", "info"]);
        assert_eq!(ends[1], "List([List([Word(\"r\"), Number(4), Number(7)])])");
        let unknown = "List([List([Word(\"r\"), Number(4), Nil]), List([Word(\"w\"), Number(4), Number(8)])])";
        assert_eq!(ends[2..], [unknown, unknown]);
        history.push(at(Access::Delete, Status::Applied, Some(50), 5));
        assert_eq!(operations_to_elle(&history), None);
    }

    #[test]
    fn porcupine_gets_its_own_format() {
        let history = planted(PLANTS[0], 0, 0, 7);
        let text = operations_to_porcupine(&history[1..]).unwrap();
        assert_eq!(
            text,
            "INFO  jepsen.util - 1\t:invoke\t:write\t8\nINFO  jepsen.util - 1\t:ok\t:write\t8\n\
             INFO  jepsen.util - 2\t:invoke\t:read\tnil\nINFO  jepsen.util - 2\t:ok\t:read\t7\n"
        );
    }

    #[test]
    fn porcupine_gets_no_operation_that_it_would_misread() {
        let cas = |from, status, end_ns| Operation {
            process: 1,
            key: 0,
            start_ns: 1,
            end_ns,
            access: Access::CompareAndSet { from, to: Some(2) },
            status,
            version: None,
        };
        let read = Operation { access: Access::Read { value: None }, ..cas(None, Status::Unknown, None) };
        let write = Operation { access: Access::Write { value: 3 }, ..cas(None, Status::Failed, Some(2)) };
        let history = [cas(Some(1), Status::Failed, Some(2)), read, write, cas(Some(1), Status::Unequal, Some(2))];
        assert_eq!(
            operations_to_porcupine(&history).unwrap(),
            "INFO  jepsen.util - 1\t:invoke\t:cas\t[1 2]\nINFO  jepsen.util - 1\t:fail\t:cas\t[1 2]\n"
        );
        assert_eq!(operations_to_porcupine(&[cas(None, Status::Applied, Some(2))]), None);
    }
}
