//! Documents that tests can check: every TOML block that looks like an experiment has a plan, the
//! template of a target runs, the code in CONTRIBUTING calls existing items, and the tutorial's
//! commands work.

mod tutorial;

use std::fs;

use yaml_rust2::{Yaml, YamlLoader};

use crate::sandbox::{Sandbox, number, root};

/// Returns the blocks of one language in a Markdown file.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begins = format!("```{language}\n");
    text.split(&begins).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

const ROUTE_GUIDE: &str = r#"
syntax = "proto3";
package routeguide;
service RouteGuide { rpc RecordRoute(stream Point) returns (RouteSummary); }
message Point { int32 latitude = 1; int32 longitude = 2; }
message RouteSummary { int32 point_count = 1; }
"#;

#[test]
fn experiments_in_the_documents_have_a_plan() {
    let sandbox = Sandbox::new();
    let mut checked = 0;
    let reference = "docs/reference/protocols.md";
    // The reader of the examples has these files.
    sandbox.file("route_guide.proto", ROUTE_GUIDE);
    for document in ["README.md", "CONTRIBUTING.md", "docs/lab.md", reference, "docs/ssh-hosts.md", "docs/ci.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        // `tests/docs.rs` reads excerpts. `store` is an example of a target with
        // folders on tiers.
        let is_whole = |block: &&str| block.contains("[target]") && !block.contains("use = \"store\"");
        for block in blocks(&text, "toml").into_iter().filter(is_whole) {
            // The reader of CONTRIBUTING is about to write `link_down`.
            let file = sandbox.file("block.toml", block.replace("kind = \"link_down\"", "kind = \"link_flap\""));
            sandbox.play(&["check", &file]).exits(0);
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked}");
}

#[test]
fn the_template_target_runs() {
    let sandbox = Sandbox::new();
    let template = root().join("targets/_template");
    let mine = sandbox.path().join("targets/mine");
    fs::create_dir_all(mine.join("hooks")).unwrap();
    for file in ["target.toml", "hooks/install"] {
        fixture::copy_program(template.join(file), mine.join(file));
    }
    let targets = sandbox.path().join("targets");
    let targets = ("PLIMSOLL_TARGETS", targets.to_str().unwrap());
    sandbox.play_with(targets, &["targets", "mine"]).exits(0);
    let printed = sandbox.play_with(targets, &["new", "mine"]).exits(0).stdout;
    let file = sandbox.file("mine.toml", printed);
    let runs = sandbox.path().join("runs");
    let short = ["load.time=3s", "load.ramp=0s", "load.agents=2", "fault.killed.at=1s"];
    let short: Vec<&str> = short.iter().flat_map(|set| ["--set", set]).collect();
    let rest = ["--install", "--accept", "--json", "--out", runs.to_str().unwrap()];
    let played = sandbox.play_with(targets, &[&["run", &file], &short[..], &rest].concat());
    let results = played.exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    assert_eq!(results["trials"][0]["faults"][0]["name"], "killed");
}

/// Returns the text of all Rust files of a folder.
fn code_below(folder: &str) -> String {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The code in CONTRIBUTING is not compiled. A neighbouring file must import everything that it
/// imports, in the same words.
#[test]
fn the_code_in_contributing_uses_existing_items() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let code = blocks(&page, "rust");
    let folders = ["crates/lab/src/faults", "crates/report/src/charts"];
    assert_eq!(code.len(), folders.len());
    for (block, folder) in code.into_iter().zip(folders) {
        let beside = code_below(folder);
        let imports: Vec<&str> = block.lines().filter(|line| line.starts_with("use ")).collect();
        assert!(!imports.is_empty(), "{block}");
        for import in imports {
            assert!(beside.lines().any(|line| line == import), "no file in {folder} says `{import}`");
        }
    }
    let tests = fs::read_to_string(root().join("crates/lab/src/faults/tests.rs")).unwrap();
    let calls: Vec<&str> =
        page.split("ward.").skip(1).filter_map(|rest| rest.split_once('(')).map(|(call, _)| call).collect();
    assert!(!calls.is_empty());
    for call in calls {
        assert!(tests.contains(&format!("fn {call}(")), "a ward has no `{call}`");
    }
}

/// Collects every text in a YAML document.
fn texts(yaml: &Yaml, found: &mut Vec<String>) {
    match yaml {
        Yaml::String(text) => found.push(text.clone()),
        Yaml::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Yaml::Hash(table) => table.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

#[test]
fn ci_recipes_are_valid_and_use_existing_options() {
    let sandbox = Sandbox::new();
    let text = ["docs/ci.md", "docs/tutorial.md"].map(|page| fs::read_to_string(root().join(page)).unwrap()).concat();
    let mut called = 0;
    for block in blocks(&text, "yaml") {
        let mut lines = Vec::new();
        YamlLoader::load_from_str(block).unwrap().iter().for_each(|document| texts(document, &mut lines));
        let calls = lines.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("plimsoll "));
        for words in calls.map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let help = sandbox.play(&[words[0], "--help"]).exits(0).stdout;
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{words:?}: no {flag} in\n{help}");
            }
            called += 1;
        }
    }
    assert!(called >= 4, "{called}");
}

#[test]
fn the_action_accepts_the_inputs_of_the_recipes() {
    let action = fs::read_to_string(root().join("action/action.yml")).unwrap();
    let action = YamlLoader::load_from_str(&action).unwrap().remove(0);
    let text = ["docs/ci.md", "docs/tutorial.md"].map(|page| fs::read_to_string(root().join(page)).unwrap()).concat();
    let mut given = 0;
    for recipe in blocks(&text, "yaml").into_iter().flat_map(|block| YamlLoader::load_from_str(block).unwrap()) {
        for step in recipe["jobs"]["compare"]["steps"].as_vec().into_iter().flatten() {
            if step["uses"].as_str().is_some_and(|uses| uses.contains("plimsoll/action@")) {
                for input in step["with"].as_hash().unwrap().keys() {
                    assert!(!action["inputs"][input.as_str().unwrap()].is_badvalue(), "no input {input:?}");
                    given += 1;
                }
            }
        }
    }
    assert!(given >= 6, "{given}");
}

/// Splits a line into words as a shell does, without redirections and comments.
fn shell_words(line: &str) -> Vec<String> {
    let line = line.split([';', '>', '|', '#']).next().unwrap_or_default();
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn hit_commands_in_documents_are_valid() {
    let sandbox = Sandbox::new();
    let item = sandbox.file("item.json", "{}");
    let mut checked = 0;
    for document in ["README.md", "docs/coming-from.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let in_blocks = blocks(&text, "sh").into_iter().flat_map(str::lines);
        let in_text = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for line in in_blocks.chain(in_text) {
            let Some(at) = line.find("plimsoll hit http") else { continue };
            let mut words = shell_words(&line[at + "plimsoll ".len()..]);
            words.iter_mut().filter(|word| word.starts_with('@')).for_each(|word| *word = format!("@{item}"));
            words.retain(|word| word != "--print");
            let words: Vec<&str> = words.iter().map(String::as_str).chain(["--print"]).collect();
            assert!(sandbox.play(&words).exits(0).stdout.contains("[[load.cycle]]"), "{document}: {line}");
            checked += 1;
        }
    }
    assert!(checked >= 8, "{checked}");
}
