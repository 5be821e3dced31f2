//! Server reflection: a target describes its services and their messages.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value as Json;

use super::built_in;
use crate::protobuf::types::{MessageTypes, ProtoFile};
use crate::protobuf::{descriptors, message_layout, well_known_file};
use crate::protocols::DescribingCall;

/// Maximum number of questions to a target.
const QUESTIONS: usize = 2_000;

/// A target's reflection.
struct Reflection<'a, 'b> {
    call: &'a mut DescribingCall<'b>,
    /// Versions that the target may have.
    versions: &'static [&'static str],
    /// Number of questions that may still be asked.
    left: usize,
}

impl Reflection<'_, '_> {
    /// Asks a question, whose name and value are a member of the request.
    fn question(&mut self, name: &str, value: &str) -> Result<Json, String> {
        self.left = self.left.checked_sub(1).ok_or("its files import too many others")?;
        let message = format!("[{}]", serde_json::json!({ name: value }));
        while let Some((version, older)) = self.versions.split_first() {
            let method = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
            let with = [("method".to_owned(), method), ("message".to_owned(), message.clone())];
            let answer = (self.call)("rpc", &BTreeMap::from(with))?;
            match answer.status.as_str() {
                "ok" => return read_answer(&answer.message.unwrap_or_default()),
                "unimplemented" => self.versions = older,
                status => return Err(format!("its server reflection answers `{status}`")),
            }
        }
        Err("it has no server reflection: name its .proto files in `load.proto`".to_owned())
    }

    /// Returns the files of an answer.
    fn files(&mut self, name: &str, value: &str) -> Result<Vec<ProtoFile>, String> {
        let answer = self.question(name, value)?;
        let files = answer["fileDescriptorResponse"]["fileDescriptorProto"].as_array().cloned().unwrap_or_default();
        let read = files.iter().map(|file| {
            let bytes = message_layout::from_base64(file.as_str()?)?;
            descriptors::read_file(&bytes)
        });
        read.collect::<Option<_>>().ok_or_else(|| format!("its description of `{value}` cannot be read"))
    }
}

fn read_answer(answer: &[u8]) -> Result<Json, String> {
    let answer: Json = serde_json::from_slice(answer).map_err(|_| "its answer has no message".to_owned())?;
    match &answer["errorResponse"] {
        Json::Object(error) => Err(error.get("errorMessage").and_then(Json::as_str).unwrap_or("refused").to_owned()),
        _ => Ok(answer),
    }
}

/// Returns the names of a target's services, without reflection itself.
fn services(reflection: &mut Reflection<'_, '_>) -> Result<Vec<String>, String> {
    let answer = reflection.question("listServices", "*")?;
    let names = answer["listServicesResponse"]["service"].as_array().cloned().unwrap_or_default();
    let names = names.iter().filter_map(|service| service["name"].as_str().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("grpc.reflection.")).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the types of these services, or of all services if none is named.
///
/// # Errors
/// If the target has no reflection, does not know a service, or a call fails.
pub fn ask(names: &[String], call: &mut DescribingCall<'_>) -> Result<MessageTypes, String> {
    let mut reflection = Reflection { call, versions: &built_in::VERSIONS, left: QUESTIONS };
    let (mut files, mut waiting): (Vec<ProtoFile>, VecDeque<String>) = (Vec::new(), VecDeque::new());
    let names = if names.is_empty() { services(&mut reflection)? } else { names.to_vec() };
    for service in &names {
        let found = reflection.files("fileContainingSymbol", service);
        add(found.map_err(|why| format!("`{service}`: {why}"))?, &mut files, &mut waiting);
    }
    let mut absent = Vec::new();
    while let Some(import) = waiting.pop_front() {
        if files.iter().any(|file| file.name == import) || absent.contains(&import) {
            continue;
        }
        match (reflection.files("fileByFilename", &import), well_known_file(&import)) {
            (Ok(found), _) if !found.is_empty() => add(found, &mut files, &mut waiting),
            (_, Some(built_in)) => files.push(built_in),
            // Options are often imported and not needed. A missing type is an error below.
            _ => absent.push(import),
        }
    }
    MessageTypes::link(files)
}

fn add(found: Vec<ProtoFile>, files: &mut Vec<ProtoFile>, waiting: &mut VecDeque<String>) {
    for file in found {
        if !files.iter().any(|known| known.name == file.name) {
            waiting.extend(file.imports.iter().cloned());
            files.push(file);
        }
    }
}
