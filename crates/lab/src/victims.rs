//! Whom a fault hits: `on` worked out into members. It must not touch them.

use experiment::plan;

use crate::{Error, Site};

/// The hosts whose members this occurrence of the fault hits, at least one. The same seed and number give the same.
pub fn choose(fault: &plan::Fault, number: u32, site: &Site) -> Result<Vec<String>, Error> {
    let members = site.serving();
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
mod tests;
