//! Which refusals and waits count as demand.

use super::*;

/// A log that stores everything, a quota of so many pieces, and a gate.
fn demand_bed(pieces: u64, gate: GateKind) -> Bed {
    let limits = QuotaLimits { pieces, bytes: 1 << 40 };
    open(u64::MAX, AppendError::Engine(Fault::Fatal("never".into())), limits, gate)
}

#[tokio::test(start_paused = true)]
async fn refusals_by_a_quota_that_the_drain_has_shrunk_count_as_demand() {
    let bed = demand_bed(1_000, GateKind::Off);
    bed.shrink_quota().await;
    let _held = bed.count(LEAST_PIECES - 1);
    assert_eq!(bed.patch().await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(bed.demand(), (1, 0));
    let (status, said) = bed.post_lines(5).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
    assert_eq!(bed.demand(), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn refusals_by_a_quota_at_its_setting_are_no_demand() {
    let bed = demand_bed(LEAST_PIECES, GateKind::Off);
    bed.shrink_quota().await;
    let _held = bed.count(LEAST_PIECES - 1);
    assert_eq!(bed.patch().await, StatusCode::TOO_MANY_REQUESTS);
    let (status, said) = bed.post_lines(5).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
    assert_eq!(bed.demand(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn pieces_that_wait_for_a_shrunk_quota_count_as_delayed() {
    let bed = demand_bed(1_000, GateKind::Off);
    bed.shrink_quota().await;
    let held = bed.count(LEAST_PIECES - 1);
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.not_sent();
    };
    let ((status, said), ()) = tokio::join!(bed.post_lines(3), release);
    assert_eq!(status, StatusCode::ACCEPTED, "{said}");
    assert_eq!(bed.demand(), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_bulk_request_that_wait_for_the_gate_count_as_delayed() {
    let bed = demand_bed(1_000_000, GateKind::Adaptive);
    let gate = bed.collection().ingress.gate();
    // The workers apply nothing.
    let mut lag = Duration::from_secs(3);
    let mut tell = async || {
        gate.lag(lag);
        lag += Duration::from_millis(100);
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    for _ in 0..20 {
        tell().await;
    }
    // Another request has taken the room of more than a second.
    let soon = tokio::time::Instant::now() + Duration::from_secs(1);
    gate.enter(150, soon).await.unwrap().done_in_bulk(150);
    let posted = bed.post_lines(10);
    tokio::pin!(posted);
    let (status, said) = loop {
        tokio::select! {
            biased;
            answer = &mut posted => break answer,
            () = tell() => {}
        }
    };
    assert_eq!(status, StatusCode::ACCEPTED, "{said}");
    assert_eq!(bed.demand(), (0, 10));
}
