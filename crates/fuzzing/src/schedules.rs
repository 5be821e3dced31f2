//! Recorded starts: any file is a schedule or says why not, and one that is deals every start to one agent, once and in order.
//!
//! The first byte of an input says how many agents there are, the second where what is counted is cut; the rest is the file.

use std::collections::BTreeSet;

use crate::place::Place;

/// Where the load ends, nanoseconds.
const END_NS: u64 = 100_000_000_000;

/// Any file.
pub fn replay(input: &[u8]) {
    let Some(([agents, cut], file)) = input.split_first_chunk::<2>() else { return };
    let agents = u32::from(agents % 8) + 1;
    let cut_ns = u64::from(*cut) * (END_NS / 256);
    let place = Place::new();
    let Ok(dealt) = load::fuzzing::replay(place.hold(file), agents, cut_ns, END_NS) else { return };
    assert_eq!(dealt.len(), agents as usize);
    let mut starts = 0;
    for of_agent in &dealt {
        assert_eq!(of_agent.walked, of_agent.counted, "cut at {cut_ns}");
        assert!(of_agent.walked.is_sorted() && of_agent.walked.iter().all(|start| *start < END_NS));
        let different: BTreeSet<&u64> = of_agent.walked.iter().collect();
        assert_eq!(different.len(), of_agent.walked.len(), "a moment tells which start it is");
        starts += of_agent.walked.len();
    }
    // A row takes two bytes at least, and the first is the header line.
    assert!(starts <= file.len() / 2);
    // Dealt in turn: the n-th of an agent comes before the n-th of the next.
    for two in dealt.windows(2) {
        assert!(two[0].walked.len() >= two[1].walked.len());
        assert!(two[0].walked.iter().zip(&two[1].walked).all(|(before, behind)| before <= behind));
    }
}
