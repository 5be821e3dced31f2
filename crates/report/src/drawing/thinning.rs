//! Fewer points than were recorded, without losing an extreme: each stretch of points is shown by its smallest and its
//! largest. It must not average.

/// A point of a line; `None` is a gap.
pub type Point = (f64, Option<f64>);

/// At most about `most` points. Each stretch keeps its smallest and largest value, in their order, and its gap if it has one.
pub fn thinned(points: &[Point], most: usize) -> Vec<Point> {
    if points.len() <= most.max(3) {
        return points.to_vec();
    }
    // Two points a stretch, three where there is a gap.
    let stretch = points.len().div_ceil((most / 2).max(1));
    let mut kept = Vec::with_capacity(most);
    for stretch in points.chunks(stretch) {
        let mut indices: Vec<usize> = [least(stretch), most_of(stretch), gap(stretch)].into_iter().flatten().collect();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| stretch[index]));
    }
    kept
}

fn least(points: &[Point]) -> Option<usize> {
    let values = points.iter().enumerate().filter_map(|(index, point)| Some((index, point.1?)));
    values.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

fn most_of(points: &[Point]) -> Option<usize> {
    let values = points.iter().enumerate().filter_map(|(index, point)| Some((index, point.1?)));
    values.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

fn gap(points: &[Point]) -> Option<usize> {
    points.iter().position(|point| point.1.is_none())
}

/// As [`thinned`] for lines of a stack, which need the same moments: those of the smallest and the largest sum, and of gaps.
pub fn thinned_together(lines: &[Vec<Point>], most: usize) -> Vec<Vec<Point>> {
    let length = lines.iter().map(Vec::len).max().unwrap_or(0);
    let sum = |index: usize| lines.iter().filter_map(|line| line.get(index)?.1).reduce(|a, b| a + b);
    let sums: Vec<Point> = (0..length).map(|index| (index as f64, sum(index))).collect();
    let kept: Vec<usize> = thinned(&sums, most).into_iter().map(|(index, _)| index as usize).collect();
    lines.iter().map(|line| kept.iter().filter_map(|&index| line.get(index).copied()).collect()).collect()
}
