//! One piece of work on several hosts at once: sixteen of them must not wait for each other. It must not know what the work
//! is.

use std::thread;

use crate::Error;
use crate::hosts::Host;

/// Does `work` on every host at the same time; what came of it, in the hosts' order. One host needs no thread.
pub fn on_all<T: Send>(
    hosts: &mut [Box<dyn Host>],
    work: impl Fn(usize, &mut dyn Host) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let items = hosts.iter_mut().enumerate().collect();
    at_once(items, |(index, host)| work(index, host.as_mut()))
}

/// Does `work` with every item at the same time; what came of it, in the items' order.
pub fn at_once<I: Send, T: Send>(items: Vec<I>, work: impl Fn(I) -> Result<T, Error> + Sync) -> Vec<Result<T, Error>> {
    if items.len() < 2 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let begin = |item| thread::Builder::new().name("host".to_owned()).spawn_scoped(scope, move || work(item));
        let threads: Vec<_> = items.into_iter().map(begin).collect();
        let end = |thread: std::io::Result<thread::ScopedJoinHandle<'_, Result<T, Error>>>| {
            let thread = thread.map_err(Error::system("start a thread"))?;
            // A panic there is one here.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(end).collect()
    })
}

/// What came of the same work at several places: all of it, or the first error. What the others got is let go of, also at the
/// same time: the end of a host takes a moment.
pub fn all_or_none<T: Send>(done: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    let (mut all, mut failed) = (Vec::new(), None);
    for one in done {
        match one {
            Ok(one) => all.push(one),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    let Some(error) = failed else { return Ok(all) };
    let_go(all);
    Err(error)
}

/// Drops all at the same time.
pub fn let_go<T: Send>(all: Vec<T>) {
    drop(at_once(all, |one| {
        drop(one);
        Ok(())
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Can only be let go of together with another.
    struct Together<'a>(&'a Barrier);

    impl Drop for Together<'_> {
        fn drop(&mut self) {
            self.0.wait();
        }
    }

    #[test]
    fn what_came_of_it_is_in_order_or_the_first_error() {
        let work = |number: u32| if number < 30 { Ok(number * 2) } else { Err(Error::Fault(number.to_string())) };
        assert_eq!(all_or_none(at_once(vec![1, 2, 3], work)).unwrap(), [2, 4, 6]);
        assert_eq!(all_or_none(at_once(vec![1, 40, 50], work)).unwrap_err().to_string(), "40");
    }

    #[test]
    fn what_is_not_needed_after_all_is_let_go_of_at_the_same_time() {
        let both = Barrier::new(2);
        let made = vec![Ok(Together(&both)), Err(Error::NotAHost), Ok(Together(&both))];
        assert!(matches!(all_or_none(made), Err(Error::NotAHost)));
    }
}
