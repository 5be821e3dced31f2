//! What bounds this very process, whatever the machine has: the quota and the memory of its control group and of those above
//! it. It must not set them.

use std::path::{Path, PathBuf};

use super::Root;
use crate::linux::cgroup::{Controller, Hierarchies, Version};
use crate::linux::procfs;

/// CPUs' worth of time that the tightest quota leaves; none without one.
pub fn quota_cores(root: &Root) -> Option<f64> {
    let (version, folders) = groups(root, Controller::Cpu)?;
    let of = |folder: &PathBuf| {
        let (quota, period) = match version {
            Version::V2 => {
                let text = procfs::text(&folder.join("cpu.max"))?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
            }
            Version::V1 => (number(folder, "cpu.cfs_quota_us")?, number(folder, "cpu.cfs_period_us")?),
        };
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    };
    folders.iter().filter_map(of).min_by(f64::total_cmp)
}

/// Memory that the tightest limit leaves; none without one.
pub fn memory_limit_bytes(root: &Root) -> Option<u64> {
    let (version, folders) = groups(root, Controller::Memory)?;
    let name = if version == Version::V2 { "memory.max" } else { "memory.limit_in_bytes" };
    // Version 1 has no word for "no limit", but a number close to the largest.
    let of = |folder: &PathBuf| number::<u64>(folder, name).filter(|bytes| *bytes < 1 << 60);
    folders.iter().filter_map(of).min()
}

fn number<N: std::str::FromStr>(folder: &Path, name: &str) -> Option<N> {
    procfs::text(&folder.join(name))?.trim().parse().ok()
}

/// Our own group of that controller's tree and all above it.
fn groups(root: &Root, controller: Controller) -> Option<(Version, Vec<PathBuf>)> {
    let hierarchies = Hierarchies::detect_in(root.folder());
    let hierarchy = hierarchies.of(controller)?;
    let text = root.text("proc/self/cgroup")?;
    let own = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_its = match hierarchy.version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => controllers.split(',').any(|name| name == controller.to_string()),
        };
        is_its.then(|| path.trim_start_matches('/').to_owned())
    })?;
    let own = hierarchy.root.join(own);
    let above = own.ancestors().take_while(|folder| folder.starts_with(&hierarchy.root));
    Some((hierarchy.version, above.map(Path::to_path_buf).collect()))
}
