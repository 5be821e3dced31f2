//! Scripts: Luau functions that compute values and check texts, for cases beyond templates. Each
//! thread that calls a script has a separate interpreter state, created at the first call.
//!
//! A value may be written twice instead of being stored, so a function must return the same result
//! for the same argument. The random numbers of a function derive from the operation's random
//! number. The first calls of each function are made twice to check that the results are equal.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use mlua::{ChunkMode, Lua, LuaOptions, StdLib, Table, Value, VmState};
use rustix::time::{ClockId, clock_gettime};

use super::ValueSource;
use crate::error::Error;
use crate::input_files::InputFiles;

/// Time limit of a call.
const CALL: Duration = Duration::from_millis(100);
/// Time limit of running the script file, which defines the functions.
const LOAD: Duration = Duration::from_secs(1);
/// Memory limit of a thread's state, bytes.
const MEMORY: usize = 64 * 1024 * 1024;
/// Number of calls, for each function and thread, that are made twice.
const TWICE: u32 = 16;
/// Functions that reach outside the script or whose results are not determined by the seed.
const BANNED: &[&str] =
    &["collectgarbage", "gcinfo", "getfenv", "loadstring", "newproxy", "print", "require", "setfenv"];

/// A script that has been read before the load.
#[derive(Debug, PartialEq)]
pub struct Program {
    name: String,
    text: Vec<u8>,
    slots: Vec<String>,
    /// Names of the script's functions, in alphabetical order.
    functions: Vec<String>,
}

/// A function of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    program: Arc<Program>,
    number: usize,
}

impl Program {
    /// Reads a script file and runs it once to find the functions that it defines.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or the script fails, with the line.
    pub fn read(file: &str, files: &InputFiles, slots: &[String]) -> Result<Arc<Self>, Error> {
        let path = files.path(file);
        let wrong = |reason: String| Error::Script { script: file.to_owned(), reason };
        let text = std::fs::read(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        let mut program = Self { name: file.to_owned(), text, slots: slots.to_vec(), functions: Vec::new() };
        program.functions = defined(&program).map_err(|error| wrong(reason(&error)))?;
        Ok(Arc::new(program))
    }

    /// Returns the script's file, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the function with this name.
    pub fn function(program: &Arc<Self>, name: &str) -> Result<Function, String> {
        let number = program.functions.iter().position(|known| known == name);
        let number = number.ok_or_else(|| {
            let known = if program.functions.is_empty() { "none".to_owned() } else { program.functions.join(", ") };
            format!("{} has no function `{name}`; it has {known}", program.name)
        })?;
        Ok(Function { program: Arc::clone(program), number })
    }
}

/// Returns the names of the functions that the script defines.
fn defined(program: &Program) -> mlua::Result<Vec<String>> {
    let limits = ScriptLimits::default();
    let lua = open(program, &limits)?;
    let mut names = Vec::new();
    for pair in lua.globals().pairs::<String, Value>() {
        let (name, value) = pair?;
        if value.is_function() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the first line of an error message. The other lines are the call stack.
fn reason(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => reason(cause),
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => first_line(message),
        other => first_line(&other.to_string()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Time limit and random numbers of a running script.
#[derive(Clone)]
struct ScriptLimits {
    bound: Rc<Cell<TimeBound>>,
    random: Rc<RefCell<Rng>>,
}

/// Limit on the running time. The first limit is wall-clock time, which is cheap to read. After
/// that, the script may use the same amount of CPU time, so that a busy machine does not end a
/// load.
#[derive(Clone, Copy)]
struct TimeBound {
    time: Duration,
    looks_at: Instant,
    ends_at: Option<Duration>,
}

impl TimeBound {
    fn new(time: Duration) -> Self {
        Self { time, looks_at: Instant::now() + time, ends_at: None }
    }

    fn is_over(&mut self) -> bool {
        if Instant::now() < self.looks_at {
            return false;
        }
        let spent = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or(Duration::MAX);
        spent >= *self.ends_at.get_or_insert(spent.saturating_add(self.time))
    }
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self { bound: Rc::new(Cell::new(TimeBound::new(LOAD))), random: Rc::new(RefCell::new(Rng::with_seed(0))) }
    }
}

/// Makes an interpreter state and runs the script in it.
fn open(program: &Program, limits: &ScriptLimits) -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::UTF8 | StdLib::BIT | StdLib::MATH | StdLib::BUFFER;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY)?;
    let cell = Rc::clone(&limits.bound);
    lua.set_interrupt(move |_| {
        let mut bound = cell.get();
        let is_over = bound.is_over();
        cell.set(bound);
        if is_over { Err(mlua::Error::runtime("it takes too long")) } else { Ok(VmState::Continue) }
    });
    let globals = lua.globals();
    for name in BANNED {
        globals.raw_set(*name, Value::Nil)?;
    }
    let random = random(&lua, &limits.random)?;
    let math: Table = globals.raw_get("math")?;
    math.raw_set("random", random)?;
    math.raw_set("randomseed", Value::Nil)?;
    lua.sandbox(true)?;
    // Bytecode is not accepted, because it is not validated.
    let chunk = lua.load(program.text.as_slice()).set_mode(ChunkMode::Text);
    chunk.set_name(format!("@{}", program.name)).exec()?;
    Ok(lua)
}

/// Returns `math.random` as in Lua, but with the operation's random number as its seed.
fn random(lua: &Lua, random: &Rc<RefCell<Rng>>) -> mlua::Result<mlua::Function> {
    let random = Rc::clone(random);
    lua.create_function(move |_, (from, to): (Option<i64>, Option<i64>)| {
        let mut random = random.borrow_mut();
        let (from, to) = match (from, to) {
            (None, _) => return Ok(random.f64()),
            (Some(to), None) => (1, to),
            (Some(from), Some(to)) => (from, to),
        };
        if from > to {
            return Err(mlua::Error::runtime("random: the range is empty"));
        }
        Ok(random.i64(from..=to) as f64)
    })
}

/// The interpreter state of a thread.
struct ScriptState {
    program: Arc<Program>,
    limits: ScriptLimits,
    /// Functions in the program's order, each with its number of calls, up to [`TWICE`].
    functions: Vec<(mlua::Function, u32)>,
    /// Table with facts about the operation, passed to the functions.
    told: Table,
    kept: Table,
    slots: Vec<mlua::String>,
    lua: Lua,
}

impl ScriptState {
    fn new(program: &Arc<Program>) -> mlua::Result<Self> {
        let limits = ScriptLimits::default();
        let lua = open(program, &limits)?;
        let globals = lua.globals();
        let function = |name: &String| -> mlua::Result<(mlua::Function, u32)> { Ok((globals.get(name.as_str())?, 0)) };
        let functions = program.functions.iter().map(function).collect::<mlua::Result<_>>()?;
        let slots = program.slots.iter().map(|slot| lua.create_string(slot)).collect::<mlua::Result<_>>()?;
        let (told, kept) = (lua.create_table()?, lua.create_table()?);
        told.raw_set("kept", &kept)?;
        told.raw_set("random", random(&lua, &limits.random)?)?;
        Ok(Self { program: Arc::clone(program), limits, functions, told, kept, slots, lua })
    }

    /// Fills the table with facts about the operation.
    fn tell(&self, source: &ValueSource<'_>) -> mlua::Result<()> {
        self.told.set_readonly(false);
        self.kept.set_readonly(false);
        self.told.raw_set("agent", source.agent)?;
        self.told.raw_set("seq", source.seq)?;
        for (number, name) in self.slots.iter().enumerate() {
            let is_kept = source.kept >> number & 1 == 1;
            let kept = source.slots.get(number).filter(|_| is_kept);
            match kept {
                Some(kept) => self.kept.raw_set(name, self.lua.create_string(kept)?)?,
                None => self.kept.raw_set(name, Value::Nil)?,
            }
        }
        self.told.set_readonly(true);
        self.kept.set_readonly(true);
        Ok(())
    }

    /// Calls a function with or without a text. The first calls are made twice.
    fn call(
        &mut self,
        number: usize,
        source: &ValueSource<'_>,
        seed: u64,
        text: Option<&[u8]>,
    ) -> Result<Value, String> {
        self.tell(source).map_err(|error| reason(&error))?;
        let first = self.once(number, seed, text)?;
        let (_, calls) = &mut self.functions[number];
        if *calls == TWICE {
            return Ok(first);
        }
        *calls += 1;
        let again = self.once(number, seed, text)?;
        if !is_same(&first, &again) {
            return Err("gave two answers to one question; what it gives may depend on its argument only".to_owned());
        }
        Ok(first)
    }

    fn once(&self, number: usize, seed: u64, text: Option<&[u8]>) -> Result<Value, String> {
        *self.limits.random.borrow_mut() = Rng::with_seed(seed);
        self.limits.bound.set(TimeBound::new(CALL));
        let (function, _) = &self.functions[number];
        let called = match text {
            None => function.call::<Value>(&self.told),
            Some(text) => self.lua.create_string(text).and_then(|text| function.call::<Value>((text, &self.told))),
        };
        called.map_err(|error| reason(&error))
    }
}

/// Whether two values have the same text.
fn is_same(one: &Value, other: &Value) -> bool {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    match (append(one, &mut a), append(other, &mut b)) {
        (Ok(()), Ok(())) => a == b,
        _ => one.type_name() == other.type_name(),
    }
}

/// Appends a function's result as text.
fn append(value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    // Writing into memory does not fail.
    let _ = match value {
        Value::String(text) => out.write_all(&text.as_bytes()),
        Value::Integer(number) => write!(out, "{number}"),
        // Whole numbers are written without a fraction, as in Lua.
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => write!(out, "{number:.0}"),
        Value::Number(number) => write!(out, "{number}"),
        Value::Boolean(boolean) => write!(out, "{boolean}"),
        other => return Err(format!("gave {}, which is no text and no number", other.type_name())),
    };
    Ok(())
}

thread_local! {
    static STATE: RefCell<Option<ScriptState>> = const { RefCell::new(None) };
    /// The first error on this thread.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the first script error on this thread since the last call. After an error, values are
/// empty and checks fail until this function is called.
pub fn failure() -> Option<String> {
    FAILURE.take()
}

/// Frees the interpreter state of this thread.
pub fn close() {
    drop(STATE.take());
}

impl Function {
    /// Appends the function's value. `seed` determines its random numbers.
    pub fn write(&self, source: &ValueSource<'_>, seed: u64, out: &mut Vec<u8>) {
        self.called(source, seed, None, |value| append(&value, out));
    }

    /// Whether the function accepts the text. As in Lua, every result except false and nil means
    /// yes.
    pub fn accepts(&self, text: &[u8], source: &ValueSource<'_>, seed: u64) -> bool {
        let mut is_yes = false;
        self.called(source, seed, Some(text), |value| {
            is_yes = !matches!(value, Value::Nil | Value::Boolean(false));
            Ok(())
        });
        is_yes
    }

    fn called(
        &self,
        source: &ValueSource<'_>,
        seed: u64,
        text: Option<&[u8]>,
        take: impl FnOnce(Value) -> Result<(), String>,
    ) {
        if FAILURE.with_borrow(Option::is_some) {
            return;
        }
        let done = STATE.with_borrow_mut(|state| -> Result<(), String> {
            if !state.as_ref().is_some_and(|state| Arc::ptr_eq(&state.program, &self.program)) {
                *state = Some(ScriptState::new(&self.program).map_err(|error| reason(&error))?);
            }
            let Some(state) = state else { return Ok(()) };
            take(state.call(self.number, source, seed, text)?)
        });
        if let Err(reason) = done {
            let name = &self.program.functions[self.number];
            FAILURE.set(Some(format!("`{name}`: {reason}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{names, source};
    use crate::values::CompiledTemplate;

    /// Reads a script from a temporary file.
    fn read(text: &str, slots: &[&str]) -> Result<Arc<Program>, String> {
        let folder = fixture::TestDir::new();
        folder.write("x.lua", text);
        let slots: Vec<String> = slots.iter().map(|slot| (*slot).to_owned()).collect();
        Program::read("x.lua", &InputFiles::below(&*folder), &slots).map_err(|error| error.to_string())
    }

    fn template(program: &Arc<Program>, text: &str) -> CompiledTemplate {
        CompiledTemplate::compile(text, 3, &crate::values::TemplateNames { program: Some(program), ..names() }).unwrap()
    }

    /// Returns the output of a template that calls a script, or the error.
    fn given(program: &Arc<Program>, text: &str, source: &ValueSource<'_>) -> Result<String, String> {
        let mut out = Vec::new();
        template(program, text).write(source, &mut out);
        match failure() {
            Some(reason) => Err(reason),
            None => Ok(String::from_utf8(out).unwrap()),
        }
    }

    fn of(body: &str) -> Result<String, String> {
        given(&read(&format!("function f(t) {body} end"), &[]).unwrap(), "{lua.f}", &source(3, 12))
    }

    #[test]
    fn function_results_become_text() {
        for (body, expected) in [
            ("return 'a' .. t.agent .. '-' .. t.seq", "a3-12"),
            ("return t.seq * 2", "24"),
            ("return 1 / 4", "0.25"),
            ("return 2 ^ 40", "1099511627776"),
            ("return t.agent == 3", "true"),
            ("return string.format('%05d', t.seq)", "00012"),
            ("return ''", ""),
            ("return '{seq}'", "{seq}"),
            ("return tostring(t.kept.nothing)", "nil"),
        ] {
            assert_eq!(of(body).as_deref(), Ok(expected), "{body}");
        }
        let program = read("local n = 0; function a() return 1 end function b() return a() + 1 end", &[]).unwrap();
        assert_eq!(given(&program, "<{lua.a}{seq}{lua.b}>", &source(1, 7)).as_deref(), Ok("<172>"));
    }

    #[test]
    fn functions_see_the_slots_of_this_cycle() {
        let program = read("function f(t) return (t.kept.a or '-') .. (t.kept.b or '-') end", &["a", "b"]).unwrap();
        let kept = [b"x\xff".to_vec(), b"y".to_vec()];
        for (bits, expected) in
            [(0, b"--".to_vec()), (2, b"-y".to_vec()), (3, b"x\xffy".to_vec()), (1, b"x\xff-".to_vec())]
        {
            let mut out = Vec::new();
            template(&program, "{lua.f}").write(&ValueSource { slots: &kept, kept: bits, ..source(1, 1) }, &mut out);
            assert_eq!((out, failure()), (expected, None));
        }
    }

    #[test]
    fn random_numbers_depend_only_on_the_operation() {
        let body = "return math.random() .. ' ' .. t.random(10) .. ' ' .. math.random(5, 6) .. ' ' .. t.random(1, 1)";
        let program = read(&format!("function f(t) {body} end"), &[]).unwrap();
        let now = source(1, 1);
        let first = given(&program, "{lua.f}", &now).unwrap();
        assert_eq!(given(&program, "{lua.f}", &now).unwrap(), first, "written again");
        assert_eq!(
            given(&program, "{lua.f}", &ValueSource { agent: 2, ..now }).unwrap(),
            first,
            "by the number drawn alone"
        );
        assert_ne!(given(&program, "{lua.f}", &ValueSource { draw: 5, ..now }).unwrap(), first);
        let words: Vec<f64> = first.split(' ').map(|word| word.parse().unwrap()).collect();
        assert!((0.0..1.0).contains(&words[0]) && (1.0..=10.0).contains(&words[1]) && (5.0..=6.0).contains(&words[2]));
        assert_eq!(words[3], 1.0);
        let two = given(&program, "{lua.f}|{lua.f}", &now).unwrap();
        let (left, right) = two.split_once('|').unwrap();
        assert_ne!(left, right, "each placeholder draws for itself");
        let other =
            std::thread::Builder::new().spawn(move || given(&program, "{lua.f}", &source(1, 1)).unwrap()).unwrap();
        assert_eq!(other.join().unwrap(), first, "on any thread");
    }

    #[test]
    fn functions_accept_or_reject_text() {
        let text = "function even(s) return tonumber(s) % 2 == 0 end function found(s, t) return s:find(t.agent) end";
        let program = read(text, &[]).unwrap();
        let accepts = |name: &str, text: &str| {
            Program::function(&program, name).unwrap().accepts(text.as_bytes(), &source(3, 12), 1)
        };
        assert!(accepts("even", "12") && !accepts("even", "7") && failure().is_none());
        assert!(accepts("found", "a3") && !accepts("found", "a4") && failure().is_none());
        assert!(!accepts("even", "x"));
        assert!(failure().unwrap().starts_with("`even`: "));
    }

    #[test]
    fn scripts_are_sandboxed() {
        for name in ["io", "os", "debug", "require", "loadstring", "print", "collectgarbage", "math.randomseed"] {
            assert_eq!(of(&format!("return tostring({name})")).as_deref(), Ok("nil"), "{name}");
        }
        for body in ["math.floor = 1", "t.agent = 4", "t.kept.x = 1", "t.x = 1", "string.x = 1"] {
            assert!(of(&format!("{body} return 1")).unwrap_err().contains("readonly"), "{body}");
        }
    }

    #[test]
    fn invalid_scripts_are_refused() {
        let wrong = |text: &str| read(text, &[]).unwrap_err();
        for (text, about) in [
            ("\n\nfunction f( return 1 end", "x.lua:3:"),
            ("x = 1\ny = nil + 1", "x.lua:2:"),
            ("while true do end", "it takes too long"),
            ("\u{1b}Lua", "x.lua:1:"),
        ] {
            let error = wrong(text);
            assert!(error.starts_with("script `x.lua`: ") && error.contains(about), "{text}: {error}");
        }
        assert!(
            Program::read("none.lua", &InputFiles::below("/nowhere"), &[])
                .unwrap_err()
                .to_string()
                .contains("/nowhere/none.lua")
        );
        let program = read("function f() end x = 3", &[]).unwrap();
        assert!(Program::function(&program, "g").unwrap_err().ends_with("has no function `g`; it has f"));
        assert!(Program::function(&program, "x").is_err());
    }

    #[test]
    fn failed_calls_state_the_reason() {
        for (body, about) in [
            ("return nil", "gave nil"),
            ("return {}", "gave table"),
            ("return t.agent .. nil", "x.lua"),
            ("error('no more orders')", "no more orders"),
            ("while true do end", "it takes too long"),
            ("while true do pcall(function() while true do end end) end", "it takes too long"),
            ("return #('x'):rep(100000000)", "memory"),
            ("return ('a'):rep(50):match(('a*'):rep(50) .. 'b') or 0", "it takes too long"),
            ("return t.random(3, 2)", "the range is empty"),
            ("n = (n or 0) + 1 return n", "two answers"),
        ] {
            let text = format!("function f(t) {body} end");
            let failed = given(&read(&text, &[]).unwrap(), "{lua.f}", &source(3, 12)).unwrap_err();
            let failed = failed.replace("plimsoll-", "x.lua plimsoll-");
            assert!(failed.starts_with("`f`: ") && failed.contains(about), "{body}: {failed}");
        }
        assert_eq!(of("return 1").as_deref(), Ok("1"), "and the next one works");
    }

    #[test]
    fn after_a_failure_no_call_runs_until_reported() {
        let program = read("function bad() error('x') end function good() return 1 end", &[]).unwrap();
        let mut out = Vec::new();
        template(&program, "{lua.bad}{lua.good}").write(&source(1, 1), &mut out);
        assert!(out.is_empty());
        assert!(failure().unwrap().contains('x'));
        assert_eq!(given(&program, "{lua.good}", &source(1, 1)).as_deref(), Ok("1"));
        close();
        assert_eq!(given(&program, "{lua.good}", &source(1, 1)).as_deref(), Ok("1"), "a state is made anew");
    }
}
