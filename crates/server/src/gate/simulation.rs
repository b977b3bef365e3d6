//! A stream in miniature, in steps of simulated time: clients that post, a log that appends, workers
//! that apply, and the adaptive gate before them.
//!
//! Three times as much wants to come in as the slow part can take, and then the slow part is fast
//! again. The same without the gate shows that the bounds are the gate's doing.

use std::collections::VecDeque;
use std::time::Duration;

use consort_kernel::{Entropy, SeededEntropy};

use super::adaptive::Adaptive;

const STEP: Duration = Duration::from_millis(5);
const RECORDS: u64 = 10;

/// What happens in each second of simulated time.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Records that want to come in.
    offered: u64,
    /// Posts that the log can append.
    appends: u64,
    /// Records that the workers can apply.
    applies: u64,
}

const WELL: Load = Load { offered: 6000, appends: 5000, applies: 20_000 };
const SLOW_WORKERS: Load = Load { applies: 2000, ..WELL };
const NO_WORKERS: Load = Load { applies: 0, ..WELL };
const SLOW_LOG: Load = Load { appends: 200, ..WELL };

/// What came of some seconds.
#[derive(Debug, Default)]
struct Seen {
    posts: u64,
    refused: u64,
    appended: u64,
    applied: u64,
    backlog_most: u64,
    in_flight_most: usize,
    lag_most: Duration,
    latency_most: Duration,
}

struct Stream {
    gate: Option<Adaptive>,
    entropy: SeededEntropy,
    now: Duration,
    report_each: Duration,
    /// Parts of a post, an append and a record that earlier steps left over.
    rest: [f64; 3],
    /// When those come in that were told to wait.
    paused: Vec<Duration>,
    /// When each post in the log's queue entered.
    in_flight: VecDeque<Duration>,
    /// When each post of which records wait was appended, and how many do, by partition.
    unapplied: Vec<VecDeque<(Duration, u64)>>,
    /// All of those records.
    backlog: u64,
    /// The partition that is favoured by the store, and until when.
    favoured: (usize, Duration),
}

impl Stream {
    fn new(gate: bool, seed: u64, report_each: Duration, partitions: usize) -> Stream {
        Stream {
            gate: gate.then(Adaptive::new),
            entropy: SeededEntropy::new(seed),
            now: Duration::ZERO,
            report_each,
            rest: [0.0; 3],
            paused: Vec::new(),
            in_flight: VecDeque::new(),
            unapplied: vec![VecDeque::new(); partitions],
            backlog: 0,
            favoured: (0, Duration::ZERO),
        }
    }

    fn run(&mut self, load: Load, seconds: u64) -> Seen {
        let mut seen = Seen::default();
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            self.now += STEP;
            self.offer(load, &mut seen);
            self.append(load, &mut seen);
            self.apply(load, &mut seen);
            let oldest = self.unapplied.iter().filter_map(|posts| Some(posts.front()?.0)).min();
            let lag = oldest.map_or(Duration::ZERO, |at| self.now - at);
            if let Some(gate) = &mut self.gate
                && self.now.as_millis().is_multiple_of(self.report_each.as_millis())
            {
                gate.lag(self.now, lag);
            }
            seen.lag_most = seen.lag_most.max(lag);
            seen.backlog_most = seen.backlog_most.max(self.backlog);
            seen.in_flight_most = seen.in_flight_most.max(self.in_flight.len());
        }
        seen
    }

    fn offer(&mut self, load: Load, seen: &mut Seen) {
        // Clients do not come evenly: between none and twice as many in each step.
        let uneven = (self.entropy.next() % 2001) as f64 / 1000.0;
        let posts = self.whole(0, load.offered as f64 / RECORDS as f64 * uneven);
        for _ in 0..posts {
            seen.posts += 1;
            match &mut self.gate {
                Some(gate) => match gate.ask(self.now, RECORDS, Duration::from_secs(5)) {
                    Ok(wait) => self.paused.push(self.now + wait),
                    Err(_) => seen.refused += 1,
                },
                None => self.paused.push(self.now),
            }
        }
        let due = self.paused.iter().filter(|at| **at <= self.now).count();
        self.paused.retain(|at| *at > self.now);
        for _ in 0..due {
            let limit = self.gate.as_ref().map_or(usize::MAX, |gate| gate.limit(self.now));
            if self.in_flight.len() < limit {
                self.in_flight.push_back(self.now);
            } else {
                seen.refused += 1;
            }
        }
    }

    fn append(&mut self, load: Load, seen: &mut Seen) {
        let room = self.whole(1, load.appends as f64);
        for _ in 0..room {
            let Some(entered) = self.in_flight.pop_front() else { break };
            let took = self.now - entered;
            seen.latency_most = seen.latency_most.max(took);
            seen.appended += RECORDS;
            let partition = self.entropy.next() as usize % self.unapplied.len();
            self.unapplied[partition].push_back((self.now, RECORDS));
            self.backlog += RECORDS;
            if let Some(gate) = &mut self.gate {
                gate.done(self.now, took, RECORDS, self.in_flight.len() + 1);
            }
        }
    }

    /// One partition after the other is favoured: workers of several do not come on evenly.
    fn apply(&mut self, load: Load, seen: &mut Seen) {
        let partitions = self.unapplied.len();
        if self.now >= self.favoured.1 {
            let (next, stays) = (self.entropy.next() as usize, self.entropy.next() % 2000);
            self.favoured = (next % partitions, self.now + Duration::from_millis(500 + stays));
        }
        let mut room = self.whole(2, load.applies as f64);
        for n in 0..partitions {
            let posts = &mut self.unapplied[(self.favoured.0 + n) % partitions];
            while room > 0
                && let Some((_, records)) = posts.front_mut()
            {
                let applied = room.min(*records);
                *records -= applied;
                room -= applied;
                seen.applied += applied;
                self.backlog -= applied;
                if *records == 0 {
                    posts.pop_front();
                }
            }
        }
    }

    /// How many whole ones of so many in a second fall into this step.
    fn whole(&mut self, of: usize, each_second: f64) -> u64 {
        let number = self.rest[of] + each_second * STEP.as_secs_f64();
        self.rest[of] = number.fract();
        number as u64
    }
}

/// Different clients, and reports from eager to lazy.
fn streams(gate: bool, partitions: usize) -> impl Iterator<Item = (String, Stream)> {
    [50, 200, 250, 500].into_iter().flat_map(move |report_each| {
        (0..3).map(move |seed| {
            let stream = Stream::new(gate, seed, Duration::from_millis(report_each), partitions);
            (format!("seed {seed}, reports each {report_each} ms"), stream)
        })
    })
}

#[test]
fn nothing_is_refused_while_nothing_is_slow() {
    for (which, mut stream) in streams(true, 1) {
        let seen = stream.run(WELL, 60);
        assert!(seen.posts > 30_000, "{which}: {seen:?}");
        assert_eq!(seen.refused, 0, "{which}: {seen:?}");
    }
}

/// What a stream with slow workers may come to, in seconds.
struct Bounds {
    partitions: usize,
    /// While the gate learns of it: it sees a lag only when it is there, and by then six seconds of work have come.
    first_lag: u64,
    /// And after that.
    lag: u64,
    backlog: u64,
    /// How long it takes until everything comes in when they are fast again.
    recovers: u64,
}

#[test]
fn slow_workers_are_not_outrun_and_not_starved() {
    let even = Bounds { partitions: 1, first_lag: 8, lag: 3, backlog: 3, recovers: 3 };
    // The lag is that of the worst partition, and the others are ahead of it.
    let uneven = Bounds { partitions: 4, first_lag: 10, lag: 7, backlog: 4, recovers: 5 };
    for bounds in [even, uneven] {
        for (which, mut stream) in streams(true, bounds.partitions) {
            let which = format!("{which}, {} partitions", bounds.partitions);
            stream.run(WELL, 10);
            let first = stream.run(SLOW_WORKERS, 20);
            assert!(first.lag_most < Duration::from_secs(bounds.first_lag), "{which}: {first:?}");
            assert!(first.backlog_most < 8 * SLOW_WORKERS.applies, "{which}: {first:?}");
            let then = stream.run(SLOW_WORKERS, 60);
            assert!(then.lag_most < Duration::from_secs(bounds.lag), "{which}: {then:?}");
            let most = bounds.backlog * SLOW_WORKERS.applies;
            assert!(then.backlog_most < most, "{which}: {then:?}");
            for (seen, seconds) in [(&first, 20), (&then, 60)] {
                let could = SLOW_WORKERS.applies * seconds;
                assert!(seen.applied * 100 >= could * 95, "{which}: {seen:?}");
            }
            stream.run(WELL, bounds.recovers);
            let again = stream.run(WELL, 20);
            assert_eq!(again.refused, 0, "{which}: {again:?}");
            assert!(again.lag_most < Duration::from_millis(100), "{which}: {again:?}");
        }
    }
}

#[test]
fn without_the_gate_slow_workers_are_outrun() {
    for (which, mut stream) in streams(false, 1) {
        let seen = stream.run(SLOW_WORKERS, 70);
        assert!(seen.backlog_most > 100 * SLOW_WORKERS.applies, "{which}: {seen:?}");
    }
}

#[test]
fn workers_that_stand_still_get_a_short_backlog_and_are_believed_when_they_move() {
    for (which, mut stream) in streams(true, 1) {
        stream.run(WELL, 10);
        let seen = stream.run(NO_WORKERS, 30);
        // One to two seconds of full load, and a trickle of 100 records a second.
        assert!(seen.backlog_most < 3 * WELL.offered, "{which}: {seen:?}");
        stream.run(WELL, 4);
        let again = stream.run(WELL, 20);
        assert_eq!(again.refused, 0, "{which}: {again:?}");
    }
}

#[test]
fn a_slow_log_has_few_in_flight_and_is_kept_busy() {
    for (which, mut stream) in streams(true, 1) {
        stream.run(WELL, 10);
        stream.run(SLOW_LOG, 10);
        let slow = stream.run(SLOW_LOG, 60);
        assert!(slow.in_flight_most <= 64, "{which}: {slow:?}");
        assert!(slow.latency_most < Duration::from_millis(400), "{which}: {slow:?}");
        assert!(slow.appended * 100 >= SLOW_LOG.appends * RECORDS * 60 * 95, "{which}: {slow:?}");
        stream.run(WELL, 2);
        let again = stream.run(WELL, 20);
        assert_eq!(again.refused, 0, "{which}: {again:?}");
    }
}

#[test]
fn without_the_gate_a_slow_log_has_all_in_flight() {
    for (which, mut stream) in streams(false, 1) {
        let seen = stream.run(SLOW_LOG, 70);
        assert!(seen.in_flight_most > 20_000, "{which}: {seen:?}");
    }
}
