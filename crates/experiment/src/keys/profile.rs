//! The keys of a profile: `profiles/NAME.toml`.

use super::{Key, Kind};
use crate::quantity::Quantity;

const SIZE: Kind = Kind::Quantity(Quantity::Size);
const BYTE_RATE: Kind = Kind::Quantity(Quantity::ByteRate);

/// The whole file.
pub(crate) const PROFILE: &[Key] = &[
    Key::new("what", Kind::Text, "One line").required().elsewhere(&["about", "description", "title"]),
    Key::new("cpu", Kind::Table(CPU), "Its processor; left out: not limited").elsewhere(&["cores", "processor"]),
    Key::new("memory", Kind::Table(MEMORY), "Its memory; left out: not limited").elsewhere(&["ram"]),
    Key::new("link", Kind::Table(LINK), "Its network link; left out: not limited").elsewhere(&["network", "net"]),
    Key::new("disk", Kind::Table(DISK), "The disk that data is on; left out: not limited").elsewhere(&["storage"]),
    Key::new("power", Kind::Table(POWER), "What it draws; left out: not known").elsewhere(&["watts"]),
    Key::new("price", Kind::Table(PRICE), "What it cost; left out: not known").elsewhere(&["cost"]),
    Key::new("lifetime_years", Kind::Positive, "Years over which the price is spread").elsewhere(&["lifetime"]),
];

const SOURCE: Key = Key::new("source", Kind::Text, "Where the figures of this section come from").required();

const CPU: &[Key] = &[
    Key::new("cores", Kind::Whole { min: 1, max: 1024 }, "Its cores; left out: as many as the CPUs it runs on")
        .elsewhere(&["cpus", "count"]),
    Key::new("speed", Kind::Positive, "What each can do, in cores of the machine that plays it: 0.1 is a tenth of one"),
    Key::new(
        "score",
        Kind::Positive,
        "Rounds/s of one core, by `plimsoll profile measure`; without `speed`, it is held against the score of the \
         machine that plays it",
    ),
    SOURCE,
];

const MEMORY: &[Key] = &[Key::new("size", SIZE, "How much").required(), SOURCE];

const LINK: &[Key] = &[
    Key::new("rate", Kind::Quantity(Quantity::BitRate), "Bits/s, each way").elsewhere(&["bandwidth", "speed"]),
    Key::new("delay", Kind::Duration { zero: false }, "Added to each packet that leaves").elsewhere(&["latency"]),
    Key::new("loss_pct", Kind::Number, "Packets lost, percent").elsewhere(&["loss"]),
    SOURCE,
];

const DISK: &[Key] = &[
    Key::new("size", SIZE, "How large"),
    Key::new("read_iops", Kind::Positive, "Random reads/s"),
    Key::new("write_iops", Kind::Positive, "Random writes/s, each on the disk before the next"),
    Key::new("read_rate", BYTE_RATE, "Bytes/s, reading"),
    Key::new("write_rate", BYTE_RATE, "Bytes/s, writing"),
    SOURCE,
];

const POWER: &[Key] = &[
    Key::new("idle_watts", Kind::Positive, "Drawn when idle").elsewhere(&["idle"]),
    Key::new("load_watts", Kind::Positive, "Drawn with all cores busy").elsewhere(&["load"]),
    SOURCE,
];

const PRICE: &[Key] = &[
    Key::new("amount", Kind::Positive, "How much").required(),
    Key::new("currency", Kind::Text, "ISO 4217, such as \"EUR\"").required(),
    SOURCE,
];
