//! Machines over ssh, made for a test. Each is a set of namespaces with Debian's own sshd, and its
//! own processes, temporary folders and address. They share a bridge in a namespace in which the
//! test plays Plimsoll. They end with the test in every case, because the kernel kills the
//! processes that hold them.
#![allow(clippy::disallowed_methods, reason = "a test waits for another process by looking again")]
#![allow(clippy::print_stderr, reason = "what was not tested is said where the test is played")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::lab_traces::{self, Turn};
use crate::sandbox::{Sandbox, until};

/// First script of a machine. Arguments: its folder and its address. A line on its standard input
/// means that its link exists.
const INIT: &str = r#"
set -e
folder=$1
read go
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/here "$folder/tmp" "$folder/var" "$folder/root"
cp "$folder/host_key" "$folder/sshd_config" "$folder/authorized" /run/here
chmod 600 /run/here/host_key
chmod 1777 "$folder/tmp" "$folder/var"
ip link set lo up
ip addr add "$2/24" dev eth0
ip link set eth0 up
mount --bind "$folder/var" /var/tmp
mount --bind "$folder/tmp" /tmp
mount --bind "$folder/root" /root
exec /usr/sbin/sshd -D -e -f /run/here/sshd_config
"#;

const SSHD: &str = "HostKey /run/here/host_key\nAuthorizedKeysFile /run/here/authorized\nStrictModes no\nUsePAM no\n\
                    PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n\
                    ClientAliveInterval 3\nClientAliveCountMax 2\n\
                    SetEnv PATH=/run/here/bin:/usr/sbin:/usr/bin:/sbin:/bin\n";

/// Some machines and the network between them.
pub struct Machines {
    folder: PathBuf,
    wire: Child,
    machines: Vec<Machine>,
    /// Turn of the test, because these machines are on this machine, too. Dropped last.
    _turn: Turn,
}

/// A machine.
pub struct Machine {
    folder: PathBuf,
    pub address: String,
    holder: Child,
    init: u32,
}

impl Machines {
    /// Makes this number of machines. If that is not possible, prints a message and returns `None`.
    pub fn make(sandbox: &Sandbox, count: usize) -> Option<Self> {
        for program in ["/usr/sbin/sshd", "/usr/bin/ssh"] {
            if !Path::new(program).exists() {
                eprintln!("NOT TESTED: there is no {program} (openssh-server, openssh-client)");
                return None;
            }
        }
        let turn = lab_traces::turn()?;
        let folder = sandbox.path().join("machines");
        fs::create_dir(&folder).unwrap();
        key(&folder.join("key"));
        let mut wire = held("unshare", &["-n", "sh", "-c", WIRE]);
        let mut up = String::new();
        BufReader::new(wire.stdout.take().unwrap()).read_line(&mut up).unwrap();
        assert_eq!(up, "up\n", "the network of the machines");
        let mut machines = Self { folder, wire, machines: Vec::new(), _turn: turn };
        for number in 1..=count {
            let machine = machines.machine(number);
            machines.machines.push(machine);
        }
        machines.write_config();
        Some(machines)
    }

    fn machine(&self, number: usize) -> Machine {
        let (folder, address) = (self.folder.join(format!("m{number}")), format!("10.84.0.{number}"));
        fs::create_dir(&folder).unwrap();
        key(&folder.join("host_key"));
        fs::copy(self.folder.join("key.pub"), folder.join("authorized")).unwrap();
        fs::write(folder.join("sshd_config"), SSHD).unwrap();
        let words = ["-n", "-m", "-p", "-i", "-u", "-f", "--kill-child", "--mount-proc", "sh", "-c", INIT, "init"];
        let mut holder = held("unshare", &[&words[..], &[folder.to_str().unwrap(), &address]].concat());
        let log = fs::File::create(folder.join("log")).unwrap();
        drain(holder.stderr.take().unwrap(), log);
        let mut init = 0;
        until("the machine is there", || {
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap_or_default();
            init = children.trim().parse().unwrap_or(0);
            init != 0
        });
        let link = format!(
            "ip link add m{number} type veth peer name eth0 netns {init} && ip link set m{number} master bridge up"
        );
        self.on_the_wire(&link);
        holder.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let machine = Machine { folder, address, holder, init };
        until("its sshd listens", || machine.log().contains("Server listening"));
        machine
    }

    /// Writes ssh's configuration and the known host keys.
    fn write_config(&self) {
        let folder = self.folder.display();
        let config = format!(
            "Host *\n  User root\n  IdentityFile {folder}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known\n  \
             GlobalKnownHostsFile /dev/null\n"
        );
        fs::write(self.config(), config).unwrap();
        let known = self.machines.iter().map(|machine| {
            let key = fs::read_to_string(machine.folder.join("host_key.pub")).unwrap();
            format!("{} {key}", machine.address)
        });
        fs::write(self.known(), known.collect::<String>()).unwrap();
    }

    /// Adds lines at the beginning of ssh's configuration.
    pub fn configure(&self, more: &str) {
        let config = fs::read_to_string(self.config()).unwrap();
        fs::write(self.config(), format!("{more}{config}")).unwrap();
    }

    /// Returns the path of ssh's configuration, for `PLIMSOLL_SSH_CONFIG`.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    /// Returns the path of the known host keys.
    pub fn known(&self) -> PathBuf {
        self.folder.join("known")
    }

    /// Returns the beginning of a command line that runs a command on the machines' network.
    pub fn through(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.wire.id()), "--".to_owned()]
    }

    /// Runs a shell script on the network.
    pub fn on_the_wire(&self, script: &str) {
        let through = self.through();
        let played = Command::new(&through[0]).args(&through[1..]).args(["sh", "-c", script]).status().unwrap();
        assert!(played.success(), "{script}");
    }

    /// Takes a machine off the network without notice.
    pub fn unplug(&self, number: usize) {
        self.on_the_wire(&format!("ip link set m{number} down"));
    }

    /// Returns the machine with this number, from 1.
    pub fn of(&self, number: usize) -> &Machine {
        &self.machines[number - 1]
    }

    /// Returns the processes and files that are left on all machines after a while.
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for _ in 0..2400 {
            left = self.machines.iter().flat_map(|machine| [machine.processes(), machine.files()].concat()).collect();
            if left.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        left
    }
}

impl Machine {
    /// Returns the log of its sshd.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Returns the command lines of its processes, except those of sshd.
    pub fn processes(&self) -> Vec<String> {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(&self.init.to_string());
        let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let inside = numbers.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && space(pid) == own);
        let lines = inside.map(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).replace('\0', " ")
        });
        lines.filter(|line| !line.starts_with("sshd: ") && !line.is_empty()).collect()
    }

    /// Returns the files in its temporary folders and in its home folder.
    pub fn files(&self) -> Vec<String> {
        let rooms = ["tmp", "var", "root"].map(|room| self.folder.join(room));
        let entries = rooms.iter().flat_map(|room| fs::read_dir(room).unwrap().flatten());
        entries.map(|entry| entry.path().display().to_string()).collect()
    }

    /// Returns the network configuration of its kernel: dropped packets, queues, segments.
    pub fn network(&self) -> String {
        let says = "nft list ruleset; tc qdisc; ip -d -o link | sed \"s/.* \\(gso_max_segs [0-9]*\\).*/\\1/\"; ls /sys/class/net";
        let output = self.there(says).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Adds a program that is found before the system's own.
    pub fn pretend(&self, name: &str, script: &str) {
        let path = self.folder.join("tmp").join(name);
        fixture::program(&path, &format!("#!/bin/sh\n{script}\n"));
        let into = format!("mkdir -p /run/here/bin && mv /tmp/{name} /run/here/bin");
        self.play(&into);
    }

    /// Runs a shell script on the machine, without ssh.
    pub fn play(&self, script: &str) {
        let played = self.there(script).status().unwrap();
        assert!(played.success(), "{script}");
    }

    fn there(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        // Also enter its root: a process that enters a mount namespace from a changed root is
        // outside of both.
        command.args(["-t", &self.init.to_string(), "-m", "-p", "-n", "-u", "-r", "-w", "sh", "-c", script]);
        command
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            if std::thread::panicking() {
                eprintln!("sshd at {}:\n{}", machine.address, machine.log());
            }
            end(&mut machine.holder);
            let process = format!("/proc/{}", machine.init);
            for _ in 0..200 {
                if !Path::new(&process).exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        end(&mut self.wire);
    }
}

/// Network of the machines: a bridge, on which Plimsoll has the address .254.
const WIRE: &str = "ip link set lo up && ip link add bridge type bridge && ip addr add 10.84.0.254/24 dev bridge && \
                    ip link set bridge up && echo up && read end";

/// Starts a process that holds namespaces. The kernel kills it when the test's thread ends.
fn held(program: &str, words: &[&str]) -> Child {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn drain(mut from: impl std::io::Read + Send + 'static, mut to: fs::File) {
    std::thread::Builder::new().name("sshd's log".to_owned()).spawn(move || std::io::copy(&mut from, &mut to)).unwrap();
}

fn key(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    assert!(command.status().unwrap().success());
}
