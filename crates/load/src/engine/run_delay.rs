//! Run delay of the calling thread: the time in which the thread was ready to run and had no CPU.
//! The kernel's counter is read once a second.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Buffer size for three numbers of up to 20 digits.
const LONGEST: usize = 64;

/// A thread's run delay. The default value means unknown.
#[derive(Debug, Default)]
pub struct RunDelay {
    /// `schedstat` of the thread, or `None` if the kernel does not provide it.
    account: Option<File>,
    last_ns: Option<u64>,
}

impl RunDelay {
    /// Starts measuring the calling thread.
    pub fn of_this_thread() -> Self {
        // The path resolves to the thread that opens it, and the open file stays with that thread.
        let mut begun = Self { account: File::open("/proc/thread-self/schedstat").ok(), last_ns: None };
        begun.last_ns = begun.read_ns();
        begun
    }

    /// Returns the run delay since the last call, or `None` if the kernel does not report it.
    pub fn take_ns(&mut self) -> Option<u64> {
        let now_ns = self.read_ns();
        let last_ns = std::mem::replace(&mut self.last_ns, now_ns);
        now_ns?.checked_sub(last_ns?)
    }

    fn read_ns(&self) -> Option<u64> {
        let mut text = [0; LONGEST];
        let length = self.account.as_ref()?.read_at(&mut text, 0).ok()?;
        run_delay_ns(text.get(..length)?)
    }
}

/// Returns the second of the three numbers (kernel documentation, scheduler/sched-stats): time
/// spent waiting on a run queue. A kernel without scheduler statistics writes zeros.
fn run_delay_ns(text: &[u8]) -> Option<u64> {
    let mut figures = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let ran_ns: u64 = figures.next()?.parse().ok()?;
    let waited_ns = figures.next()?.parse().ok()?;
    (ran_ns > 0).then_some(waited_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(run_delay_ns(b"1054779845 1001350686 283\n"), Some(1_001_350_686));
        assert_eq!(run_delay_ns(b"5 0 1\n"), Some(0));
        assert_eq!(run_delay_ns(b"0 0 0\n"), None, "no account is kept");
        assert_eq!(run_delay_ns(b""), None);
        assert_eq!(run_delay_ns(b"1 x 2\n"), None);
    }

    #[test]
    fn an_unknown_delay_stays_unknown() {
        assert_eq!(RunDelay::default().take_ns(), None);
    }

    #[test]
    fn a_thread_has_a_delay_if_the_kernel_counts_it() {
        // A thread that was never off its CPU may still show zeros.
        (0..1000).for_each(|_| std::thread::yield_now());
        let known = std::fs::read("/proc/thread-self/schedstat").is_ok_and(|text| run_delay_ns(&text).is_some());
        let mut delay = RunDelay::of_this_thread();
        assert_eq!(delay.take_ns().is_some(), known);
        assert_eq!(delay.take_ns().is_some(), known, "again and again");
    }
}
