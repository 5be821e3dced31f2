//! Profiles: what is read, and what is said about a bad one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
    assert_eq!((disk.size_bytes, disk.read_iops, disk.write_iops), (Some(32_000_000_000), Some(455.0), Some(214.0)));
    assert_eq!((disk.read_bytes_per_s, disk.write_bytes_per_s), (Some(2e7), Some(1e7)));
    assert_eq!((profile.idle_watts, profile.load_watts, profile.lifetime_years), (Some(3.33), Some(4.8), Some(3.0)));
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
