//! That a seed repeats itself, and that inputs do not.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let corpus = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b"{seq}".to_vec()];
    let inputs = |seed| {
        let mut mutator = Mutator::new(seed);
        (0..200).map(|_| mutator.input(&corpus)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
    let different: BTreeSet<_> = inputs(1).into_iter().collect();
    assert!(different.len() > 150, "{}", different.len());
}

#[test]
fn nothing_to_begin_with_is_enough() {
    let mut mutator = Mutator::new(1);
    assert!((0..100).any(|_| !mutator.input(&[]).is_empty()));
}
