//! Values that the preparation keeps for all agents of the load.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::sandbox::Sandbox;

const TOKEN: &str = "t0ken-\\\"{of} the shop";

/// Starts a server whose `/login` answers with the token, if it has any. Returns its URL and the
/// requests that it gets.
fn shop(has_token: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let accept = move || {
        for stream in listener.incoming() {
            let (stream, noted) = (stream.unwrap(), Arc::clone(&noted));
            std::thread::Builder::new().spawn(move || serve(stream, has_token, &noted)).unwrap();
        }
    };
    std::thread::Builder::new().spawn(accept).unwrap();
    (url, seen)
}

fn serve(mut stream: TcpStream, has_token: bool, seen: &Mutex<Vec<String>>) -> Option<()> {
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
            request.extend(&piece[..count]);
        }
        let text = String::from_utf8(std::mem::take(&mut request)).unwrap();
        let is_login = text.starts_with("GET /login ");
        let token = if is_login && has_token { format!("X-Token: {TOKEN}\r\n") } else { String::new() };
        seen.lock().unwrap().push(text);
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{token}Content-Length: 0\r\n\r\n").as_bytes()).ok()?;
    }
}

fn experiment(url: &str) -> String {
    format!(
        "title = \"Prepared\"\n[target]\nurl = \"{url}\"\n\
         [[prepare]]\ncall = \"get\"\nwith = {{ path = \"/login\" }}\nkeep = {{ token = \"answer.header.x-token\" }}\n\
         [[prepare]]\ncall = \"get\"\nname = \"open\"\nwith = {{ path = \"/open\", header.x-token = \"{{token}}\" }}\n\
         [load]\nagents = 4\ntime = \"1500ms\"\n\
         [[load.cycle]]\ncall = \"get\"\nname = \"page\"\n\
         with = {{ path = \"/page/{{agent}}?t={{token}}\", header.x-token = \"{{token}}\" }}\n"
    )
}

fn holds_token(path: &Path) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| holds_token(&entry.unwrap().path()));
    }
    String::from_utf8_lossy(&fs::read(path).unwrap()).contains("t0ken")
}

#[test]
fn all_agents_send_the_value_and_no_record_has_it() {
    let sandbox = Sandbox::new();
    let (url, seen) = shop(true);
    let file = sandbox.file("prepared.toml", experiment(&url));
    sandbox.play(&["check", &file]).exits(0);
    sandbox.run(&[&file]).exits(0);
    let seen = seen.lock().unwrap();
    let header = format!("x-token: {TOKEN}\r\n");
    let opened = seen.iter().filter(|request| request.starts_with("GET /open "));
    assert_eq!(opened.filter(|request| request.contains(&header)).count(), 1);
    for agent in 1..=4 {
        let start = format!("GET /page/{agent}?t=t0ken-%5C%22%7Bof%7D%20the%20shop HTTP/1.1\r\n");
        let mut own = seen.iter().filter(|request| request.starts_with(&format!("GET /page/{agent}?"))).peekable();
        assert!(own.peek().is_some() && own.all(|request| request.starts_with(&start) && request.contains(&header)));
    }
    assert!(!holds_token(&sandbox.runs()));
}

#[test]
fn a_value_that_is_not_found_ends_the_run() {
    let sandbox = Sandbox::new();
    let (url, seen) = shop(false);
    let file = sandbox.file("prepared.toml", experiment(&url));
    let played = sandbox.run(&[&file]).exits(4);
    assert!(played.stderr.contains("its answer has no `token` to keep"), "{}", played.stderr);
    assert!(seen.lock().unwrap().iter().all(|request| !request.starts_with("GET /open ")));
}
