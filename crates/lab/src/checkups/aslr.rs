//! Whether each start of a program has another layout in memory.

use super::{About, Finding, Kind, NOT_TOLD, Patient};

pub static KIND: Kind = Kind {
    name: "address randomisation",
    about: About::Memory,
    reads: "kernel.randomize_va_space",
    why: "a program's speed depends on where its code and data happen to lie: with one layout only, an accident passes for a property",
    source: "Mytkowicz et al., Producing wrong data without doing anything obviously wrong, ASPLOS 2009",
    caught_by: &[],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let name = "kernel.randomize_va_space";
    match patient.sysctl(name).as_deref() {
        Some([2]) => Finding::good("on: layouts differ from start to start, repeats average over them"),
        Some([_]) => Finding::notice("off or in part: every repeat has the same layout, lucky or not", "turn it on")
            .fixed_by(patient.fix_sysctl(name, "2")),
        _ => Finding::unknown(NOT_TOLD),
    }
}
