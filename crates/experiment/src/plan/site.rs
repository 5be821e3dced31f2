//! `[load] sites`: further servers that steps may go to, such as a login service. The target of a
//! load is the system under test; a site only answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::lab::Lab;
use crate::plan::load::Load;
use crate::plan::target::{TLS, Tls, check_tls, parse_url};
use crate::problem::{Problem, join_words, nearest_hint};
use crate::section::Section;
use crate::tree::Node;

section! {
    /// A server that steps of the load may go to, beside the target.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Site = SITE {
        url = required: Text => String, "URL of the server: \"http://host:port/path\" or \"https://…\"", ["host", "address"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Table(TLS) => tls: Option<Tls> = |site| site.section("tls").map(|tls| Tls::read(&tls)),
            "TLS settings, for URLs with TLS, such as `https`; default: those of the target, without `server_name`", ["ssl", "https"];
    }
}

impl Site {
    /// Returns the TLS settings of connections to the site. `target` are those of the target, which
    /// apply if the site has none.
    #[must_use]
    pub fn tls(&self, target: &Tls) -> Tls {
        self.tls.clone().unwrap_or_else(|| Tls { server_name: None, ..target.clone() })
    }
}

/// Returns the names of the sites, for the steps of all sections.
pub(super) fn names(root: &Section<'_>) -> BTreeSet<String> {
    let sites = root.section("load").map(|load| load.entries("sites")).unwrap_or_default();
    sites.into_iter().map(|site| site.key).collect()
}

/// Reads the sites of a load.
pub(super) fn read(load: &Section<'_>) -> BTreeMap<String, Site> {
    let read = |node: &Node| match node.table() {
        Some(table) => Site::read(&Section { table, keys: SITE, place: &node.place }),
        None => Site { url: node.text().unwrap_or_default().to_owned(), tls: None },
    };
    load.entries("sites").into_iter().map(|entry| (entry.key, read(&entry.node))).collect()
}

/// Checks the sites of a load.
pub(super) fn check(load: &Section<'_>, context: &mut CheckContext<'_>) {
    let sites = load.entries("sites");
    let Some(protocol) = context.protocol.filter(|_| !sites.is_empty()) else { return };
    if !protocol.schemes.contains(&"http") {
        let what = format!("the protocol `{}` has no sites", protocol.name);
        let problem = Problem::new(load.place("sites"), what).expected("sites belong to HTTP");
        context.problems.push(problem.hint("remove it: all operations go to the target"));
        return;
    }
    for entry in sites {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        if !entry.key.bytes().all(is_name) {
            let problem = Problem::new(&entry.key_place, format!("`{}` is not a name for a site", entry.key));
            context.problems.push(problem.expected("small letters, digits, `_` and `-`"));
        }
        let url = entry.node.table().map_or(Some(&entry.node), |site| site.get("url"));
        let Some((node, url)) = url.and_then(|node| Some((node, node.text()?))) else { continue };
        match parse_url(url) {
            Err(why) => {
                let problem = Problem::new(&node.place, format!("this is not a URL: {why}"));
                context.problems.push(problem.expected("http://host:port/path"));
            }
            Ok(scheme) if !protocol.schemes.contains(&scheme) => {
                let schemes: Vec<String> = protocol.schemes.iter().map(|scheme| format!("{scheme}://…")).collect();
                let what = format!("the protocol `{}` has no `{scheme}` URLs", protocol.name);
                let problem = Problem::new(&node.place, what).expected(join_words(&schemes, "or"));
                context.problems.push(problem.hint("all steps of a load use one protocol"));
            }
            Ok(scheme) => {
                let site = entry.node.table().map(|table| Section { table, keys: SITE, place: &entry.node.place });
                let tls = site.and_then(|site| site.section("tls"));
                if let Some(tls) = tls {
                    check_tls(&tls, (scheme, &node.place, "url"), context);
                }
            }
        }
    }
}

/// Checks that the load's clients can reach the sites: clients of virtual hosts reach only hosts of
/// the lab.
pub(super) fn check_lab(root: &Section<'_>, lab: &Lab, context: &mut CheckContext<'_>) {
    let Some(load) = root.section("load").filter(|load| load.has("sites") && lab.is_virtual()) else { return };
    let problem = Problem::new(load.place("sites"), "clients of virtual hosts reach only hosts of the lab")
        .expected("servers outside the lab")
        .related(root.place("lab"), "the clients are on its first network");
    context.problems.push(problem.hint("remove `sites`, or use a target that runs outside of virtual hosts"));
}

impl Load {
    /// Returns the sites that steps of this load or group go to, without its groups.
    #[must_use]
    pub fn used_sites(&self) -> BTreeSet<&str> {
        self.steps.iter().filter_map(|step| step.site.as_deref()).collect()
    }

    /// Returns the number of connections of all agents beside one for each agent: to sites, and for
    /// operations that are sent at once.
    #[must_use]
    pub fn further_connections(&self) -> u32 {
        let of = |group: &Self| {
            let servers = u32::try_from(group.used_sites().len()).unwrap_or(u32::MAX).saturating_add(1);
            group.agents.saturating_mul(servers.saturating_mul(group.at_once()) - 1)
        };
        self.populations().iter().map(of).fold(0, u32::saturating_add)
    }

    /// Returns the number of places at which outcomes are counted: the services of the target, and
    /// one for all sites.
    #[must_use]
    pub fn outcome_places(&self, services: u32) -> u32 {
        services + u32::from(!self.sites.is_empty())
    }
}

/// Checks the site of a step.
pub(super) fn check_step(step: &Section<'_>, context: &mut CheckContext<'_>) {
    let Some(name) = step.text("site") else { return };
    if !context.sites.contains(name) {
        let problem = Problem::absent(step.place("site"), format!("there is no site `{name}`"));
        let hint = nearest_hint(name, context.sites.iter().map(String::as_str));
        let form = || format!("add it to the load: sites = {{ {name} = \"http://127.0.0.1:9001\" }}");
        context.problems.push(problem.expected("unknown site").hint(hint.unwrap_or_else(form)));
    }
    if step.boolean("audit") || step.section("audit").is_some() {
        let problem = Problem::new(step.place("audit"), "an operation at a site cannot be audited")
            .expected("keys are read back from the target")
            .related(step.place("site"), "it does not go to the target");
        context.problems.push(problem.hint("remove `audit`, or make this server the target"));
    }
}
