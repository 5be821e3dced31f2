//! Who does not hear whom in a partition: arithmetic over numbered hosts. It must not know addresses.

/// How hosts are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One side against the others; within either all is well.
    Halves,
    /// Each host of the side is alone.
    One,
    /// The others do not hear the side; it hears them.
    OneWay,
    /// Each host hears only its two neighbours, the last and the first being neighbours.
    Ring,
}

/// The hosts of a lab and those of them that are one side.
#[derive(Debug, Clone)]
pub struct Group {
    /// How many there are.
    pub count: usize,
    /// Numbers of those of the side, from 0.
    pub side: Vec<usize>,
}

impl Group {
    fn has(&self, host: usize) -> bool {
        self.side.contains(&host)
    }
}

/// Every pair of a listener and a speaker whom it does not hear; in words why there is none.
pub fn deaf(shape: Shape, group: &Group) -> Result<Vec<(usize, usize)>, String> {
    let pairs = (0..group.count).flat_map(|listener| (0..group.count).map(move |speaker| (listener, speaker)));
    let apart = |listener: usize, speaker: usize| match shape {
        Shape::Halves => group.has(listener) != group.has(speaker),
        Shape::One => group.has(listener) || group.has(speaker),
        Shape::OneWay => group.has(speaker) && !group.has(listener),
        Shape::Ring => !are_neighbours(listener, speaker, group.count),
    };
    let deaf: Vec<_> = pairs.filter(|(listener, speaker)| listener != speaker && apart(*listener, *speaker)).collect();
    if !deaf.is_empty() {
        return Ok(deaf);
    }
    Err(match (shape, group.count) {
        (_, 1) => "a single host cannot be parted from others".to_owned(),
        (Shape::Ring, count) => format!("in a ring of {count} hosts all are neighbours: it takes 4"),
        _ => "all hosts are on one side, so there is nobody to part them from".to_owned(),
    })
}

fn are_neighbours(a: usize, b: usize, count: usize) -> bool {
    (a + 1) % count == b || (b + 1) % count == a
}

/// The hosts that clients do not reach when they reach only the larger side: of two equal sides the one that is hit, and
/// those that are alone in any case.
pub fn smaller(shape: Shape, group: &Group) -> Vec<usize> {
    let others = (0..group.count).filter(|host| !group.has(*host));
    match shape {
        Shape::Ring => Vec::new(),
        Shape::Halves | Shape::OneWay if group.side.len() * 2 > group.count => others.collect(),
        Shape::Halves | Shape::OneWay | Shape::One => group.side.clone(),
    }
}
