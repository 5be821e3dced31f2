//! Example calls of the methods that a target or its files describe.

use experiment::example::DescribedCall;

use super::{MESSAGE, METHOD, split_method};
use crate::protobuf::example_message;
use crate::protobuf::types::{MessageTypes, RpcMethod};

/// Returns a call of each method.
pub fn calls(types: &MessageTypes) -> Vec<DescribedCall> {
    let methods = types.methods();
    let sendable = methods.iter().filter(|method| split_method(&method.path()).is_ok());
    let mut names: Vec<String> = Vec::new();
    let calls = sendable.map(|method| {
        let name = step_name(&method.name);
        let count = names.iter().filter(|known| **known == name).count();
        names.push(name.clone());
        let name = if count == 0 { name } else { format!("{name}-{}", count + 1) };
        let message = example_message::example(types, method.input).replace('{', "{{").replace('}', "}}");
        let message = if method.takes_stream { format!("[{message}]") } else { message };
        let arguments = vec![(METHOD.name, format!("{}/{}", method.service, method.name)), (MESSAGE.name, message)];
        DescribedCall { operation: "rpc", name, arguments, special: special(method) }
    });
    calls.collect()
}

/// Returns the name of a step: `GetUser` is `get_user`.
fn step_name(method: &str) -> String {
    let mut name = String::with_capacity(method.len() + 4);
    let mut is_inside = false;
    for letter in method.chars() {
        if letter.is_ascii_uppercase() && std::mem::take(&mut is_inside) {
            name.push('_');
        }
        is_inside = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn special(method: &RpcMethod) -> Option<&'static str> {
    Some(match (method.takes_stream, method.answers_stream) {
        (false, false) => return None,
        (false, true) => "answers with a stream of messages",
        (true, false) => "takes a stream of messages: the array",
        (true, true) => "takes a stream of messages, the array, and answers with a stream",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::testing::types;

    #[test]
    fn methods_become_steps_with_names_of_small_letters() {
        let names = ["GetUser", "get2HTTPPages", "x_Y", "A"].map(step_name);
        assert_eq!(names, ["get_user", "get2_httppages", "x_y", "a"]);
        let calls = calls(&types());
        let known: Vec<(&str, bool)> = calls.iter().map(|call| (call.name.as_str(), call.special.is_some())).collect();
        assert_eq!(known, [("say", false), ("count", true), ("sum", true), ("chat", true), ("nothing", false)]);
        assert_eq!(calls[2].arguments[1], ("message", r#"[{{"name": "", "count": 0}}]"#.to_owned()));
    }
}
