//! Quantiles of Student's t, for intervals and tests of means. It must not know of what.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The quantile `share` with so many degrees of freedom, which need not be whole; `None` unless there are any.
pub(crate) fn quantile_of_t(share: f64, freedom: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, freedom).ok().map(|student| student.inverse_cdf(share))
}
