//! Checks each instance every second.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Gateway;
use super::instances::Instance;
use crate::http::HttpClient;
use crate::service::HEALTH_PATH;

/// How often an instance is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How long a check may take.
const CHECK_WITHIN: Duration = Duration::from_secs(1);

/// Checks all instances until the result is dropped.
pub(super) fn check_all(gateway: &Gateway) -> JoinSet<()> {
    let mut checks = JoinSet::new();
    for instance in gateway.users.all().iter().chain(gateway.rides.all()) {
        let (http, instance) = (gateway.http.clone(), instance.clone());
        checks.spawn(async move { check(&http, &instance).await });
    }
    checks
}

async fn check(http: &HttpClient, instance: &Instance) {
    let mut ticks = interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = http.get(&instance.url().join(HEALTH_PATH), &[], CHECK_WITHIN).await;
        instance.note(answer.is_ok_and(|answer| answer.status().is_success()));
    }
}
