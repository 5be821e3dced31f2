//! Cost of a real lab, from measured figures: the CPU that its host used, completed cycles, and the
//! watts and price of its profile.

use serde_json::Value;

use crate::lab_setup::sandbox;
use crate::lab_traces;
use crate::sandbox::number;

const METERED: &str = "what = \"metered\"\nlifetime_years = 2\n[cpu]\ncores = 2\nspeed = 0.1\nsource = \"made up\"\n\
                       [power]\nidle_watts = 10\nload_watts = 110\nsource = \"made up\"\n\
                       [price]\namount = 631.152\ncurrency = \"CHF\"\nsource = \"made up\"\n";

#[test]
fn costs_need_watts_and_a_price() {
    let Some(_turn) = lab_traces::turn() else { return };
    let (sandbox, file) = sandbox("hosts = 1\nprofile = \"metered\"\nspeed = 0.5", "");
    sandbox.file("profiles/metered.toml", METERED);
    // At half the speed, two seconds of work take four.
    let played = sandbox.run(&[&file, "--set", "load.time=2s", "--set", "load.warmup=500ms"]).exits(0).json();
    let trial = &played["trials"][0];
    let (cost, host) = (&trial["cost"], &trial["hosts"][0]);
    let watts = number(cost, "/watts");
    assert!(watts > 10.0 && watts <= 110.0, "{cost:#}");
    assert_eq!(
        (number(host, "/watts"), &host["watts_source"], &cost["modelled"]),
        (watts, &"profile".into(), &true.into())
    );
    let near =
        |value: f64, known: f64| assert!((value / known - 1.0).abs() < 1e-9, "{value} and not {known}: {cost:#}");
    let cycles_per_s = number(trial, "/throughput/cycles_per_s") / 0.5;
    near(number(cost, "/joules_per_cycle"), watts / cycles_per_s);
    // CHF 631.152 over two years of 31,557,600 s each are CHF 0.00001 per second.
    near(number(cost, "/price_per_million_cycles"), 10.0 / cycles_per_s);
    assert_eq!((&cost["currency"], &cost["lacks"]), (&"CHF".into(), &Value::Null));
    let whole = number(trial, "/with_warmup/cycles_per_s") / 0.5;
    near(number(cost, "/with_warmup/price_per_million_cycles"), 10.0 / whole);
    near(number(&played, "/costs/0/joules_per_cycle"), watts / cycles_per_s);

    let bare = sandbox.run(&[&file, "--set", "lab.profile=small"]).exits(0).json();
    let cost = &bare["trials"][0]["cost"];
    assert_eq!((&cost["watts"], &cost["price_per_million_cycles"]), (&Value::Null, &Value::Null));
    let lacks = cost["lacks"].as_str().unwrap();
    assert!(lacks.contains("no [price] in profile `small` for n1"), "{lacks}");
    assert_eq!(bare["costs"].as_array().unwrap().len(), 0);
}
