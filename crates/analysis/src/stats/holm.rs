//! Many tests at once. Of a hundred comparisons of nothing with nothing five are below 0.05 by chance; corrected, the chance that
//! any is flagged stays below 0.05. It must not know what was tested.

/// Chances corrected for their number, in the order given: S. Holm, "A simple sequentially rejective multiple test
/// procedure", Scandinavian Journal of Statistics 6, 1979. Valid whatever the tests have to do with each other.
pub(crate) fn adjusted(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut adjusted = vec![0.0; chances.len()];
    let mut highest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        highest = highest.max((chances.len() - rank) as f64 * chances[index]).min(1.0);
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn corrected_chances_are_those_of_statsmodels() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden_stats/significance.json")).unwrap();
        for case in golden["holm"].as_array().unwrap() {
            let numbers = |name: &str| -> Vec<f64> {
                case[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            for (now, then) in adjusted(&numbers("p")).iter().zip(numbers("adjusted")) {
                assert!((now - then).abs() < 1e-12, "{now} and not {then} in {case}");
            }
        }
    }

    #[test]
    fn the_smallest_counts_for_all() {
        assert_eq!(adjusted(&[]), Vec::<f64>::new());
        assert_eq!(adjusted(&[0.03]), [0.03]);
        assert_eq!(adjusted(&[0.5, 0.01, 0.6]), [1.0, 0.03, 1.0]);
    }
}
