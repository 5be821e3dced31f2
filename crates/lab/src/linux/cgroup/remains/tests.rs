//! What tests of groups look for at their end.

use std::collections::BTreeSet;

use crate::linux::cgroup::{Hierarchies, children};

/// Names at the top of any hierarchy that begin with `prefix`, sorted.
pub fn leftovers(prefix: &str) -> Vec<String> {
    leftovers_of(&Hierarchies::detect(), prefix)
}

pub fn leftovers_of(hierarchies: &Hierarchies, prefix: &str) -> Vec<String> {
    let groups = hierarchies.all().iter().flat_map(|hierarchy| children(&hierarchy.root));
    let names = groups.filter_map(|group| Some(group.file_name()?.to_str()?.to_owned()));
    let found: BTreeSet<String> = names.filter(|name| name.starts_with(prefix)).collect();
    found.into_iter().collect()
}
