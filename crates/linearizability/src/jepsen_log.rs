//! Logs of Jepsen's test of etcd, as Porcupine's tests read them: a line for each start and end of
//! an operation on one register.

use std::collections::HashMap;

use crate::foreign_history::{
    ForeignHistory, ForeignObject, HistoryError, HistoryErrors, ObjectOperations, OperationLines, ValueNames,
};
use crate::operation::{Access, Operation, Status};

/// Precedes each event.
const MARK: &str = "jepsen.util - ";

/// Whether a text is such a log.
pub fn is_jepsen_log(text: &str) -> bool {
    text.lines().take(100).any(|line| line.contains(MARK))
}

/// Reads a log. Lines without an event are skipped. The time of an event is its line. A comparison
/// that failed found another value; a read that failed tells nothing.
///
/// # Errors
/// All events that are no start or end of a read, a write or a compare-and-set.
pub fn read_jepsen_log(text: &str) -> Result<ForeignHistory, HistoryErrors> {
    let mut log = JepsenLog::default();
    let mut errors = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if let Some((_, event)) = line.split_once(MARK)
            && let Err(what) = log.add(event, place + 1)
        {
            errors.push(HistoryError { line: place + 1, what });
        }
    }
    if log.operations.is_empty() && errors.is_empty() {
        errors.push(HistoryError { line: 1, what: format!("no event: expected lines such as {EXAMPLE}") });
    }
    if !errors.is_empty() {
        return Err(HistoryErrors(errors));
    }
    let operations = ObjectOperations::Register(log.operations);
    let register = ForeignObject { key: None, operations, lines: log.lines };
    Ok(ForeignHistory { objects: vec![register], names: ValueNames::default() })
}

const EXAMPLE: &str = "`INFO  jepsen.util - 0 :invoke :write 1`";

#[derive(Default)]
struct JepsenLog {
    /// Per process, the position of its open operation.
    open: HashMap<u32, usize>,
    operations: Vec<Operation>,
    lines: Vec<OperationLines>,
}

impl JepsenLog {
    fn add(&mut self, event: &str, line: usize) -> Result<(), String> {
        let fields: Vec<&str> = event.split_whitespace().collect();
        let [process, kind, function, value @ ..] = fields.as_slice() else {
            return Err(format!("no event: expected a line such as {EXAMPLE}"));
        };
        if process.starts_with(':') {
            // The nemesis.
            return Ok(());
        }
        let process = process.parse().map_err(|_| format!("the process `{process}` is no number"))?;
        match *kind {
            ":invoke" => {
                let access = access(function, value)?;
                self.open.insert(process, self.operations.len());
                let (start_ns, status) = (line as i64, Status::Unknown);
                self.operations.push(Operation {
                    process,
                    key: 0,
                    start_ns,
                    end_ns: None,
                    access,
                    status,
                    version: None,
                });
                self.lines.push(OperationLines { start: line, end: None });
                Ok(())
            }
            ":ok" | ":fail" => self.end(process, *kind == ":ok", (function, value), line),
            ":info" => {
                if let Some(place) = self.open.remove(&process) {
                    self.lines[place].end = Some(line);
                }
                Ok(())
            }
            other => Err(format!("the type `{other}` is none of :invoke, :ok, :fail and :info")),
        }
    }

    fn end(&mut self, process: u32, is_ok: bool, told: (&str, &[&str]), line: usize) -> Result<(), String> {
        let Some(place) = self.open.remove(&process) else {
            return Err(format!("process {process} ends an operation that it did not start"));
        };
        self.lines[place].end = Some(line);
        let operation = &mut self.operations[place];
        operation.end_ns = Some(line as i64);
        operation.status = match operation.access {
            _ if is_ok => Status::Applied,
            Access::CompareAndSet { .. } => Status::Unequal,
            _ => Status::Failed,
        };
        if let (true, Access::Read { .. }) = (is_ok, operation.access) {
            operation.access = access(told.0, told.1)?;
        }
        Ok(())
    }
}

fn access(function: &str, value: &[&str]) -> Result<Access, String> {
    let number = |text: &str| -> Result<Option<u64>, String> {
        match text.trim_matches(['[', ']']) {
            "nil" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| format!("the value `{text}` is neither a number nor nil")),
        }
    };
    match (function, value) {
        (":read", [value]) => Ok(Access::Read { value: number(value)? }),
        (":write", [value]) => Ok(number(value)?.map_or(Access::Delete, |value| Access::Write { value })),
        (":cas", [from, to]) => Ok(Access::CompareAndSet { from: number(from)?, to: number(to)? }),
        (":read" | ":write", _) => Err(format!("`{function}` needs one value")),
        (":cas", _) => Err("`:cas` needs two values, such as [1 2]".to_owned()),
        _ => Err(format!("the function `{function}` is none of :read, :write and :cas")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::InitialValue;
    use crate::foreign_history::ForeignSettings;
    use crate::key_history::Linearizability;
    use crate::simulation::proof_of;

    #[test]
    fn logs_are_read_and_checked() {
        let text = "INFO  jepsen.core - Running\nINFO  jepsen.util - 0\t:invoke\t:write\t1\n\
                    INFO  jepsen.util - :nemesis\t:info\t:start\tnil\nINFO  jepsen.util - 0\t:ok\t:write\t1\n\
                    INFO  jepsen.util - 1\t:invoke\t:cas\t[2 3]\nINFO  jepsen.util - 1\t:fail\t:cas\t[2 3]\n\
                    INFO  jepsen.util - 2\t:invoke\t:read\tnil\nINFO  jepsen.util - 2\t:fail\t:read\t:timed-out\n\
                    INFO  jepsen.util - 3\t:invoke\t:read\tnil\nINFO  jepsen.util - 3\t:ok\t:read\tnil\n";
        assert!(is_jepsen_log(text));
        let history = read_jepsen_log(text).unwrap();
        let [register] = history.objects.as_slice() else { panic!("{:?}", history.objects) };
        assert_eq!(register.lines[3], OperationLines { start: 9, end: Some(10) });
        let settings = ForeignSettings { initial: InitialValue::Absent, ..ForeignSettings::default() };
        assert_eq!(proof_of(register.check(settings)).1, [0, 3]);
        let current = read_jepsen_log(&text.replace("3\t:ok\t:read\tnil", "3\t:ok\t:read\t1")).unwrap();
        assert_eq!(current.objects[0].check(settings), Linearizability::Linearizable);
    }

    #[test]
    fn every_broken_line_is_named() {
        let text = "jepsen.util - x :invoke :read nil\njepsen.util - 1 :ok :read 1\njepsen.util - 1 :invoke :push 1\n\
                    jepsen.util - 1 :invoke :cas 1\njepsen.util - 1 :invoke :write a\njepsen.util - 1 :end :write 1\n";
        assert_eq!(
            read_jepsen_log(text).unwrap_err().to_string(),
            "line 1: the process `x` is no number\nline 2: process 1 ends an operation that it did not start\n\
             line 3: the function `:push` is none of :read, :write and :cas\nline 4: `:cas` needs two values, such as [1 2]\n\
             line 5: the value `a` is neither a number nor nil\n\
             line 6: the type `:end` is none of :invoke, :ok, :fail and :info"
        );
        let empty = read_jepsen_log("jepsen.util").unwrap_err().to_string();
        assert_eq!(empty, "line 1: no event: expected lines such as `INFO  jepsen.util - 0 :invoke :write 1`");
    }
}
