//! Fuzz targets for files that users write: experiment files, manifests, templates and service
//! addresses. Every text is either valid or gives problems that can be printed.

use std::sync::LazyLock;

use experiment::catalog::{Catalog, Fault, Field, Heals};
use experiment::plan::Plan;
use experiment::problem::Problems;
use experiment::source::Source;
use experiment::template::{Template, TemplatePart};
use experiment::{manifest, profile, timeline};
use load::protocols::KINDS;
use serde_json::Value;
use wire::testing::{names, source};
use wire::values::CompiledTemplate;
use wire::values::words::TemplateWords;

static KILL: Fault = Fault {
    name: "kill",
    help: "kill a member's process",
    takes: &[Field { name: "signal", help: "KILL, TERM", required: false }],
    label: "kill",
    colour: "#dc2626",
    heals: Heals::AfterFor,
    check: None,
};

static CALL: Fault = Fault {
    name: "call",
    help: "call an operation that makes the target fail",
    takes: &[
        Field { name: "call", help: "the operation", required: true },
        Field { name: "*", help: "an argument", required: false },
    ],
    label: "call",
    colour: "#d97706",
    heals: Heals::ByItself,
    check: None,
};

pub static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog {
        protocols: KINDS.iter().map(|kind| kind.info).collect(),
        faults: vec![&CALL, &KILL],
        metrics: [
            "consistency.lost_writes",
            "failed_pct",
            "faults.*.outage.back_to_baseline_s",
            "faults.*.outage.failed",
            "faults.*.outage.memory_released_bytes",
            "latency_us.p99",
            "operations.*.latency_us.p99",
            "throughput.before_first_fault_per_s",
            "throughput.cycles_per_s",
            "throughput.operations_per_s",
        ]
        .map(ToOwned::to_owned)
        .to_vec(),
        ..Catalog::default()
    };
    let source = |text: &str| Source { name: "known.toml".to_owned(), text: text.to_owned() };
    let targets = [
        ("docket", include_str!("../golden/targets/docket/target.toml")),
        ("vsns", include_str!("../golden/targets/vsns/target.toml")),
    ];
    for (name, text) in targets {
        catalog.targets.insert(name.to_owned(), manifest::parse(name, &source(text)).unwrap());
    }
    let pi = source(include_str!("../golden/profiles/raspberry-pi-2.toml"));
    catalog.profiles.insert("raspberry-pi-2".to_owned(), profile::parse("raspberry-pi-2", &pi).unwrap());
    catalog
});

/// Reads any text as an experiment. Text after the first NUL is passed as `--set` options,
/// separated by NULs.
pub fn experiment(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut texts = input.split('\0').map(ToOwned::to_owned);
    let source = Source { name: "f.toml".to_owned(), text: texts.next().unwrap_or_default() };
    let sets: Vec<String> = texts.collect();
    match experiment::read(&source, &sets, &CATALOG) {
        Err(problems) => {
            assert!(!problems.as_slice().is_empty());
            assert!(!problems.render(false).is_empty() && !problems.to_string().is_empty());
        }
        Ok(plan) => {
            assert!(!timeline::print(&plan).is_empty());
            let text = serde_json::to_string(&plan).unwrap();
            let back: Plan = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
            let (before, after) = (serde_json::to_value(&plan).unwrap(), serde_json::to_value(&back).unwrap());
            assert!(alike(&before, &after), "{before}\nbecame\n{after}");
        }
    }
}

/// Reads any text as a target's manifest and as a profile.
pub fn manifest(input: &[u8]) {
    let source = Source { name: "f.toml".to_owned(), text: String::from_utf8_lossy(input).into_owned() };
    let tell = |problems: Problems| {
        assert!(!problems.as_slice().is_empty());
        assert!(!problems.render(false).is_empty() && !problems.to_string().is_empty());
    };
    if let Err(problems) = manifest::parse("target", &source) {
        tell(problems);
    }
    if let Err(problems) = profile::parse("profile", &source) {
        tell(problems);
    }
}

/// Whether two values are equal, except for the last digit of a number.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a != b => {
            a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-15)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        _ => a == b,
    }
}

/// Maximum sum of N over the `{bytes:N}` of a template. Larger templates are not filled, because
/// that would take too long.
const MOST: u64 = 64 * 1024;

/// Parses and fills any text as a template.
pub fn template(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = match Template::parse(&text) {
        Ok(parsed) => parsed,
        Err(problem) => {
            assert!(text.get(problem.at.clone()).is_some(), "{:?} is no place in {text:?}", problem.at);
            assert!(!problem.what.is_empty() && !problem.hint.is_empty());
            return;
        }
    };
    assert_eq!(Template::parse(&parsed.to_string()).as_ref(), Ok(&parsed), "{text:?} as {parsed}");
    let of_environment = parsed.all_parts().iter().any(|part| matches!(part, TemplatePart::Env(_)));
    let bytes = parsed.all_parts().into_iter().map(|part| {
        if let TemplatePart::Bytes(count) | TemplatePart::RandomBytes(count) = part { u64::from(*count) } else { 0 }
    });
    if of_environment || bytes.sum::<u64>() > MOST {
        return;
    }
    let Ok(template) = CompiledTemplate::compile(&text, 0, &names()) else { return };
    let (mut written, mut again) = (Vec::new(), Vec::new());
    template.write(&source(3, 12), &mut written);
    template.write(&source(3, 12), &mut again);
    if let Ok(words) = TemplateWords::cut(&template) {
        // The words are the text without blanks, quotes and backslashes. Nothing else is lost or
        // added.
        let (source, mut joined) = (source(3, 12), Vec::new());
        let mut operation = words.say(&source);
        (0..words.count()).for_each(|_| operation.next_into(&mut joined));
        let mut whole = written.iter();
        assert!(joined.iter().all(|byte| whole.any(|written| written == byte)), "{joined:?} of {written:?}");
    }
    assert_eq!(written, again);
    assert!(template.fixed_length().is_none_or(|length| length == written.len()), "{written:?}");
    assert!(template.as_constant().is_none_or(|constant| constant == written));
    assert!(parsed.constant().is_none_or(|constant| constant.as_bytes() == written));
}

/// Parses any text as a service address, for each protocol.
pub fn service(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // `{env:…}` is not filled: the environment differs from machine to machine.
    if text.contains("{env:") {
        return;
    }
    for kind in KINDS {
        if let Err(how) = (kind.tests.greet)(&text, b"") {
            assert!(!how.is_empty(), "{text:?}");
        }
    }
}
