//! Description of the hosts in each lab of a plan: the CPUs, memory and other resources of this
//! machine that each host gets.

use experiment::duration;
use experiment::plan::{Host, Lab, Plan, Trial};
use experiment::quantity::{show_bits_per_s, show_bytes, show_bytes_per_s};
use lab::placement::{Placement, place, room};
use runner::Envelope;

/// Returns lines for the hosts of each lab, with the reason if the hosts cannot be made. Returns an
/// empty text if there are no hosts.
pub fn words(plan: &Plan) -> String {
    let mut groups: Vec<(&Lab, Vec<&Trial>)> = Vec::new();
    for trial in plan.possible().iter().filter(|trial| !trial.lab.hosts.is_empty()) {
        match groups.iter_mut().find(|(lab, _)| lab.has_same_hosts(&trial.lab)) {
            Some((_, trials)) => trials.push(trial),
            None => groups.push((&trial.lab, vec![trial])),
        }
    }
    groups.iter().map(|(lab, trials)| format!("\n{}\n{}", heading(plan, trials), of_lab(lab, trials))).collect()
}

fn heading(plan: &Plan, trials: &[&Trial]) -> String {
    let mut variants = text::distinct(trials.iter().filter_map(|trial| trial.variant.as_deref()));
    variants.sort_unstable();
    match (trials, variants.as_slice()) {
        _ if trials.len() == plan.possible().len() => "hosts".to_owned(),
        (_, variants) if of_variants(plan, variants) == trials.len() => format!("hosts of {}", variants.join(", ")),
        ([only], _) => format!("hosts of {}", named(only)),
        ([first, ..], _) => format!("hosts of {} and {} more", named(first), trials.len() - 1),
        ([], _) => String::new(),
    }
}

/// Names a trial by its id, or by the search's condition if the search has not made trials yet.
fn named(trial: &Trial) -> String {
    match &trial.surviving {
        Some(condition) if trial.id.is_empty() => format!("the search with \"{condition}\""),
        _ => format!("trial {}", trial.id),
    }
}

/// Returns the number of trials of these variants.
fn of_variants(plan: &Plan, variants: &[&str]) -> usize {
    plan.possible().iter().filter(|trial| trial.variant.as_deref().is_some_and(|name| variants.contains(&name))).count()
}

fn of_lab(lab: &Lab, trials: &[&Trial]) -> String {
    // All these trials have the same hosts, but their faults may differ.
    let refused = lab::hosts::can_make(trials.iter().copied()).err().map(|refused| {
        let hint = refused.hint().map(|hint| format!("\n  {hint}")).unwrap_or_default();
        let is_machines = matches!(refused, lab::Error::DoesNotFit { .. } | lab::Error::Needs { .. });
        let who = if is_machines { "this machine cannot run these hosts" } else { "no machine can run these hosts" };
        format!("  {who}: {refused}{hint}\n")
    });
    let Ok(placed) = place(lab, &room(lab)) else { return refused.unwrap_or_default() };
    let rows = grouped(lab.hosts.iter().zip(&placed.envelopes).map(|(host, envelope)| row(lab, host, envelope)));
    let text: String = text::aligned(&rows).iter().map(|row| format!("  {row}\n")).collect();
    text + &clients(lab, &placed) + &refused.unwrap_or_default()
}

/// Joins adjacent hosts that differ only in their names into one line: `n1 … n16 (16 hosts)`.
fn grouped(rows: impl Iterator<Item = [String; 4]>) -> Vec<[String; 4]> {
    let mut groups: Vec<(Vec<String>, [String; 4])> = Vec::new();
    for row in rows {
        match groups.last_mut().filter(|(_, last)| last[1..] == row[1..]) {
            Some((names, _)) => names.push(row[0].clone()),
            None => groups.push((vec![row[0].clone()], row)),
        }
    }
    for (names, row) in &mut groups {
        match names.as_slice() {
            [] | [_] => {}
            [first, last] => row[0] = format!("{first}, {last}"),
            [first, .., last] => row[0] = format!("{first} … {last} ({} hosts)", names.len()),
        }
    }
    groups.into_iter().map(|(_, row)| row).collect()
}

/// Returns the columns for a host: name, roles, profile and resources.
fn row(lab: &Lab, host: &Host, envelope: &Envelope) -> [String; 4] {
    let gets = match &host.ssh {
        Some(address) => format!("at {address}, as it is"),
        None if host.is_pod => "a pod, as it is".to_owned(),
        None => gets(lab, host, envelope),
    };
    [host.name.clone(), host.roles.join(", "), host.profile.clone().unwrap_or_default(), gets]
}

fn gets(lab: &Lab, host: &Host, envelope: &Envelope) -> String {
    let cores = match (envelope.cores, envelope.core_speed) {
        (Some(cores), Some(share)) => format!("{cores} × {} core", plain(share)),
        (None, Some(share)) => format!("{} of each core", plain(share)),
        (_, None) => "all the CPU it gets".to_owned(),
    };
    let mut parts = vec![cores];
    parts.extend(envelope.memory_bytes.map(show_bytes));
    let link = &envelope.link;
    parts.extend(link.rate_bits_per_s.map(show_bits_per_s));
    parts.extend(link.delay_s.map(|delay_s| format!("{} delay", duration::show(delay_s))));
    parts.extend(link.loss_pct.map(|loss_pct| format!("{} % lost", plain(loss_pct))));
    let disk = &envelope.disk;
    parts.extend(disk.size_bytes.map(|size| format!("disk of {}", show_bytes(size))));
    let iops = [(disk.read_iops, "reads/s"), (disk.write_iops, "writes/s")];
    let iops = iops.iter().filter_map(|(iops, what)| Some(format!("{} {what}", plain((*iops)?)))).collect::<Vec<_>>();
    if !iops.is_empty() {
        parts.push(format!("disk {}", iops.join(", ")));
    }
    parts.extend(disk.read_bytes_per_s.map(|read| format!("{} read", show_bytes_per_s(read))));
    parts.extend(disk.write_bytes_per_s.map(|write| format!("{} written", show_bytes_per_s(write))));
    if lab.networks.len() > 1 && !host.networks.is_empty() {
        let routes = if host.routes { ", routes" } else { "" };
        parts.push(format!("on {}{routes}", host.networks.join(" and ")));
    }
    if !envelope.cpus.is_empty() {
        parts.push(cpus(&envelope.cpus));
    }
    parts.join(", ")
}

fn clients(lab: &Lab, placed: &Placement) -> String {
    match placed.generator_cpus.as_slice() {
        _ if !lab.is_virtual() => String::new(),
        [] => "  clients  on the same CPUs as the hosts, which lose the CPU time that clients use\n".to_owned(),
        own => format!("  clients  {}, which no host uses\n", cpus(own)),
    }
}

/// Formats CPU numbers as `CPU 0` or `CPUs 0–3, 6`.
fn cpus(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}–{last}") })
        .collect();
    format!("{} {}", if numbers.len() == 1 { "CPU" } else { "CPUs" }, runs.join(", "))
}

/// Rounds to three decimals.
fn plain(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use experiment::profile::{Disk, Link};

    use super::*;

    #[test]
    fn consecutive_cpus_are_shown_as_ranges() {
        assert_eq!(cpus(&[3]), "CPU 3");
        assert_eq!(cpus(&[0, 1, 2, 6, 8, 9]), "CPUs 0–2, 6, 8–9");
    }

    #[test]
    fn only_the_limits_of_a_host_are_shown() {
        let (lab, host) = (Lab::default(), Host::default());
        let envelope = Envelope {
            cores: Some(4),
            core_speed: Some(0.1 * 0.5),
            cpus: vec![0, 1],
            memory_bytes: Some(1 << 30),
            link: Link { rate_bits_per_s: Some(5e7), delay_s: Some(0.002), loss_pct: None },
            disk: Disk { write_iops: Some(100.0), ..Disk::default() },
            ..Envelope::default()
        };
        assert_eq!(gets(&lab, &host, &envelope), "4 × 0.05 core, 1GiB, 50mbit, 2ms delay, disk 100 writes/s, CPUs 0–1");
        assert_eq!(gets(&lab, &host, &Envelope::default()), "all the CPU it gets");
        let real = Host { name: "n1".into(), ssh: Some("pi@10.0.0.11".into()), ..Host::default() };
        assert_eq!(row(&lab, &real, &envelope)[3], "at pi@10.0.0.11, as it is");
    }

    #[test]
    fn hosts_that_differ_in_their_names_only_share_a_line() {
        let rows = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "x"), ("e", "x"), ("f", "x")];
        let rows = rows.map(|(name, gets)| [name, "", "", gets].map(str::to_owned));
        let names: Vec<String> = grouped(rows.into_iter()).into_iter().map(|[name, ..]| name).collect();
        assert_eq!(names, ["a, b", "c", "d … f (3 hosts)"]);
    }
}
