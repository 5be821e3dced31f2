//! Profiles: performance, power and cost of one kind of host, read from `profiles/NAME.toml`. The
//! lab checks whether a machine can emulate a profile.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::problem::{Problem, Problems};
use crate::section::{self, Section};
use crate::source::Source;

section! {
    const PROFILE {
        what = required: Text, "Description, one line", ["about", "description", "title"];
        cpu: Table(CPU), "Processor; default: not limited", ["cores", "processor"];
        memory: Table(MEMORY), "Memory; default: not limited", ["ram"];
        link: Table(LINK), "Network link; default: not limited", ["network", "net"];
        disk: Table(DISK), "Disk that data is on; default: not limited", ["storage"];
        power: Table(POWER), "Power draw; default: not known", ["watts"];
        price: Table(PRICE), "Purchase price; default: not known", ["cost"];
        lifetime_years: Positive, "Years over which the price is spread", ["lifetime"];
    }
}

section! {
    const SOURCE { source = required: Text, "Source of the figures of this section"; }
}

section! {
    const CPU {
        cores: Whole { min: 1, max: 1024 }, "Number of cores; default: the CPUs it runs on", ["cpus", "count"];
        speed: Positive, "Speed of a core, in cores of the machine that plays it: 0.1 is a tenth of one";
        score: Positive,
            "Rounds/s of one core, by `plimsoll profile measure`; without `speed`, it is compared with the score of \
             the machine that plays it";
        ..SOURCE: source;
    }
}

section! {
    const MEMORY { size = required: SIZE, "How much"; ..SOURCE: source; }
}

section! {
    const POWER {
        idle_watts: Positive, "Power when idle", ["idle"];
        load_watts: Positive, "Power with all cores busy", ["load"];
        ..SOURCE: source;
    }
}

/// A profile from `profiles/NAME.toml`, with defaults filled in. `None` means that a value is not
/// limited or not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Name of the profile: the file's name without `.toml`.
    pub name: String,
    /// Description, one line.
    pub what: String,
    /// Sources of the values, one line per section: `cpu: …`.
    pub source: String,
    /// Number of cores.
    pub cores: Option<u32>,
    /// Speed of each core, in cores of the emulating machine: 0.1 is a tenth of one of its cores.
    pub core_speed: Option<f64>,
    /// Rounds/s that `profile measure` found for one core. If `core_speed` is absent, the lab
    /// compares this score with the machine's.
    pub score: Option<f64>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// The network link.
    pub link: Link,
    /// The disk that holds the data.
    pub disk: Disk,
    /// Power drawn when idle, watts.
    pub idle_watts: Option<f64>,
    /// Power drawn with all cores busy, watts.
    pub load_watts: Option<f64>,
    /// Purchase price.
    pub price: Option<Price>,
    /// Years over which the price is spread.
    pub lifetime_years: Option<f64>,
}

section! {
    /// A network link, the same in both directions.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Link = LINK {
        rate: BIT_RATE => rate_bits_per_s: Option<f64>, "Bits/s in each direction", ["bandwidth", "speed"];
        delay: TIME => delay_s: Option<f64>, "Delay of each packet that leaves", ["latency"];
        loss_pct: Number => Option<f64>, "Packets lost, percent", ["loss"];
        ..SOURCE: source;
    }
}

section! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Disk = DISK {
        size: SIZE => size_bytes: Option<u64> = |disk| disk.number("size").map(whole_bytes), "How large";
        read_iops: Positive => Option<f64>, "Random reads/s";
        write_iops: Positive => Option<f64>, "Random writes/s, each on the disk before the next";
        read_rate: BYTE_RATE => read_bytes_per_s: Option<f64>, "Bytes read per second";
        write_rate: BYTE_RATE => write_bytes_per_s: Option<f64>, "Bytes written per second";
        ..SOURCE: source;
    }
}

section! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Price = PRICE {
        amount = required: Positive => f64, "How much";
        currency = required: Text => String, "ISO 4217 code, such as \"EUR\"";
        ..SOURCE: source;
    }
}

impl Link {
    /// Whether the link has no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

impl Link {
    /// Returns the link in a lab with this `lab.speed`, which changes rate and delay but not loss.
    #[must_use]
    pub fn at_speed(&self, speed: f64) -> Self {
        Self {
            rate_bits_per_s: self.rate_bits_per_s.map(|rate| rate * speed),
            delay_s: self.delay_s.map(|delay_s| delay_s / speed),
            loss_pct: self.loss_pct,
        }
    }
}

impl Disk {
    /// Returns a disk of the same size whose limits are multiplied by `factor`.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self {
            size_bytes: self.size_bytes,
            read_iops: self.read_iops.map(|limit| limit * factor),
            write_iops: self.write_iops.map(|limit| limit * factor),
            read_bytes_per_s: self.read_bytes_per_s.map(|limit| limit * factor),
            write_bytes_per_s: self.write_bytes_per_s.map(|limit| limit * factor),
        }
    }

    /// Whether the disk has a limit other than its size.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        Self { size_bytes: None, ..self.clone() } != Self::default()
    }
}

/// Sections that contain values and, in `source`, where the values come from.
const SECTIONS: [&str; 6] = ["cpu", "memory", "link", "disk", "power", "price"];

/// Reads the profile `name`.
///
/// # Errors
/// All problems in the file.
pub fn parse(name: &str, source: &Source) -> Result<Profile, Problems> {
    section::read_file(source, PROFILE, |root, problems| {
        check(root, problems);
        resolve(name, root)
    })
}

fn resolve(name: &str, root: &Section<'_>) -> Profile {
    let of = |section: &str| root.section(section);
    let number = |section: &str, key: &str| of(section)?.number(key);
    Profile {
        name: name.to_owned(),
        what: root.text("what").unwrap_or_default().to_owned(),
        source: sources(root),
        cores: of("cpu").and_then(|cpu| cpu.get("cores")),
        core_speed: number("cpu", "speed"),
        score: number("cpu", "score"),
        memory_bytes: number("memory", "size").map(whole_bytes),
        link: of("link").map(|link| Link::read(&link)).unwrap_or_default(),
        disk: of("disk").map(|disk| Disk::read(&disk)).unwrap_or_default(),
        idle_watts: number("power", "idle_watts"),
        load_watts: number("power", "load_watts"),
        price: of("price").map(|price| Price::read(&price)),
        lifetime_years: root.number("lifetime_years"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0 and far below 2^64")]
fn whole_bytes(bytes: f64) -> u64 {
    bytes.round() as u64
}

fn sources(root: &Section<'_>) -> String {
    let lines = SECTIONS.iter().filter_map(|name| Some(format!("{name}: {}", root.section(name)?.text("source")?)));
    lines.collect::<Vec<_>>().join("\n")
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

/// Checks that the link's loss is at least 0 and below 100 %.
pub(crate) fn check_loss(link: &Section<'_>, problems: &mut Vec<Problem>) {
    if let Some(loss_pct) = link.number("loss_pct")
        && !(0.0..100.0).contains(&loss_pct)
    {
        let problem = Problem::new(link.place("loss_pct"), format!("a link cannot lose {loss_pct} % of all packets"));
        problems.push(problem.expected("from 0 to less than 100"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Price, Profile, parse};
    use crate::source::Source;

    const WHOLE: &str = r#"
what = "A small board"
lifetime_years = 3

[cpu]
cores = 4
speed = 0.1
source = "measured"

[memory]
size = "1GiB"
source = "its label"

[link]
rate = "100mbit"
delay = "0.2ms"
loss_pct = 0.5
source = "guessed"

[disk]
size = "32GB"
read_iops = 455
write_iops = 214
read_rate = "20MB/s"
write_rate = "10MB/s"
source = "the article"

[power]
idle_watts = 3.33
load_watts = 4.8
source = "the article"

[price]
amount = 50
currency = "EUR"
source = "the article"
"#;

    fn read(text: &str) -> Result<Profile, String> {
        let source = Source { name: "board.toml".to_owned(), text: text.to_owned() };
        parse("board", &source).map_err(|problems| problems.render(false))
    }

    #[test]
    fn every_figure_is_read() {
        let profile = read(WHOLE).unwrap();
        assert_eq!((profile.name.as_str(), profile.cores, profile.core_speed), ("board", Some(4), Some(0.1)));
        assert_eq!((profile.memory_bytes, profile.link.rate_bits_per_s), (Some(1 << 30), Some(1e8)));
        assert_eq!((profile.link.delay_s, profile.link.loss_pct), (Some(0.0002), Some(0.5)));
        let disk = &profile.disk;
        assert_eq!(
            (disk.size_bytes, disk.read_iops, disk.write_iops),
            (Some(32_000_000_000), Some(455.0), Some(214.0))
        );
        assert_eq!((disk.read_bytes_per_s, disk.write_bytes_per_s), (Some(2e7), Some(1e7)));
        assert_eq!(
            (profile.idle_watts, profile.load_watts, profile.lifetime_years),
            (Some(3.33), Some(4.8), Some(3.0))
        );
        assert_eq!(profile.price, Some(Price { amount: 50.0, currency: "EUR".to_owned() }));
        assert!(profile.source.starts_with("cpu: measured\nmemory: its label\n"), "{}", profile.source);
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
    }

    #[test]
    fn omitted_figures_set_no_limits() {
        let profile = read("what = \"anything\"\n").unwrap();
        assert_eq!(profile, Profile { name: "board".into(), what: "anything".into(), ..Profile::default() });
        assert!(profile.link.is_unlimited() && !profile.disk.is_throttled());
    }

    #[test]
    fn all_mistakes_in_a_profile_are_reported() {
        let bad = r#"
waht = "misspelt"
lifetime_years = 3

[cpu]
cores = 0
sped = 0.1
source = "x"

[memory]
size = "1Gb"

[link]
rate = 100
loss_pct = 100
source = "x"

[disk]
source = "x"

[power]
idle_watts = 5
load_watts = 4
source = "x"
"#;
        insta::assert_snapshot!(read(bad).unwrap_err());
    }
}
