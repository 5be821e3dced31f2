//! `[lab]` of a trial: which hosts. It must not know what the machine can do.

use crate::plan::trial::Scene;
use crate::plan::{Host, Lab};
use crate::problem::Problem;
use crate::section::Section;

/// This machine as it is.
pub(super) fn unlimited() -> Lab {
    Lab { speed: 1.0, ..Lab::default() }
}

pub(super) fn read(section: &Section<'_>, scene: &mut Scene<'_>) -> Lab {
    let ways: Vec<&str> = ["hosts", "host", "ssh"].into_iter().filter(|key| section.has(key)).collect();
    if let [first, second, ..] = ways.as_slice() {
        scene.problems.push(
            Problem::new(section.place(second), format!("`{first}` and `{second}` exclude each other"))
                .expected("the hosts a second time")
                .related(section.place(first), "the hosts a first time")
                .hint("`hosts` for a number of equal ones, [[lab.host]] for each by itself, `ssh` for real machines"),
        );
    }
    Lab { hosts: hosts(section, scene), speed: section.number("speed").unwrap_or(1.0), ..Lab::default() }
}

fn hosts(section: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Host> {
    let profile = section.text("profile").map(ToOwned::to_owned);
    let plain = |index: usize| Host { name: format!("n{}", index + 1), profile: profile.clone(), ..Host::default() };
    if section.has("host") {
        return each(section, profile.as_deref(), scene);
    }
    if let Some(list) = section.node("ssh").and_then(|node| node.list()) {
        let addresses = list.iter().filter_map(|node| node.text());
        return addresses.enumerate().map(|(index, ssh)| Host { ssh: Some(ssh.to_owned()), ..plain(index) }).collect();
    }
    let count = section.whole("hosts").unwrap_or(usize::from(profile.is_some()));
    (0..count).map(plain).collect()
}

/// `[[lab.host]]`. One of several that share a name is called `name1`, `name2`, …
fn each(section: &Section<'_>, profile: Option<&str>, scene: &mut Scene<'_>) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for host in section.sections("host") {
        let count: usize = host.whole("count").unwrap_or(1);
        for number in 1..=count {
            let name = match host.text("name") {
                None => format!("n{}", hosts.len() + 1),
                Some(name) if count == 1 => name.to_owned(),
                Some(name) => format!("{name}{number}"),
            };
            if hosts.iter().any(|known| known.name == name) {
                let problem = Problem::new(host.place("name"), format!("two hosts are called `{name}`"));
                scene.problems.push(problem.expected("the second"));
            }
            hosts.push(Host {
                name,
                role: host.text("role").map(ToOwned::to_owned),
                profile: host.text("profile").or(profile).map(ToOwned::to_owned),
                ssh: host.text("ssh").map(ToOwned::to_owned),
                ..Host::default()
            });
        }
    }
    hosts
}
