//! Tests of ports, and of the search for a server's processes on recorded `/proc` trees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::symlink;

use fixture::{TestDir, until};

use super::*;

#[test]
fn free_ports_are_different_and_not_of_the_ephemeral_range() {
    let ports = free(20).unwrap();
    let different: BTreeSet<_> = ports.iter().collect();
    assert_eq!(different.len(), 20);
    for port in ports {
        assert!(below(ephemeral()).contains(&port) && port >= 1024);
        // A process that another test starts shares this process's descriptors until `exec`.
        until("nobody holds the port any more", || check(port).is_ok());
    }
}

#[test]
fn the_range_avoids_the_kernels_ephemeral_ports() {
    assert_eq!(below(None), 10_000..=32_767);
    assert_eq!(below(Some((32_768, 60_999))), 10_000..=32_767);
    assert_eq!(below(Some((1_024, 40_000))), 40_001..=u16::MAX);
    assert_eq!(below(Some((10_100, 65_000))), 10_000..=u16::MAX, "where almost all are given away");
}

#[test]
fn a_taken_port_is_named_with_its_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = listener.local_addr().unwrap().port();
    let error = check(number).unwrap_err();
    let PortError::Taken { port, holder: Some(holder) } = &error else { panic!("{error:?}") };
    assert_eq!((*port, holder.pid), (number, std::process::id()));
    assert!(!holder.program.is_empty());
}

#[test]
fn a_taken_port_without_a_holder_is_checked_again() {
    let looks = |found: &dyn Fn(usize) -> Result<(), PortError>| {
        let mut count = 0;
        let settled = settled(|| {
            count += 1;
            found(count)
        });
        (settled.is_ok(), count)
    };
    let taken = |holder| Err(PortError::Taken { port: 80, holder });
    let nginx = || Some(PortHolder { pid: 17, program: "nginx".to_owned() });
    assert_eq!(looks(&|count| if count < 3 { taken(None) } else { Ok(()) }), (true, 3));
    assert_eq!(looks(&|count| taken(if count < 2 { None } else { nginx() })), (false, 2));
    assert_eq!(looks(&|_| taken(None)), (false, LOOKS_AT_PORT));
}

/// This program, its shell, and init.
const US: u32 = 900;
const SHELL: u32 = 800;

const FIB: &str = "Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 127.0.0.0
        /8 host LOCAL
     |-- 192.168.1.0
        /24 link UNICAST
     |-- 192.168.1.5
        /32 host LOCAL
     |-- 192.168.1.255
        /32 link BROADCAST
";

/// A machine on which only Plimsoll runs, in a login session.
struct Machine {
    proc: TestDir,
    all: HashMap<u32, Stat>,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self { proc: TestDir::new(), all: HashMap::new() };
        machine.proc.write("net/fib_trie", FIB);
        machine.proc.write("net/if_inet6", "fd000000000000000000000000000002 04 40 00 82     eth0\n");
        machine.listens("net", &[]);
        machine.process(1, 0, "systemd", "/init.scope");
        machine.process(SHELL, 1, "bash", "/user.slice/user-0.slice/session-1.scope");
        machine.process(US, SHELL, "plimsoll", "/user.slice/user-0.slice/session-1.scope");
        machine
    }

    /// Adds a process in this control group, without sockets.
    fn process(&mut self, pid: u32, parent: u32, name: &str, group: &str) {
        let _ = fs::remove_file(self.proc.join(format!("{pid}/fd/0")));
        let stat = format!("{pid} ({name}) S {parent} {pid} 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 2 0 1{pid} 1000 7 0\n");
        self.all.insert(pid, Stat::parse(&stat).unwrap());
        self.proc.write(&format!("{pid}/cgroup"), format!("4:memory:/\n1:name=systemd:{group}\n0::{group}\n"));
        fs::create_dir_all(self.proc.join(format!("{pid}/fd"))).unwrap();
        symlink("/dev/null", self.proc.join(format!("{pid}/fd/0"))).unwrap();
    }

    fn holds(&self, pid: u32, inode: u64) {
        symlink(format!("socket:[{inode}]"), self.proc.join(format!("{pid}/fd/{inode}"))).unwrap();
    }

    /// Adds listeners (address and inode) to a network namespace, followed by a connection.
    fn listens(&self, net: &str, listeners: &[(&str, u64)]) {
        let (mut v4, mut v6) = ("  sl  local_address\n".to_owned(), "  sl  local_address\n".to_owned());
        let line = |address: &str, port: u16, state: &str, inode: u64| {
            format!("   0: {address}:{port:04X} {address}:0000 {state} 0:0 00:0 00000000    33        0 {inode} 1 0\n")
        };
        for (address, inode) in listeners {
            let address: SocketAddr = address.parse().unwrap();
            match address.ip() {
                IpAddr::V4(ip) => v4 += &line(&hex(&ip.octets()), address.port(), "0A", *inode),
                IpAddr::V6(ip) => v6 += &line(&hex(&ip.octets()), address.port(), "0A", *inode),
            }
        }
        v4 += &line(&hex(&[127, 0, 0, 1]), 8080, "01", 666);
        self.proc.write(&format!("{net}/tcp"), &v4);
        self.proc.write(&format!("{net}/tcp6"), &v6);
    }

    fn finder(&self, address: &str) -> Finder {
        Finder::new(address.parse().unwrap(), US)
    }

    fn look(&self, finder: &mut Finder) -> TargetLocation {
        finder.look(&ProcDir::at(&self.proc), &self.all)
    }

    fn find(&self, address: &str) -> TargetLocation {
        self.look(&mut self.finder(address))
    }

    #[track_caller]
    fn why_not(&self, address: &str) -> String {
        match self.find(address) {
            TargetLocation::Unknown(why) => why,
            found => panic!("{found:?}"),
        }
    }
}

/// Formats an address as the kernel does: words in this machine's byte order.
fn hex(octets: &[u8]) -> String {
    let words = octets.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    words.map(|word| format!("{word:08X}")).collect()
}

fn here(roots: &[u32], more: &[u32]) -> TargetLocation {
    let set = |pids: &[u32]| pids.iter().copied().collect();
    TargetLocation::Here(ServerProcesses { roots: set(roots), more: set(more) })
}

const LOGIN: &str = "/user.slice/user-0.slice/session-1.scope";

#[test]
fn a_server_holds_the_listening_socket() {
    let mut machine = Machine::new();
    machine.process(10, SHELL, "server", LOGIN);
    machine.process(11, SHELL, "another", LOGIN);
    machine.listens("net", &[("127.0.0.1:8080", 71), ("127.0.0.1:8081", 72)]);
    machine.holds(10, 71);
    machine.holds(11, 72);
    // Both ends of the connection are on this machine, and neither listens.
    machine.holds(11, 666);
    assert_eq!(machine.find("127.0.0.1:8080"), here(&[10], &[]));
    assert_eq!(machine.find("127.0.0.1:8081"), here(&[11], &[]));
}

#[test]
fn a_master_and_its_workers_share_the_socket() {
    let mut machine = Machine::new();
    for (pid, parent) in [(10, 1), (11, 10), (12, 10)] {
        machine.process(pid, parent, "nginx", LOGIN);
        machine.holds(pid, 71);
    }
    machine.listens("net", &[("0.0.0.0:80", 71)]);
    assert_eq!(machine.find("192.168.1.5:80"), here(&[10, 11, 12], &[]));
}

#[test]
fn sockets_of_both_kinds_take_connections_to_ipv4_addresses() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server", LOGIN);
    machine.holds(10, 71);
    for listens_at in ["[::]:80", "[::ffff:0.0.0.0]:80", "[::ffff:127.0.0.1]:80"] {
        machine.listens("net", &[(listens_at, 71)]);
        assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[]), "{listens_at}");
        assert_eq!(machine.find("[::ffff:127.0.0.1]:80"), here(&[10], &[]), "{listens_at}");
    }
    machine.listens("net", &[("[fd00::2]:80", 71)]);
    assert_eq!(machine.find("[fd00::2]:80"), here(&[10], &[]));
    assert!(machine.why_not("127.0.0.1:80").starts_with("no process that listens at 127.0.0.1:80"));
    machine.listens("net", &[("0.0.0.0:80", 71)]);
    assert!(machine.why_not("[::1]:80").starts_with("no process that listens at [::1]:80"));
}

#[test]
fn a_specific_address_precedes_the_wildcard() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server", LOGIN);
    machine.process(11, 1, "another", LOGIN);
    machine.listens("net", &[("0.0.0.0:80", 72), ("127.0.0.1:80", 71), ("[::]:80", 73)]);
    machine.holds(10, 71);
    machine.holds(11, 72);
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[]));
    assert_eq!(machine.find("192.168.1.5:80"), here(&[11], &[]));
}

#[test]
fn servers_that_share_a_port_are_all_the_target() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server", LOGIN);
    machine.process(11, 1, "server", LOGIN);
    machine.listens("net", &[("0.0.0.0:80", 71), ("0.0.0.0:80", 72)]);
    machine.holds(10, 71);
    machine.holds(11, 72);
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10, 11], &[]));
}

#[test]
fn a_service_includes_its_whole_control_group() {
    for (group, beside, belongs) in [
        ("/system.slice/nginx.service", "/system.slice/nginx.service", true),
        ("/system.slice/nginx.service", "/system.slice/nginx.service/workers", true),
        ("/system.slice/nginx.service/master", "/system.slice/nginx.service/workers", true),
        ("/system.slice/nginx.service", "/system.slice/nginx.service-too", false),
        ("/system.slice/nginx.service", "/system.slice/cups.service", false),
        (
            "/user.slice/user-0.slice/user@0.service/app.slice/a.service",
            "/user.slice/user-0.slice/user@0.service/app.slice/b.service",
            false,
        ),
        (
            "/user.slice/user-0.slice/user@0.service/app.slice/a.service",
            "/user.slice/user-0.slice/user@0.service/app.slice/a.service",
            true,
        ),
        ("/system.slice/docker-4f1c.scope", "/system.slice/docker-4f1c.scope/system.slice/app.service", true),
        ("/docker/4f1c", "/docker/4f1c/below", true),
        ("/docker/4f1c", "/docker/5555", false),
        (
            "/kubepods.slice/kubepods-pod1.slice/cri-containerd-4f.scope",
            "/kubepods.slice/kubepods-pod1.slice/cri-containerd-4f.scope",
            true,
        ),
        ("/kubepods/burstable/pod1/4f1c", "/kubepods/burstable/pod1/4f1c", true),
        ("/kubepods/burstable/pod1/4f1c", "/kubepods/burstable/pod1/5555", false),
        ("/machine.slice/libpod-4f1c.scope/container", "/machine.slice/libpod-4f1c.scope", true),
        ("/made/by-hand", "/made/by-hand", true),
        // Groups in which any process may be.
        ("/", "/", false),
        (LOGIN, LOGIN, false),
        ("/user.slice/user-0.slice/session-2.scope", "/user.slice/user-0.slice/session-2.scope", false),
        ("/user.slice", "/user.slice", false),
        (
            "/user.slice/user-0.slice/user@0.service/init.scope",
            "/user.slice/user-0.slice/user@0.service/init.scope",
            false,
        ),
        ("/system.slice", "/system.slice", false),
        ("/system.slice/cron.service", "/system.slice/cron.service", false),
    ] {
        let mut machine = Machine::new();
        machine.process(10, 1, "server", group);
        machine.process(20, 1, "company", beside);
        machine.listens("net", &[("127.0.0.1:80", 71)]);
        machine.holds(10, 71);
        let expected: &[u32] = if belongs { &[20] } else { &[] };
        assert_eq!(machine.find("127.0.0.1:80"), here(&[10], expected), "{group} and {beside}");
    }
}

#[test]
fn groups_with_plimsoll_or_a_terminal_are_not_included() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server", "/jobs/7");
    machine.process(20, 1, "hog", "/jobs/7");
    machine.listens("net", &[("127.0.0.1:80", 71)]);
    machine.holds(10, 71);
    machine.process(30, 1, "bash", "/jobs/7/below");
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[20, 30]));
    machine.all.get_mut(&30).unwrap().terminal = 34_816;
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[]), "a window in which somebody works");
    machine.all.get_mut(&30).unwrap().terminal = 0;
    machine.proc.write(&format!("{US}/cgroup"), "4:memory:/\n1:name=systemd:/jobs/7/mine\n0::/jobs/7/mine\n");
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[]), "a job of which Plimsoll is a part");
}

#[test]
fn a_published_port_leads_into_the_container() {
    let mut machine = Machine::new();
    machine.process(50, 1, "docker-proxy", "/system.slice/docker.service");
    machine.process(51, 1, "dockerd", "/system.slice/docker.service");
    machine.process(10, 1, "nginx", "/system.slice/docker-4f.scope");
    machine.process(11, 10, "nginx", "/system.slice/docker-4f.scope");
    machine.process(12, 1, "cache", "/system.slice/docker-4f.scope");
    machine.process(20, 1, "nginx", "/system.slice/docker-99.scope");
    machine.listens("net", &[("0.0.0.0:8080", 71)]);
    machine.holds(50, 71);
    machine.holds(51, 71);
    let arguments = ["/usr/bin/docker-proxy", "-proto", "tcp", "-host-ip", "0.0.0.0", "-host-port", "8080"];
    let more = ["-container-ip", "172.17.0.2", "-container-port", "80", ""];
    machine.proc.write("50/cmdline", [&arguments[..], &more].concat().join("\0"));
    assert!(machine.why_not("127.0.0.1:8080").contains("whose processes this user may not examine"));
    // Each container has its own namespace with a port 80.
    for (pid, namespace, ip, inode) in [(10, 2, "172.17.0.2", 81), (12, 2, "172.17.0.2", 0), (20, 3, "172.17.0.3", 82)]
    {
        fs::create_dir_all(machine.proc.join(format!("{pid}/ns"))).unwrap();
        symlink(format!("net:[{namespace}]"), machine.proc.join(format!("{pid}/ns/net"))).unwrap();
        machine.listens(&format!("{pid}/net"), &[("0.0.0.0:80", if inode > 0 { inode } else { 81 })]);
        machine.proc.write(&format!("{pid}/net/fib_trie"), format!("     |-- {ip}\n        /32 host LOCAL\n"));
    }
    machine.holds(10, 81);
    machine.holds(11, 81);
    machine.holds(20, 82);
    assert_eq!(machine.find("127.0.0.1:8080"), here(&[10, 11], &[12, 50]));
    // The same servers, without the proxy.
    assert_eq!(machine.find("172.17.0.2:80"), here(&[10, 11], &[12]));
    assert_eq!(machine.find("172.17.0.3:80"), here(&[20], &[]));
}

#[test]
fn missing_permissions_are_explained() {
    let mut machine = Machine::new();
    machine.process(10, 1, "nginx", "/system.slice/nginx.service");
    machine.listens("net", &[("0.0.0.0:80", 71)]);
    assert_eq!(
        machine.why_not("127.0.0.1:80"),
        "the socket that listens at 127.0.0.1:80 belongs to no process that is visible here"
    );
    fs::remove_dir_all(machine.proc.join("10/fd")).unwrap();
    assert_eq!(
        machine.why_not("127.0.0.1:80"),
        "the socket that listens at 127.0.0.1:80 belongs to user 33, whose processes this user may not examine"
    );
}

#[test]
fn addresses_of_other_machines_are_elsewhere() {
    let machine = Machine::new();
    for elsewhere in ["192.168.1.6:80", "10.0.0.7:80", "[fd00::3]:80"] {
        assert_eq!(machine.find(elsewhere), TargetLocation::Elsewhere, "{elsewhere}");
    }
    for here in ["127.1.2.3:80", "192.168.1.5:80", "0.0.0.0:80", "[::1]:80", "[fd00::2]:80"] {
        assert!(machine.why_not(here).starts_with("no process that listens at "), "{here}");
    }
    fs::remove_file(machine.proc.join("net/fib_trie")).unwrap();
    assert!(machine.why_not("10.0.0.7:80").starts_with("cannot read the addresses of this machine"));
}

#[test]
fn socket_activators_and_forwarders_are_not_servers() {
    let mut machine = Machine::new();
    machine.listens("net", &[("127.0.0.1:80", 71)]);
    machine.holds(1, 71);
    let why = machine.why_not("127.0.0.1:80");
    assert!(why.starts_with("`systemd` (pid 1) holds the socket that listens at 127.0.0.1:80"), "{why}");
    machine.process(10, 1, "server", "/system.slice/a.service");
    machine.holds(10, 71);
    assert_eq!(machine.find("127.0.0.1:80"), here(&[10], &[]), "it was started when it was needed");
    machine.process(11, 1, "rootlessport", LOGIN);
    machine.listens("net", &[("127.0.0.1:81", 72)]);
    machine.holds(11, 72);
    let why = machine.why_not("127.0.0.1:81");
    assert!(why.starts_with("`rootlessport` (pid 11) forwards connections to 127.0.0.1:81"), "{why}");
}

#[test]
fn a_target_that_started_plimsoll_excludes_its_children() {
    let machine = Machine::new();
    machine.listens("net", &[("127.0.0.1:80", 71)]);
    machine.holds(SHELL, 71);
    assert_eq!(machine.find("127.0.0.1:80"), here(&[], &[SHELL]));
}

#[test]
fn processes_that_come_and_go_are_followed() {
    let mut machine = Machine::new();
    machine.process(10, 1, "server", LOGIN);
    machine.listens("net", &[("127.0.0.1:80", 71)]);
    machine.holds(10, 71);
    let mut finder = machine.finder("127.0.0.1:80");
    for _ in 0..5 {
        assert_eq!(machine.look(&mut finder), here(&[10], &[]));
    }
    // A worker that gets the socket shortly after its start.
    machine.process(11, 1, "worker", LOGIN);
    assert_eq!(machine.look(&mut finder), here(&[10], &[]));
    machine.holds(11, 71);
    assert_eq!(machine.look(&mut finder), here(&[10, 11], &[]));
    machine.all.remove(&11);
    assert_eq!(machine.look(&mut finder), here(&[10], &[]));
    // An old process opens a socket in place of the first.
    machine.process(12, 1, "successor", LOGIN);
    for _ in 0..5 {
        machine.look(&mut finder);
    }
    machine.all.remove(&10);
    machine.listens("net", &[("127.0.0.1:80", 72)]);
    machine.holds(12, 72);
    assert_eq!(machine.look(&mut finder), here(&[12], &[]));
    // Another process with the id of the first. It is not the server.
    machine.process(12, 1, "another", LOGIN);
    machine.all.get_mut(&12).unwrap().started_ticks += 1;
    fs::remove_file(machine.proc.join("12/fd/72")).unwrap();
    assert!(matches!(machine.look(&mut finder), TargetLocation::Unknown(_)));
}
