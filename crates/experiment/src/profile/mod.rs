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
mod tests;
