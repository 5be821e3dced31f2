//! Nginx under the engine, by HTTP/2: cookies, and connections that the server ends.

use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Load, Step};
use fixture::{KilledAtEnd, TestDir, free_address, until};
use load::LoadOrder;
use load::client;

use crate::setting::{load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with the test.
struct Nginx {
    _process: KilledAtEnd,
    service: String,
    folder: TestDir,
}

impl Nginx {
    /// Starts a server with these directives.
    fn start(directives: &str) -> Self {
        let (folder, address) = (TestDir::new(), free_address());
        let place = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {place}/{name};\n"))
            .concat();
        let config = folder.write(
            "nginx.conf",
            format!(
                "daemon off;\nmaster_process off;\npid {place}/nginx.pid;\nevents {{}}\nhttp {{\n\
                 log_format path $uri;\naccess_log {place}/access.log path;\n{temporary}\
                 server {{\nlisten {address} http2;\nlocation = /ready {{ return 200; access_log off; }}\n\
                 {directives}\n}}\n}}\n"
            ),
        );
        let process = Command::new("/usr/sbin/nginx")
            .arg("-e")
            .arg(folder.join("error.log"))
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .spawn()
            .expect("needs nginx: scripts/need.sh nginx");
        let server = Self { _process: KilledAtEnd(process), service: format!("h2c://{address}"), folder };
        until("nginx answers", || {
            let client = client::connect("http2", &server.service, PATIENCE);
            client.is_ok_and(|mut client| client.call("get", &pairs(&["path=/ready"])).is_ok_and(|answer| answer.ok))
        });
        server
    }

    fn orders(&self, load: Load) -> LoadOrder {
        LoadOrder { protocol: "http2".into(), ..orders(&self.service, load) }
    }

    /// Returns the number of requests that the server has answered.
    fn answered(&self) -> u64 {
        std::fs::read_to_string(self.folder.join("access.log")).unwrap().lines().count() as u64
    }
}

#[test]
fn cookies_of_sessions_that_share_a_connection() {
    let server = Nginx::start(
        "location = /login { add_header Set-Cookie \"sid=$arg_agent; Path=/\"; return 200; }\n\
         location = /page { if ($cookie_sid != $arg_agent) { return 403; } return 200; }\n\
         location = /logout { add_header Set-Cookie \"sid=; Path=/; Max-Age=0\"; return 200; }\n\
         location = /home { if ($http_cookie) { return 403; } return 200; }",
    );
    let step = |path: &str| Step { name: path.to_owned(), ..step("get", &[&format!("path=/{path}?agent={{agent}}")]) };
    let steps = ["login", "page", "logout", "home"].map(step).to_vec();
    let connections = Connections { keep_alive: true, pipeline: 4 };
    let run = play(server.orders(Load { cookies: true, connections, ..load(4, 0.3, steps) }));
    assert!(run.summary.cycles > 4 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
}

/// The server ends each connection after ten requests, with GOAWAY while others are in flight.
#[test]
fn requests_on_connections_that_go_away_are_answered_once() {
    let server = Nginx::start("keepalive_requests 10;\nlocation = /page { return 200; }");
    for pipeline in [1, 8] {
        let before = server.answered();
        let connections = Connections { keep_alive: true, pipeline };
        let load = load(16, 5.0, vec![step("get", &["path=/page"])]);
        let run = play(server.orders(Load { count: Some(1000), connections, ..load }));
        assert_eq!((run.summary.ok, run.attempts("ok")), (1000, 1000), "{:?} {:?}", run.summary, run.results());
        let connects: u64 = run.intervals.iter().map(|interval| interval.generator.connects).sum();
        assert!(connects >= 100, "{connects}");
        until("the server has logged all requests", || server.answered() - before >= 1000);
        assert_eq!(server.answered() - before, 1000, "no request was processed twice");
    }
}
