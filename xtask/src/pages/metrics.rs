//! The page of metric paths, from the analysis.

use std::fmt::Write as _;

use super::Page;

pub const KIND: Page = Page { name: "metrics", text };

fn text() -> String {
    let mut page = String::from(
        "# Metrics\n\nWhat `metric` may be in `[[require]]` and `[[claim]]`: a path inside a trial of `analysis.json`. `*` stands \
         for a name, such as that of an operation or a fault. What each is, and in which unit, is said in \
         [results](results.md).\n\n| path |\n|---|\n",
    );
    for path in analysis::metric_paths() {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{path}` |");
    }
    page
}
