//! Messages of streams, from `messages.csv`: in total, by group and by operation.

use record::results::{Arrival, Trial};
use record::rows::MessageSecond;

use crate::generator::share_inside;

/// Adds the numbers of messages to a trial, its groups and its operations.
pub(crate) fn add(trial: &mut Trial, rows: &[MessageSecond], measured_s: Option<(f64, f64)>) {
    for row in rows {
        count(&mut trial.arrival, row, measured_s);
        let operation = trial.operations.entry(row.operation.clone()).or_default();
        count(&mut operation.arrival, row, measured_s);
        let group = operation.group.as_ref().and_then(|name| trial.groups.get_mut(name));
        group.into_iter().for_each(|group| count(&mut group.arrival, row, measured_s));
    }
}

/// Counts the messages of a second. A second that lies partly in the measured part counts in
/// proportion.
fn count(arrival: &mut Arrival, row: &MessageSecond, measured_s: Option<(f64, f64)>) {
    *arrival.messages.get_or_insert_default() += row.count;
    if let Some((from_s, until_s)) = measured_s {
        let inside = row.count as f64 * share_inside(row.at_s, row.interval_s, (from_s, until_s));
        *arrival.messages_per_s.get_or_insert_default() += inside / (until_s - from_s);
    }
}

#[cfg(test)]
mod tests {
    use record::results::{GroupFigures, Operation};

    use super::*;

    fn row(at_s: f64, operation: &str, count: u64) -> MessageSecond {
        MessageSecond { at_s, interval_s: 1.0, operation: operation.into(), count }
    }

    #[test]
    fn rates_cover_the_measured_part_and_counts_everything() {
        let mut trial = Trial::default();
        let of_group = Operation { group: Some("readers".into()), ..Operation::default() };
        trial.operations.insert("chat".into(), of_group);
        trial.groups.insert("readers".into(), GroupFigures::default());
        let rows = [row(1.0, "chat", 50), row(2.0, "chat", 100), row(3.0, "watch", 7), row(3.0, "chat", 200)];
        add(&mut trial, &rows, Some((1.0, 2.5)));
        assert_eq!((trial.arrival.messages, trial.operations["chat"].arrival.messages), (Some(357), Some(350)));
        assert_eq!(trial.operations["chat"].arrival.messages_per_s, Some(200.0 / 1.5));
        assert_eq!(trial.groups["readers"].arrival, trial.operations["chat"].arrival);
        assert_eq!(trial.operations["watch"].arrival.messages_per_s, Some(3.5 / 1.5));
    }

    #[test]
    fn without_messages_or_a_measured_part_figures_are_absent() {
        let mut trial = Trial::default();
        add(&mut trial, &[], Some((0.0, 1.0)));
        assert_eq!(trial, Trial::default());
        add(&mut trial, &[row(1.0, "chat", 5)], None);
        assert_eq!((trial.arrival.messages, trial.arrival.messages_per_s), (Some(5), None));
    }
}
