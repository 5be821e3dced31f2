//! Check of a plan for invalid requests and for missing or broken files, before any target is
//! started.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::mistake::Mistake;
use experiment::plan::{Load, Plan, TargetKind, Tls, Trial};
use load::{InputFiles, LoadOrder, LoadPurpose};

use crate::preparation;

/// Placeholder address for the checked loads, because the target has no address yet.
const NOBODY: &str = "127.0.0.1:1";

/// Compiles the loads and preparations of the plan, and returns their mistakes. The plan's files
/// are relative to `files`.
#[must_use]
pub fn mistakes(plan: &Plan, files: &Path) -> Vec<Mistake> {
    let mut refused = Vec::new();
    let mut seen: Vec<(&str, String, &Tls, Load)> = Vec::new();
    for trial in plan.possible() {
        let prepared = trial.prepare.iter().map(|prepare| preparation::load_of(prepare, trial.load.as_ref()));
        let slots = trial.prepare.iter().flat_map(|prepare| prepare.step.keep.keys());
        let kept: BTreeMap<String, String> = slots.map(|slot| (slot.clone(), "kept".to_owned())).collect();
        for load in prepared.chain(trial.load.clone()) {
            let mut load = what_is_compiled(load);
            load.fill_in(&kept);
            let part = (trial.target.protocol.as_str(), service(trial), &trial.target.tls, load);
            if !seen.contains(&part) {
                refused.extend(load::mistakes(&orders(&part, trial.seed, files)));
                seen.push(part);
            }
        }
    }
    refused
}

/// Returns the load without the numbers that differ between the trials of a sweep, but with its
/// requests and files.
fn what_is_compiled(load: Load) -> Load {
    let groups = load.groups.into_iter().map(what_is_compiled).collect();
    let rate = load.rate.filter(|rate| rate.recorded().is_some());
    Load {
        groups,
        rate,
        name: load.name,
        connections: load.connections,
        sites: load.sites,
        cookies: load.cookies,
        order: load.order,
        steps: load.steps,
        feeds: load.feeds,
        script: load.script,
        proto: load.proto,
        ..Load::default()
    }
}

fn service(trial: &Trial) -> String {
    match &trial.target.kind {
        TargetKind::Running { url } | TargetKind::Started { url, .. } if !url.is_empty() => url.clone(),
        _ => NOBODY.to_owned(),
    }
}

fn orders((protocol, service, tls, load): &(&str, String, &Tls, Load), seed: u64, files: &Path) -> LoadOrder {
    LoadOrder {
        protocol: (*protocol).to_owned(),
        services: vec![service.clone()],
        load: load.clone(),
        purpose: LoadPurpose::Measure,
        seed,
        tls: (*tls).clone(),
        files: InputFiles::below(files),
        slot_s: 1.0,
        tether: None,
        hosts: Vec::new(),
        without_ring: true,
        slice: None,
    }
}
