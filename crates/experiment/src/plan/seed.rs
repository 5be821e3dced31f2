//! Seeds: each repeat of a point its own, the same again when the file is run again, and the same for all variants, so
//! that what is compared draws the same numbers.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::Fault;

/// The seed of a trial. The point counts by its content, so that a longer sweep leaves the others as they were.
pub(crate) fn of_trial(seed: u64, repeat: u32, point: &BTreeMap<String, Json>) -> u64 {
    let mut state = mix(seed, u64::from(repeat));
    for (path, value) in point {
        state = mix_text(mix_text(state, path), &value.to_string());
    }
    state
}

/// The seed of a fault that was given none.
pub(crate) fn of_fault(trial_seed: u64, name: &str) -> u64 {
    mix_text(trial_seed, name)
}

/// Faults, each with a seed of its own: the trial's, where the file gives none, which stands as 0.
pub(crate) fn faults(faults: &[Fault], trial_seed: u64) -> Vec<Fault> {
    let own = |fault: &Fault| if fault.seed == 0 { of_fault(trial_seed, &fault.name) } else { fault.seed };
    faults.iter().map(|fault| Fault { seed: own(fault), ..fault.clone() }).collect()
}

fn mix_text(state: u64, text: &str) -> u64 {
    text.bytes().fold(mix(state, text.len() as u64), |state, byte| mix(state, u64::from(byte)))
}

/// One step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(state: u64, input: u64) -> u64 {
    let mut z = (state ^ input.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
