//! What faults do to a site: whom they may hit, what is imposed on which host, which processes stand still, and how each
//! of it is undone. It must not decide when, nor whether that was wise.

mod hosts;
mod ports;
mod processes;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;

use experiment::plan;
use experiment::profile::Disk;

use self::hosts::Imposed;
use self::processes::Restart;
use super::Site;
use super::layout::Post;
use super::survey::Ports;
use crate::hosts::Host;
use crate::{Caller, Error};

/// What is broken at the moment, and what has to be known of the lab to break it.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Time dilation; 1 is real time.
    speed: f64,
    /// The target's ports.
    ports: Ports,
    /// What the profile of each host says of its disk, by host.
    disks: BTreeMap<String, Disk>,
    /// Posts that each occurrence of a fault hit: name, number.
    hit: BTreeMap<(String, u32), Vec<usize>>,
    /// Posts that stand still, each with the occurrence that holds it.
    paused: Vec<(String, usize)>,
    /// What is imposed on hosts, in the order in which it was.
    imposed: Vec<Imposed>,
    /// Hosts on which an occurrence ran a command.
    commanded: Vec<(String, String)>,
    /// Hosts that an occurrence crashed.
    crashed: Vec<(String, usize)>,
    /// Posts that are to be started again once they have ended.
    restarts: Vec<Restart>,
}

impl Broken {
    /// Nothing, in this lab.
    pub fn of(lab: &plan::Lab) -> Self {
        let disks = lab.hosts.iter().filter_map(|host| {
            let profile = lab.profile_of(host)?;
            Some((host.name.clone(), profile.disk.clone()))
        });
        let speed = if lab.speed > 0.0 { lab.speed } else { 1.0 };
        Self { speed, disks: disks.collect(), ..Self::default() }
    }
}

impl Site {
    /// Names of the members' hosts, in order; empty where the target is not ours.
    pub(crate) fn member_hosts(&self) -> Vec<String> {
        self.hosts_of(|post| post.member.is_some())
    }

    /// Names of the hosts that are between the clients and the members: clients go there, and no member is on them.
    pub(crate) fn fronts(&self) -> Vec<String> {
        let members = self.member_hosts();
        let mut serving = self.hosts_of(|post| post.service.is_some());
        serving.retain(|host| !members.contains(host));
        serving
    }

    fn hosts_of(&self, is: impl Fn(&Post) -> bool) -> Vec<String> {
        self.posts.iter().filter(|post| is(post)).map(|post| self.hosts[post.host].name().to_owned()).collect()
    }

    /// Names of the hosts that run a process of this role.
    pub(crate) fn running(&self, role: &str) -> Vec<String> {
        self.hosts_of(|post| post.start.role == role)
    }

    /// Names of all hosts, in order.
    pub(crate) fn host_names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name().to_owned()).collect()
    }

    /// Whether its host is this machine itself, which is not to be broken.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.hosts.iter().any(|host| host.kind() == "local")
    }

    /// Time dilation; 1 is real time.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.broken.speed
    }

    /// What the profile of a host says of its disk, at the lab's speed.
    pub(crate) fn profiled_disk(&self, host: &str) -> Option<Disk> {
        let disk = self.broken.disks.get(host)?;
        let at_speed = |figure: Option<f64>| figure.map(|figure| figure * self.broken.speed);
        Some(Disk {
            size_bytes: disk.size_bytes,
            read_iops: at_speed(disk.read_iops),
            write_iops: at_speed(disk.write_iops),
            read_bytes_per_s: at_speed(disk.read_bytes_per_s),
            write_bytes_per_s: at_speed(disk.write_bytes_per_s),
        })
    }

    /// The addresses of every host, in order: one on each of its networks.
    pub(crate) fn addresses(&self) -> Result<Vec<Vec<Ipv4Addr>>, Error> {
        let of = |host: &dyn Host| host.addresses().iter().map(|address| ipv4(host.name(), address)).collect();
        self.hosts.iter().map(|host| of(host.as_ref())).collect()
    }

    /// The address that clients have in the eyes of this one.
    pub(crate) fn clients_toward(&self, host: Ipv4Addr) -> Result<Ipv4Addr, Error> {
        // Connecting a datagram socket sends nothing: the kernel only says which way it would.
        let ask = || -> std::io::Result<SocketAddr> {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((host, 9))?;
            socket.local_addr()
        };
        match self.ground.inside(ask)?.map_err(Error::system(format!("find the way to {host}")))?.ip() {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(address) => Err(Error::Fault(format!("the clients have no IPv4 address, but {address}"))),
        }
    }

    /// Where the member on this host is called.
    pub(crate) fn service_of(&self, host: &str) -> String {
        let mut here = self.posts.iter().filter(|post| self.hosts[post.host].name() == host);
        here.find_map(|post| post.member.clone()).unwrap_or_else(|| self.service())
    }

    pub(crate) fn caller(&self) -> Arc<dyn Caller> {
        Arc::clone(&self.caller)
    }

    /// The member that the target's hook `leader` names.
    pub(crate) fn leader(&self) -> Result<String, Error> {
        let hook = self.hook("leader").ok_or_else(|| Error::Fault("this target has no hook `leader`".to_owned()))?;
        let answer = hook.ask()?;
        let leader = answer.get("leader").and_then(serde_json::Value::as_str);
        leader.map(str::to_owned).ok_or_else(|| Error::Fault("the hook `leader` names none".to_owned()))
    }

    /// The post of a role on a host; without a role, the member's.
    pub(crate) fn post_of(&self, host: &str, role: Option<&str>) -> Result<usize, Error> {
        let found = self.posts.iter().position(|post| {
            self.hosts[post.host].name() == host && role.map_or(post.member.is_some(), |role| post.start.role == role)
        });
        found.ok_or_else(|| Error::Fault(format!("{host} has no process `{}`", role.unwrap_or("of a member"))))
    }

    fn host_index(&self, host: &str) -> Result<usize, Error> {
        let known = || Error::NoVictim { on: host.to_owned(), known: self.host_names() };
        self.hosts.iter().position(|one| one.name() == host).ok_or_else(known)
    }
}

fn ipv4(host: &str, address: &str) -> Result<Ipv4Addr, Error> {
    let found = (address, 0).to_socket_addrs().map_err(Error::system(format!("find the address of {host}")))?;
    let mut v4 = found.filter_map(|address| match address.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    v4.next()
        .ok_or_else(|| Error::Fault(format!("{host} ({address}) has no IPv4 address, and only those can be cut off")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use record::events::What;

    use crate::fixture::stage::Stage;
    use crate::fixture::until;
    use crate::runner::Control;
    use crate::site::Site;

    const SQUEEZE: Control = Control::Cpu { of_profile: 0.5 };
    const SQUEEZED: &str = r#"{"control":"cpu","of_profile":0.5}"#;

    /// What `poll` saw, a line each.
    fn seen(site: &mut Site) -> Vec<String> {
        let line = |what| match what {
            What::ProcessUp { host, process, .. } => format!("{host} {process} up"),
            What::ProcessDown { host, process, how, expected, .. } => format!("{host} {process} down {how} {expected}"),
            What::HostUp { host, kind, .. } => format!("{host} up {kind}"),
            What::HostDown { host, expected } => format!("{host} down {expected}"),
            other => format!("{other:?}"),
        };
        site.poll().into_iter().map(|observed| line(observed.what)).collect()
    }

    #[test]
    fn what_one_occurrence_imposed_only_it_lifts() {
        let mut stage = Stage::of(3);
        stage.site.impose("a#1", &[("n1".to_owned(), SQUEEZE), ("n3".to_owned(), SQUEEZE)]).unwrap();
        stage.site.impose("a#2", &[("n3".to_owned(), SQUEEZE)]).unwrap();
        stage.done();
        stage.site.lift("a#1").unwrap();
        assert_eq!(stage.done(), ["n1 lift a#1", "n3 lift a#1"]);
        stage.site.lift("a#1").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0]);
        assert!(
            stage
                .site
                .impose("a#3", &[("n9".to_owned(), SQUEEZE)])
                .err()
                .unwrap()
                .to_string()
                .contains("no member `n9`")
        );
    }

    #[test]
    fn a_control_outlives_a_crash() {
        let mut stage = Stage::of(2);
        seen(&mut stage.site);
        stage.site.impose("cut#1", &[("n2".to_owned(), SQUEEZE)]).unwrap();
        stage.site.crash_host("n2", "crash#1").unwrap();
        assert_eq!(stage.done(), [&format!("n2 impose cut#1 {SQUEEZED}"), "n2 crash"]);
        assert_eq!(
            seen(&mut stage.site),
            ["n2 down true", "n2 server down signal 9 true", "n2 agent down signal 9 true"]
        );
        assert_eq!(stage.site.members().len(), 2);

        // What is imposed on a host that is down waits for it; what is lifted meanwhile is gone.
        stage.site.impose("cut#2", &[("n2".to_owned(), SQUEEZE)]).unwrap();
        stage.site.lift("cut#1").unwrap();
        assert!(stage.site.crash_host("n2", "crash#2").err().unwrap().to_string().contains("n2 is down already"));
        assert_eq!(stage.done(), [] as [&str; 0]);

        stage.site.boot_hosts("crash#2").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0], "it crashed nothing");
        stage.site.boot_hosts("crash#1").unwrap();
        let expected = ["n2 boot", &format!("n2 impose cut#2 {SQUEEZED}"), "n2 start server", "n2 start agent"];
        assert_eq!(stage.done(), expected);
        assert_eq!(seen(&mut stage.site), ["n2 up netns", "n2 server up", "n2 agent up"]);
        stage.site.boot_hosts("crash#1").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0]);
    }

    #[test]
    fn a_host_that_does_not_come_back_is_said() {
        let mut stage = Stage::of(2);
        stage.site.crash_host("n1", "crash#1").unwrap();
        stage.refuse(Some("boot"));
        assert_eq!(stage.site.boot_hosts("crash#1").err().unwrap().to_string(), "it cannot");
        stage.refuse(None);
        stage.done();
        stage.site.stop().unwrap();
        assert!(stage.done().iter().all(|line| line.starts_with("n2")), "nothing is asked of a host that is down");
    }

    #[test]
    fn two_that_hold_a_process_let_it_go_together() {
        let mut stage = Stage::of(1);
        let post = stage.site.post_of("n1", None).unwrap();
        stage.site.pause(post, "a#1").unwrap();
        stage.site.pause(post, "b#1").unwrap();
        stage.site.unpause("a#1");
        assert_eq!(stage.done(), ["n1 server group signal 19", "n1 server group signal 19"]);
        stage.site.unpause("b#1");
        stage.site.unpause("b#1");
        assert_eq!(stage.done(), ["n1 server group signal 18"]);
    }

    #[test]
    fn a_restart_goes_on_with_every_look() {
        let mut stage = Stage::of(1);
        seen(&mut stage.site);
        let post = stage.site.post_of("n1", Some("agent")).unwrap();
        stage.site.restart(post, Duration::from_millis(1)).unwrap();
        assert!(stage.site.restart(post, Duration::ZERO).err().unwrap().to_string().contains("already"));
        let mut all = Vec::new();
        until("it is up again", || {
            all.extend(seen(&mut stage.site));
            all.len() == 2
        });
        assert_eq!(all, ["n1 agent down signal 15 true", "n1 agent up"]);
        assert_eq!(stage.done(), ["n1 agent signal 15", "n1 start agent"]);
        stage.site.restart(post, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_restart_that_fails_is_said_once() {
        let mut stage = Stage::of(1);
        let post = stage.site.post_of("n1", None).unwrap();
        stage.site.restart(post, Duration::ZERO).unwrap();
        stage.refuse(Some("start server"));
        let mut all = Vec::new();
        until("it is noticed", || {
            all.extend(seen(&mut stage.site));
            all.iter().any(|line| line.contains("could not be started again: it cannot"))
        });
        assert!(seen(&mut stage.site).is_empty());
    }

    #[test]
    fn everything_is_mended_before_the_end() {
        let mut stage = Stage::of(2);
        let post = stage.site.post_of("n1", None).unwrap();
        stage.site.pause(post, "a#1").unwrap();
        stage.site.impose("b#1", &[("n2".to_owned(), Control::Freeze)]).unwrap();
        stage.done();
        stage.site.stop().unwrap();
        assert_eq!(stage.done()[..2], ["n2 lift b#1", "n1 server group signal 18"]);
    }
}
