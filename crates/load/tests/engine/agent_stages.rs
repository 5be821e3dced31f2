//! Agents that come and go in stages, against servers that count. Bounds also hold on a machine
//! that stands still for a while: an agent that is late to leave may miss its absence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use experiment::plan::{AgentStage, Connections, Load, Pause, Step};
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, play, step};

fn hold(agents: u32, over_s: f64) -> AgentStage {
    AgentStage { from: agents, to: agents, over_s }
}

/// Requests of a site for each session that a login has begun.
#[derive(Debug, Default)]
struct Site {
    sessions: BTreeMap<usize, u64>,
    /// Requests without the cookie of their connection's login.
    faults: Vec<String>,
}

/// Plays agents that log in once, and then request pages on the connection of their login.
fn played(load: Load) -> (LoadRun, Site, usize) {
    let site: Arc<Mutex<Site>> = Arc::default();
    let serving = Arc::clone(&site);
    let server = Server::http(move |request| {
        let mut site = serving.lock().unwrap();
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let cookie = format!("Cookie: c={}\r\n", request.connection);
        let (is_login, has_cookie) = (text.starts_with("GET /login "), text.contains("Cookie: "));
        match (is_login, has_cookie) {
            (true, false) => *site.sessions.entry(request.connection).or_default() += 0,
            (false, true) if text.contains(&cookie) => *site.sessions.entry(request.connection).or_default() += 1,
            _ => site.faults.push(text),
        }
        let set = if is_login { format!("Set-Cookie: c={}\r\n", request.connection) } else { String::new() };
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{set}Content-Length: 0\r\n\r\n").into_bytes())
    });
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    let connections = server.connections.load(std::sync::atomic::Ordering::SeqCst);
    drop(server);
    let site = std::mem::take(&mut *site.lock().unwrap());
    (run, site, connections)
}

fn shoppers(agent_stages: Vec<AgentStage>, time_s: f64) -> Load {
    let mut login = step("get", &["path=/login"]);
    (login.once, login.name) = (true, "login".into());
    let page = Step { think: Some(Pause::Fixed(0.01)), ..step("get", &["path=/page"]) };
    let agents = agent_stages.iter().map(|stage| stage.from.max(stage.to)).max().unwrap();
    Load { agent_stages, cookies: true, ..load(agents, time_s, vec![login, page]) }
}

#[test]
fn an_agent_that_returns_is_a_new_one() {
    let stages = vec![hold(3, 0.3), hold(0, 0.5), hold(3, 0.4), hold(0, 0.1)];
    let (run, site, connections) = played(shoppers(stages, 1.5));
    assert_eq!(site.faults, Vec::<String>::new());
    // A session is a connection with a login and a new jar.
    assert_eq!(site.sessions.len(), connections);
    assert!((3..=6).contains(&connections), "{connections}");
    assert_eq!(run.summary.failed + run.summary.unfinished, 0);
    let pages: u64 = site.sessions.values().sum();
    assert_eq!(run.summary.cycles, pages);
    let last = run.intervals.last().unwrap();
    assert!(last.end_s >= 1.5, "the load has its whole time: {}", last.end_s);
}

#[test]
fn agents_rise_and_fall_on_several_threads() {
    let up = AgentStage { from: 0, to: 6, over_s: 0.4 };
    let down = AgentStage { from: 6, to: 1, over_s: 0.4 };
    for pipeline in [1, 3] {
        let connections = Connections { keep_alive: true, pipeline };
        let mut load = Load { connections, threads: Some(2), ..shoppers(vec![up, down], 1.1) };
        load.steps.remove(0);
        load.cookies = false;
        let served: Arc<Mutex<u64>> = Arc::default();
        let serving = Arc::clone(&served);
        let server = Server::http(move |_| {
            *serving.lock().unwrap() += 1;
            Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
        });
        let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
        assert_eq!((run.summary.ok, run.summary.failed), (*served.lock().unwrap(), 0));
        let last = |thread: u32| run.intervals.iter().rfind(|interval| interval.thread == thread).unwrap();
        // One agent stays. Others may be late to leave.
        assert!((1..=6).contains(&(last(0).generator.agents + last(1).generator.agents)));
        assert!(run.summary.ok > 0);
    }
}
