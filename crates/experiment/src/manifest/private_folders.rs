//! `private`: folders of this machine that are separate on each virtual host.

use std::collections::BTreeSet;

use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Node;

/// Folder trees that a virtual host needs unchanged, or that are separate on each host anyway.
const TREES: [&str; 13] =
    ["/bin", "/boot", "/dev", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr"];
/// Folders that many programs share, so that a separate copy would affect more than the target.
const SHARED: [&str; 9] = [
    "/etc/alternatives",
    "/etc/ssl",
    "/var/cache",
    "/var/lib",
    "/var/lock",
    "/var/log",
    "/var/run",
    "/var/spool",
    "/var/tmp",
];

/// Returns the reason why a host cannot have a separate copy of this folder, or `None` if it can.
/// The path has no links and no `..`.
#[must_use]
pub fn refused_private(path: &str) -> Option<&'static str> {
    let is_in = |tree: &&str| path.strip_prefix(*tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    if !path.starts_with('/') || path.ends_with('/') && path != "/" || path.contains("//") || has_dots {
        return Some("this is not an absolute path of a folder");
    }
    if TREES.iter().any(is_in) {
        return Some("the host's programs need it, or it is already private");
    }
    let is_top = path.matches('/').count() == 1;
    (is_top || SHARED.contains(&path)).then_some("many programs have files there")
}

/// Reads the list `private` and reports its problems.
pub(super) fn read(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    const HINT: &str = "name the folders of the target alone, such as \"/etc/corosync\" or \"/var/lib/pacemaker\"";
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for node in root.node("private").and_then(Node::list).unwrap_or_default() {
        let Some(path) = node.text() else { continue };
        if let Some(why) = refused_private(path) {
            let problem = Problem::new(&node.place, format!("`{path}` cannot be private: {why}"));
            problems.push(problem.expected("not a folder of the target alone").hint(HINT));
            continue;
        }
        let holds = |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
        let other = seen.iter().find(|other| **other == path || holds(other, path) || holds(path, other));
        if let Some(other) = other {
            let problem = Problem::new(&node.place, format!("`{path}` is private with `{other}` already"));
            problems.push(problem.expected("one in the other, or twice").hint("name the outer one alone"));
        }
        seen.insert(path);
    }
    root.get("private").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::refused_private;

    #[test]
    fn folders_that_hosts_share_with_the_machine_are_refused() {
        for path in ["/", "/etc", "/var", "/home", "/var/lib", "/usr/lib/x", "/proc/1", "/run/x", "/tmp/x", "/dev/shm"]
        {
            assert!(refused_private(path).is_some(), "{path}");
        }
        for path in ["etc/x", "/etc/x/", "/etc//x", "/etc/../usr/bin", "/etc/./x", ""] {
            assert_eq!(refused_private(path), Some("this is not an absolute path of a folder"), "{path}");
        }
        for path in ["/etc/corosync", "/var/lib/pacemaker", "/var/log/cluster", "/usrx/y", "/opt/x"] {
            assert_eq!(refused_private(path), None, "{path}");
        }
    }
}
