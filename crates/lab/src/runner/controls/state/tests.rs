//! Tests of what holds under several controls, and of the steps there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 83, 0, last)
}

fn rate(rate: f64) -> Link {
    Link { rate_bits_per_s: Some(rate), ..Link::default() }
}

fn loss(loss: f64) -> Link {
    Link { loss_pct: Some(loss), ..Link::default() }
}

fn everywhere(link: Link) -> Control {
    Control::Link { link, peers: None }
}

fn cut(from: &[u8], to: &[u8]) -> Control {
    let some = |lasts: &[u8]| Some(lasts.iter().map(|last| address(*last)).collect());
    Control::Cut { from: some(from), to: some(to) }
}

fn these(lasts: &[u8]) -> Peers {
    Peers::These(lasts.iter().map(|last| address(*last)).collect())
}

fn envelope() -> Envelope {
    let disk = Disk { size_bytes: Some(1 << 30), write_iops: Some(200.0), ..Disk::default() };
    Envelope { link: rate(1e8), disk, memory_bytes: Some(1 << 30), ..Envelope::default() }
}

fn of(controls: &[Control]) -> State {
    let list: Vec<_> = controls.iter().enumerate().map(|(n, control)| (format!("k#{n}"), control.clone())).collect();
    State::of(&list, &envelope())
}

#[test]
fn nothing_imposed_is_the_envelope() {
    let state = of(&[]);
    assert_eq!((state.still, state.carrier, state.cpu, state.offset_s), (false, Carrier::Up, 1.0, 0.0));
    assert_eq!((state.links.all, state.links.toward.len()), (rate(1e8), 0));
    assert_eq!((state.memory_bytes, state.leave_bytes, state.disk), (Some(1 << 30), None, envelope().disk));
    assert_eq!(state.cuts, Cuts { from: these(&[]), to: these(&[]), silent: false });
}

#[test]
fn the_later_of_a_kind_holds() {
    type Shown = fn(&State) -> String;
    let table: [(Control, Control, Shown, &str); 6] = [
        (Control::Cpu { of_profile: 0.5 }, Control::Cpu { of_profile: 0.25 }, |s| s.cpu.to_string(), "0.25"),
        (Control::Memory { bytes: 5 }, Control::Memory { bytes: 7 }, |s| format!("{:?}", s.memory_bytes), "Some(7)"),
        (
            Control::FullDisk { leave_bytes: 5 },
            Control::FullDisk { leave_bytes: 0 },
            |s| format!("{:?}", s.leave_bytes),
            "Some(0)",
        ),
        (Control::Clock { offset_s: 5.0 }, Control::Clock { offset_s: -1.0 }, |s| s.offset_s.to_string(), "-1"),
        (Control::LinkFlap { down_s: 1.0, up_s: 2.0 }, Control::LinkDown, |s| format!("{:?}", s.carrier), "Down"),
        (
            everywhere(rate(1e6)),
            everywhere(rate(2e6)),
            |s| format!("{:?}", s.links.all.rate_bits_per_s),
            "Some(2000000.0)",
        ),
    ];
    for (first, second, shown, expected) in table {
        assert_eq!(shown(&of(&[first.clone(), second.clone()])), expected, "{first:?}, {second:?}");
        assert_ne!(shown(&of(&[second, first.clone()])), expected, "{first:?} last");
    }
}

#[test]
fn figures_that_a_control_does_not_give_stay() {
    let state = of(&[everywhere(rate(1e6)), everywhere(loss(5.0))]);
    assert_eq!(state.links.all, Link { rate_bits_per_s: Some(1e6), delay_s: None, loss_pct: Some(5.0) });
    let disk = Disk { read_iops: Some(10.0), ..Disk::default() };
    let expected = Disk { read_iops: Some(10.0), ..envelope().disk };
    assert_eq!(of(&[Control::Disk { disk }]).disk, expected);
}

#[test]
fn links_toward_some_lie_over_those_toward_all() {
    let toward = |link, last| Control::Link { link, peers: Some(vec![address(last)]) };
    let state = of(&[toward(loss(1.0), 2), everywhere(rate(1e6)), toward(loss(2.0), 3), toward(rate(5.0), 2)]);
    assert_eq!(state.links.all, rate(1e6));
    let one = |last: u8| BTreeSet::from([address(last)]);
    let over = |rate: f64, loss: f64| Link { rate_bits_per_s: Some(rate), delay_s: None, loss_pct: Some(loss) };
    assert_eq!(state.links.toward, [(one(2), over(5.0, 1.0)), (one(3), over(1e6, 2.0))]);
}

#[test]
fn cuts_add_up() {
    let state = of(&[cut(&[2], &[]), cut(&[2, 3], &[4])]);
    assert_eq!(state.cuts, Cuts { from: these(&[2, 3]), to: these(&[4]), silent: false });
    let state = of(&[cut(&[2], &[]), Control::Cut { from: None, to: Some(Vec::new()) }, cut(&[3], &[])]);
    assert_eq!(state.cuts, Cuts { from: Peers::Everybody, to: these(&[]), silent: false });
    let state = of(&[Control::Freeze, cut(&[2], &[3])]);
    assert_eq!((state.still, state.cuts), (true, Cuts { from: these(&[2]), to: these(&[3]), silent: true }));
}

#[test]
fn only_what_changes_is_a_step() {
    let squeezed = of(&[Control::Cpu { of_profile: 0.5 }]);
    assert_eq!(steps(&of(&[]), &squeezed), [Step::Cpu(0.5)]);
    assert_eq!(steps(&squeezed, &of(&[])), [Step::Cpu(1.0)]);
    assert_eq!(steps(&squeezed, &squeezed), []);
}

#[test]
fn a_freeze_is_left_in_reverse() {
    let (free, frozen) = (of(&[cut(&[2], &[])]), of(&[cut(&[2], &[]), Control::Freeze]));
    let silent = Cuts { silent: true, ..free.cuts.clone() };
    assert_eq!(steps(&free, &frozen), [Step::Still(true), Step::Cut(silent)]);
    assert_eq!(steps(&frozen, &free), [Step::Cut(free.cuts), Step::Still(false)]);
}

#[test]
fn steps_lead_where_they_should() {
    let all = [
        Control::Freeze,
        cut(&[2], &[3]),
        everywhere(rate(1e6)),
        Control::LinkDown,
        Control::LinkFlap { down_s: 1.0, up_s: 1.0 },
        Control::Cpu { of_profile: 0.5 },
        Control::Memory { bytes: 5 },
        Control::Disk { disk: Disk { write_iops: Some(5.0), ..Disk::default() } },
        Control::FullDisk { leave_bytes: 0 },
        Control::Clock { offset_s: 5.0 },
    ];
    let states: Vec<State> =
        all.iter().map(|control| of(std::slice::from_ref(control))).chain([of(&[]), of(&all)]).collect();
    for from in &states {
        for to in &states {
            let mut state = from.clone();
            steps(from, to).into_iter().for_each(|step| state.follow(step));
            assert_eq!(&state, to);
        }
    }
}

#[test]
fn of_two_that_slow_a_port_the_later_holds_figure_by_figure() {
    let slow = |ports: &[u16], link: Link| Control::Port { ports: ports.to_vec(), link };
    let late = Link { delay_s: Some(0.1), ..Link::default() };
    let state = of(&[slow(&[7000, 7001], rate(5e6)), slow(&[7000], late.clone()), slow(&[7000], rate(1e6))]);
    assert_eq!(state.links.ports[&7000], Link { rate_bits_per_s: Some(1e6), ..late });
    assert_eq!((&state.links.ports[&7001], &state.links.all), (&rate(5e6), &rate(1e8)));
    assert_eq!(steps(&state, &of(&[])), [Step::Link(of(&[]).links)]);
}
