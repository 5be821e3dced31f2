//! Scripts under the engine: values and checks of each operation, and a script that fails during a
//! load.

use experiment::plan::{Expected, Load, Step, TextCondition};
use fixture::TestDir;
use load::{Error, LoadOrder};

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step, try_play};

/// Returns a server that echoes the last path segment.
fn echo() -> Server {
    Server::http(|request| {
        let text = String::from_utf8_lossy(&request.body);
        let said = text.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len()).into_bytes())
    })
}

fn of(server: &Server, folder: &TestDir, script: &str, steps: Vec<Step>) -> LoadOrder {
    let script = Some(folder.write("script.lua", script).display().to_string());
    LoadOrder {
        protocol: "http".into(),
        ..orders(&server.service(), Load { script, threads: Some(2), ..load(4, 0.2, steps) })
    }
}

fn judged_by(name: &str) -> Expected {
    Expected::Compared(TextCondition { lua: Some(name.into()), ..TextCondition::default() })
}

const TEXT: &str = "
function order(t) return t.agent .. '.' .. t.seq .. '.' .. t.random(1000) end
function is_order(text, t) return text:match('^%d+%.%d+%.%d+$') and text:sub(1, #tostring(t.agent)) == tostring(t.agent) end
function is_other(text) return text == 'other' end
function twice(t) return t.kept.sent .. t.kept.sent end
";

#[test]
fn values_and_checks() {
    let (server, folder) = (echo(), TestDir::new());
    let mut look = step("get", &["path=/{lua.order}"]);
    look.expect.insert("body".into(), judged_by("is_order"));
    look.keep = pairs(&["sent=answer.body"]);
    let mut again = step("get", &["path=/{lua.twice}"]);
    again.expect = pairs(&["body={sent}{sent}"]);
    let run = play(of(&server, &folder, TEXT, vec![look.clone(), again]));
    assert!(run.summary.cycles > 4 && (run.summary.wrong, run.summary.failed) == (0, 0), "{:?}", run.summary);
    look.expect.insert("body".into(), judged_by("is_other"));
    let run = play(of(&server, &folder, TEXT, vec![look]));
    assert!(run.summary.wrong > 4 && run.summary.ok == 0, "{:?}", run.summary);
}

#[test]
fn a_value_is_the_same_when_it_is_kept_or_compared() {
    let (server, folder) = (echo(), TestDir::new());
    let mut look = step("get", &["path=/{lua.order}"]);
    look.keep = pairs(&["asked=request.path"]);
    look.expect = pairs(&["body=x"]);
    let mut check = step("get", &["path={asked}"]);
    check.expect.insert("body".into(), judged_by("is_order"));
    let run = play(of(&server, &folder, TEXT, vec![look, check]));
    assert!(run.summary.ok > 2 && run.summary.ok.abs_diff(run.summary.wrong) <= 4, "{:?}", run.summary);
}

#[test]
fn a_script_that_fails_ends_the_load() {
    let (server, folder) = (echo(), TestDir::new());
    let script = "function f(t) if t.seq > 20 then error('enough') end return t.seq end";
    let mut orders = of(&server, &folder, script, vec![step("get", &["path=/{lua.f}"])]);
    orders.load.time_s = 600.0;
    let error = try_play(orders).err().unwrap();
    assert!(
        matches!(&error, Error::Values(wire::error::Error::Script { reason, .. }) if reason.contains("enough")),
        "{error}"
    );
}

#[test]
fn invalid_scripts_are_refused_before_the_load() {
    let (server, folder) = (echo(), TestDir::new());
    let refused = |text: &str, path: &str| {
        load::check(&of(&server, &folder, text, vec![step("get", &[path])])).unwrap_err().to_string()
    };
    assert!(refused("function f(", "path=/").contains(".lua:1:"));
    assert!(refused("function f() end", "path=/{lua.g}").contains("no function `g`; it has f"));
    let mut without = of(&server, &folder, "", vec![step("get", &["path=/{lua.g}"])]);
    without.load.script = None;
    assert!(load::check(&without).unwrap_err().to_string().contains("needs a script"));
}
