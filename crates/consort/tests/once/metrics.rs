//! What is counted.

use crate::bed::{Bed, LASTING};

#[tokio::test]
async fn answers_computations_and_what_is_held_are_counted() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    for _ in 0..3 {
        caller.good("/once/items/a").await;
    }
    caller.get("/once/items/b?status=500").await;
    caller.get_with("/once/items/c", &[("consort-generation", &"0".repeat(32))]).await;
    caller.delete("/once/items/a").await;
    caller.good("/once/items/d").await;
    let metrics = caller.good("/metrics").await.text();
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("consort_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse().expect("a number")
    };
    assert_eq!(value("once_answers_total{once=\"items\",source=\"computed\"}"), 2.0);
    let held = ["node", "store"]
        .map(|source| value(&format!("once_answers_total{{once=\"items\",source=\"{source}\"}}")));
    assert_eq!(held.iter().sum::<f64>(), 2.0);
    assert_eq!(value("once_errors_total{once=\"items\",reason=\"failed\"}"), 1.0);
    assert_eq!(value("once_errors_total{once=\"items\",reason=\"gone\"}"), 1.0);
    assert_eq!(value("once_computations_total"), 3.0);
    assert_eq!(value("once_failures_total"), 1.0);
    assert_eq!(value("once_takeovers_total"), 0.0);
    assert_eq!(value("once_refused_total"), 0.0);
    assert_eq!(value("once_purged_total"), 1.0);
    assert_eq!(value("once_waiting"), 0.0);
    assert!(value("once_cached_bytes") > 0.0, "{metrics}");
}
