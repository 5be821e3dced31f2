//! Who runs where: the hosts of a lab held against this machine, worked out into an envelope for each and CPUs for the
//! clients; or why they do not fit. Pure. It must not touch the machine.

use std::collections::BTreeMap;

use experiment::plan;
use experiment::profile::{Disk, Link, Profile};
use experiment::quantity::show_bytes;

use crate::Error;
use crate::runner::Envelope;

/// As much of the CPUs may be asked for: beyond, hosts wait for each other and no core gets what it was promised.
const USABLE: f64 = 0.8;

/// Below this share of a core the shortest quota that the kernel gives is too coarse.
const SMALLEST_SHARE: f64 = 0.01;

/// What rounding may add up to.
const ROUNDING: f64 = 1e-9;

/// What of this machine matters to a lab.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Room {
    /// CPUs that may be used, by number, ascending.
    pub cpus: Vec<u32>,
    /// Memory that is available, bytes.
    pub memory_bytes: u64,
    /// Rounds/s of one core, as [`crate::runner::machine::score`] has it; only needed for profiles that give no speed.
    pub score: Option<f64>,
    /// Whether hosts cannot be kept off the clients' CPUs: the kernel or the system lacks `cpuset`.
    pub shares_cpus: bool,
}

/// Who runs where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// CPUs that only the clients use; empty: they share all.
    pub generator_cpus: Vec<u32>,
    /// For each host of the lab, in its order.
    pub envelopes: Vec<Envelope>,
}

/// Whether the machine's score has to be known.
#[must_use]
pub fn needs_score(lab: &plan::Lab) -> bool {
    lab.is_virtual() && lab.profiles.iter().any(|profile| profile.core_speed.is_none() && profile.score.is_some())
}

/// Places a lab's virtual hosts; an ssh host gets an envelope without limits.
///
/// # Errors
/// [`Error::DoesNotFit`], with the largest `lab.speed` that would.
pub fn place(lab: &plan::Lab, room: &Room) -> Result<Placement, Error> {
    if !lab.is_virtual() {
        return Ok(Placement { generator_cpus: Vec::new(), envelopes: vec![Envelope::default(); lab.hosts.len()] });
    }
    let (hosts_cpus, generator_cpus) = divide(lab, room)?;
    fits(lab, room, hosts_cpus.len())?;
    let cpus = if generator_cpus.is_empty() { Vec::new() } else { hosts_cpus };
    let envelope = |host: &plan::Host| match host.ssh {
        Some(_) => Envelope::default(),
        None => Envelope { cpus: cpus.clone(), ..envelope(lab, host, room) },
    };
    Ok(Placement { envelopes: lab.hosts.iter().map(envelope).collect(), generator_cpus })
}

/// CPUs for the hosts and, the last ones, for the clients alone.
fn divide(lab: &plan::Lab, room: &Room) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let all = room.cpus.len();
    let unasked = if room.shares_cpus { 0 } else { all / 2 };
    let clients = lab.generator_cpus.map_or(unasked, |asked| asked as usize);
    if clients > 0 && clients >= all {
        let what = format!("lab.generator_cpus = {clients} leaves the hosts none of {}", cpus_of(all));
        return Err(Error::DoesNotFit { what, speed: None });
    }
    let (hosts, clients) = room.cpus.split_at(all - clients);
    Ok((hosts.to_vec(), clients.to_vec()))
}

fn cpus_of(count: usize) -> String {
    if count == 1 { "this machine's only CPU".to_owned() } else { format!("this machine's {count} CPUs") }
}

/// What each core of a profile can do at `lab.speed` = 1; `None`: whatever the machine's can.
fn core_speed(profile: &Profile, room: &Room) -> Option<f64> {
    let by_score = || Some(profile.score? / room.score?);
    profile.core_speed.or_else(by_score).or_else(|| profile.cores.map(|_| 1.0))
}

fn envelope(lab: &plan::Lab, host: &plan::Host, room: &Room) -> Envelope {
    let nothing = Profile::default();
    let profile = lab.profile_of(host).unwrap_or(&nothing);
    let speed = lab.speed;
    // A machine can be slowed as a whole, but not made faster than it is.
    let share = core_speed(profile, room).map(|share| share * speed).or_else(|| (speed < 1.0).then_some(speed));
    let scaled = |value: Option<f64>| value.map(|value| value * speed);
    let link = networks(lab, host).fold(profile.link.clone(), |link, network| tighter(&link, &network.link));
    let disk = &profile.disk;
    Envelope {
        cores: profile.cores,
        core_speed: share,
        cpus: Vec::new(),
        memory_bytes: profile.memory_bytes,
        link: Link {
            rate_bits_per_s: scaled(link.rate_bits_per_s),
            delay_s: link.delay_s.map(|delay_s| delay_s / speed),
            loss_pct: link.loss_pct,
        },
        disk: Disk {
            size_bytes: disk.size_bytes,
            read_iops: scaled(disk.read_iops),
            write_iops: scaled(disk.write_iops),
            read_bytes_per_s: scaled(disk.read_bytes_per_s),
            write_bytes_per_s: scaled(disk.write_bytes_per_s),
        },
    }
}

/// The networks that a host is on.
fn networks<'a>(lab: &'a plan::Lab, host: &'a plan::Host) -> impl Iterator<Item = &'a plan::Network> {
    let is_on = |(index, network): &(usize, &plan::Network)| {
        if host.networks.is_empty() { *index == 0 } else { host.networks.contains(&network.name) }
    };
    lab.networks.iter().enumerate().filter(is_on).map(|(_, network)| network)
}

/// Both limits at once.
fn tighter(a: &Link, b: &Link) -> Link {
    let either = |a: Option<f64>, b: Option<f64>, both: fn(f64, f64) -> f64| match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (one, other) => one.or(other),
    };
    Link {
        rate_bits_per_s: either(a.rate_bits_per_s, b.rate_bits_per_s, f64::min),
        delay_s: either(a.delay_s, b.delay_s, f64::max),
        loss_pct: either(a.loss_pct, b.loss_pct, f64::max),
    }
}

/// What the hosts of one profile ask for.
struct Claim<'a> {
    profile: &'a Profile,
    hosts: usize,
    cores: f64,
    core_speed: f64,
}

impl Claim<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred hosts")]
    fn sum(&self) -> f64 {
        self.hosts as f64 * self.cores * self.core_speed
    }

    fn words(&self, speed: f64) -> String {
        let hosts = if self.hosts == 1 { String::new() } else { format!("{} × ", self.hosts) };
        let cores = if self.cores > 1.0 { format!("{} cores", self.cores) } else { "1 core".to_owned() };
        format!("{hosts}{} with {cores} at {}", self.profile.name, three_digits(self.core_speed * speed))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred CPUs")]
fn claims<'a>(lab: &'a plan::Lab, room: &Room, cpus: usize) -> Vec<Claim<'a>> {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for profile in lab.hosts.iter().filter(|host| host.ssh.is_none()).filter_map(|host| host.profile.as_deref()) {
        *hosts.entry(profile).or_default() += 1;
    }
    let claim = |profile: &'a Profile| {
        Some(Claim {
            profile,
            hosts: *hosts.get(profile.name.as_str())?,
            cores: profile.cores.map_or(cpus as f64, f64::from),
            core_speed: core_speed(profile, room)?,
        })
    };
    lab.profiles.iter().filter_map(claim).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred CPUs")]
fn fits(lab: &plan::Lab, room: &Room, cpus: usize) -> Result<(), Error> {
    if let (true, None) = (needs_score(lab), room.score) {
        let what = "a profile gives a score and no speed, and this machine's own score is not known".to_owned();
        return Err(Error::DoesNotFit { what, speed: None });
    }
    let claims = claims(lab, room, cpus);
    let usable = USABLE * cpus as f64;
    let asked: f64 = claims.iter().map(Claim::sum).sum();
    let fastest = claims.iter().map(|claim| claim.core_speed).fold(0.0, f64::max);
    let slowest = claims.iter().map(|claim| claim.core_speed).fold(f64::INFINITY, f64::min);
    let largest = rounded_down((usable / asked).min(1.0 / fastest));
    let mut wrong = too_much_cpu(lab.speed, &claims, asked, cpus, usable);
    let memory = too_much_memory(lab, room);
    let slower_helps = memory.is_none() && !wrong.is_empty() && slowest * largest + ROUNDING >= SMALLEST_SHARE;
    let smallest = rounded_up(SMALLEST_SHARE / slowest);
    wrong.extend(too_small(lab.speed, &claims, (smallest <= largest).then_some(smallest)));
    wrong.extend(memory);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::DoesNotFit { what: wrong.join("; "), speed: slower_helps.then_some(largest) })
}

fn too_much_cpu(speed: f64, claims: &[Claim<'_>], asked: f64, cpus: usize, usable: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    for claim in claims.iter().filter(|claim| claim.core_speed * speed > 1.0 + ROUNDING) {
        let share = three_digits(claim.core_speed * speed);
        wrong.push(format!("a core of {} is {share} times as fast as one of this machine", claim.profile.name));
    }
    if asked * speed > usable + ROUNDING {
        let words: Vec<String> = claims.iter().map(|claim| claim.words(speed)).collect();
        let cpus = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
        wrong.push(format!(
            "the hosts ask for {} of this machine's cores ({}), and {} is what may be asked of the {cpus} that they have",
            three_digits(asked * speed),
            words.join(", "),
            three_digits(usable),
        ));
    }
    wrong
}

/// `smallest`: the `lab.speed` from which on it is not, if the hosts fit at that.
fn too_small(speed: f64, claims: &[Claim<'_>], smallest: Option<f64>) -> Option<String> {
    let claim = claims.iter().find(|claim| claim.core_speed * speed < SMALLEST_SHARE - ROUNDING)?;
    let remedy = match smallest {
        Some(smallest) => format!(": lab.speed has to be {smallest} at least"),
        None => ", and at the lab.speed that it takes the hosts do not fit".to_owned(),
    };
    Some(format!(
        "a core of {} would be {} of a core, and less than {SMALLEST_SHARE} cannot be given out{remedy}",
        claim.profile.name,
        three_digits(claim.core_speed * speed)
    ))
}

fn too_much_memory(lab: &plan::Lab, room: &Room) -> Option<String> {
    let hosts = lab.hosts.iter().filter(|host| host.ssh.is_none());
    let asked = hosts.filter_map(|host| lab.profile_of(host)?.memory_bytes).fold(0_u64, u64::saturating_add);
    (asked > room.memory_bytes).then(|| {
        let (asked, there) = (show_bytes(asked), show_bytes(room.memory_bytes));
        format!("the hosts have {asked} of memory in all, and {there} is available")
    })
}

/// Rounded for a person.
fn three_digits(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale).round() / scale
}

/// The largest number of three digits that is not larger.
fn rounded_down(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale + ROUNDING).floor() / scale
}

/// The smallest number of three digits that is not smaller.
fn rounded_up(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale - ROUNDING).ceil() / scale
}

/// By what a number is multiplied to have three digits ahead of the point.
fn scale(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { 10_f64.powf(2.0 - value.log10().floor()) } else { 1.0 }
}

#[cfg(test)]
mod tests;
