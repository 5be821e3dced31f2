//! Tests of reading Jepsen's histories.

use super::*;
use crate::foreign_history::ForeignSettings;
use crate::key_history::Linearizability;

/// Returns a history with these events, one a line.
fn events(lines: &[&str]) -> String {
    let event = |line: &&str| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap();
        format!("{{:process {}, :type :{}, :f :{}, :value {}}}\n", word(), word(), word(), word())
    };
    lines.iter().map(event).collect()
}

fn verdicts(text: &str, settings: ForeignSettings) -> Vec<(Option<String>, Linearizability)> {
    let history = read_jepsen(text, true).unwrap();
    history.objects.iter().map(|object| (object.key.clone(), object.check(settings))).collect()
}

/// Returns the proof of a history of one object.
fn proof_of(text: &str) -> Vec<usize> {
    match verdicts(text, ForeignSettings::default()).as_slice() {
        [(None, Linearizability::Violation(proof))] => proof.core.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn registers_are_read() {
    let text = "; a comment\n[{:type :invoke, :process 1, :f :read, :value nil}\n\
                {:type :invoke, :process 2, :f :cas, :value [1 2]} {:process :nemesis, :type :info, :f :start}\n\
                {:type :ok, :process 1, :f :read, :value 3, :error [:x \"a\\\"b\"]}\n\
                {:type :info :process 2 :f :cas :value [1 2]}]";
    let history = read_jepsen(text, true).unwrap();
    let lines = |start, end| OperationLines { start, end: Some(end) };
    assert_eq!(history.objects[0].lines, [lines(2, 4), lines(3, 5)]);
    let operations = history.registers();
    assert_eq!(operations.len(), 2);
    assert_eq!(operations[0].access, Access::Read { value: Some(3) });
    assert_eq!((operations[0].start_ns, operations[0].end_ns), (0, Some(3)));
    assert_eq!(operations[1].access, Access::CompareAndSet { from: Some(1), to: Some(2) });
    assert_eq!((operations[1].status, operations[1].end_ns), (Status::Unknown, None));
}

#[test]
fn negative_numbers_and_texts_are_values() {
    let text = events(&["0 invoke write -1", "0 ok write -1", "0 invoke write \"a b\"", "0 ok write \"a b\""]);
    let history = read_jepsen(&text, true).unwrap();
    let ObjectOperations::Register(operations) = &history.objects[0].operations else { panic!("{history:?}") };
    let written: Vec<u64> = operations.iter().filter_map(|it| it.item(0, 0)?.act.written()).collect();
    let names: Vec<String> = written.iter().map(|value| history.value_name(*value)).collect();
    assert_eq!(names, ["-1", "\"a b\""]);
    assert_eq!(history.value_of("-1"), Some(written[0]));
    assert_eq!((history.value_of("7"), history.value_of("x")), (Some(7), None));
}

#[test]
fn sets_are_read() {
    let added = ["0 invoke add 1", "0 ok add 1", "1 invoke add 2", "1 info add 2", "2 invoke add 3", "2 fail add 3"];
    let read =
        |elements: &str| events(&[&added[..], &["3 invoke read nil", &format!("3 ok read {elements}")]].concat());
    for elements in ["#{1}", "#{1 2}", "[2 1]", "nil"] {
        assert_eq!(
            verdicts(&read(elements), ForeignSettings::default())[0].1,
            Linearizability::Linearizable,
            "{elements}"
        );
    }
    assert_eq!(proof_of(&read("#{2}")), [0, 3], "1 is lost");
    assert_eq!(proof_of(&read("(1 3)")), [3], "3 was refused");
    let found = |answer: &str| {
        events(&["0 invoke add 1", "0 ok add 1", "0 invoke contains 1", &format!("0 ok contains [1 {answer}]")])
    };
    assert_eq!(verdicts(&found("true"), ForeignSettings::default())[0].1, Linearizability::Linearizable);
    assert_eq!(proof_of(&found("false")), [0, 1]);
}

#[test]
fn queues_are_read() {
    let two = ["0 invoke enqueue 1", "0 ok enqueue 1", "0 invoke enqueue 2", "0 ok enqueue 2"];
    let with = |more: &[&str]| events(&[&two, more].concat());
    let swapped = with(&["1 invoke drain nil", "1 ok drain [2]", "2 invoke dequeue nil", "2 ok dequeue 1"]);
    assert_eq!(proof_of(&swapped), [0, 1, 2, 4], "the drain left 1");
    let swapped = with(&["1 invoke dequeue nil", "1 ok dequeue 2", "2 invoke dequeue nil", "2 ok dequeue 1"]);
    assert_eq!(proof_of(&swapped), [0, 1, 2, 3]);
    let any_order = ForeignSettings { any_order: true, ..ForeignSettings::default() };
    assert_eq!(verdicts(&swapped, any_order)[0].1, Linearizability::Linearizable);
    let lost = with(&["1 invoke dequeue nil", "1 info dequeue nil", "2 invoke drain nil", "2 ok drain [2]"]);
    assert_eq!(verdicts(&lost, ForeignSettings::default())[0].1, Linearizability::Linearizable, "1 may be taken");
    let lost = with(&["1 invoke dequeue nil", "1 fail dequeue nil", "2 invoke drain nil", "2 ok drain [2]"]);
    assert!(matches!(verdicts(&lost, any_order)[0].1, Linearizability::Violation(_)));
}

#[test]
fn objects_have_keys() {
    let text = events(&[
        "0 invoke enqueue [a 1]",
        "0 ok enqueue [a 1]",
        "0 invoke enqueue [b 1]",
        "0 ok enqueue [b 1]",
        "1 invoke dequeue [b nil]",
        "1 ok dequeue [b 1]",
        "1 invoke dequeue [b nil]",
        "1 ok dequeue [b 1]",
    ]);
    let found = verdicts(&text, ForeignSettings::default());
    assert_eq!(found[0], (Some("a".to_owned()), Linearizability::Linearizable));
    assert!(matches!(&found[1], (Some(key), Linearizability::Violation(_)) if key == "b"), "{found:?}");
    let tagged = "[#jepsen.history.Op{:process 0, :type :invoke, :f :add, :value #jepsen.independent/KV [5 [1 2]]}\n\
                  {:process 0, :type :ok, :f :read, :value #jepsen.independent/KV [5 #{[1 2]}]}]";
    assert_eq!(verdicts(tagged, ForeignSettings::default()), [(Some("5".to_owned()), Linearizability::Linearizable)]);
}

#[test]
fn every_broken_event_is_named() {
    let text = "{:process 0, :type :invoke, :f :add, :value 1}\n{:type :ok}\n{:process 1, :type :ok, :f :add}\n\
                {:process 1, :type :began, :f :add}\n{:process 1, :type :invoke}\n\
                {:process 2, :type :invoke, :f :write, :value 1}\n{:process 3, :type :invoke, :f :read, :value nil}\n\
                {:process 3, :type :ok, :f :read, :value 7}\n3\n{:process 4, :type :invoke, :f :add}\n";
    let event = "expected maps such as {:process 0, :type :invoke, :f :write, :value 1}";
    assert_eq!(
        read_jepsen(text, true).unwrap_err().to_string(),
        format!(
            "line 2: no event of a process: {event}\n\
             line 3: process 1 ends an operation that it did not start\n\
             line 4: the type :began is none of :invoke, :ok, :fail and :info\n\
             line 5: the event has no function :f, such as :f :read\n\
             line 6: the function `write` is none of add, remove, contains and read: other operations of the history are \
             those of a set\n\
             line 8: the value 7 of `read` is no list of values, such as #{{1 2}}\n\
             line 9: no event of a process: {event}\n\
             line 10: `add` has no value"
        )
    );
    let empty = read_jepsen("; nothing\n{:process :nemesis}", true).unwrap_err().to_string();
    assert_eq!(empty, format!("line 1: no operation of a client: {event}"));
    let mixed = events(&["0 invoke enqueue [1 2]", "0 invoke dequeue nil"]);
    let mixed = read_jepsen(&mixed, true).unwrap_err().to_string();
    assert_eq!(mixed, "line 2: the operation has no key, unlike others");
    let endless = events(&["0 invoke enqueue 1", "1 invoke drain nil"]);
    let endless = read_jepsen(&endless, true).unwrap_err().to_string();
    assert_eq!(endless, "line 2: a `drain` without an answer may have taken any number of values");
}
