//! The keys of an experiment's `[lab]`. They must not be read here.

use super::{Key, Kind};
use crate::quantity::Quantity;

/// `[lab]`.
pub(crate) const LAB: &[Key] = &[
    Key::new("hosts", Kind::Whole { min: 1, max: 256 }, "How many hosts, named n1, n2, …")
        .elsewhere(&["nodes", "members"]),
    Key::new("profile", Kind::Text, "What each host is like; `plimsoll profiles` lists them"),
    Key::new("host", Kind::Tables(HOST), "Hosts one by one, instead of `hosts`; addressed by name or role"),
    Key::new(
        "ssh",
        Kind::List(&Kind::Text),
        "Hosts that are reached over ssh: [\"pi@10.0.0.11\", …], instead of `hosts`",
    ),
    Key::new("speed", Kind::Positive, "Time dilation for the whole lab: 0.5 runs everything at half the speed").or("1"),
    Key::new(
        "network",
        Kind::Either(
            &[Kind::Table(NETWORK), Kind::Tables(NETWORK)],
            "[[lab.network]] for each network, or [lab.network] for what the only one is like",
        ),
        "The networks between virtual hosts, by name; the clients are on the first; left out: one for all",
    )
    .elsewhere(&["networks"]),
    Key::new(
        "port",
        Kind::Tables(PORT),
        "Ports of the target that are slower than the links of virtual hosts, by name",
    )
    .elsewhere(&["ports"]),
    Key::new(
        "generator_cpus",
        Kind::Whole { min: 0, max: 1024 },
        "CPUs of this machine that only the clients use; 0: they share all with the hosts; left out: half of them",
    )
    .elsewhere(&["client_cpus"]),
    Key::new(
        "electricity_per_kwh",
        Kind::Positive,
        "Price of a kWh, in the currency of the profiles; with it, the price of a cycle includes electricity",
    )
    .elsewhere(&["kwh", "energy_price"]),
    Key::new(
        "measure_storage",
        Kind::Boolean,
        "Whether the storage of each host is measured before each trial; left out: if a host's profile has a disk",
    ),
    Key::new(
        "quick_start",
        Kind::Boolean,
        "Whether cores and disks of virtual hosts are as fast as this machine's until the target is ready; then they are as asked",
    )
    .or("false"),
];

const NETWORK: &[Key] = &[
    Key::new("name", Kind::Name, "Its name, for `networks` of a host; [[lab.network]] needs it"),
    Key::new("link", Kind::Quantity(Quantity::BitRate), "Bits/s of each host's link to it, if its profile has no less")
        .elsewhere(&["rate", "bandwidth"]),
    Key::new("delay", Kind::Duration { zero: false }, "Added to each packet of a host, if its profile has no more")
        .elsewhere(&["latency"]),
    Key::new("loss_pct", Kind::Number, "Packets lost, percent, if the profile has no more").elsewhere(&["loss"]),
];

const PORT: &[Key] = &[
    Key::new("name", Kind::Name, "Its name in target.toml, such as \"distribution\"").required(),
    Key::new(
        "rate",
        Kind::Quantity(Quantity::BitRate),
        "Bits/s that TCP from and to it has of a host's link, in each direction",
    )
    .elsewhere(&["link", "bandwidth"]),
    Key::new("delay", Kind::Duration { zero: false }, "Added to each packet of it that leaves a host")
        .elsewhere(&["latency"]),
];

const HOST: &[Key] = &[
    Key::new("name", Kind::Name, "Its name; without it n1, n2, …"),
    Key::new("role", Kind::Text, "Which of the target's roles runs here; all of them without it"),
    Key::new("count", Kind::Whole { min: 1, max: 256 }, "So many of them").or("1"),
    Key::new("profile", Kind::Text, "What it is like; the lab's profile without it"),
    Key::new("ssh", Kind::Text, "user@address, if it is reached over ssh"),
    Key::new("networks", Kind::List(&Kind::Name), "The networks it is on, by name; left out: the first")
        .elsewhere(&["network"]),
    Key::new("routes", Kind::Boolean, "Whether it passes packets on between its networks").or("false"),
];
