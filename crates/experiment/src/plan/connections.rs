//! How agents are connected: `keep_alive` and `pipeline` of `[load]`, `tls` of `[target]`. It must not connect.

use serde::{Deserialize, Serialize};

use crate::plan::trial::Scene;
use crate::problem::Problem;
use crate::section::Section;

/// How agents share and keep connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Whether a connection is kept between operations.
    pub keep_alive: bool,
    /// Agents on each connection, and so operations in flight on it; 1 or more.
    pub pipeline: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self { keep_alive: true, pipeline: 1 }
    }
}

impl Connections {
    /// How many connections so many agents have to so many services: as many to each, as long as there are agents for them.
    #[must_use]
    pub fn of(self, agents: u32, services: u32) -> u32 {
        let services = services.max(1);
        agents.div_ceil(services).div_ceil(self.pipeline.max(1)).saturating_mul(services).min(agents)
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whom a client trusts at the other end of a TLS connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// A PEM file, path as written, relative to the experiment file; `None`: the roots that this machine trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Whether any certificate is taken.
    pub insecure: bool,
    /// The name to ask for and to find in the certificate; `None`: that of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

impl Tls {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads what `[load]` says about connections.
pub(super) fn read(section: &Section<'_>, scene: &mut Scene<'_>) -> Connections {
    let keep_alive = !section.has("keep_alive") || section.boolean("keep_alive");
    let pipeline: u32 = section.whole("pipeline").unwrap_or(1);
    if !keep_alive && pipeline > 1 {
        scene.problems.push(
            Problem::new(section.place("pipeline"), "`pipeline` needs connections that are kept")
                .expected("1, or without `keep_alive = false`")
                .related(section.place("keep_alive"), "each operation makes its own connection")
                .hint("remove one of the two"),
        );
    }
    Connections { keep_alive, pipeline }
}

/// Reads `[target] tls`.
pub(super) fn tls(section: &Section<'_>, scene: &mut Scene<'_>) -> Tls {
    let Some(tls) = section.section("tls") else { return Tls::default() };
    if let Some((scheme, _)) = section.text("url").and_then(|url| url.split_once("://"))
        && scheme != "https"
    {
        scene.problems.push(
            Problem::new(section.place("tls"), format!("nothing is encrypted on the way to `{scheme}://…`"))
                .expected("not without `https`")
                .related(section.place("url"), "this is spoken to in the clear")
                .hint("write url = \"https://…\", or remove `tls`"),
        );
    }
    if tls.boolean("insecure") && tls.has("ca") {
        scene.problems.push(
            Problem::new(tls.place("insecure"), "`ca` and `insecure` exclude each other")
                .expected("any certificate is taken")
                .related(tls.place("ca"), "only what these vouch for is taken")
                .hint("remove `insecure`: a certificate that this file vouches for is checked as it should be"),
        );
    }
    Tls {
        ca: tls.text("ca").map(ToOwned::to_owned),
        insecure: tls.boolean("insecure"),
        server_name: tls.text("server_name").map(ToOwned::to_owned),
    }
}
