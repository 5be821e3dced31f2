//! Made-up plans and series for tests: one trial with a closed loop, and noise whose law is known. Only for tests.

use std::collections::BTreeMap;

use experiment::plan::{
    self, Fault, Find, Lab, Load, Order, Plan, Requirement, Retry, Step, Target, TargetKind, Trial, Warmup, When,
    WhenFailed,
};

/// A trial with this load.
pub(crate) fn trial(load: Load) -> Trial {
    Trial {
        id: "001".into(),
        variant: None,
        point: BTreeMap::new(),
        repeat: 1,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://127.0.0.1:1".into() },
            protocol: "http".into(),
            tls: Default::default(),
        },
        lab: Lab::default(),
        prepare: Vec::new(),
        load: Some(load),
        faults: Vec::new(),
        surviving: None,
        steps: Vec::new(),
    }
}

/// So many agents for so long, in a closed loop without ramp.
pub(crate) fn load(agents: u32, time_s: f64) -> Load {
    Load {
        agents,
        from: Vec::new(),
        ramp_s: 0.0,
        time_s,
        timeout_s: 1.0,
        drain_s: 1.0,
        think_s: 0.0,
        think_spread_pct: 0.0,
        warmup: Warmup::Seconds(0.0),
        retry: Retry::FailFast,
        reconnect_s: 0.1,
        connections: Default::default(),
        rate: None,
        backlog: None,
        threads: None,
        order: Order::Cycle,
        when_failed: WhenFailed::GoOn,
        steps: vec![Step { call: "get".into(), name: "get".into(), ..Step::default() }],
        feeds: Vec::new(),
        script: None,
    }
}

/// A fault that is planned for this second.
pub(crate) fn fault(name: &str, at_s: f64) -> Fault {
    Fault {
        name: name.into(),
        kind: "call".into(),
        on: "one".into(),
        with: BTreeMap::new(),
        when: When::At(at_s),
        for_s: None,
        seed: 1,
        label: "a call".into(),
        colour: "#cc0000".into(),
        standing: false,
    }
}

/// A plan of nothing.
pub(crate) fn plan() -> Plan {
    Plan {
        format: plan::FORMAT,
        title: String::new(),
        asks: String::new(),
        variants: Vec::new(),
        swept: Vec::new(),
        trials: Vec::new(),
        requirements: Vec::new(),
        claims: Vec::new(),
        find: None,
    }
}

/// An autoregressive series of order 1 with mean 0 and standard deviation 1: each value is `phi` of the one before, and noise.
pub(crate) fn autoregressive(random: &mut fastrand::Rng, length: usize, phi: f64) -> Vec<f64> {
    let mut last = normal(random);
    let values = std::iter::repeat_with(|| {
        let value = last;
        last = phi * last + (1.0 - phi * phi).sqrt() * normal(random);
        value
    });
    values.take(length).collect()
}

/// A standard normal number (G. E. P. Box, M. E. Muller 1958).
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * random.f64().max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A search for a number of agents within these limits, of nothing yet.
pub(crate) fn find(limits: Vec<Requirement>) -> Find {
    Find {
        highest: "load.agents".into(),
        limits,
        surviving: Vec::new(),
        from: None,
        up_to: None,
        precision_pct: 5.0,
        trials_max: 24,
        accepts_void: false,
        templates: Vec::new(),
    }
}
