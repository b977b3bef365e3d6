//! The breaker: above a fixed number of posts it delays each by a random time, longer and longer
//! while they stay too many.
//!
//! It counts the posts of its stream on its own node, all that arrive, over the last two seconds.
//! It opens above 2000 and closes below 1600. While it is open, each post waits a random time in
//! 0..2^k ms:
//!
//! - opening raises k by one (the first time to 1), and so does every further two seconds at whose
//!   end there are still more than 2000; k ends at 14;
//! - between 1600 and 2000 it stays open and k stays;
//! - every two seconds that it has been closed lower k by one, so that a rush that comes back soon
//!   is met with the waits it had before.
//!
//! A post whose wait would outlast its deadline is not held at all.

use std::time::Duration;

use consort_kernel::Entropy;

/// Posts within [`WINDOW`] above which the breaker opens.
const OPENS_ABOVE: u64 = 2000;

/// Posts within [`WINDOW`] below which it closes: well below the other, so that it does not flutter.
const CLOSES_BELOW: u64 = 1600;

/// What posts are counted over, and how long k stays as it is.
const WINDOW: Duration = Duration::from_secs(2);

/// The longest waits are below 2^14 ms, some 16 s.
const K_MOST: u32 = 14;

/// The window slides in steps of 50 ms, which is exact enough for bounds a fifth apart.
const SLICES: usize = 40;
const SLICE: Duration = Duration::from_millis(50);

/// What becomes of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delay {
    None,
    /// It waits this long.
    Wait(Duration),
    /// It would have to wait this long, which is past its deadline.
    TooLong(Duration),
}

#[derive(Debug)]
pub(super) struct Breaker {
    posts: Window,
    open: bool,
    k: u32,
    /// When the present two seconds of k began.
    since: Duration,
}

impl Breaker {
    pub(super) fn new() -> Breaker {
        Breaker { posts: Window::new(), open: false, k: 0, since: Duration::ZERO }
    }

    /// A post has come that may be held for `left`.
    pub(super) fn post(&mut self, now: Duration, left: Duration, entropy: &dyn Entropy) -> Delay {
        self.look(now);
        self.posts.add();
        if !self.open && self.posts.total > OPENS_ABOVE {
            self.open = true;
            self.since = now;
            self.raise();
        }
        if !self.open {
            return Delay::None;
        }
        // k is at most 14, so the division leaves no bias worth a word.
        let wait = Duration::from_micros(entropy.next() % (1000 << self.k));
        if wait > left { Delay::TooLong(wait) } else { Delay::Wait(wait) }
    }

    /// Whether it is open, and k.
    pub(super) fn standing(&mut self, now: Duration) -> (bool, u32) {
        self.look(now);
        (self.open, self.k)
    }

    /// Catches up with the time that has passed.
    fn look(&mut self, now: Duration) {
        let emptied = self.posts.emptied();
        self.posts.slide(now);
        if self.open && self.posts.total < CLOSES_BELOW {
            self.open = false;
            // After a silence it has been closed for longer than anybody has looked.
            self.since = now.min(emptied);
        }
        let windows = now.saturating_sub(self.since).as_nanos() / WINDOW.as_nanos();
        if windows == 0 {
            return;
        }
        if !self.open {
            self.k = self.k.saturating_sub(u32::try_from(windows).unwrap_or(u32::MAX));
        } else if self.posts.total > OPENS_ABOVE {
            self.raise();
        }
        self.since += WINDOW * u32::try_from(windows).unwrap_or(u32::MAX);
    }

    fn raise(&mut self) {
        self.k = (self.k + 1).min(K_MOST);
    }
}

/// The posts of the last two seconds, in slices.
#[derive(Debug)]
struct Window {
    slices: [u64; SLICES],
    /// The number of the present slice since the start.
    present: u128,
    total: u64,
}

impl Window {
    fn new() -> Window {
        Window { slices: [0; SLICES], present: 0, total: 0 }
    }

    fn slide(&mut self, now: Duration) {
        let present = now.as_nanos() / SLICE.as_nanos();
        let passed = present.saturating_sub(self.present).min(SLICES as u128);
        for n in 0..passed {
            let oldest = &mut self.slices[((present - n) % SLICES as u128) as usize];
            self.total -= *oldest;
            *oldest = 0;
        }
        self.present = self.present.max(present);
    }

    /// When the window will be empty if nothing more comes.
    fn emptied(&self) -> Duration {
        SLICE * u32::try_from(self.present).unwrap_or(u32::MAX) + WINDOW
    }

    fn add(&mut self) {
        self.slices[(self.present % SLICES as u128) as usize] += 1;
        self.total += 1;
    }
}

#[cfg(test)]
mod tests {
    use consort_kernel::SeededEntropy;

    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Posts come evenly, `each_second` of them, from `from` to `to` (in seconds).
    fn posts(breaker: &mut Breaker, each_second: u64, from: u64, to: u64) -> Vec<Delay> {
        let entropy = SeededEntropy::new(from);
        let apart = Duration::from_secs(1) / u32::try_from(each_second).unwrap();
        let number = (to - from) * each_second;
        let at = |n: u64| Duration::from_secs(from) + apart * u32::try_from(n).unwrap();
        (0..number).map(|n| breaker.post(at(n), PATIENT, &entropy)).collect()
    }

    #[test]
    fn it_opens_above_two_thousand_in_two_seconds() {
        // Posts, the time they are spread over, whether it is open then.
        let table = [
            (2000, ms(100), false),
            (2001, ms(100), true),
            (2000, ms(1900), false),
            (2001, ms(1900), true),
            (2001, ms(2100), false),
            (10_000, ms(12_000), false),
        ];
        for (number, over, open) in table {
            let mut breaker = Breaker::new();
            let entropy = SeededEntropy::new(1);
            for n in 0..number {
                breaker.post(over * n / number, PATIENT, &entropy);
            }
            let last = over * (number - 1) / number;
            assert_eq!(breaker.standing(last).0, open, "{number} posts in {over:?}");
        }
    }

    #[test]
    fn it_closes_below_sixteen_hundred_and_not_before() {
        let mut breaker = Breaker::new();
        posts(&mut breaker, 1100, 0, 4);
        assert!(breaker.standing(ms(4000)).0);
        let between = posts(&mut breaker, 850, 4, 10);
        assert!(breaker.standing(ms(10_000)).0, "1700 in two seconds keep it open");
        assert!(between.iter().all(|delay| *delay != Delay::None));
        posts(&mut breaker, 750, 10, 13);
        assert!(!breaker.standing(ms(13_000)).0, "1500 in two seconds close it");
    }

    #[test]
    fn k_grows_with_each_window_above_holds_between_and_falls_when_closed() {
        let mut breaker = Breaker::new();
        // Posts a second until when (in seconds), k then, and why.
        let table = [
            (1500, 2, 1, "it opened at 1.33 s, with the 2001st post"),
            (1500, 4, 2, "at 3.33 s"),
            (1500, 8, 4, "at 5.33 s and 7.33 s"),
            (900, 10, 5, "2200 had come in the two seconds to 9.33 s"),
            (900, 14, 5, "1800 in two seconds are between the bounds"),
            (1500, 16, 6, "2600 in the two seconds to 15.33 s"),
            (1500, 40, 14, "from 31.33 s on"),
            (1500, 60, 14, "it grows no further"),
            (100, 62, 14, "it closed at 61 s"),
            (100, 66, 12, "at 63 s and 65 s"),
            (1500, 68, 12, "lower at 67 s, opened again at 67.29 s"),
            (10, 120, 0, "it closed at about 69 s"),
        ];
        let mut from = 0;
        for (each_second, to, k, why) in table {
            posts(&mut breaker, each_second, from, to);
            assert_eq!(breaker.standing(Duration::from_secs(to)).1, k, "after {to} s: {why}");
            from = to;
        }
        assert_eq!(breaker.standing(Duration::from_secs(120)), (false, 0));
    }

    #[test]
    fn waits_are_spread_over_all_of_two_to_the_k() {
        let mut breaker = Breaker::new();
        posts(&mut breaker, 2000, 0, 12);
        let (open, k) = breaker.standing(ms(12_000));
        assert!(open && (5..=7).contains(&k), "{k}");
        let most = ms(1 << k);
        let waits: Vec<Duration> = posts(&mut breaker, 2000, 12, 13)
            .into_iter()
            .map(|delay| match delay {
                Delay::Wait(wait) => wait,
                other => panic!("{other:?}"),
            })
            .collect();
        // k may have grown once within the second.
        assert!(waits.iter().all(|wait| *wait < most * 2));
        for quarter in 0..4 {
            let part = most / 4 * quarter..most / 4 * (quarter + 1);
            let within = waits.iter().filter(|wait| part.contains(*wait)).count();
            assert!(within > waits.len() / 10, "quarter {quarter}: {within}");
        }
    }

    #[test]
    fn a_post_that_would_wait_past_its_deadline_is_not_held() {
        let mut breaker = Breaker::new();
        posts(&mut breaker, 2000, 0, 30);
        assert_eq!(breaker.standing(ms(30_000)), (true, K_MOST));
        let entropy = SeededEntropy::new(3);
        let left = ms(4000);
        let (mut held, mut refused) = (0, 0);
        for n in 0..2000 {
            match breaker.post(ms(30_000) + Duration::from_micros(n), left, &entropy) {
                Delay::Wait(wait) if wait <= left => held += 1,
                Delay::TooLong(wait) if wait > left => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        // A quarter of 0..16384 ms lies within 4 s.
        assert!((400..600).contains(&held), "{held} held, {refused} refused");
    }

    #[test]
    fn a_long_silence_brings_it_back_to_the_beginning() {
        let mut breaker = Breaker::new();
        posts(&mut breaker, 2000, 0, 30);
        // Nobody has looked meanwhile, and yet k has fallen seven times: closed from 32 s on.
        assert_eq!(breaker.standing(ms(46_100)), (false, 7));
        assert_eq!(breaker.standing(Duration::from_secs(3600)), (false, 0));
    }
}
