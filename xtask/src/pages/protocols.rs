//! The page of protocols, from the load engine's table.

use std::fmt::Write as _;

use experiment::catalog::{Effect, Operation, Protocol};

use super::{Page, cell, sentence};

pub const KIND: Page = Page { name: "protocols", text };

fn text() -> String {
    let mut page = String::from(
        "# Protocols\n\nWhat `protocol` may be in `[target]` and in `target.toml`, and what `call` may name. An argument goes \
         into `with`; an answer's field may be named in `expect` and, as `answer.FIELD`, in `keep`.\n",
    );
    for kind in load::protocols::KINDS {
        add(&mut page, kind.info);
    }
    page
}

fn add(page: &mut String, protocol: &Protocol) {
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## `{}`\n\n{}", protocol.name, sentence(protocol.help));
    if !protocol.schemes.is_empty() {
        let schemes: Vec<String> = protocol.schemes.iter().map(|scheme| format!("`{scheme}://`")).collect();
        let _ = write!(page, " URLs: {}.", schemes.join(", "));
    }
    page.push('\n');
    for operation in protocol.operations {
        add_operation(page, operation);
    }
}

fn add_operation(page: &mut String, operation: &Operation) {
    let effect = match operation.effect {
        Effect::None => "",
        Effect::Read => " It reads a key.",
        Effect::Write => " It writes a key.",
        Effect::Remove => " It removes a key.",
        Effect::RemoveAll => " It removes every key of a space.",
    };
    let _ = write!(page, "\n### `{}`\n\n{}{effect}\n", operation.name, sentence(operation.help));
    if operation.takes.is_empty() && operation.answers.is_empty() {
        return;
    }
    page.push_str("\n| | field | | |\n|---|---|---|---|\n");
    for (what, fields) in [("argument", operation.takes), ("answer", operation.answers)] {
        for field in fields {
            let need = if field.required { "required" } else { "" };
            let _ = writeln!(page, "| {what} | `{}` | {need} | {} |", cell(field.name), cell(field.help));
        }
    }
}
