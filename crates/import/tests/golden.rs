//! Each example of a source becomes the expected experiment. The examples are also the corpus of
//! the fuzz target `import`.

use std::path::Path;

use import::ImportSource;

#[test]
fn every_example_becomes_the_expected_experiment() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/import");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let attached = |name: &str| match name {
            "item.json" => Some(b"{\"name\": \"x\"}".to_vec()),
            "cat.png" => Some(vec![0x89, b'P', 0xff]),
            _ => None,
        };
        let source = ImportSource { name, text: &text, attached: &attached };
        let made = import::experiment(&source, None, "replay.csv").unwrap_or_else(|error| panic!("{name}: {error}"));
        let csv = made.csv.map_or_else(String::new, |csv| format!("--- replay.csv\n{csv}"));
        insta::assert_snapshot!(name, format!("{}{csv}", made.text));
    }
}
