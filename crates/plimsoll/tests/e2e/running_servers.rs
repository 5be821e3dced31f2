//! Loads on servers that already run. Their CPU time counts as the target's, also with several
//! processes, and a busy process beside them is reported. The tests check only to whom time is
//! attributed, because this machine may do other work.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fixture::free_address;
use serde_json::Value;

use crate::sandbox::{Sandbox, children, number, until};

/// Server that forks a process for each connection.
const FORKING: &str = "import http.server, socketserver, sys
class Forking(socketserver.ForkingMixIn, http.server.HTTPServer): pass
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        sum(range(200000))
        self.send_response(200); self.send_header('content-length', '0'); self.end_headers()
    def log_message(self, *words): pass
Forking(('127.0.0.1', int(sys.argv[1])), Answer).serve_forever()
";

/// Server that hands each request to a process which it did not start and which shares no socket
/// with it.
const HANDING_OVER: &str = "import http.server, os, sys
pipe = os.open(sys.argv[2], os.O_WRONLY)
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        os.write(pipe, b'x')
        self.send_response(200); self.send_header('content-length', '0'); self.end_headers()
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answer).serve_forever()
";

/// Server on a socket in the file system. It answers with the host name of the request.
const ON_A_SOCKET: &str = "import http.server, socketserver, sys
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): request_queue_size, daemon_threads = 64, True
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = 'HTTP/1.1', -1
    def do_GET(self):
        name = self.headers['host'].encode()
        self.send_response(200); self.send_header('content-length', str(len(name))); self.end_headers(); self.wfile.write(name)
    def log_message(self, *words): pass
Server(sys.argv[1], Answer).serve_forever()
";

const WORKER: &str = "import sys
for work in iter(lambda: sys.stdin.read(1), ''): sum(range(100000))
";

/// A process that is asked to end when dropped, and waited for.
struct Server(Child);

impl Server {
    fn start(sandbox: &Sandbox, line: &[&str]) -> Self {
        let mark = sandbox.mark();
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).env(name, value).current_dir(sandbox.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", line[0])))
    }

    /// Starts a server, and waits until it listens.
    fn listening(sandbox: &Sandbox, line: &[&str], port: u16) -> Self {
        let server = Self::start(sandbox, line);
        until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process is not killed, because a master must end its workers.
        let _ = Command::new("sh").args(["-c", "kill -s TERM $0", &self.pid().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

/// Loads the server for a few seconds.
fn hit(sandbox: &Sandbox, port: u16) -> Value {
    let runs = sandbox.path().join("runs");
    let options = ["-c", "4", "-t", "3s", "--json", "--accept", "--out", runs.to_str().unwrap()];
    sandbox.play(&[&["hit", &url(port)][..], &options].concat()).exits(0).json()
}

/// Returns the process ids in a list of the machine's figures.
fn pids(results: &Value, list: &str) -> Vec<u32> {
    let processes =
        results["trials"][0]["machine"][list].as_array().unwrap_or_else(|| panic!("no {list}: {results:#}"));
    processes.iter().map(|process| u32::try_from(process["pid"].as_u64().unwrap()).unwrap()).collect()
}

/// Checks that these processes are the target, and that their CPU time does not count for other
/// processes.
#[track_caller]
fn is_target(sandbox: &Sandbox, results: &Value, expected: &[u32]) {
    let (target, others) = (pids(results, "target_processes"), pids(results, "other_processes"));
    for pid in expected {
        assert!(target.contains(pid) && !others.contains(pid), "{pid} of {expected:?}: {target:?}, beside {others:?}");
    }
    let trial = &results["trials"][0];
    assert!(trial["machine"]["not_judged"].is_null(), "{trial:#}");
    let host = &trial["hosts"][0];
    assert!(number(host, "/target_cpu_pct") > 0.0 && number(host, "/rss_max_bytes") > 1e6, "{host:#}");
    adds_up(sandbox);
}

/// Checks that in each second the CPU time is the sum of the generator's, the target's and other
/// processes' time.
#[track_caller]
fn adds_up(sandbox: &Sandbox) {
    let text = fs::read_to_string(sandbox.run_folder().join("trials/001/samples.csv")).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let cell = |row: &[&str], column: &str| -> f64 {
        let place = columns.iter().position(|name| *name == column).unwrap();
        row[place].parse().unwrap_or_else(|_| panic!("{column} is `{}` in {row:?}", row[place]))
    };
    let used = |row: &[&str]| cell(row, "cpu_user_pct") + cell(row, "cpu_system_pct");
    let mut seconds = 0;
    for host in rows.iter().filter(|row| row[2].is_empty()) {
        let of = |process: &str| rows.iter().find(|row| row[0] == host[0] && row[2] == process);
        let Some((generator, target)) = of("generator").zip(of("target")) else { continue };
        assert!(cell(target, "threads") >= 1.0 && cell(target, "rss_bytes") > 1e6, "{target:?}");
        let others = cell(host, "cpu_strangers_pct");
        // Values below 0 are cut off.
        if others > 0.0 {
            let sum = used(generator) + used(target) + others;
            assert!((used(host) - sum).abs() < 0.5, "{} of {sum}: {text}", used(host));
        }
        seconds += 1;
    }
    assert!(seconds >= 1, "{text}");
}

/// Starts an nginx that answers by itself.
fn nginx(sandbox: &Sandbox, port: u16) -> Server {
    nginx_with(sandbox, port, "return 200 ok;")
}

fn nginx_with(sandbox: &Sandbox, port: u16, answer: &str) -> Server {
    let folder = sandbox.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
        .concat();
    let config = sandbox.file(
        "nginx.conf",
        format!(
            "daemon off;\nworker_processes 2;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n\
             events {{ worker_connections 64; }}\nhttp {{\naccess_log off;\n{temporary}\
             server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}\n}}\n"
        ),
    );
    let log = format!("{folder}/error.log");
    Server::listening(sandbox, &["/usr/sbin/nginx", "-e", &log, "-c", &config], port)
}

#[test]
fn a_running_nginx_is_the_target_with_its_workers() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let server = nginx(&sandbox, port);
    let mut all = vec![server.pid()];
    until("it has its workers", || children(server.pid()).len() == 2);
    all.extend(children(server.pid()));
    let results = hit(&sandbox, port);
    is_target(&sandbox, &results, &all);
}

fn python(sandbox: &Sandbox, port: u16) -> Server {
    Server::listening(sandbox, &["python3", "-m", "http.server", &port.to_string(), "--bind", "127.0.0.1"], port)
}

#[test]
fn the_back_end_of_a_proxy_belongs_to_the_target() {
    let sandbox = Sandbox::new();
    let (port, behind) = (free_address().port(), free_address().port());
    let back_end = python(&sandbox, behind);
    let server = nginx_with(&sandbox, port, &format!("proxy_pass http://127.0.0.1:{behind};"));
    is_target(&sandbox, &hit(&sandbox, port), &[server.pid(), back_end.pid()]);
}

#[test]
fn clients_are_spread_over_all_urls_of_a_target() {
    let sandbox = Sandbox::new();
    let ports = [free_address().port(), free_address().port()];
    let servers = ports.map(|port| python(&sandbox, port));
    let also = free_address().port();
    let queue = python(&sandbox, also);
    let text = format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nurls = [\"{}\", \"{}\"]\nalso = {{ ports = [{also}] }}\n[load]\nagents = 4\n\
         time = \"3s\"\nfailover = \"next\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n",
        url(ports[0]),
        url(ports[1])
    );
    let results = sandbox.run(&[&sandbox.file("cluster.toml", text)]).exits(0).json();
    let pids: Vec<u32> = servers.iter().chain([&queue]).map(Server::pid).collect();
    is_target(&sandbox, &results, &pids);
    let members = results["trials"][0]["members"].as_array().unwrap();
    let mut names: Vec<&str> = members.iter().map(|member| member["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let mut expected = ports.map(|port| format!("127.0.0.1:{port}"));
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(members.iter().all(|member| number(member, "/ok") > 0.0), "{members:#?}");
}

#[test]
fn client_programs_busier_than_the_target_are_reported() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let _server = python(&sandbox, port);
    let program = sandbox.program("a-client", "#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n");
    let text = format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nurl = \"tcp://127.0.0.1:{port}\"\nprotocol = \"command\"\n[load]\nagents = 2\n\
         time = \"3s\"\ntimeout = \"60s\"\n[[load.cycle]]\ncall = \"run\"\nwith = {{ command = '{program}' }}\n"
    );
    let results = sandbox.run(&[&sandbox.file("programs.toml", text)]).exits(0).json();
    let machine = &results["trials"][0]["machine"];
    assert!(number(machine, "/programs_cpu_pct") > number(machine, "/target_cpu_pct"), "{machine:#}");
    let rules: Vec<String> = serde_json::from_value(results["verdict"]["rules"].clone()).unwrap();
    assert!(rules.contains(&"client_programs".to_owned()), "{:#}", results["verdict"]);
}

#[test]
fn a_server_on_all_addresses_is_the_target() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let server = Server::listening(&sandbox, &["python3", "-m", "http.server", &port.to_string()], port);
    is_target(&sandbox, &hit(&sandbox, port), &[server.pid()]);
}

#[test]
fn forked_processes_of_a_server_belong_to_the_target() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let script = sandbox.file("forking.py", FORKING);
    let server = Server::listening(&sandbox, &["python3", &script, &port.to_string()], port);
    let results = hit(&sandbox, port);
    is_target(&sandbox, &results, &[server.pid()]);
    let of_server = results["trials"][0]["hosts"][0]["target_cpu_pct"].as_f64().unwrap();
    let of_parent = results["trials"][0]["machine"]["target_processes"].as_array().unwrap().iter();
    let of_parent =
        of_parent.filter(|process| process["pid"] == server.pid()).map(|process| number(process, "/cpu_pct"));
    assert!(of_server > of_parent.sum::<f64>(), "most is done by those that came and went: {results:#}");
}

/// Control group that is removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Makes a group below this process's group.
    fn make(sandbox: &Sandbox) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 ")).expect("control groups of version 2");
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = memberships.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        let name = format!("server-of-{}", sandbox.path().file_name().unwrap().display());
        let folder = Path::new(mount.split(' ').nth(4).unwrap()).join(own).join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn put(&self, server: &Server) {
        fs::write(self.0.join("cgroup.procs"), server.pid().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn processes_in_the_servers_control_group_are_the_target() {
    if !is_root() {
        eprintln!("NOT TESTED: control groups need root");
        return;
    }
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let pipe = sandbox.path().join("work");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    // It is dropped last, when no process is in it any more.
    let group = Group::make(&sandbox);
    let worker = sandbox.file("worker.py", WORKER);
    // Opened to read and write, so that opening does not wait.
    let worker = Server::start(&sandbox, &["sh", "-c", "exec python3 \"$0\" 0<>\"$1\"", &worker, pipe]);
    group.put(&worker);
    let script = sandbox.file("handing-over.py", HANDING_OVER);
    let server = Server::listening(&sandbox, &["python3", &script, &port.to_string(), pipe], port);
    group.put(&server);
    is_target(&sandbox, &hit(&sandbox, port), &[server.pid(), worker.pid()]);
}

#[test]
fn busy_processes_beside_the_target_are_reported_by_name() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let server = nginx(&sandbox, port);
    let hogs: Vec<Server> = (0..std::thread::available_parallelism().unwrap().get())
        .map(|_| Server::start(&sandbox, &["sh", "-c", "while :; do :; done"]))
        .collect();
    let results = hit(&sandbox, port);
    is_target(&sandbox, &results, &[server.pid()]);
    let verdict = &results["verdict"];
    let notes: Vec<String> = serde_json::from_value(verdict["notes"].clone()).unwrap();
    let reason =
        notes.iter().find(|note| note.contains("other processes used ")).unwrap_or_else(|| panic!("{verdict:#}"));
    // Other processes on this machine may be busier than some of them.
    let others = pids(&results, "other_processes");
    assert!(hogs.iter().any(|hog| others.contains(&hog.pid())), "{results:#}");
    for process in results["trials"][0]["machine"]["other_processes"].as_array().unwrap().iter().take(3) {
        let name = format!("{} (pid {}) ", process["name"].as_str().unwrap(), process["pid"]);
        assert!(number(process, "/cpu_pct") < 1.0 || reason.contains(&name), "{name}: {reason}");
    }
}

#[test]
fn a_server_left_behind_by_its_command_is_the_target() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let file = sandbox.file(
        "left-behind.toml",
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nstart = \"python3 -m http.server {port} --bind 127.0.0.1 & echo started\"\n\
             url = \"{}\"\n[load]\nagents = 4\ntime = \"3s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n",
            url(port)
        ),
    );
    let results = sandbox.run(&[&file]).exits(0).json();
    is_target(&sandbox, &results, &[]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn client_programs_are_not_counted_as_other_processes() {
    let sandbox = Sandbox::new();
    let program = sandbox.program("an-operation", "#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n");
    let file = sandbox.file(
        "programs.toml",
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nprotocol = \"command\"\n[load]\nagents = 2\ntime = \"3s\"\ntimeout = \"60s\"\n\
             [[load.cycle]]\ncall = \"run\"\nwith = {{ command = '{program}' }}\n"
        ),
    );
    let results = sandbox.run(&[&file]).exits(0).json();
    let others = results["trials"][0]["machine"]["other_processes"].as_array().unwrap();
    assert!(others.iter().all(|process| process["name"] != "an-operation"), "{others:#?}");
    let text = fs::read_to_string(sandbox.run_folder().join("trials/001/samples.csv")).unwrap();
    let columns: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let place = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let cell = |row: &[&str], name: &str| row[place(name)].parse::<f64>().unwrap();
    let used = |row: &[&str]| cell(row, "cpu_user_pct") + cell(row, "cpu_system_pct");
    let left = rows.iter().filter(|row| row[2].is_empty()).map(|host| {
        let generator = rows.iter().find(|row| row[0] == host[0] && row[2] == "generator").unwrap();
        used(host) - used(generator) - cell(host, "cpu_strangers_pct")
    });
    assert!(left.fold(0.0, f64::max) > 1.0, "their time is neither the generator's nor other processes': {text}");
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// Server that redirects from `/old` over `/older` to `/new`, in circles from `/round`, and from
/// `/away` to another host.
const REDIRECTING: &str = "import http.server, sys
PLACES = {'/old': 'older?x=1', '/older?x=1': '/new', '/round': '/round', '/away': 'http://other.invalid/'}
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        to = PLACES.get(self.path)
        self.send_response(302 if to else 200 if self.path == '/new' else 404)
        if to: self.send_header('location', to)
        self.send_header('content-length', '0'); self.end_headers()
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answer).serve_forever()
";

#[test]
fn location_follows_redirects_before_the_load() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let _server = Server::listening(&sandbox, &["python3", "-c", REDIRECTING, &port.to_string()], port);
    let hit = |path: &str, more: &[&str]| {
        let url = format!("http://127.0.0.1:{port}{path}");
        sandbox.play(&[&["hit", &url, "-n", "20", "-c", "2", "--accept"], more].concat())
    };
    let results = hit("/old", &["-L", "--json", "--expect", "status=200"]).exits(0);
    results.says(&["redirected to", "/older?x=1", "/new"]);
    let results = hit("/old", &["-L", "--json", "--expect", "status=200"]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 20.0);
    let counted = hit("/old", &[]).exits(0).stdout;
    assert!(counted.contains("redirect 302") || counted.contains("302"), "{counted}");
    assert!(counted.contains("--location"), "the option is told: {counted}");
    hit("/round", &["-L"]).exits(2).says(&["more than 10 redirects"]);
    hit("/away", &["-L", "-H", "Authorization: Bearer x"]).exits(2).says(&["another scheme, host or port", "-H"]);
    hit("/away", &["-L"]).exits(4).says(&["other.invalid", "DNS"]);
    hit("/old", &["-L", "-d", "x"]).exits(2).says(&["--location with the method POST"]);
}

/// Server that answers requests with a whole URL and its host, as forward proxies get them.
const PROXY: &str = "import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        is_right = self.path == 'http://shop.invalid:81/a?b' and self.headers['host'] == 'shop.invalid:81'
        self.send_response(200 if is_right else 400); self.send_header('content-length', '0'); self.end_headers()
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answer).serve_forever()
";

#[test]
fn a_forward_proxy_gets_absolute_urls() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let _server = Server::listening(&sandbox, &["python3", "-c", PROXY, &port.to_string()], port);
    let proxy = format!("http://127.0.0.1:{port}");
    let hit = |url: &str, more: &[&str]| {
        sandbox.play(&[&["hit", url, "--proxy", &proxy, "-n", "20", "-c", "2", "--accept"], more].concat())
    };
    let results = hit("http://shop.invalid:81/a?b", &["--json"]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 20.0);
    hit("http://shop.invalid:81/a?b", &[]).exits(0).says(&["GET http://shop.invalid:81/a?b through http://127.0.0.1"]);
    // An https URL needs a tunnel, which this proxy does not open.
    let refused = hit("https://shop.invalid/", &[]).exits(0).stdout;
    assert!(refused.contains("proxy: 501 (20)"), "{refused}");
    let debugged = sandbox.play(&["hit", "https://shop.invalid/", "--proxy", &proxy, "--debug"]);
    debugged.exits(4).says(&["the proxy opened no tunnel", "501"]);
}

#[test]
fn a_server_on_a_unix_socket_can_be_loaded_and_started() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path().join("app.sock");
    let path = socket.to_str().unwrap();
    let server = Server::start(&sandbox, &["python3", "-c", ON_A_SOCKET, path]);
    until("the server listens", || UnixStream::connect(&socket).is_ok());
    let hit = ["hit", "http://shop.example/x", "--unix-socket", path];
    let load = ["-n", "200", "-c", "4", "--expect", "body=shop.example", "--json", "--accept"];
    let results = sandbox.play(&[&hit[..], &load].concat()).exits(0).json();
    let trial = &results["trials"][0];
    assert_eq!((number(trial, "/outcomes/ok"), number(trial, "/outcomes/wrong")), (200.0, 0.0), "{trial:#}");
    assert!(trial["machine"]["not_judged"].as_str().unwrap().contains("app.sock"), "{trial:#}");
    let shown = sandbox.play(&[&hit[..], &["--debug"]].concat()).exits(0);
    assert!(shown.stdout.contains("< HTTP/1.1 200 OK\n"), "{}", shown.stdout);
    drop(server);
    sandbox.play(&[&hit[..], &["-t", "1s"]].concat()).exits(4).says(&["connection refused"]);

    fs::remove_file(&socket).unwrap();
    let script = sandbox.file("server.py", ON_A_SOCKET);
    let url = format!("http+unix://{}", path.replace('/', "%2F"));
    let file = sandbox.file(
        "socket.toml",
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nstart = \"exec python3 {script} {path}\"\nurl = \"{url}\"\n[load]\nagents = 2\n\
             time = \"1s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\nexpect = {{ body = \"localhost\" }}\n"
        ),
    );
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0, "{results:#}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
