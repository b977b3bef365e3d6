//! The gate as the door uses it, in paused time.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::SeededEntropy;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, advance, sleep};

use super::gradient::{LIMIT_LEAST, LIMIT_MOST};
use super::*;
use crate::metrics::Metrics;

fn gate(kind: GateKind) -> Gate {
    let mut metrics = Metrics::new("0");
    Gate::new("s", kind, Arc::new(SeededEntropy::new(7)), &GateMetrics::register(&mut metrics))
}

fn within(time: Duration) -> Instant {
    Instant::now() + time
}

fn soon() -> Instant {
    within(Duration::from_secs(5))
}

/// A gate whose log has become so slow that no more than the least may be in flight.
async fn slow() -> Gate {
    let gate = gate(GateKind::Adaptive);
    for _ in 0..20 {
        let admissions = admissions(&gate, LIMIT_LEAST).await;
        advance(Duration::from_secs(2)).await;
        for admission in admissions {
            admission.done(1);
        }
    }
    assert_eq!(gate.standing().limit, Some(LIMIT_LEAST));
    gate
}

async fn admissions(gate: &Gate, number: usize) -> Vec<Admission> {
    let mut admissions = Vec::new();
    for _ in 0..number {
        admissions.push(gate.enter(1, soon()).await.unwrap());
    }
    admissions
}

#[tokio::test(start_paused = true)]
async fn off_and_closed_gates_admit_everything_at_once() {
    for (kind, number) in [(GateKind::Off, 10_000), (GateKind::Adaptive, LIMIT_MOST)] {
        let gate = gate(kind);
        let came = Instant::now();
        let admissions = admissions(&gate, number).await;
        assert_eq!(came.elapsed(), Duration::ZERO);
        assert_eq!(gate.standing().in_flight, number);
        drop(admissions);
        assert_eq!(gate.standing().in_flight, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_admission_gives_its_room_back_however_it_ends() {
    let gate = gate(GateKind::Adaptive);
    for n in 0..3 * LIMIT_MOST {
        let admission = gate.enter(1, soon()).await.unwrap();
        match n % 3 {
            0 => admission.done(1),
            1 => admission.failed(),
            _ => drop(admission),
        }
    }
    assert_eq!(gate.standing().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_the_room_that_comes_free_in_order() {
    let gate = slow().await;
    let mut held = admissions(&gate, LIMIT_LEAST).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = JoinSet::new();
    for n in 0..3 {
        let (entered, order) = (gate.clone(), Arc::clone(&order));
        waiting.spawn(async move {
            let admission = entered.enter(1, soon()).await.unwrap();
            order.lock().push(n);
            admission
        });
        while gate.standing().waiting <= n {
            yield_now().await;
        }
    }
    for n in 0..3 {
        assert_eq!(order.lock().len(), n);
        drop(held.pop());
        while order.lock().len() == n {
            yield_now().await;
        }
    }
    assert_eq!(*order.lock(), [0, 1, 2]);
    assert_eq!(gate.standing().in_flight, LIMIT_LEAST);
    assert_eq!(gate.standing().waiting, 0);
    drop((held, waiting.join_all().await));
    assert_eq!(gate.standing().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_past_the_deadline_or_for_long() {
    let gate = slow().await;
    let held = admissions(&gate, LIMIT_LEAST).await;
    for (deadline, waited) in [(0, 0), (20, 20), (249, 249), (5000, 250)] {
        let came = Instant::now();
        let refused = gate.enter(1, within(Duration::from_millis(deadline))).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Latency);
        assert!((1..=3).contains(&refused.retry_after.as_secs()), "{refused:?}");
        // A timer of tokio ends with the millisecond.
        let waited = Duration::from_millis(waited);
        assert!((waited..=waited + Duration::from_millis(1)).contains(&came.elapsed()));
    }
    drop(held);
    assert!(gate.enter(1, soon()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_than_will_have_their_turn() {
    let gate = slow().await;
    let _held = admissions(&gate, LIMIT_LEAST).await;
    // Some 16 a second end; four of them in a quarter of one.
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let gate = gate.clone();
        waiting.spawn(async move {
            let came = Instant::now();
            let refused = gate.enter(1, soon()).await.unwrap_err();
            (came.elapsed().is_zero(), refused.reason)
        });
    }
    let told = waiting.join_all().await;
    assert!(told.iter().all(|(_, reason)| *reason == Reason::Latency));
    let at_once = told.iter().filter(|(at_once, _)| *at_once).count();
    assert!((90..100).contains(&at_once), "{at_once} were told at once");
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_the_line_takes_no_room_with_them() {
    let gate = slow().await;
    let held = admissions(&gate, LIMIT_LEAST).await;
    let left = tokio::spawn({
        let gate = gate.clone();
        async move { gate.enter(1, soon()).await.map(drop) }
    });
    while gate.standing().waiting == 0 {
        yield_now().await;
    }
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    assert_eq!(gate.standing().waiting, 0);
    drop(held);
    assert_eq!(gate.standing().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_lags_is_refused_with_the_lag_to_wait_for() {
    let gate = gate(GateKind::Adaptive);
    for n in 0..40 {
        gate.lag(Duration::from_millis(100 * n));
        if let Ok(admission) = gate.enter(1000, soon()).await {
            admission.done(1000);
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(gate.standing().rate.is_some());
    let refused = gate.enter(1000, soon()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Lag);
    assert!((4..=6).contains(&refused.retry_after.as_secs()), "{refused:?}");
    for _ in 0..50 {
        gate.lag(Duration::ZERO);
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(gate.standing().rate, None);
    let came = Instant::now();
    gate.enter(1_000_000, soon()).await.unwrap().done(1_000_000);
    assert!(came.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_bulk_is_let_in_as_fast_as_it_is_applied() {
    let gate = gate(GateKind::Adaptive);
    // Steps of 10,000 records, as fast as they are let in; 100,000 are applied each second.
    let (began, second) = (Instant::now(), Duration::from_secs(1));
    let (mut appended, mut applied, mut before) = (0.0, 0.0_f64, began);
    let mut steps = 0;
    while began.elapsed() < 60 * second {
        match gate.enter(10_000, soon()).await {
            Ok(admission) => {
                // At times a step takes as long as a log that is stuck.
                steps += 1;
                sleep(Duration::from_millis(if steps % 64 == 0 { 1_500 } else { 20 })).await;
                admission.done_in_bulk(10_000);
                appended += 10_000.0;
            }
            Err(_) => sleep(Duration::from_millis(500)).await,
        }
        applied = (applied + 100_000.0 * before.elapsed().as_secs_f64()).min(appended);
        before = Instant::now();
        gate.lag(second.mul_f64((appended - applied) / 100_000.0));
        assert_eq!(
            gate.standing().limit,
            Some(LIMIT_MOST),
            "a step's time tells nothing of a post's"
        );
    }
    assert!(appended > 3_000_000.0, "{appended} in a minute");
    assert!(appended - applied < 500_000.0, "{} wait", appended - applied);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_delays_posts_and_holds_only_so_many() {
    let gate = gate(GateKind::Breaker);
    for _ in 0..2000 {
        gate.enter(1, soon()).await.unwrap().done(1);
    }
    assert_eq!(gate.standing().open, Some(false));
    let mut posts = JoinSet::new();
    for _ in 0..WAITING_AT_MOST * 2 {
        let gate = gate.clone();
        posts.spawn(async move { gate.enter(1, soon()).await.map(|admission| admission.done(1)) });
    }
    let ended = posts.join_all().await;
    let refused: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
    // The odd wait of less than a microsecond is none.
    assert!(refused.len().abs_diff(WAITING_AT_MOST) < 50, "{} refused", refused.len());
    assert!(refused.iter().all(|refused| refused.reason == Reason::Crowd));
    assert_eq!(gate.standing().waiting, 0);
    assert_eq!((gate.standing().open, gate.standing().k), (Some(true), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_holds_nobody_past_the_deadline() {
    let gate = gate(GateKind::Breaker);
    // Enough for a k of 12: waits up to 4 s.
    let mut k = 0;
    while k < 12 {
        let mut posts = JoinSet::new();
        for _ in 0..110 {
            let gate = gate.clone();
            posts.spawn(async move {
                let time = Duration::from_millis(50);
                let came = Instant::now();
                let entered = gate.enter(1, came + time).await;
                (came.elapsed(), entered.err().map(|refused| refused.reason))
            });
        }
        sleep(Duration::from_millis(100)).await;
        for (waited, refused) in posts.join_all().await {
            match refused {
                None => assert!(waited <= Duration::from_millis(51), "held for {waited:?}"),
                Some(reason) => {
                    assert_eq!(reason, Reason::Breaker);
                    assert!(waited.is_zero(), "refused after {waited:?}");
                }
            }
        }
        k = gate.standing().k.unwrap();
        assert!(gate.0.since.elapsed() < Duration::from_secs(60), "k is {k}");
    }
}
