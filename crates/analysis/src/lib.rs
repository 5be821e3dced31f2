//! From records to results: quantiles, outages, checks, verdicts.
