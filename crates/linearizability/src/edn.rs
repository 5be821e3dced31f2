//! Histories in the format of Jepsen: maps in Clojure's notation, one for each start and end of an
//! operation.

use std::collections::HashMap;
use std::fmt;

use crate::operation::{Access, Operation, Status};

/// A value in Clojure's notation.
#[derive(Debug, Clone, PartialEq)]
pub enum Edn {
    Nil,
    Number(i64),
    Text(String),
    /// Keyword without its colon, symbol, or a number that is no integer.
    Word(String),
    List(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
}

/// Text that is no history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdnError {
    /// Position in the text, bytes.
    pub at: usize,
    pub what: &'static str,
}

impl fmt::Display for EdnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for EdnError {}

impl Edn {
    /// Reads all values of a text.
    ///
    /// # Errors
    /// Text that does not follow the notation.
    pub fn read_all(text: &str) -> Result<Vec<Self>, EdnError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let mut values = Vec::new();
        reader.skip_blanks();
        while reader.at < reader.text.len() {
            values.push(reader.value(0)?);
            reader.skip_blanks();
        }
        Ok(values)
    }

    /// Returns the value of a keyword in a map.
    pub fn get(&self, keyword: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else { return None };
        pairs.iter().find(|(key, _)| matches!(key, Self::Word(word) if word == keyword)).map(|(_, value)| value)
    }

    /// Returns the word or text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Word(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Deepest nesting.
const DEPTH: usize = 64;

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b',' => self.at += 1,
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn error(&self, what: &'static str) -> EdnError {
        EdnError { at: self.at, what }
    }

    fn value(&mut self, depth: usize) -> Result<Edn, EdnError> {
        if depth > DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.skip_blanks();
        match self.text.get(self.at) {
            None => Err(self.error("a value is missing")),
            Some(b'[') => Ok(Edn::List(self.items(b']', depth)?)),
            Some(b'(') => Ok(Edn::List(self.items(b')', depth)?)),
            Some(b'{') => self.map(depth),
            Some(b'#') => self.tagged(depth),
            Some(b'"') => self.string(),
            Some(b'}' | b']' | b')') => Err(self.error("a bracket closes nothing")),
            Some(_) => Ok(self.word()),
        }
    }

    fn items(&mut self, close: u8, depth: usize) -> Result<Vec<Edn>, EdnError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            if self.text.get(self.at) == Some(&close) {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Edn, EdnError> {
        let mut items = self.items(b'}', depth)?.into_iter();
        let mut pairs = Vec::new();
        while let Some(key) = items.next() {
            let value = items.next().ok_or(self.error("a map ends with a key"))?;
            pairs.push((key, value));
        }
        Ok(Edn::Map(pairs))
    }

    /// Reads a set, or a value with a tag, whose tag is left out.
    fn tagged(&mut self, depth: usize) -> Result<Edn, EdnError> {
        self.at += 1;
        if self.text.get(self.at) == Some(&b'{') {
            return Ok(Edn::List(self.items(b'}', depth)?));
        }
        if self.text.get(self.at) != Some(&b'[') {
            self.word();
        }
        self.value(depth + 1)
    }

    fn string(&mut self) -> Result<Edn, EdnError> {
        let mut bytes = Vec::new();
        loop {
            self.at += 1;
            match self.text.get(self.at) {
                None => return Err(self.error("a string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    bytes.push(match self.text.get(self.at) {
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(b'r') => b'\r',
                        Some(&other) => other,
                        None => return Err(self.error("a string does not end")),
                    });
                }
                Some(&byte) => bytes.push(byte),
            }
        }
        self.at += 1;
        Ok(Edn::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn word(&mut self) -> Edn {
        let rest = &self.text[self.at..];
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",;()[]{}\"".contains(byte);
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        self.at += length;
        let word = String::from_utf8_lossy(&rest[..length]);
        match word.as_ref() {
            "nil" => Edn::Nil,
            word => word.parse().map_or_else(|_| Edn::Word(word.trim_start_matches(':').to_owned()), Edn::Number),
        }
    }
}

/// Numbers for values and keys that are no numbers.
#[derive(Debug, Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn number(&mut self, value: &Edn) -> Option<u64> {
        match value {
            Edn::Nil => None,
            // The number of a missing value is reserved.
            Edn::Number(number) => Some((*number as u64).min(u64::MAX - 1)),
            other => {
                let next = (1 << 63) + self.0.len() as u64;
                Some(*self.0.entry(format!("{other:?}")).or_insert(next))
            }
        }
    }
}

/// Reads a history of registers: the functions `read`, `write` and `cas`. A value that is a pair is
/// a key and a value, unless the function is `cas` and the pair is the old and the new value; a key
/// may also be in the field `key`.
///
/// The time of an event is its position, as Jepsen's checkers have it. As in these, a read of `nil`
/// tells nothing if `nil_is_unknown`, and operations that failed did not happen.
///
/// # Errors
/// Text that does not follow the notation, or an event without its fields.
pub fn operations_from_edn(text: &str, nil_is_unknown: bool) -> Result<Vec<Operation>, EdnError> {
    let mut events = Edn::read_all(text)?;
    if let [Edn::List(_)] = events.as_slice()
        && let Some(Edn::List(all)) = events.pop()
    {
        events = all;
    }
    let mut history = Import { names: Names::default(), open: HashMap::new(), operations: Vec::new(), nil_is_unknown };
    for (at, event) in events.iter().enumerate() {
        // Events of the nemesis are no operations.
        if let Some(Edn::Number(process)) = event.get("process") {
            history.add(*process, event, at as i64).ok_or(EdnError { at, what: "an event that is no operation" })?;
        }
    }
    Ok(history.operations)
}

struct Import {
    names: Names,
    /// Per process, the position of its open operation.
    open: HashMap<i64, usize>,
    operations: Vec<Operation>,
    nil_is_unknown: bool,
}

impl Import {
    fn add(&mut self, process: i64, event: &Edn, at: i64) -> Option<()> {
        let kind = event.get("type")?.as_str()?;
        if kind == "invoke" {
            self.open.insert(process, self.operations.len());
            let (key, access) = self.access(event)?;
            self.operations.push(Operation {
                process: process as u32,
                key,
                start_ns: at,
                end_ns: None,
                access,
                status: Status::Unknown,
                version: None,
            });
            return Some(());
        }
        let Some(place) = self.open.remove(&process) else { return Some(()) };
        let (_, access) = self.access(event)?;
        let operation = &mut self.operations[place];
        match kind {
            "ok" => {
                let tells = access != Access::Read { value: None } || !self.nil_is_unknown;
                (operation.end_ns, operation.access) = (Some(at), access);
                operation.status = if tells { Status::Applied } else { Status::Unknown };
            }
            "fail" => (operation.end_ns, operation.status) = (Some(at), Status::Failed),
            _ => {}
        }
        Some(())
    }

    fn access(&mut self, event: &Edn) -> Option<(u64, Access)> {
        let function = event.get("f")?.as_str()?;
        let value = event.get("value").unwrap_or(&Edn::Nil);
        let (key, value) = match (value, function) {
            (Edn::List(pair), "read" | "write") if pair.len() == 2 => (Some(&pair[0]), &pair[1]),
            (Edn::List(pair), "cas") if matches!(pair.get(1), Some(Edn::List(_))) => (pair.first(), &pair[1]),
            _ => (event.get("key"), value),
        };
        let key = key.and_then(|key| self.names.number(key)).unwrap_or(0);
        let access = match function {
            "read" => Access::Read { value: self.names.number(value) },
            "write" => match self.names.number(value) {
                Some(value) => Access::Write { value },
                None => Access::Delete,
            },
            "cas" => {
                let Edn::List(pair) = value else { return None };
                let [from, to] = pair.as_slice() else { return None };
                Access::CompareAndSet { from: self.names.number(from), to: self.names.number(to) }
            }
            _ => return None,
        };
        Some((key, access))
    }
}

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
/// Porcupine checks comparisons that found another value. Its register knows no deletes: returns
/// `None` if there are some.
pub fn operations_to_porcupine(operations: &[Operation]) -> Option<String> {
    if operations.iter().any(|operation| operation.access == Access::Delete) {
        return None;
    }
    let line = |event: LogEvent| {
        let operation = &operations[event.place];
        let (function, value) = function_and_value(operation, event.is_end);
        let kind = event_kind(operation, event.is_end);
        let value = match (kind, operation.access) {
            ("info", _) | ("fail", Access::Read { .. } | Access::Write { .. }) => ":timed-out".to_owned(),
            _ => value,
        };
        format!("INFO  jepsen.util - {}\t:{kind}\t:{function}\t{value}\n", event.process)
    };
    Some(log_events(operations).into_iter().map(line).collect())
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
    use crate::simulation::{PLANTS, Shape, correct_history, planted};

    #[test]
    fn a_history_of_jepsen_is_read() {
        let text = "; a comment\n[{:type :invoke, :process 1, :f :read, :value nil}\n\
                    {:type :invoke, :process 2, :f :cas, :value [1 2]} {:process :nemesis, :type :info, :f :start}\n\
                    {:type :ok, :process 1, :f :read, :value 3, :error [:x \"a\\\"b\"]}\n\
                    {:type :info :process 2 :f :cas :value [1 2]}]";
        let operations = operations_from_edn(text, true).unwrap();
        assert_eq!(operations.len(), 2);
        assert_eq!(operations[0].access, Access::Read { value: Some(3) });
        assert_eq!((operations[0].start_ns, operations[0].end_ns), (0, Some(3)));
        assert_eq!(operations[1].access, Access::CompareAndSet { from: Some(1), to: Some(2) });
        assert_eq!((operations[1].status, operations[1].end_ns), (Status::Unknown, None));
    }

    #[test]
    fn broken_text_is_refused() {
        for text in ["[", "{:process 1}", "]", "{:a}", "\"x", &"[".repeat(1_000)] {
            assert!(operations_from_edn(text, true).is_err(), "{text}");
        }
    }

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
            let read = operations_from_edn(&operations_to_edn(&history), false).unwrap();
            let verdicts = |operations: &[Operation]| {
                let mut verdicts: Vec<(u64, String)> = check(operations, Settings::default())
                    .into_iter()
                    .map(|key| (key.key, format!("{:?}", key.verdict).chars().take(9).collect()))
                    .collect();
                verdicts.sort();
                verdicts
            };
            assert_eq!(verdicts(&read), verdicts(&history), "seed {seed}");
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
}
