//! One setting (a variant at a point) into the parts of a trial. Everything that can be said about a trial by
//! itself is checked on this way; gates and claims are not its business.

use crate::catalog::{Catalog, Protocol};
use crate::keys::experiment::EXPERIMENT;
use crate::plan::{Exercise, Fault, Lab, Load, Prepare, Target};
use crate::plan::{dilation, exercise, fault, lab, load, ports::Ports, prepare, target};
use crate::problem::Problem;
use crate::section::Section;
use crate::shape::{Mode, Shape};
use crate::tree::{Place, Table};

/// A trial without what tells its repeats apart.
#[derive(Debug)]
pub(super) struct Parts {
    pub target: Target,
    pub lab: Lab,
    pub prepare: Vec<Prepare>,
    pub load: Option<Load>,
    pub faults: Vec<Fault>,
    pub steps: Vec<Exercise>,
}

/// What the sections of a trial need to know of each other.
pub(super) struct Scene<'a> {
    pub catalog: &'a Catalog,
    /// `None`: not known, because the target is not; nothing is said about its operations then.
    pub protocol: Option<&'static Protocol>,
    /// Names of the target's ports.
    pub ports: Ports,
    /// Names of the feeds that templates may use.
    pub feeds: Vec<String>,
    /// Whether there is a script that templates and expectations may ask.
    pub has_script: bool,
    pub problems: Vec<Problem>,
}

/// Reads a trial. `None` only where there are problems.
pub(super) fn read(tree: &Table, file: &Place, catalog: &Catalog) -> (Option<Parts>, Vec<Problem>) {
    let mut scene = Scene {
        catalog,
        protocol: None,
        ports: Ports::Unknown,
        feeds: Vec::new(),
        has_script: false,
        problems: Vec::new(),
    };
    Shape { root: EXPERIMENT, mode: Mode::Whole, problems: &mut scene.problems }.table("", EXPERIMENT, tree, file);
    let root = Section { table: tree, keys: EXPERIMENT, place: file };
    let target = root.section("target").and_then(|section| target::read(&section, &mut scene));
    let kind = target.as_ref().map(|target| &target.kind);
    scene.ports = Ports::of(kind, catalog);
    let lab = root.section("lab").map_or_else(lab::unlimited, |section| lab::read(&section, kind, &mut scene));
    scene.feeds = load::feed_names(&root);
    scene.has_script = root.section("load").is_some_and(|load| load.has("script"));
    let prepare = prepare::read(&root, &mut scene);
    let load = root.section("load").map(|section| load::read(&section, &mut scene));
    let end = root.section("load").and_then(|section| Some((section.seconds("time")?, section.place("time").clone())));
    let victims = fault::Victims::of(&lab, kind, catalog);
    let faults = fault::read(&root, &victims, end.as_ref(), &mut scene);
    let steps = exercise::read(&root, &mut scene);
    if ["load", "fault", "step"].iter().all(|section| !has_something(tree, section)) {
        scene.problems.push(
            Problem::absent(file, "nothing happens in this experiment")
                .expected("neither [load] nor [[fault]] nor [[step]]")
                .hint("add [load] with `agents`, `time` and a [[load.cycle]]; `plimsoll new URL` writes a whole file"),
        );
    }
    let mut parts = target.map(|target| Parts { target, lab, prepare, load, faults, steps });
    // Last, because the file's own times are what problems speak of.
    parts.iter_mut().for_each(dilation::apply);
    (parts, scene.problems)
}

/// Whether the section is there, and is not an empty list.
fn has_something(tree: &Table, section: &str) -> bool {
    tree.get(section).is_some_and(|node| node.list().is_none_or(|list| !list.is_empty()))
}
