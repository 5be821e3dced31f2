//! Rule: a relative link in a Markdown file leads somewhere. Links to the web are not followed.

use super::{Offence, Rule};
use crate::tree::{File, Tree};

pub const KIND: Rule = Rule {
    name: "links",
    reason: "a page that sends its reader to a file that is not there costs more trust than it gives help",
    check,
    canary: &[("docs/page.md", "see [there](../gone.md)\n")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    tree.files.iter().filter(|file| file.extension() == "md").flat_map(|file| broken(file, tree)).collect()
}

fn broken(file: &File, tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || line.starts_with("    ") {
            continue;
        }
        for link in targets(line).filter(|link| !leads_somewhere(file, link, tree)) {
            offences.push(Offence::at(&file.path, index + 1, format!("the link to `{link}` leads nowhere")));
        }
    }
    offences
}

/// What stands between `](` and `)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
}

fn leads_somewhere(file: &File, link: &str, tree: &Tree) -> bool {
    let path = link.split('#').next().unwrap_or_default().trim_end_matches('/');
    if path.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let whole = resolve(file.folder(), path);
    tree.has(&whole)
}

fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
