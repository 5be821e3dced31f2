//! The readers of a run folder: whatever is in a file, they give an error or what is whole. A file that is read can be cut off
//! anywhere, and what is then read is the beginning of it.
//!
//! The first byte of an input says which file it is; the rest is what it holds.

use std::fmt::Debug;
use std::path::Path;

use experiment::plan::Plan;
use record::environment::Environment;
use record::events::{History, RunEnding};
use record::results::Results;
use record::rows::{Attempts, GeneratorSecond, Metric, OutcomeSlot, Sample};
use record::{ReadError, Records, hlog, lines, replicas, rows, whole};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::place::Place;

/// Reads what a file may hold, in whatever way its kind is read.
type Read = fn(&Place, &[u8]);

/// By the letter that an input begins with.
const FILES: &[(u8, Read)] = &[
    (b'a', |place, bytes| table(place, bytes, rows::read::<Attempts>)),
    (b'd', |place, bytes| written_whole::<RunEnding>(place, bytes)),
    (b'e', |place, bytes| growing(place, bytes, lines::read_events)),
    (b'g', |place, bytes| table(place, bytes, rows::read::<GeneratorSecond>)),
    (b'h', histograms),
    (b'm', |place, bytes| table(place, bytes, rows::read::<Metric>)),
    (b'o', |place, bytes| table(place, bytes, rows::read::<OutcomeSlot>)),
    (b'p', |place, bytes| written_whole::<Plan>(place, bytes)),
    (b'q', |place, bytes| written_whole::<Environment>(place, bytes)),
    (b'r', |place, bytes| drop(replicas::read(place.hold(bytes)))),
    (b's', |place, bytes| table(place, bytes, rows::read::<Sample>)),
    (b'v', |place, bytes| written_whole::<Results>(place, bytes)),
    (b'y', |place, bytes| growing(place, bytes, lines::read::<History>)),
];

/// A file of any kind.
pub fn records(input: &[u8]) {
    let Some((letter, bytes)) = input.split_first() else { return };
    let named = FILES.iter().find(|(known, _)| known == letter);
    let (_, read) = named.unwrap_or(&FILES[usize::from(*letter) % FILES.len()]);
    read(&Place::new(), bytes);
}

/// Some of the places at which a file may have been cut off.
fn cuts(bytes: &[u8]) -> [usize; 4] {
    [bytes.len() / 3, bytes.len() / 2, bytes.len() - bytes.len() / 5, bytes.len().saturating_sub(1)]
}

/// What Plimsoll writes has no line ends within its fields. A field that had could be cut into two rows.
fn table<T: Debug>(place: &Place, bytes: &[u8], read: impl Fn(&Path) -> Result<Records<T>, ReadError>) {
    if bytes.contains(&b'"') {
        drop(read(place.hold(bytes)));
    } else {
        growing(place, bytes, read);
    }
}

fn growing<T: Debug>(place: &Place, bytes: &[u8], read: impl Fn(&Path) -> Result<Records<T>, ReadError>) {
    let Ok(whole) = read(place.hold(bytes)) else { return };
    let shown: Vec<String> = whole.items.iter().map(|item| format!("{item:?}")).collect();
    for cut in cuts(bytes) {
        let begun = read(place.hold(&bytes[..cut])).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(begun.items.len() <= shown.len(), "cut at {cut}");
        for (item, shown) in begun.items.iter().zip(&shown) {
            assert_eq!(&format!("{item:?}"), shown, "cut at {cut}");
        }
    }
}

fn histograms(place: &Place, bytes: &[u8]) {
    let Ok(whole) = hlog::read(place.hold(bytes)) else { return };
    for cut in cuts(bytes) {
        let begun = hlog::read(place.hold(&bytes[..cut])).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(whole.intervals.starts_with(&begun.intervals), "cut at {cut}");
    }
    for interval in &whole.intervals {
        // What is read is also asked and added up.
        let mut sum = interval.histogram.clone();
        sum.add(&interval.histogram).unwrap();
        assert!(sum.value_at_quantile(0.5) <= sum.max());
    }
}

fn written_whole<T: Serialize + DeserializeOwned>(place: &Place, bytes: &[u8]) {
    let Ok(Some(read)) = whole::read_json::<T>(place.hold(bytes)) else { return };
    whole::write_json(place.path(), &read).unwrap();
    whole::read_json::<T>(place.path()).unwrap().unwrap();
}
