//! Tests of the search for a target's connected processes, on recorded `/proc` trees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::symlink;

use fixture::TestDir;

use super::*;

/// This program, its shell, and a program that runs as an operation.
const US: u32 = 900;
const SHELL: u32 = 800;
const OPERATION: u32 = 901;

/// A machine on which only Plimsoll runs.
struct Machine {
    proc: TestDir,
    all: HashMap<u32, Stat>,
    /// Lines of the table of TCP sockets, by folder.
    tables: HashMap<String, String>,
    inodes: u64,
    kernel: fn() -> KernelTables,
}

impl Machine {
    fn new() -> Self {
        let (all, tables) = (HashMap::new(), HashMap::new());
        let mut machine = Self { proc: TestDir::new(), all, tables, inodes: 100, kernel: KernelTables::default };
        machine.process(1, 0, "systemd");
        machine.process(SHELL, 1, "bash");
        machine.process(US, SHELL, "plimsoll");
        machine.process(OPERATION, US, "psql");
        machine
    }

    fn process(&mut self, pid: u32, parent: u32, name: &str) {
        let stat = format!("{pid} ({name}) S {parent} {pid} 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 2 0 1{pid} 1000 7 0\n");
        self.all.insert(pid, Stat::parse(&stat).unwrap());
        self.proc.write(&format!("{pid}/cgroup"), "0::/\n");
        self.proc.write(&format!("{pid}/fd/none"), "");
        symlink(format!("/usr/bin/{name}"), self.proc.join(format!("{pid}/exe"))).unwrap();
    }

    fn holds(&self, pid: u32, inode: u64) {
        symlink(format!("socket:[{inode}]"), self.proc.join(format!("{pid}/fd/{inode}"))).unwrap();
    }

    fn add(&mut self, net: &str, local: &str, remote: &str, state: &str) -> u64 {
        self.inodes += 1;
        let (local, remote) = (hex(local), hex(remote));
        let line = format!("   0: {local} {remote} {state} 0:0 00:0 00000000 0 0 {} 1 0\n", self.inodes);
        let table = self.tables.entry(net.to_owned()).or_insert_with(|| "  sl  local_address\n".to_owned());
        table.push_str(&line);
        self.proc.write(&format!("{net}/tcp"), table);
        self.inodes
    }

    fn listens(&mut self, pid: u32, address: &str) {
        let inode = self.add("net", address, "0.0.0.0:0", "0A");
        self.holds(pid, inode);
    }

    /// Adds a connection from a process to the address of another.
    fn connects(&mut self, client: u32, address: &str, server: u32) {
        let from = format!("127.0.0.1:{}", 40_000 + self.inodes);
        let (of_client, of_server) = (self.add("net", &from, address, "01"), self.add("net", address, &from, "01"));
        self.holds(client, of_client);
        self.holds(server, of_server);
    }

    fn connected(&self, also: AlsoTarget) -> ConnectedProcesses {
        ConnectedProcesses { tables: self.kernel, ..ConnectedProcesses::new(also, US) }
    }

    /// Returns the target's roots after a search that starts with only these processes.
    fn roots(&self, connected: &mut ConnectedProcesses, found: &[u32]) -> Vec<u32> {
        let mut target = ServerProcesses { roots: found.iter().copied().collect(), more: BTreeSet::new() };
        connected.look(&ProcDir::at(&self.proc), &self.all, &[], &mut target);
        assert!(target.more.is_empty(), "{target:?}");
        target.roots.into_iter().collect()
    }

    fn belonging_to(&self, found: &[u32]) -> Vec<u32> {
        self.roots(&mut self.connected(AlsoTarget::default()), found)
    }
}

/// Formats an address as the kernel does: a word in this machine's byte order.
fn hex(address: &str) -> String {
    let address: std::net::SocketAddrV4 = address.parse().unwrap();
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

#[test]
fn nested_back_ends_belong_to_the_target() {
    let mut machine = Machine::new();
    for (pid, parent, name) in [
        (10, 1, "nginx"),
        (11, 10, "nginx"),
        (20, 1, "uvicorn"),
        (30, 1, "postgres"),
        (31, 30, "postgres"),
        (40, 1, "firefox"),
        (41, 1, "wrk"),
        (42, 1, "pgbench"),
    ] {
        machine.process(pid, parent, name);
    }
    machine.listens(10, "127.0.0.1:80");
    machine.listens(20, "0.0.0.0:8000");
    machine.listens(30, "127.0.0.1:5432");
    machine.listens(40, "127.0.0.1:6000");
    machine.connects(US, "127.0.0.1:80", 11);
    machine.connects(40, "127.0.0.1:80", 11);
    machine.connects(41, "127.0.0.1:80", 11);
    machine.connects(11, "127.0.0.1:8000", 20);
    // The postmaster listens, and its child serves.
    machine.connects(20, "127.0.0.1:5432", 31);
    machine.connects(42, "127.0.0.1:5432", 31);
    assert_eq!(machine.belonging_to(&[10]), [10, 20, 30, 31]);
    assert_eq!(machine.belonging_to(&[20]), [20, 30, 31], "what is before a target is a client of it");
}

#[test]
fn members_of_a_cluster_on_this_machine_are_the_target() {
    let mut machine = Machine::new();
    for pid in [10, 11, 12, 13] {
        machine.process(pid, 1, "etcd");
    }
    for (pid, port) in [(10, 2379), (11, 2479), (12, 2579), (13, 2679)] {
        machine.listens(pid, &format!("127.0.0.1:{port}"));
        machine.listens(pid, &format!("127.0.0.1:{}", port + 1));
    }
    // The first connects to the second, and the third to the first. No process connects to the
    // fourth.
    machine.connects(10, "127.0.0.1:2480", 11);
    machine.connects(12, "127.0.0.1:2380", 10);
    assert_eq!(machine.belonging_to(&[10]), [10, 11, 12]);
    machine.connects(13, "127.0.0.1:2480", 11);
    assert_eq!(machine.belonging_to(&[10]), [10, 11, 12, 13], "a peer of a peer");
}

#[test]
fn a_client_is_a_peer_only_if_it_listens_and_runs_the_same_program() {
    let mut machine = Machine::new();
    for (pid, parent, name) in [(10, 1, "postgres"), (20, 1, "postgres"), (21, 20, "postgres"), (30, 1, "postgres")] {
        machine.process(pid, parent, name);
    }
    machine.listens(10, "127.0.0.1:5432");
    machine.listens(20, "127.0.0.1:5433");
    // A child of the replica receives. The other process is not a server.
    machine.connects(21, "127.0.0.1:5432", 10);
    machine.connects(30, "127.0.0.1:5432", 10);
    assert_eq!(machine.belonging_to(&[10]), [10, 20]);
    for (pid, script) in [(50, "app.py"), (51, "app.py"), (52, "locust")] {
        machine.process(pid, 1, "python3.11");
        machine.proc.write(&format!("{pid}/cmdline"), format!("python3\0-u\0{script}\0--port\0{pid}\0"));
        machine.listens(pid, &format!("127.0.0.1:80{pid}"));
    }
    machine.connects(51, "127.0.0.1:8050", 50);
    machine.connects(52, "127.0.0.1:8050", 50);
    assert_eq!(machine.belonging_to(&[50]), [50, 51], "one program by one interpreter");
}

#[test]
fn a_back_end_behind_a_unix_socket_belongs_to_the_target() {
    let mut machine = Machine::new();
    for (pid, parent, name) in [(10, 1, "socat"), (11, 10, "psql"), (30, 1, "postgres"), (31, 30, "postgres")] {
        machine.process(pid, parent, name);
    }
    machine.listens(10, "127.0.0.1:15432");
    for (pid, inode) in [(11, 1), (31, 2), (30, 3)] {
        machine.holds(pid, inode);
    }
    machine.kernel = || {
        let name = Some(b"/run/postgresql/.s.PGSQL.5432\0".to_vec());
        let unix = vec![
            UnixSocket { inode: 1, is_listening: false, name: None, peer: Some(2) },
            UnixSocket { inode: 2, is_listening: false, name: name.clone(), peer: Some(1) },
            UnixSocket { inode: 3, is_listening: true, name, peer: None },
        ];
        KernelTables { tcp: None, unix }
    };
    assert_eq!(machine.belonging_to(&[10]), [10, 30, 31]);
}

#[test]
fn a_back_end_is_found_through_unaccepted_connections() {
    let mut machine = Machine::new();
    for (pid, name) in [(10, "nginx"), (20, "uwsgi"), (30, "another")] {
        machine.process(pid, 1, name);
    }
    machine.listens(10, "127.0.0.1:80");
    machine.listens(20, "127.0.0.1:8000");
    machine.listens(30, "0.0.0.0:5432");
    let waiting = machine.add("net", "127.0.0.1:40000", "127.0.0.1:8000", "01");
    machine.holds(10, waiting);
    // A port of another machine is not a port of this machine.
    let far = machine.add("net", "192.168.1.5:40000", "192.168.1.6:5432", "01");
    machine.holds(10, far);
    assert_eq!(machine.belonging_to(&[10]), [10, 20]);
}

#[test]
fn plimsoll_and_system_services_are_no_back_ends() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server");
    machine.process(20, 1, "dbus-daemon");
    machine.process(21, 1, "systemd-journal");
    machine.listens(10, "127.0.0.1:80");
    let services = [(1, 7001), (SHELL, 7002), (US, 7003), (OPERATION, 7004), (20, 7005), (21, 7006)];
    for (pid, port) in services {
        machine.listens(pid, &format!("127.0.0.1:{port}"));
        machine.connects(10, &format!("127.0.0.1:{port}"), pid);
    }
    assert_eq!(machine.belonging_to(&[10]), [10]);
}

#[test]
fn a_back_end_in_another_container_belongs_to_the_target() {
    let mut machine = Machine::new();
    let (app, database) = ("10/net", "20/net");
    for (pid, name) in [(10, "app"), (20, "mysqld"), (30, "mysqld")] {
        machine.process(pid, 1, name);
        fs::create_dir_all(machine.proc.join(format!("{pid}/ns"))).unwrap();
        symlink(format!("net:[{pid}]"), machine.proc.join(format!("{pid}/ns/net"))).unwrap();
    }
    for (pid, net) in [(10, app), (20, database), (30, "30/net")] {
        let inode = machine.add(net, "0.0.0.0:3306", "0.0.0.0:0", "0A");
        machine.holds(pid, inode);
    }
    let client = machine.add(app, "172.18.0.2:40000", "172.18.0.3:3306", "01");
    let server = machine.add(database, "172.18.0.3:3306", "172.18.0.2:40000", "01");
    machine.holds(10, client);
    machine.holds(20, server);
    // Loopback addresses of two containers are unrelated.
    let (client, server) = (
        machine.add(app, "127.0.0.1:50000", "127.0.0.1:3306", "01"),
        machine.add("30/net", "127.0.0.1:3306", "127.0.0.1:50000", "01"),
    );
    machine.holds(10, client);
    machine.holds(30, server);
    assert_eq!(machine.belonging_to(&[10]), [10, 20]);
}

#[test]
fn processes_named_by_the_experiment_belong_to_the_target() {
    let mut machine = Machine::new();
    for (pid, name) in [(10, "app"), (20, "queue"), (30, "celery"), (31, "celery"), (40, "postgres"), (50, "worker")] {
        machine.process(pid, 1, name);
    }
    machine.listens(10, "127.0.0.1:80");
    machine.listens(20, "127.0.0.1:5672");
    machine.proc.write("40/cgroup", "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n");
    machine.proc.write("50/cgroup", "4:cpu:/jobs/7/below\n0::/\n");
    let named = |also: AlsoTarget| machine.roots(&mut machine.connected(also), &[10]);
    let texts = |text: &str| vec![text.to_owned()];
    assert_eq!(named(AlsoTarget { ports: vec![5672, 81], ..AlsoTarget::default() }), [10, 20]);
    assert_eq!(named(AlsoTarget { processes: texts("celery"), ..AlsoTarget::default() }), [10, 30, 31]);
    for unit in ["postgresql@15-main", "postgresql@15-main.service", "system-postgresql.slice"] {
        assert_eq!(named(AlsoTarget { units: texts(unit), ..AlsoTarget::default() }), [10, 40], "{unit}");
    }
    for group in ["/jobs/7", "jobs/7/below/"] {
        assert_eq!(named(AlsoTarget { cgroups: texts(group), ..AlsoTarget::default() }), [10, 50], "{group}");
    }
    assert_eq!(named(AlsoTarget { processes: texts("plimsoll"), ..AlsoTarget::default() }), [10], "never Plimsoll");
}

#[test]
fn back_ends_stay_after_their_connections_end() {
    let mut machine = Machine::new();
    for (pid, name) in [(10, "app"), (20, "cache"), (30, "another")] {
        machine.process(pid, 1, name);
    }
    machine.listens(10, "127.0.0.1:80");
    machine.listens(20, "127.0.0.1:11211");
    let mut connected = machine.connected(AlsoTarget::default());
    assert_eq!(machine.roots(&mut connected, &[10]), [10]);
    machine.connects(10, "127.0.0.1:11211", 20);
    assert_eq!(machine.roots(&mut connected, &[10]), [10, 20]);
    machine.tables.clear();
    machine.proc.write("net/tcp", "");
    assert_eq!(machine.roots(&mut connected, &[10]), [10, 20]);
    // Another process with the same id.
    machine.all.get_mut(&20).unwrap().started_ticks += 1;
    assert_eq!(machine.roots(&mut connected, &[10]), [10]);
    // An expensive search is not repeated at once.
    connected.pause = 1;
    machine.listens(30, "127.0.0.1:7000");
    machine.connects(10, "127.0.0.1:7000", 30);
    assert_eq!(machine.roots(&mut connected, &[10]), [10]);
    assert_eq!(machine.roots(&mut connected, &[10]), [10, 30]);
}

#[test]
fn sockets_are_read_again_after_a_slow_reading() {
    thread_local! { static READINGS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) }; }
    // As slow as on a machine with many processes, with a new connection for each request.
    let kernel = || {
        READINGS.set(READINGS.get() + 1);
        let began_ns = thread_cpu_ns();
        while READINGS.get() == 1 && thread_cpu_ns() - began_ns < 2 * ROUNDS_NS {}
        let socket = |port: u16, remote: Option<u16>, inode: u64| TcpSocket {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            remote: remote.map(|port| SocketAddr::from(([127, 0, 0, 1], port))),
            uid: 0,
            inode,
        };
        let mut tcp = vec![socket(7000, None, 1)];
        if READINGS.get() == 2 {
            tcp.extend([socket(40_000, Some(7000), 2), socket(7000, Some(40_000), 3)]);
        }
        KernelTables { tcp: Some(tcp), unix: Vec::new() }
    };
    let mut machine = Machine { kernel, ..Machine::new() };
    for (pid, inode) in [(10, 2), (20, 1)] {
        machine.process(pid, 1, "server");
        machine.holds(pid, inode);
    }
    assert_eq!(machine.belonging_to(&[10]), [10, 20]);
}
