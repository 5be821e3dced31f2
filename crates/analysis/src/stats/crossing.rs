//! Where one curve overtakes another for good. It must not know what the curves are, nor resample.
//!
//! Between measured loads the lead is taken to change evenly with the logarithm of the load, because loads are usually doubled. No
//! curve is fitted: the law that fits one system need not fit the other, and where two lie close, a crossing of fitted curves is
//! one of their misfits.

use super::curve::Mean;

/// The load from which `a` is ahead of `b` for good. Minus infinity: `a` is ahead at every load that both have. Infinity: at the
/// highest of them, `a` is not ahead. `None` with fewer than two such loads.
pub(crate) fn crossing(a: &[Mean], b: &[Mean]) -> Option<f64> {
    let leads = leads(a, b);
    let (&(_, last), _) = leads.split_last().filter(|(_, before)| !before.is_empty())?;
    if last <= 0.0 {
        return Some(f64::INFINITY);
    }
    let Some(behind) = leads.iter().rposition(|&(_, lead)| lead <= 0.0) else { return Some(f64::NEG_INFINITY) };
    let [(from, lead), (to, next)] = [leads[behind], leads[behind + 1]];
    let share = -lead / (next - lead);
    Some((from.ln() + share * (to / from).ln()).exp())
}

/// By load, how far `a` is ahead, as a share of the sum, so that it does not matter how high both are.
fn leads(a: &[Mean], b: &[Mean]) -> Vec<(f64, f64)> {
    let lead = |a: &Mean| {
        let b = b.iter().find(|b| b.load == a.load)?;
        let sum = a.rate + b.rate;
        Some((a.load, if sum > 0.0 { (a.rate - b.rate) / sum } else { 0.0 }))
    };
    a.iter().filter_map(lead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Mean> {
        points.iter().map(|&(load, rate)| Mean { load, rate, repeats: 1 }).collect()
    }

    fn of(loads: &[f64], rate: impl Fn(f64) -> f64) -> Vec<Mean> {
        curve(&loads.iter().map(|&load| (load, rate(load))).collect::<Vec<_>>())
    }

    const DOUBLING: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    #[test]
    fn a_slow_starter_overtakes_where_the_curves_meet() {
        // 12 slow cores against 2 fast ones: they meet where 10 per agent make 200.
        let (pi, xeon) = (of(&DOUBLING, |n| 10.0 * n.min(40.0)), of(&DOUBLING, |n| 100.0 * n.min(2.0)));
        let found = crossing(&pi, &xeon).unwrap();
        assert!((found - 20.0).abs() < 1.0, "{found}");
        assert_eq!(crossing(&xeon, &pi), Some(f64::INFINITY), "it is overtaken");
        let meets = of(&DOUBLING, |n| 160.0_f64.min(100.0 * n));
        assert_eq!(crossing(&pi, &meets).map(f64::round), Some(16.0), "they are equal at a measured load");
    }

    #[test]
    fn curves_of_powers_cross_between_loads_where_they_do() {
        let (a, b) = (of(&[1.0, 64.0], |n| n), of(&[1.0, 64.0], |n| 4.0 * n.sqrt()));
        let found = crossing(&a, &b).unwrap();
        // Only two loads, the lead far from even: between them all the same.
        assert!((1.0..64.0).contains(&found), "{found}");
        let (a, b) = (of(&[1.0, 4.0], |n| n), of(&[1.0, 4.0], |n| n.powf(-1.0) * 4.0));
        assert!((crossing(&a, &b).unwrap() - 2.0).abs() < 1e-9, "evenly on both sides");
    }

    #[test]
    fn only_the_last_of_several_crossings_counts() {
        let b = of(&DOUBLING, |_| 10.0);
        let a = curve(&[(1.0, 20.0), (2.0, 5.0), (4.0, 20.0), (8.0, 5.0), (16.0, 20.0), (32.0, 20.0), (64.0, 20.0)]);
        let found = crossing(&a, &b).unwrap();
        assert!((8.0..16.0).contains(&found), "{found}");
    }

    #[test]
    fn who_is_ahead_throughout_or_never_does_not_cross() {
        let (high, low) = (of(&DOUBLING, |n| 2.0 * n), of(&DOUBLING, |n| n));
        assert_eq!(crossing(&high, &low), Some(f64::NEG_INFINITY));
        assert_eq!(crossing(&low, &high), Some(f64::INFINITY));
        assert_eq!(crossing(&low, &low), Some(f64::INFINITY), "a tie is no lead");
        let zero = of(&DOUBLING, |_| 0.0);
        assert_eq!(crossing(&zero, &zero), Some(f64::INFINITY));
        assert_eq!(crossing(&low, &zero), Some(f64::NEG_INFINITY));
    }

    #[test]
    fn loads_that_one_of_them_lacks_are_left_out() {
        let a = of(&[1.0, 3.0, 4.0, 16.0], |n| n);
        let b = of(&[1.0, 2.0, 4.0, 16.0], |_| 8.0);
        let found = crossing(&a, &b).unwrap();
        assert!((4.0..16.0).contains(&found), "{found}");
        assert_eq!(crossing(&a, &of(&[4.0, 5.0], |_| 1.0)), None, "one load in common");
        assert_eq!(crossing(&a, &[]), None);
    }
}
