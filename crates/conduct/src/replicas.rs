//! After the load, while the target still runs: every member is asked what it holds, until replication has drained. Whether they
//! ought to hold that is for the analysis to say; here it is only looked whether it still changes.

use std::time::{Duration, Instant};

use lab::{Site, Told};
use record::folder::TrialFolder;
use record::replicas::{self, Replica, Table};

use crate::Error;

/// Between two rounds, seconds at the machine's own speed.
const PAUSE_S: f64 = 1.0;
/// Nobody is asked again after so many.
const PATIENCE_S: f64 = 10.0;
/// How often it is looked whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(20);

/// What asking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// How often all were asked.
    pub rounds: u32,
    /// Whether the last two rounds told the same.
    pub settled: bool,
    /// Members that told what they hold.
    pub answered: usize,
}

/// Asks the members, and writes what they said in the last round. `None` where the target cannot say.
///
/// # Errors
/// If it cannot be written.
pub fn read_replicas(
    site: &mut Site,
    folder: &TrialFolder,
    give_up: &dyn Fn() -> bool,
) -> Result<Option<Asked>, Error> {
    if !site.can_audit() {
        return Ok(None);
    }
    let speed = site.speed();
    let begun = Instant::now();
    let pause = || rest(Duration::from_secs_f64(PAUSE_S / speed), give_up);
    let (told, rounds, settled) =
        settled(&mut || site.audit(), &mut || pause() && begun.elapsed().as_secs_f64() < PATIENCE_S / speed);
    let replicas: Vec<Replica> = told.into_iter().map(|told| told.replica).collect();
    replicas::write(&folder.replicas(), &replicas).map_err(Error::Record)?;
    let answered = replicas.iter().filter(|replica| replica.holds.is_ok()).count();
    Ok(Some(Asked { rounds, settled, answered }))
}

/// Asks until two rounds in a row tell the same and nobody has to be asked in vain, or `goes_on` says no; the last round, how many
/// there were, and whether it told what the one before did. A member that fails may be about to serve again, so it is asked again.
fn settled(ask: &mut dyn FnMut() -> Vec<Told>, goes_on: &mut dyn FnMut() -> bool) -> (Vec<Told>, u32, bool) {
    let (mut last, mut rounds, mut same) = (ask(), 1, false);
    while !(same && last.iter().all(is_final)) && goes_on() {
        let next = ask();
        // Why a member fails may be said in other words each time.
        same = holdings(&next).eq(holdings(&last));
        last = next;
        rounds += 1;
    }
    (last, rounds, same)
}

/// What each holds, as far as it told.
fn holdings(told: &[Told]) -> impl Iterator<Item = Option<&Table>> {
    told.iter().map(|told| told.replica.holds.as_ref().ok())
}

/// Whether asking again would bring nothing more.
fn is_final(told: &Told) -> bool {
    told.replica.holds.is_ok() || !told.is_up
}

/// Waits; false if the user wants an end.
#[expect(clippy::disallowed_methods, reason = "nothing could wake it earlier")]
fn rest(time: Duration, give_up: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + time;
    while !give_up() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
    false
}

#[cfg(test)]
mod tests {
    use record::replicas::Held;

    use super::*;

    /// `"a b"`: a member that holds the keys `a` and `b`; `"!"`: one that fails; `"-"`: one that is down.
    fn told(says: &[&str]) -> Vec<Told> {
        let table = |keys: &str| keys.split_whitespace().map(|key| (key.to_owned(), Held::default())).collect();
        let told = |(index, says): (usize, &&str)| Told {
            replica: Replica {
                member: format!("n{}", index + 1),
                holds: if matches!(*says, "!" | "-") { Err((*says).to_owned()) } else { Ok(table(says)) },
            },
            is_up: *says != "-",
        };
        says.iter().enumerate().map(told).collect()
    }

    /// Plays rounds, the last of them again and again, for at most so many: the last one asked, how many there were, whether it settled.
    fn play(rounds: &[&[&str]], at_most: u32) -> (Vec<Told>, u32, bool) {
        let (mut asked, mut left) = (0, at_most);
        let mut ask = || {
            asked += 1;
            told(rounds[(asked - 1).min(rounds.len() - 1)])
        };
        let mut goes_on = || {
            left -= 1;
            left > 0
        };
        settled(&mut ask, &mut goes_on)
    }

    #[test]
    fn two_rounds_that_tell_the_same_are_enough() {
        assert_eq!(play(&[&["a", "a"]], 10), (told(&["a", "a"]), 2, true));
        // That members differ from each other is no reason to go on: only that they still change.
        assert_eq!(play(&[&["a", "a b"]], 10), (told(&["a", "a b"]), 2, true));
        assert_eq!(play(&[&["a", ""], &["a b", "a"], &["a b", "a b"]], 10), (told(&["a b", "a b"]), 4, true));
    }

    #[test]
    fn what_goes_on_changing_is_taken_as_it_is_at_last() {
        assert_eq!(play(&[&["a"], &["b"], &["c"], &["d"]], 3), (told(&["c"]), 3, false));
        assert_eq!(play(&[&["a"]], 1), (told(&["a"]), 1, false), "the user wants an end");
    }

    #[test]
    fn one_that_fails_is_asked_again_and_one_that_is_down_is_not() {
        assert_eq!(play(&[&["a", "!"], &["a", "!"], &["a", "!"], &["a", "a"]], 10), (told(&["a", "a"]), 5, true));
        assert_eq!(play(&[&["a", "!"]], 4), (told(&["a", "!"]), 4, true));
        assert_eq!(play(&[&["a", "-"]], 10), (told(&["a", "-"]), 2, true));
    }
}
