//! Made-up plans for tests: one trial with a closed loop. Only for tests.

use std::collections::BTreeMap;

use experiment::plan::{Fault, Lab, Load, Order, Retry, Step, Target, TargetKind, Trial, Warmup, When};

/// A trial with this load.
pub(crate) fn trial(load: Load) -> Trial {
    Trial {
        id: "001".into(),
        variant: None,
        point: BTreeMap::new(),
        repeat: 1,
        seed: 1,
        target: Target { kind: TargetKind::Running { url: "http://127.0.0.1:1".into() }, protocol: "http".into() },
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
        ramp_s: 0.0,
        time_s,
        timeout_s: 1.0,
        drain_s: 1.0,
        think_s: 0.0,
        warmup: Warmup::Seconds(0.0),
        retry: Retry::FailFast,
        reconnect_s: 0.1,
        rate: None,
        threads: None,
        order: Order::Cycle,
        steps: vec![Step { call: "get".into(), name: "get".into(), ..Step::default() }],
        feeds: Vec::new(),
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
