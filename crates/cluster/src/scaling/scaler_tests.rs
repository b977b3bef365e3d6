//! The scaler's cell, with several scalers on one store.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::memory::MemoryStore;
use consort_kernel::{Clock, Commit, ManualClock, Operation, Store, Timestamp};

use super::scaler::{Look, Scaler, ScalerOptions};
use super::settings::ScaleSettings;
use super::signal::ScaleSignal;
use super::state::ScaleState;
use crate::format::encode;
use crate::keys;
use crate::lease::{Holder, Lease};
use crate::load::{LoadReport, StreamReport};
use crate::member::Member;
use crate::report::{Report, RoleReport};
use crate::role::Role;
use crate::roster::Roster;
use crate::runtime::TokioRuntime;

/// A store with a node whose gate refuses.
struct Bed {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl Bed {
    async fn pressed() -> Bed {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let store = Arc::new(MemoryStore::new(1, Arc::clone(&clock) as Arc<dyn Clock>));
        let bed = Bed { clock, store };
        let holder = Holder { id: "a".into(), incarnation: 1 };
        let far = Timestamp(u64::MAX / 2);
        let member = Member {
            id: "a".into(),
            incarnation: 1,
            address: "h:1".into(),
            version: "0".into(),
            since: Timestamp(0),
            load: 0,
            draining: false,
            renewed: Timestamp(0),
            until: far,
        };
        let mut puts = vec![(keys::member("a"), encode(&member))];
        let roles: Vec<Role> = (0..4).map(|n| Role::new("worker", format!("rides/{n}"))).collect();
        for role in &roles {
            let lease = Lease::acquired_by(&holder, None, Timestamp(0), Duration::from_secs(1));
            puts.push((keys::lease(role), encode(&Lease { until: far, ..lease })));
        }
        let stream = StreamReport {
            stream: "rides".into(),
            refused_per_s: 500,
            accepted_per_s: 400,
            delayed_per_s: 0,
        };
        let load = LoadReport { cpu_millicores: 900, cores: 2, streams: vec![stream] };
        let role = |role: Role| RoleReport {
            role,
            epoch: 1,
            ready: true,
            lag: Some(2000),
            applied: 0,
            trouble: None,
            stopped: None,
            pause: None,
            busy_permille: 900,
            applied_per_s: 100,
        };
        let roles = roles.into_iter().map(role).collect();
        let report = Report { incarnation: 1, roles, load: Some(load) };
        puts.push((keys::report("a"), encode(&report)));
        for (key, value) in puts {
            let put = Commit::of([Operation::Put { key, value }]);
            bed.store.commit(keys::SHARD, put).await.unwrap();
        }
        bed
    }

    fn scaler(&self) -> Scaler {
        Scaler::new(ScalerOptions {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            runtime: TokioRuntime::current(),
            settings: ScaleSettings::default(),
        })
    }

    async fn roster(&self) -> Roster {
        Roster::read(&*self.store).await.unwrap()
    }

    async fn state(&self) -> ScaleState {
        self.roster().await.scale.unwrap().value.state
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn a_roster_becomes_a_signal_of_what_is_live_and_owned() {
    let bed = Bed::pressed().await;
    let signal = ScaleSignal::from_roster(&bed.roster().await);
    assert_eq!(signal.nodes.len(), 1);
    assert_eq!((signal.partitions.len(), signal.epochs), (4, 4));
    assert_eq!(signal.partitions[3].name, "rides/3");
    assert_eq!(signal.streams[0].refused_per_s, 500);
}

#[tokio::test]
async fn a_new_scaler_goes_on_from_the_cell_and_decides_as_the_old_one_would_have() {
    let (alone, changing) = (Bed::pressed().await, Bed::pressed().await);
    for n in 0..8 {
        assert_eq!(alone.scaler().look(1).await, Ok(Look::Decided));
        // Each decision by another owner, with an epoch of its own.
        assert_eq!(changing.scaler().look(1 + n).await, Ok(Look::Decided));
        assert_eq!(alone.state().await, changing.state().await, "decision {n}");
        alone.pass(5);
        changing.pass(5);
    }
    assert_eq!(alone.state().await.wanted, 2);
}

#[tokio::test]
async fn of_two_scalers_at_once_the_older_changes_nothing() {
    let bed = Bed::pressed().await;
    let (old, new) = (bed.scaler(), bed.scaler());
    assert_eq!(old.look(1).await, Ok(Look::Decided));
    // The old one has read the cell, and is paused before it commits.
    let seen_by_old = bed.roster().await;
    bed.pass(5);
    assert_eq!(new.look(2).await, Ok(Look::Decided));
    let decided = bed.roster().await.scale;
    assert_eq!(old.decide(&seen_by_old, 1).await, Ok(Look::Overtaken));
    assert_eq!(bed.roster().await.scale, decided);
    assert_eq!(old.look(1).await, Ok(Look::Superseded));
    assert_eq!(bed.roster().await.scale, decided);
}

#[tokio::test]
async fn reading_the_status_a_thousand_times_changes_no_decision() {
    let (asked, unasked) = (Bed::pressed().await, Bed::pressed().await);
    for _ in 0..8 {
        for bed in [&asked, &unasked] {
            assert_eq!(bed.scaler().look(1).await, Ok(Look::Decided));
            bed.pass(5);
        }
        for _ in 0..125 {
            let status = crate::ClusterStatus::read(&*asked.store, &[]).await.unwrap();
            assert!(status.scaling.is_some());
        }
    }
    assert_eq!(asked.state().await, unasked.state().await);
    assert_eq!(asked.state().await.wanted, 2);
    asked.pass(61);
    let status = crate::ClusterStatus::read(&*asked.store, &[]).await.unwrap();
    assert_eq!(status.scaling, None, "no decision for a minute");
}
