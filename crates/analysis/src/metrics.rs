//! Metric paths: from a path such as `operations.save.latency_us.p99` to the numbers it names in a trial. It must not know one field by
//! name: what there is comes from the format of the results itself, so that the two cannot drift apart.

use record::results::Trial;
use serde_json::Value;

/// The values that a path names in a trial; a list on the way gives one per element. Empty if the path names nothing, or
/// nothing that was measured.
#[must_use]
pub fn metric(trial: &Trial, path: &str) -> Vec<f64> {
    let mut values = Vec::new();
    if let Ok(trial) = serde_json::to_value(trial) {
        let steps: Vec<&str> = path.split('.').collect();
        collect(&trial, &steps, &mut values);
    }
    values
}

fn collect(value: &Value, steps: &[&str], values: &mut Vec<f64>) {
    match (value, steps) {
        (Value::Number(number), []) => values.extend(number.as_f64()),
        (Value::Array(elements), []) => elements.iter().for_each(|element| collect(element, &[], values)),
        (Value::Array(elements), [first, rest @ ..]) => {
            let named = |element: &&Value| element.get("name").and_then(Value::as_str) == Some(first);
            let picked: Vec<&Value> = elements.iter().filter(named).collect();
            let (picked, steps) = if picked.is_empty() { (elements.iter().collect(), steps) } else { (picked, rest) };
            picked.into_iter().for_each(|element| collect(element, steps, values));
        }
        // A name may itself hold dots; the longest that fits is meant.
        (Value::Object(fields), _) => {
            let fits = (1..=steps.len()).rev().find_map(|count| Some((fields.get(&steps[..count].join("."))?, count)));
            if let Some((field, count)) = fits {
                collect(field, &steps[count..], values);
            }
        }
        _ => {}
    }
}

/// Every path that names a number in a trial; `*` stands for a free part, such as the name of an operation. Faults and hosts
/// can be left out or picked by name, so these have two paths.
#[must_use]
pub fn metric_paths() -> Vec<String> {
    let schema = schemars::schema_for!(Trial).to_value();
    let mut paths = Vec::new();
    walk(&schema, &schema, "", &mut paths);
    paths.sort();
    paths.dedup();
    paths
}

fn walk(schema: &Value, root: &Value, path: &str, paths: &mut Vec<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        if let Some(target) = root.pointer(reference.trim_start_matches('#')) {
            walk(target, root, path, paths);
        }
        return;
    }
    for choice in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        walk(choice, root, path, paths);
    }
    let is = |kind: &str| match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(any)) => any.iter().any(|one| one == kind),
        _ => false,
    };
    if is("number") || is("integer") {
        paths.push(path.to_owned());
    }
    if let Some(items) = schema.get("items") {
        walk(items, root, path, paths);
        if is_named(items, root) {
            walk(items, root, &joined(path, "*"), paths);
        }
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(field, root, &joined(path, name), paths);
    }
    if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        walk(values, root, &joined(path, "*"), paths);
    }
}

/// Whether the elements of a list have names to be picked by.
fn is_named(items: &Value, root: &Value) -> bool {
    let reference = items.get("$ref").and_then(Value::as_str).unwrap_or_default();
    let target = root.pointer(reference.trim_start_matches('#')).unwrap_or(items);
    target.pointer("/properties/name").is_some()
}

fn joined(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

#[cfg(test)]
mod tests;
