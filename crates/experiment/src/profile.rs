//! A profile: what one kind of host can do, uses and costs. It must not know the machine that plays it.

use serde::{Deserialize, Serialize};

mod reading;

pub(crate) use reading::check_loss;
pub use reading::parse;

/// What one kind of host is like: `profiles/NAME.toml`, resolved. What a profile does not say is `None`: not limited, not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Its name: that of the file.
    pub name: String,
    /// One line.
    pub what: String,
    /// Where its figures come from, a line for each section: `cpu: …`.
    pub source: String,
    /// Cores.
    pub cores: Option<u32>,
    /// What each core can do, in cores of the machine that plays it: 0.1 is a tenth of one of its cores.
    pub core_speed: Option<f64>,
    /// Rounds/s that `profile measure` found for one core. Without `core_speed`, whoever plays it holds this against the
    /// score of the machine.
    pub score: Option<f64>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// The network link.
    pub link: Link,
    /// The disk that data is on.
    pub disk: Disk,
    /// Power drawn when idle, watts.
    pub idle_watts: Option<f64>,
    /// Power drawn with all cores busy, watts.
    pub load_watts: Option<f64>,
    /// What it cost to buy.
    pub price: Option<Price>,
    /// Years over which that is spread.
    pub lifetime_years: Option<f64>,
}

/// A network link. The same in both directions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Bits/s.
    pub rate_bits_per_s: Option<f64>,
    /// Added to each packet that leaves, seconds.
    pub delay_s: Option<f64>,
    /// Packets lost, percent.
    pub loss_pct: Option<f64>,
}

/// A disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
    /// Random reads/s.
    pub read_iops: Option<f64>,
    /// Random writes/s.
    pub write_iops: Option<f64>,
    /// Bytes/s, reading.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes/s, writing.
    pub write_bytes_per_s: Option<f64>,
}

/// A price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// How much.
    pub amount: f64,
    /// ISO 4217: `EUR`.
    pub currency: String,
}

impl Link {
    /// Whether it limits anything.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

impl Disk {
    /// Whether it limits anything but the size.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        Self { size_bytes: None, ..self.clone() } != Self::default()
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
    fn what_is_not_said_is_not_limited() {
        let profile = read("what = \"anything\"\n").unwrap();
        assert_eq!(profile, Profile { name: "board".into(), what: "anything".into(), ..Profile::default() });
        assert!(profile.link.is_unlimited() && !profile.disk.is_throttled());
    }

    #[test]
    fn a_bad_profile_says_everything_at_once() {
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
