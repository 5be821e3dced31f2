//! Files with types of messages: `.proto` files with the files that they import, and compiled
//! descriptors.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::types::{MessageTypes, ProtoFile};
use super::{descriptors, proto_text, well_known};
use crate::input_files::InputFiles;

/// Maximum number of files, with those that are imported.
const FILES: usize = 2_000;
/// Largest file, bytes.
const FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Reads types of messages from files. A file that ends in `.proto` is text; other files are
/// descriptors. Imports are looked for among the files, then in the folder of the importing file
/// and in the folders above it. An import that is not found is an error only if a type is missing.
///
/// # Errors
/// A file that cannot be read or has a mistake, or a type that no file defines.
pub fn read(names: &[String], files: &InputFiles) -> Result<MessageTypes, String> {
    let mut read: Vec<ProtoFile> = Vec::new();
    let mut waiting: VecDeque<(String, PathBuf)> = VecDeque::new();
    let mut missing: Vec<String> = Vec::new();
    for name in names {
        if name.ends_with(".proto") {
            waiting.push_back((name.clone(), files.path(name)));
            continue;
        }
        let set = bytes(&files.path(name)).map_err(|why| format!("cannot read `{name}`: {why}"))?;
        let found = descriptors::read_set(&set);
        read.extend(found.ok_or_else(|| {
            format!(
                "`{name}` is no set of descriptors: name a .proto file, or the output of \
                 `protoc --include_imports --descriptor_set_out=FILE`"
            )
        })?);
    }
    while let Some((name, path)) = waiting.pop_front() {
        if read.len() > FILES {
            return Err(format!("more than {FILES} files are imported"));
        }
        let text = bytes(&path).map_err(|why| format!("cannot read `{name}`: {why}"))?;
        let text = String::from_utf8(text).map_err(|_| format!("`{name}` is not UTF-8"))?;
        let file = proto_text::parse(&name, &text)?;
        for import in &file.imports {
            let is_known = |known: &str| known == import || known.ends_with(&format!("/{import}"));
            if read.iter().any(|file| is_known(&file.name))
                || is_known(&file.name)
                || waiting.iter().any(|(name, _)| is_known(name))
            {
                continue;
            }
            match (well_known::file(import), imported(import, &path)) {
                (_, Some(path)) => waiting.push_back((import.clone(), path)),
                (Some(built_in), None) => read.push(built_in),
                (None, None) => missing.push(import.clone()),
            }
        }
        read.push(file);
    }
    MessageTypes::link(read).map_err(|why| {
        missing.sort_unstable();
        missing.dedup();
        match missing.as_slice() {
            [] => why,
            missing => format!(
                "{why}; imports that were not found: `{}`. Put them beside the files, or name them in `proto`, too",
                missing.join("`, `")
            ),
        }
    })
}

/// Returns the path of an imported file: below the folder of the importing file, or below a folder
/// above it.
fn imported(import: &str, from: &Path) -> Option<PathBuf> {
    from.ancestors().skip(1).map(|folder| folder.join(import)).find(|path| path.is_file())
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    if metadata.len() > FILE_BYTES {
        return Err(format!("it has more than {} MiB", FILE_BYTES >> 20));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;
    use crate::protobuf::testing::DESCRIPTORS;

    fn read_in(folder: &TestDir, names: &[&str]) -> Result<MessageTypes, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        read(&names, &InputFiles::below(&**folder))
    }

    #[test]
    fn imports_are_found_beside_a_file_above_it_and_among_the_files() {
        let folder = TestDir::new();
        let service = "import \"shop/item.proto\"; import \"other.proto\"; import \"google/protobuf/empty.proto\";
            message All { shop.Item item = 1; Other other = 2; google.protobuf.Empty empty = 3; }";
        folder.write("protos/shop/service.proto", service);
        folder.write(
            "protos/shop/item.proto",
            "package shop; message Item { Part part = 1; } import public 'shop/part.proto';",
        );
        folder
            .write("protos/shop/part.proto", "package shop; import 'shop/item.proto'; message Part { Item item = 1; }");
        folder.write("elsewhere/other.proto", "message Other {}");
        let types = read_in(&folder, &["protos/shop/service.proto", "elsewhere/other.proto"]).unwrap();
        assert_eq!(types.messages().len(), 5);
        let wrong = read_in(&folder, &["protos/shop/service.proto"]).unwrap_err();
        assert!(wrong.contains("the type `Other`") && wrong.contains("`other.proto`"), "{wrong}");
    }

    #[test]
    fn an_absent_import_is_no_mistake_unless_a_type_is_missing() {
        let folder = TestDir::new();
        folder.write("a.proto", "import \"google/api/annotations.proto\"; message A { option (google.api.x) = {}; }");
        assert!(read_in(&folder, &["a.proto"]).is_ok());
        let wrong = read_in(&folder, &["none.proto"]).unwrap_err();
        assert!(wrong.contains("cannot read `none.proto`"), "{wrong}");
        folder.write("b.proto", "message B {");
        assert!(read_in(&folder, &["b.proto"]).unwrap_err().contains("b.proto:1:12"));
    }

    #[test]
    fn descriptors_are_files_of_other_names() {
        let folder = TestDir::new();
        std::fs::write(folder.join("both.binpb"), DESCRIPTORS).unwrap();
        assert!(read_in(&folder, &["both.binpb"]).unwrap().method("test.kinds.v1.Echo", "Say").is_some());
        folder.write("text.pb", "message A {}");
        assert!(read_in(&folder, &["text.pb"]).unwrap_err().contains("no set of descriptors"));
    }
}
