//! Checks histories of other tools' test suites, and prints the verdict and the time beside the
//! verdict that the suite expects.
//!
//! ```text
//! cargo run --release -p plimsoll-linearizability --example corpora -- PATH...
//! ```
//!
//! A path is a file or a folder. Known are the test data of Porcupine (etcd registers as text,
//! whose expected verdicts are in its `porcupine_test.go`; and key-value stores) and the register
//! histories of Knossos (edn, in the folders `good` and `bad`).
#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use linearizability::{
    CallInterval, Edn, Extent, FinalState, InitialValue, Linearizability, Operation, Outlook, Searched,
    SequentialModel, Settings, check, read_jepsen, read_jepsen_log, search,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        walk(Path::new(&path), &mut files)?;
    }
    files.sort();
    let (mut same, mut total) = (0, 0);
    for file in &files {
        if let Some(Judged { expected, found, time_us, proof_us }) = judge(file)? {
            let is_same = found == if expected { "ok" } else { "violation" };
            total += 1;
            same += u32::from(is_same);
            let expected = if expected { "ok" } else { "violation" };
            let mark = if is_same { "" } else { "  DIFFERS" };
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            println!(
                "{name:<32} expected {expected:<10} found {found:<10} {time_us:>10.1} us {proof_us:>10.1} us{mark}"
            );
        }
    }
    println!("{same} of {total} as expected");
    Ok(())
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), files)?;
        }
    } else {
        files.push(path.to_owned());
    }
    Ok(())
}

struct Judged {
    expected: bool,
    found: &'static str,
    /// Time of a check, and of a check that also looks for a brief proof.
    time_us: f64,
    proof_us: f64,
}

/// Checks a file. Returns `None` if its format is not known.
fn judge(file: &Path) -> Result<Option<Judged>, Box<dyn Error>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = || fs::read_to_string(file).map(|text| text.replace('\r', ""));
    let folder = |wanted: &str| file.components().any(|part| part.as_os_str() == wanted);
    if name.starts_with("etcd_") && name.ends_with(".log") {
        let Some(expected) = expected_of_etcd(file)? else { return Ok(None) };
        let operations = read_jepsen_log(&text()?)?.registers();
        return Ok(Some(with_times(expected, |is_brief| {
            register_verdict(&operations, InitialValue::Absent, is_brief)
        })));
    }
    if name.ends_with("-ok.txt") || name.ends_with("-bad.txt") {
        let keys = key_value_operations(&text()?)?;
        return Ok(Some(with_times(name.ends_with("-ok.txt"), |_| key_value_verdict(&keys))));
    }
    if name.ends_with(".edn") && folder("cas-register") {
        let operations = read_jepsen(&text()?, true)?.registers();
        return Ok(Some(with_times(folder("good"), |is_brief| {
            register_verdict(&operations, InitialValue::Value(0), is_brief)
        })));
    }
    Ok(None)
}

/// Checks with and without brief proofs.
fn with_times(expected: bool, check: impl Fn(bool) -> &'static str) -> Judged {
    let (_, proof_us) = least_time(|| check(true));
    let (found, time_us) = least_time(|| check(false));
    Judged { expected, found, time_us, proof_us }
}

/// Returns the verdict, and the least time of several checks, microseconds.
fn least_time(check: impl Fn() -> &'static str) -> (&'static str, f64) {
    let begin = Instant::now();
    let mut least = f64::INFINITY;
    let mut found = "";
    let mut rounds = 0;
    while rounds < 5 || (begin.elapsed().as_millis() < 50 && rounds < 1_000) {
        let start = Instant::now();
        found = check();
        least = least.min(start.elapsed().as_secs_f64() * 1e6);
        rounds += 1;
    }
    (found, least)
}

fn register_verdict(operations: &[Operation], initial: InitialValue, brief_proofs: bool) -> &'static str {
    let verdicts = check(operations, Settings { initial, brief_proofs, ..Settings::default() });
    let is_bad = |verdict: &Linearizability| matches!(verdict, Linearizability::Violation(_));
    if verdicts.iter().any(|key| is_bad(&key.verdict)) {
        "violation"
    } else if verdicts.iter().all(|key| key.verdict == Linearizability::Linearizable) {
        "ok"
    } else {
        "unknown"
    }
}

/// Reads the expected verdict from Porcupine's tests.
fn expected_of_etcd(file: &Path) -> Result<Option<bool>, Box<dyn Error>> {
    let digits: String =
        file.to_string_lossy().chars().rev().skip(4).take(3).collect::<Vec<_>>().into_iter().rev().collect();
    let number: u32 = digits.parse()?;
    let Some(root) = file.ancestors().nth(3) else { return Ok(None) };
    let tests = fs::read_to_string(root.join("porcupine_test.go"))?;
    let call = format!("checkJepsen(t, {number}, ");
    Ok(tests.split(&call).nth(1).map(|rest| rest.starts_with("true")))
}

/// Operations of a store whose values are texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TextAct {
    Get(String),
    Put(String),
    Append(String),
}

type TextHistory = Vec<(CallInterval, TextAct)>;

fn key_value_operations(text: &str) -> Result<Vec<TextHistory>, Box<dyn Error>> {
    let mut keys: BTreeMap<String, TextHistory> = BTreeMap::new();
    let mut open: HashMap<i64, (String, usize)> = HashMap::new();
    for (at, event) in Edn::read_all(text)?.iter().enumerate() {
        let field = |name: &str| event.get(name).and_then(Edn::as_str).unwrap_or_default().to_owned();
        let Some(Edn::Number(process)) = event.get("process") else { continue };
        let (key, value, at) = (field("key"), field("value"), at as i64);
        if field("type") == "invoke" {
            let act = match field("f").as_str() {
                "get" => TextAct::Get(String::new()),
                "put" => TextAct::Put(value),
                _ => TextAct::Append(value),
            };
            let history = keys.entry(key.clone()).or_default();
            open.insert(*process, (key, history.len()));
            history.push((CallInterval { start_ns: at, end_ns: None }, act));
        } else if let Some((key, place)) = open.remove(process)
            && let Some((interval, act)) = keys.get_mut(&key).and_then(|history| history.get_mut(place))
        {
            interval.end_ns = Some(at);
            if let TextAct::Get(got) = act {
                *got = value;
            }
        }
    }
    Ok(keys.into_values().collect())
}

fn key_value_verdict(keys: &[TextHistory]) -> &'static str {
    let mut found = "ok";
    for history in keys {
        let intervals: Vec<CallInterval> = history.iter().map(|(interval, _)| *interval).collect();
        let mut model = TextStore::new(history);
        let from = [FinalState { state: model.number(""), used: Vec::new() }];
        match search(&mut model, &intervals, &from, Extent { limit: 10_000_000, all: false }) {
            Searched::Possible(_) => {}
            Searched::Impossible => return "violation",
            Searched::Unfinished => found = "unknown",
        }
    }
    found
}

/// A text that is put and grows. States are numbers of texts that reads returned, and of beginnings
/// of these. All other texts are one state: no read tells them apart.
struct TextStore<'h> {
    history: &'h [(CallInterval, TextAct)],
    /// Per call: the text that it needs, for a read.
    needs: Vec<Option<u32>>,
    /// Per call: the puts that a read's text may begin with.
    puts: Vec<Vec<usize>>,
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
    steps: HashMap<(u32, u32), u32>,
}

/// State of all texts that no read returned.
const UNREAD: u32 = 0;

impl<'h> TextStore<'h> {
    fn new(history: &'h [(CallInterval, TextAct)]) -> Self {
        let begins = |text: &str| {
            let is_begin = |act: &TextAct| matches!(act, TextAct::Put(put) if text.starts_with(put.as_str()));
            history.iter().enumerate().filter(|(_, (_, act))| is_begin(act)).map(|(call, _)| call).collect()
        };
        let puts = history.iter().map(|(_, act)| if let TextAct::Get(text) = act { begins(text) } else { Vec::new() });
        let mut store = Self {
            history,
            needs: Vec::new(),
            puts: puts.collect(),
            texts: vec![String::new()],
            numbers: HashMap::new(),
            steps: HashMap::new(),
        };
        let needs =
            history.iter().map(|(_, act)| if let TextAct::Get(text) = act { Some(store.add(text)) } else { None });
        store.needs = needs.collect();
        store
    }

    fn add(&mut self, text: &str) -> u32 {
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(text.to_owned()).or_insert(next);
        if number == next {
            self.texts.push(text.to_owned());
        }
        number
    }

    fn number(&mut self, text: &str) -> u32 {
        let is_read = |(_, act): &(CallInterval, TextAct)| matches!(act, TextAct::Get(read) if read.starts_with(text));
        if self.history.iter().any(is_read) { self.add(text) } else { UNREAD }
    }
}

impl SequentialModel for TextStore<'_> {
    fn step(&mut self, state: u32, call: usize) -> Option<u32> {
        if let Some(needed) = self.needs[call] {
            return (needed == state).then_some(state);
        }
        if let Some(&after) = self.steps.get(&(state, call as u32)) {
            return Some(after);
        }
        let after = match &self.history[call].1 {
            TextAct::Append(_) if state == UNREAD => UNREAD,
            TextAct::Append(more) => self.number(&format!("{}{more}", self.texts[state as usize])),
            TextAct::Get(text) | TextAct::Put(text) => self.number(text),
        };
        self.steps.insert((state, call as u32), after);
        Some(after)
    }

    fn observes(&self, call: usize) -> bool {
        matches!(self.history[call].1, TextAct::Get(_))
    }

    fn depends(&self, call: usize) -> bool {
        !matches!(self.history[call].1, TextAct::Put(_))
    }

    fn outlook(&self, state: u32, call: usize) -> Outlook {
        let Some(needed) = self.needs[call] else { return Outlook::Open };
        let text = |state: u32| &self.texts[state as usize];
        match self.puts[call].as_slice() {
            _ if state != UNREAD && text(needed).starts_with(text(state)) => Outlook::Open,
            [] => Outlook::Never,
            [put] => Outlook::After(*put),
            _ => Outlook::Open,
        }
    }
}
