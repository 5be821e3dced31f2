//! Packets that vanish: nft rules that drop what arrives and lose what leaves. Whoever sends must not be told: a packet that
//! is dropped on its way out would be refused to UDP and kept back by TCP, so it is sent where nobody takes it: to the
//! loopback, with another's hardware address. It must not know why.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use experiment::profile::Link;

use super::link::{Limits, Toward};
use super::{Ownership, Trouble, interfaces, nft};

/// A cut: what comes from and what goes to these hosts vanishes. `None` is everybody, an empty list nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// Dropped when it comes from there.
    pub from: Option<Vec<Ipv4Addr>>,
    /// Lost when it goes there.
    pub to: Option<Vec<Ipv4Addr>>,
}

/// Makes these all the cuts there are of this owner. What TCP port `spared`, here or there, sends and gets always passes.
pub fn cut(cuts: &[Cut], spared: Option<u16>, owner: &Ownership) -> Result<(), Trouble> {
    if cuts.is_empty() {
        return uncut_all(owner);
    }
    let rule = |whom: &Option<Vec<Ipv4Addr>>| Rule { whom: whom.clone(), loss_pct: 100.0 };
    let rules = Rules {
        table: owner.cuts_table().to_owned(),
        arriving: cuts.iter().map(|cut| rule(&cut.from)).collect(),
        leaving: cuts.iter().map(|cut| rule(&cut.to)).collect(),
        spared,
        devices: interfaces(),
    };
    rules.put()
}

/// Lifts every cut of this owner.
pub fn uncut_all(owner: &Ownership) -> Result<(), Trouble> {
    nft(&removal(owner.cuts_table()))
}

/// Loses packets of one interface as [`super::link::shape`] says, in both directions.
pub fn lose(interface: &str, limits: &Limits<'_>) -> Result<(), Trouble> {
    let rules = losses(limits.all, limits.toward);
    if rules.iter().all(|rule| rule.loss_pct <= 0.0) {
        return Ok(());
    }
    let devices = vec![interface.to_owned()];
    let (arriving, leaving) = (rules.clone(), rules);
    let table = limits.owner.losses_table(interface);
    Rules { table, arriving, leaving, spared: limits.spared, devices }.put()
}

/// Loses nothing of that interface any more.
pub fn lose_nothing(interface: &str, owner: &Ownership) {
    // Where there is no nft, nothing was lost.
    let _ = nft(&removal(&owner.losses_table(interface)));
}

/// Packets of these that vanish, percent. The first rule that is about a packet decides.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    whom: Option<Vec<Ipv4Addr>>,
    loss_pct: f64,
}

fn losses(all: &Link, toward: &[Toward]) -> Vec<Rule> {
    let rule = |whom: Option<&Vec<Ipv4Addr>>, link: &Link| Rule {
        whom: whom.cloned(),
        loss_pct: link.loss_pct.unwrap_or_default(),
    };
    let toward = toward.iter().map(|(peers, link)| rule(Some(peers), link));
    toward.chain([rule(None, all)]).collect()
}

/// What the tables hold.
#[derive(Debug, Clone, PartialEq)]
struct Rules {
    table: String,
    /// By where packets come from.
    arriving: Vec<Rule>,
    /// By where they go.
    leaving: Vec<Rule>,
    /// A TCP port that no rule is about.
    spared: Option<u16>,
    devices: Vec<String>,
}

impl Rules {
    /// Makes them all that there are in their table.
    fn put(&self) -> Result<(), Trouble> {
        if self.devices.is_empty() {
            return Ok(());
        }
        // Before Linux 5.16 there is no hook where packets leave a device: then senders learn of it.
        nft(&self.text(true)).or_else(|_| nft(&self.text(false)))
    }

    /// For `nft -f`; `silent`: what leaves is lost rather than refused.
    fn text(&self, silent: bool) -> String {
        let Self { table, devices, spared, .. } = self;
        let names = devices.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let mut text = if silent { removal(table) } else { format!("table inet {table}\ndelete table inet {table}\n") };
        // Here and not where packets enter the device: what came through an ifb device does not pass there.
        let _ = writeln!(text, "table inet {table} {{\nchain arriving {{\ntype filter hook prerouting priority -300;");
        let _ = writeln!(text, "iifname != {{ {names} }} accept");
        chain(&mut text, "saddr", &self.arriving, *spared, "drop");
        text.push_str("}\n");
        if !silent {
            let _ = writeln!(text, "chain leaving {{\ntype filter hook postrouting priority 300;");
            let _ = writeln!(text, "oifname != {{ {names} }} accept");
            chain(&mut text, "daddr", &self.leaving, *spared, "drop");
            text.push_str("}\n");
        }
        text.push_str("}\n");
        if silent {
            let _ = writeln!(text, "table netdev {table} {{");
            for (number, device) in devices.iter().enumerate() {
                let hook = format!("type filter hook egress device \"{device}\" priority 0;");
                let _ = writeln!(text, "chain leaving{number} {{\n{hook}");
                chain(&mut text, "daddr", &self.leaving, *spared, "fwd to \"lo\"");
                text.push_str("}\n");
            }
            text.push_str("}\n");
        }
        text
    }
}

fn removal(table: &str) -> String {
    // Naming it first makes it, so that there is something to delete.
    format!("table inet {table}\ndelete table inet {table}\ntable netdev {table}\ndelete table netdev {table}\n")
}

/// The bit of a hardware address that says whether it is one station's.
const TO_MANY: &str = "ether daddr & 01:00:00:00:00:00";

/// What version 6 asks for a neighbour's hardware address with; version 4 has a protocol of its own for that.
const NEIGHBOURS: &str = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert }";

fn chain(text: &mut String, end: &str, rules: &[Rule], spared: Option<u16>, away: &str) {
    if let Some(port) = spared {
        let _ = writeln!(text, "tcp sport {port} accept\ntcp dport {port} accept\n{NEIGHBOURS} accept");
    }
    for Rule { whom, loss_pct } in rules {
        let whom = match whom.as_deref() {
            Some([]) => continue,
            Some(addresses) => format!("ip {end} {}", set(addresses)),
            None => "meta protocol { ip, ip6 }".to_owned(),
        };
        let is_all = *loss_pct >= 100.0;
        let chance = if is_all { String::new() } else { format!("numgen random mod 1000000 < {:.0} ", loss_pct * 1e4) };
        if away == "drop" {
            let _ = writeln!(text, "{whom} {chance}drop");
        } else {
            // The loopback would take what is meant for all.
            let _ = writeln!(text, "{whom} {TO_MANY} == 01:00:00:00:00:00 {chance}drop");
            let _ = writeln!(text, "{whom} {TO_MANY} == 00:00:00:00:00:00 {chance}{away}");
        }
        if !is_all {
            let _ = writeln!(text, "{whom} accept");
        }
    }
}

fn set(addresses: &[Ipv4Addr]) -> String {
    let names: Vec<_> = addresses.iter().map(Ipv4Addr::to_string).collect();
    format!("{{ {} }}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_is_about_a_packet_decides() {
        let peer = Ipv4Addr::new(10, 83, 0, 2);
        let lossy = Link { loss_pct: Some(10.0), ..Link::default() };
        let rules = losses(&Link::default(), &[(vec![peer], lossy)]);
        let mut text = String::new();
        chain(&mut text, "saddr", &rules, None, "drop");
        let expected = "\
ip saddr { 10.83.0.2 } numgen random mod 1000000 < 100000 drop
ip saddr { 10.83.0.2 } accept
meta protocol { ip, ip6 } numgen random mod 1000000 < 0 drop
meta protocol { ip, ip6 } accept
";
        assert_eq!(text, expected);
    }

    #[test]
    fn nobody_is_not_everybody() {
        let mut text = String::new();
        let rule = |whom| Rule { whom, loss_pct: 100.0 };
        chain(&mut text, "daddr", &[rule(Some(Vec::new()))], None, "drop");
        assert_eq!(text, "");
        chain(&mut text, "daddr", &[rule(None)], Some(22), "fwd to \"lo\"");
        assert!(text.starts_with("tcp sport 22 accept\ntcp dport 22 accept\nicmpv6 "), "{text}");
        assert!(text.ends_with("== 00:00:00:00:00:00 fwd to \"lo\"\n"), "{text}");
    }

    #[test]
    fn a_table_name_has_no_odd_characters() {
        assert_eq!(crate::linux::network::ALONE.losses_table("enp1s0.4"), "plimsoll.enp1s0_4");
    }
}
