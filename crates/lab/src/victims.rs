//! Whom a fault hits: `on` worked out into members or hosts. It must not touch them.

use experiment::plan;

use crate::{Error, Site};

/// The hosts whose members this occurrence of the fault hits, at least one. The same seed and number give the same.
pub fn choose(fault: &plan::Fault, number: u32, site: &Site) -> Result<Vec<String>, Error> {
    of(fault, number, site, site.member_hosts())
}

/// The same of the hosts that run a process of this role; without a role, of the members.
pub fn running(fault: &plan::Fault, number: u32, site: &Site, role: Option<&str>) -> Result<Vec<String>, Error> {
    let hosts = role.map(|role| site.running(role)).filter(|hosts| !hosts.is_empty());
    of(fault, number, site, hosts.unwrap_or_else(|| site.member_hosts()))
}

/// The hosts that this occurrence of a fault of hosts hits: those of [`choose`], or the host that `on` names, whatever it
/// runs. This machine as a whole is none.
pub fn hosts(fault: &plan::Fault, number: u32, site: &Site) -> Result<Vec<String>, Error> {
    let hosts = any_hosts(fault, number, site)?;
    if site.is_this_machine() { Err(Error::NotAHost) } else { Ok(hosts) }
}

/// The same, where it may be this machine.
pub fn any_hosts(fault: &plan::Fault, number: u32, site: &Site) -> Result<Vec<String>, Error> {
    let members = site.member_hosts();
    if !members.is_empty() && site.host_names().contains(&fault.on) {
        return Ok(vec![fault.on.clone()]);
    }
    of(fault, number, site, members)
}

fn of(fault: &plan::Fault, number: u32, site: &Site, members: Vec<String>) -> Result<Vec<String>, Error> {
    if members.is_empty() {
        return Err(Error::NotOurs { kind: fault.kind.clone() });
    }
    if fault.on == "leader" && !members.iter().any(|name| name == "leader") {
        let leader = site.leader()?;
        return named(&leader, &members);
    }
    among(&fault.on, fault.seed.wrapping_add(u64::from(number)), &members)
}

fn among(on: &str, seed: u64, members: &[String]) -> Result<Vec<String>, Error> {
    let count = match on {
        "one" => 1,
        "all" => members.len(),
        "minority" => members.len().saturating_sub(1) / 2,
        "majority" => members.len() / 2 + 1,
        name => return named(name, members),
    };
    if count == 0 {
        let known = vec![format!("{} members, of which none are a minority", members.len())];
        return Err(Error::NoVictim { on: on.to_owned(), known });
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen = random.choose_multiple(members.iter().enumerate(), count);
    chosen.sort_unstable();
    Ok(chosen.into_iter().map(|(_, name)| name.clone()).collect())
}

fn named(name: &str, members: &[String]) -> Result<Vec<String>, Error> {
    if members.iter().any(|member| member == name) {
        return Ok(vec![name.to_owned()]);
    }
    Err(Error::NoVictim { on: name.to_owned(), known: members.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("n{number}")).collect()
    }

    #[test]
    fn counts_are_as_the_words_say() {
        for (count, minority, majority) in [(1, 0, 1), (2, 0, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3), (16, 7, 9)] {
            let chosen = |on: &str| among(on, 7, &members(count)).map_or(0, |chosen| chosen.len());
            assert_eq!((chosen("one"), chosen("all")), (1, count));
            assert_eq!((chosen("minority"), chosen("majority")), (minority, majority), "of {count}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let chosen = |seed| among("one", seed, &members(5)).unwrap();
        assert_eq!(chosen(3), chosen(3));
        let all: std::collections::BTreeSet<_> = (0..100).map(chosen).collect();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn names_are_members_or_errors() {
        assert_eq!(among("n2", 1, &members(3)).unwrap(), ["n2"]);
        let error = among("n9", 1, &members(2)).err().unwrap();
        assert_eq!(
            (error.to_string().as_str(), error.hint().unwrap().as_str()),
            ("no member `n9`", "there are: n1, n2")
        );
        assert!(among("minority", 1, &members(2)).err().unwrap().hint().unwrap().contains("none are a minority"));
    }
}
