//! Scripts: what they are told and give, what they cannot reach, and how each of their mistakes is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::values::Template;
use crate::values::tests::{names, source};

/// A script in a file of its own, which is gone again when it has been read.
fn read(text: &str, slots: &[&str]) -> Result<Arc<Program>, String> {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir();
    let file = format!("plimsoll-{}-{number}.lua", std::process::id());
    std::fs::write(folder.join(&file), text).unwrap();
    let slots: Vec<String> = slots.iter().map(|slot| (*slot).to_owned()).collect();
    let read = Program::read(&file, &folder, &slots).map_err(|error| error.to_string().replace(&file, "x.lua"));
    std::fs::remove_file(folder.join(&file)).unwrap();
    read
}

fn template(program: &Arc<Program>, text: &str) -> Template {
    Template::compile(text, 3, &crate::values::Names { program: Some(program), ..names() }).unwrap()
}

/// What a template of a script gives, or what went wrong.
fn given(program: &Arc<Program>, text: &str, source: &Source<'_>) -> Result<String, String> {
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
fn what_functions_give() {
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
fn slots_of_this_cycle_are_told() {
    let program = read("function f(t) return (t.kept.a or '-') .. (t.kept.b or '-') end", &["a", "b"]).unwrap();
    let kept = [b"x\xff".to_vec(), b"y".to_vec()];
    for (bits, expected) in [(0, b"--".to_vec()), (2, b"-y".to_vec()), (3, b"x\xffy".to_vec()), (1, b"x\xff-".to_vec())]
    {
        let mut out = Vec::new();
        template(&program, "{lua.f}").write(&Source { slots: &kept, kept: bits, ..source(1, 1) }, &mut out);
        assert_eq!((out, failure()), (expected, None));
    }
}

#[test]
fn what_is_drawn_follows_from_the_operation() {
    let body = "return math.random() .. ' ' .. t.random(10) .. ' ' .. math.random(5, 6) .. ' ' .. t.random(1, 1)";
    let program = read(&format!("function f(t) {body} end"), &[]).unwrap();
    let now = source(1, 1);
    let first = given(&program, "{lua.f}", &now).unwrap();
    assert_eq!(given(&program, "{lua.f}", &now).unwrap(), first, "written again");
    assert_eq!(given(&program, "{lua.f}", &Source { agent: 2, ..now }).unwrap(), first, "by the number drawn alone");
    assert_ne!(given(&program, "{lua.f}", &Source { draw: 5, ..now }).unwrap(), first);
    let words: Vec<f64> = first.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!((0.0..1.0).contains(&words[0]) && (1.0..=10.0).contains(&words[1]) && (5.0..=6.0).contains(&words[2]));
    assert_eq!(words[3], 1.0);
    let two = given(&program, "{lua.f}|{lua.f}", &now).unwrap();
    let (left, right) = two.split_once('|').unwrap();
    assert_ne!(left, right, "each placeholder draws for itself");
    let other = std::thread::Builder::new().spawn(move || given(&program, "{lua.f}", &source(1, 1)).unwrap()).unwrap();
    assert_eq!(other.join().unwrap(), first, "on any thread");
}

#[test]
fn texts_are_judged() {
    let text = "function even(s) return tonumber(s) % 2 == 0 end function found(s, t) return s:find(t.agent) end";
    let program = read(text, &[]).unwrap();
    let accepts =
        |name: &str, text: &str| Program::function(&program, name).unwrap().accepts(text.as_bytes(), &source(3, 12), 1);
    assert!(accepts("even", "12") && !accepts("even", "7") && failure().is_none());
    assert!(accepts("found", "a3") && !accepts("found", "a4") && failure().is_none());
    assert!(!accepts("even", "x"));
    assert!(failure().unwrap().starts_with("`even`: "));
}

#[test]
fn nothing_else_is_reached() {
    for name in ["io", "os", "debug", "require", "loadstring", "print", "collectgarbage", "math.randomseed"] {
        assert_eq!(of(&format!("return tostring({name})")).as_deref(), Ok("nil"), "{name}");
    }
    for body in ["math.floor = 1", "t.agent = 4", "t.kept.x = 1", "t.x = 1", "string.x = 1"] {
        assert!(of(&format!("{body} return 1")).unwrap_err().contains("readonly"), "{body}");
    }
}

#[test]
fn scripts_that_are_not_right() {
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
        Program::read("none.lua", Path::new("/nowhere"), &[]).unwrap_err().to_string().contains("/nowhere/none.lua")
    );
    let program = read("function f() end x = 3", &[]).unwrap();
    assert!(Program::function(&program, "g").unwrap_err().ends_with("has no function `g`; it has f"));
    assert!(Program::function(&program, "x").is_err());
}

#[test]
fn calls_that_go_wrong() {
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
fn after_a_failure_nothing_is_called_until_it_is_told() {
    let program = read("function bad() error('x') end function good() return 1 end", &[]).unwrap();
    let mut out = Vec::new();
    template(&program, "{lua.bad}{lua.good}").write(&source(1, 1), &mut out);
    assert!(out.is_empty());
    assert!(failure().unwrap().contains('x'));
    assert_eq!(given(&program, "{lua.good}", &source(1, 1)).as_deref(), Ok("1"));
    close();
    assert_eq!(given(&program, "{lua.good}", &source(1, 1)).as_deref(), Ok("1"), "a state is made anew");
}
