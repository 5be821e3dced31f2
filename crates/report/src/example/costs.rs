//! What two variants cost, made up for the tests. It must not be used outside tests.

use record::results::{CostWithWarmup, PointCost};

/// What two variants cost at two loads each; the second is the peak of both.
pub fn costs() -> Vec<PointCost> {
    let cost = |variant: &str, agents: u32, cycles_per_s: f64, watts: f64, price_per_s: f64| {
        let joules = watts / cycles_per_s;
        PointCost {
            variant: variant.to_owned(),
            point: [("load.agents".to_owned(), serde_json::json!(agents))].into(),
            cycles_per_s: Some(cycles_per_s),
            watts: Some(watts),
            joules_per_cycle: Some(joules),
            joules_per_cycle_ci95: Some([0.9 * joules, 1.1 * joules]),
            price_per_million_cycles: Some(price_per_s / cycles_per_s * 1e6),
            currency: Some("EUR".to_owned()),
            with_warmup: CostWithWarmup {
                watts: Some(watts),
                joules_per_cycle: Some(1.2 * joules),
                price_per_million_cycles: Some(1.2 * price_per_s / cycles_per_s * 1e6),
            },
            trials: 3,
            at_peak: agents == 32,
            cheapest: agents == 32,
            ..Default::default()
        }
    };
    vec![
        cost("pi2c", 4, 30.0, 15.0, 1.25e-6),
        cost("pi2c", 32, 96.0, 18.0, 1.25e-6),
        cost("devx", 4, 98.0, 41.7, 5.3e-6),
        cost("devx", 32, 100.0, 41.7, 5.3e-6),
    ]
}
