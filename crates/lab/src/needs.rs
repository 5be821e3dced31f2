//! Requirements of targets on this machine, besides programs: kernel settings, and limits that the
//! targets' processes inherit from this program.

use std::path::Path;

use experiment::manifest::Needs;
use experiment::quantity::show_bytes;
use runner::environment::{RecordedRoot, limit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// A requirement of a target that this machine does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetNeed {
    /// The current and the needed value, as text.
    pub what: String,
    /// The kernel setting and its needed value, if the requirement is a kernel setting.
    pub sysctl: Option<(String, u64)>,
    /// The remedy.
    pub remedy: String,
}

/// A process limit.
struct NeededLimit {
    /// Name in limits.conf(5).
    name: &'static str,
    /// Name in `/proc/self/limits`.
    line: &'static str,
    /// Option of `ulimit`.
    option: &'static str,
    resource: Resource,
    needed: Option<u64>,
    in_bytes: bool,
}

fn limits(needs: &Needs) -> [NeededLimit; 3] {
    [
        NeededLimit {
            name: "nofile",
            line: "Max open files",
            option: "-n",
            resource: Resource::Nofile,
            needed: needs.nofile,
            in_bytes: false,
        },
        NeededLimit {
            name: "memlock",
            line: "Max locked memory",
            option: "-l",
            resource: Resource::Memlock,
            needed: needs.memlock_bytes,
            in_bytes: true,
        },
        NeededLimit {
            name: "nproc",
            line: "Max processes",
            option: "-u",
            resource: Resource::Nproc,
            needed: needs.nproc,
            in_bytes: false,
        },
    ]
}

impl NeededLimit {
    fn show(&self, value: u64) -> String {
        match value {
            u64::MAX => "unlimited".to_owned(),
            bytes if self.in_bytes => show_bytes(bytes),
            count => count.to_string(),
        }
    }

    /// Formats a value for `ulimit`.
    fn for_ulimit(&self, value: u64) -> String {
        if self.in_bytes && value != u64::MAX { value.div_ceil(1024).to_string() } else { self.show(value) }
    }
}

/// Returns the requirements that this machine does not meet, according to the files under `root`.
/// With `may_raise`, ignores limits, because this program can raise its own limits and its target
/// inherits them.
#[must_use]
pub fn unmet(root: &RecordedRoot, target: &str, needs: &Needs, may_raise: bool) -> Vec<UnmetNeed> {
    let mut unmet = Vec::new();
    for (name, needed) in &needs.sysctl {
        let value: Option<u64> = root.number(&format!("proc/sys/{}", name.replace('.', "/")));
        if let Some(value) = value.filter(|value| value < needed) {
            unmet.push(UnmetNeed {
                what: format!("{name} is {value}, but `{target}` needs at least {needed}"),
                sysctl: Some((name.clone(), *needed)),
                remedy: format!("sysctl -w {name}={needed}"),
            });
        }
    }
    let Some(text) = root.text("proc/self/limits").filter(|_| !may_raise) else { return unmet };
    for own in limits(needs) {
        // A process starts with the soft limit and may raise it up to the hard limit.
        let hard = limit(&text, own.line).1.unwrap_or(u64::MAX);
        let Some(needed) = own.needed.filter(|needed| hard < *needed) else { continue };
        let (is, needs) = (own.show(hard), own.show(needed));
        unmet.push(UnmetNeed {
            what: format!("the limit {} is {is}, but `{target}` needs {needs}", own.name),
            sysctl: None,
            remedy: format!(
                "run Plimsoll as root; or set `* hard {2} {1}` in /etc/security/limits.conf, then run ulimit {0} {1}",
                own.option,
                own.for_ulimit(needed),
                own.name
            ),
        });
    }
    unmet
}

/// Raises this program's limits to the target's needs where permitted, then checks all needs.
/// Returns the unmet needs if the target only advises them.
///
/// # Errors
/// [`Error::Unmet`], if the target requires them.
pub fn ensure(target: &str, needs: &Needs) -> Result<Vec<UnmetNeed>, Error> {
    for limit in limits(needs) {
        let Some(needed) = limit.needed else { continue };
        let now = getrlimit(limit.resource);
        let wanted = (needed != u64::MAX).then_some(needed);
        if now.current.is_some_and(|current| current < needed) {
            let is_above = now.maximum.is_none_or(|maximum| maximum >= needed);
            let maximum = if is_above { now.maximum } else { wanted };
            // The check below reports limits that could not be raised.
            let _ = setrlimit(limit.resource, Rlimit { current: wanted, maximum });
        }
    }
    let unmet = unmet(&RecordedRoot::at(Path::new("/")), target, needs, false);
    if unmet.is_empty() || needs.advised {
        return Ok(unmet);
    }
    let remedies: Vec<String> = unmet.iter().map(|one| one.remedy.clone()).collect();
    let can_fix = unmet.iter().any(|one| one.sysctl.is_some());
    let whats = unmet.into_iter().map(|one| one.what).collect();
    Err(Error::Unmet { whats, remedies, can_fix })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fixture::TestDir;

    use super::*;

    #[test]
    fn unmet_advice_is_reported_without_an_error() {
        let sysctl = BTreeMap::from([("kernel.pid_max".to_owned(), u64::MAX / 2)]);
        let needs = Needs { sysctl, ..Needs::default() };
        assert!(matches!(ensure("search", &needs), Err(Error::Unmet { can_fix: true, .. })));
        let texts = ensure("search", &Needs { advised: true, ..needs }).unwrap();
        assert!(texts.len() == 1 && texts[0].what.starts_with("kernel.pid_max is "), "{texts:?}");
    }

    #[test]
    fn small_limits_are_reported_with_a_remedy() {
        let tree = TestDir::new();
        tree.write("proc/sys/vm/max_map_count", "65530\n");
        tree.write(
            "proc/self/limits",
            "Max processes             100                  unlimited            processes \n\
             Max open files            1024                 4096                 files     \n\
             Max locked memory         8388608              8388608              bytes     \n",
        );
        let needs = Needs {
            sysctl: BTreeMap::from([("vm.max_map_count".to_owned(), 262_144), ("vm.unknown".to_owned(), 1)]),
            nofile: Some(65_535),
            memlock_bytes: Some(u64::MAX),
            nproc: Some(4096),
            ..Needs::default()
        };
        let root = RecordedRoot::at(&tree);
        let found = unmet(&root, "search", &needs, false);
        let told: Vec<(&str, &str)> = found.iter().map(|one| (one.what.as_str(), one.remedy.as_str())).collect();
        assert_eq!(
            told,
            [
                ("vm.max_map_count is 65530, but `search` needs at least 262144", "sysctl -w vm.max_map_count=262144"),
                (
                    "the limit nofile is 4096, but `search` needs 65535",
                    "run Plimsoll as root; or set `* hard nofile 65535` in /etc/security/limits.conf, then run \
                     ulimit -n 65535"
                ),
                (
                    "the limit memlock is 8MiB, but `search` needs unlimited",
                    "run Plimsoll as root; or set `* hard memlock unlimited` in /etc/security/limits.conf, then run \
                     ulimit -l unlimited"
                ),
            ]
        );
        assert_eq!(unmet(&root, "search", &needs, true).len(), 1, "root raises limits, and not settings");
        tree.write("proc/sys/vm/max_map_count", "262144\n");
        assert!(unmet(&root, "search", &needs, true).is_empty());
    }
}
