//! A `profiles/NAME.toml` into a profile, or everything that is wrong with it at once. Whether a machine can play it is
//! the lab's question.

use std::sync::Arc;

use crate::keys::profile::PROFILE;
use crate::problem::{Problem, Problems};
use crate::profile::{Disk, Link, Price, Profile};
use crate::section::Section;
use crate::shape::{Mode, Shape};
use crate::source::Source;
use crate::syntax;
use crate::tree::Place;

/// Sections of figures; each says where its figures come from.
const SECTIONS: [&str; 6] = ["cpu", "memory", "link", "disk", "power", "price"];

/// Reads the profile `name`.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn parse(name: &str, source: &Source) -> Result<Profile, Problems> {
    let file = Arc::new(source.clone());
    let (table, mut problems) = syntax::parse(&file);
    let syntax_is_broken = !problems.is_empty();
    let start = Place::new(&file, 0, 0..0);
    Shape { root: PROFILE, mode: Mode::Whole, problems: &mut problems }.table("", PROFILE, &table, &start);
    let root = Section { table: &table, keys: PROFILE, place: &start };
    check(&root, &mut problems);
    let profile = resolve(name, &root);
    if problems.is_empty() { Ok(profile) } else { Err(Problems::new(problems, syntax_is_broken)) }
}

fn resolve(name: &str, root: &Section<'_>) -> Profile {
    let of = |section: &str| root.section(section);
    let number = |section: &str, key: &str| of(section)?.number(key);
    let amount = |section: &str, key: &str| of(section)?.amount(key);
    Profile {
        name: name.to_owned(),
        what: root.text("what").unwrap_or_default().to_owned(),
        source: sources(root),
        cores: of("cpu").and_then(|cpu| cpu.whole("cores")),
        core_speed: number("cpu", "speed"),
        score: number("cpu", "score"),
        memory_bytes: amount("memory", "size").map(whole_bytes),
        link: Link {
            rate_bits_per_s: amount("link", "rate"),
            delay_s: of("link").and_then(|link| link.seconds("delay")),
            loss_pct: number("link", "loss_pct"),
        },
        disk: Disk {
            size_bytes: amount("disk", "size").map(whole_bytes),
            read_iops: number("disk", "read_iops"),
            write_iops: number("disk", "write_iops"),
            read_bytes_per_s: amount("disk", "read_rate"),
            write_bytes_per_s: amount("disk", "write_rate"),
        },
        idle_watts: number("power", "idle_watts"),
        load_watts: number("power", "load_watts"),
        price: of("price").and_then(|price| {
            Some(Price { amount: price.number("amount")?, currency: price.text("currency")?.to_owned() })
        }),
        lifetime_years: root.number("lifetime_years"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0 and far below 2^64")]
fn whole_bytes(bytes: f64) -> u64 {
    bytes.round() as u64
}

fn sources(root: &Section<'_>) -> String {
    let line = |name: &&str| Some(format!("{name}: {}", root.section(name)?.text("source")?));
    SECTIONS.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

fn check(root: &Section<'_>, problems: &mut Vec<Problem>) {
    for section in SECTIONS.iter().filter_map(|name| root.section(name)) {
        if section.table.entries.iter().all(|entry| entry.key == "source") {
            problems
                .push(Problem::absent(section.place, "this section has no figures").expected("nothing but `source`"));
        }
    }
    if let Some(link) = root.section("link") {
        check_loss(&link, problems);
    }
    if let Some(power) = root.section("power")
        && let (Some(idle), Some(load)) = (power.number("idle_watts"), power.number("load_watts"))
        && idle > load
    {
        let problem = Problem::new(power.place("idle_watts"), "it cannot draw more when idle than under load");
        problems.push(problem.expected("more than `load_watts`").related(power.place("load_watts"), "under load"));
    }
    if let Some(price) = root.section("price")
        && let Some(currency) = price.text("currency")
        && !(currency.len() == 3 && currency.chars().all(|c| c.is_ascii_uppercase()))
    {
        let problem = Problem::new(price.place("currency"), format!("\"{currency}\" is not a currency"));
        problems.push(problem.expected("three capital letters, such as \"EUR\""));
    }
    if root.has("lifetime_years") && !root.has("price") {
        let problem = Problem::new(root.place("lifetime_years"), "there is no price to be spread over these years");
        problems
            .push(problem.expected("not without [price]").hint("add [price] with `amount`, `currency` and `source`"));
    }
}

/// Percent are at most a hundred, and a link that loses all is none.
pub(crate) fn check_loss(link: &Section<'_>, problems: &mut Vec<Problem>) {
    if let Some(loss_pct) = link.number("loss_pct")
        && !(0.0..100.0).contains(&loss_pct)
    {
        let problem = Problem::new(link.place("loss_pct"), format!("a link cannot lose {loss_pct} % of all packets"));
        problems.push(problem.expected("from 0 to less than 100"));
    }
}
