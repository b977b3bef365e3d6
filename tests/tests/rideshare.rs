//! RideShare end to end: every call of its contract against real processes, races, crashes of the leader and of
//! readers under load, scaling by reads, and `rideshare up` with the script of example calls.

use std::process::Command;
use std::time::{Duration, Instant};

use consort_testbed::eventually;
use consort_tests::rideshare::calls::{Caller, ride, rider, user};
use consort_tests::rideshare::contract;
use consort_tests::rideshare::deployment::{Deployment, PATIENCE, Programs};
use consort_tests::rideshare::up::RideshareUp;
use consort_tests::rideshare::writers::Writers;
use futures::future::join_all;
use serde_json::json;

const PROGRAMS: Programs = Programs {
    consort: env!("CARGO_BIN_EXE_consort-under-test"),
    rideshare: env!("CARGO_BIN_EXE_rideshare-under-test"),
};

/// A window that no test outlasts, where scaling is not the point.
const LASTING: &str = "1h";

/// How long an answer may take: two seconds, and what a busy machine adds.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_700);

/// How long the workers may take to be whole again after a crash.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);

const USERS: &str = "/api/v1/users";
const RIDES: &str = "/api/v1/rides";
const COUNT: &str = "/api/v1/_count";

#[tokio::test(flavor = "multi_thread")]
async fn every_call_answers_as_the_contract_says() {
    let deployment = Deployment::start(PROGRAMS, 1, LASTING).await;
    contract::check(&deployment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_of_each_act_as_one() {
    let deployment = Deployment::start(PROGRAMS, 2, LASTING).await;
    contract::check(&deployment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_add_all_instances_and_every_request_but_a_few() {
    let deployment = Deployment::start(PROGRAMS, 2, LASTING).await;
    let gateway = deployment.gateway.caller();
    for part in [&deployment.users[0], &deployment.rides[1]] {
        assert_eq!(part.caller().call("DELETE", COUNT, "").await.body, json!({}));
    }
    let made = gateway.call("PUT", USERS, &user("ann")).await;
    assert_eq!(made.status, 201);
    for (method, path, body, status, users, rides) in [
        ("GET", USERS, String::new(), 200, 1, 0),
        ("PUT", USERS, user("ann"), 400, 1, 0),
        ("POST", USERS, String::new(), 405, 1, 0),
        ("GET", "/api/v1/users/a/b", String::new(), 404, 1, 0),
        // A created ride asks for users once, and so does one of an unknown creator; a malformed one does not.
        ("POST", RIDES, ride("ann", 1, 2), 201, 1, 1),
        ("POST", RIDES, ride("nobody", 1, 2), 400, 1, 1),
        ("POST", RIDES, ride("ann", 1, 1), 400, 0, 1),
        ("POST", "/api/v1/rides/1", rider("ann"), 400, 0, 1),
        ("GET", "/api/v1/rides/1", String::new(), 200, 0, 1),
        ("PATCH", RIDES, String::new(), 405, 0, 1),
        ("GET", "/nothing", String::new(), 404, 0, 1),
        ("GET", "/healthz", String::new(), 200, 0, 0),
        ("GET", COUNT, String::new(), 200, 0, 0),
        ("POST", "/api/v1/db/clear", String::new(), 200, 0, 0),
    ] {
        let before = counts(&deployment).await;
        let answer = gateway.call(method, path, &body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        let after = counts(&deployment).await;
        let counted = (after.0 - before.0, after.1 - before.1);
        assert_eq!(counted, (users, rides), "{method} {path}");
    }
    // The gateway's count is that of rides, and it resets that one alone.
    let (users, rides) = counts(&deployment).await;
    assert_eq!(gateway.get(COUNT).await, json!([rides]));
    gateway.call("DELETE", COUNT, "").await;
    assert_eq!(counts(&deployment).await, (users, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_24_clients_exactly_one_wins() {
    let deployment = Deployment::start(PROGRAMS, 2, LASTING).await;
    let gateway = deployment.gateway.caller();
    for round in 0..5 {
        let name = format!("ann-{round}");
        let statuses = gateway.race(24, ("PUT", USERS, &user(&name))).await;
        assert_eq!(statuses, one_of_24(201), "{name} is created once");
        let made = gateway.call("POST", RIDES, &ride(&name, 3, 44)).await;
        assert_eq!(made.status, 201);
        let path = format!("{RIDES}/{}", round + 1);
        let joiner = format!("bob-{round}");
        gateway.call("PUT", USERS, &user(&joiner)).await;
        let statuses = gateway.race(24, ("POST", &path, &rider(&joiner))).await;
        assert_eq!(statuses, one_of_24(200), "{joiner} joins once");
        assert_eq!(gateway.get(&path).await["users"], json!([joiner]));
        let statuses = gateway.race(24, ("DELETE", &path, "")).await;
        assert_eq!(statuses, one_of_24(200), "the ride is deleted once");
    }
    assert_eq!(gateway.get("/api/v1/rides/count").await, json!([0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_under_eight_writers_lose_nothing() {
    let deployment = Deployment::start(PROGRAMS, 1, LASTING).await;
    let (gateway, orchestrator) = (deployment.gateway.caller(), deployment.orchestrator.caller());
    assert_eq!(gateway.call("PUT", USERS, &user("ann")).await.status, 201);
    assert_eq!(gateway.call("POST", RIDES, &ride("ann", 3, 44)).await.status, 201);
    let writers = Writers::start(8, &gateway, 1);
    for round in 0..6 {
        for drill in ["master", "slave"] {
            let before = deployment.worker_ids().await;
            let begun = Instant::now();
            let crash = orchestrator.call("POST", &format!("/api/v1/crash/{drill}"), "").await;
            assert_eq!(crash.status, 200, "{crash:?}");
            let crashed: [u64; 1] = serde_json::from_value(crash.body).expect("one id");
            whole_again(&deployment, drill, &before, crashed[0]).await;
            eprintln!("round {round}: {drill} {crashed:?} of {before:?}, {:?}", begun.elapsed());
        }
    }
    let record = writers.finish().await;
    let (users, riders) = (record.users.len(), record.riders.len());
    eprintln!("{users} users, {riders} riders, {} without an answer", record.unsettled.len());
    assert!(users > 100 && riders > 100, "{users} {riders}");
    record.is_all_there(&gateway, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_raise_the_workers_and_a_quiet_window_lowers_them() {
    let deployment = Deployment::start(PROGRAMS, 1, "5s").await;
    let gateway = deployment.gateway.caller();
    assert_eq!(gateway.call("PUT", USERS, &user("ann")).await.status, 201);
    let at_rest = deployment.worker_ids().await;
    assert_eq!(at_rest.len(), 2, "{at_rest:?}");
    let begun = Instant::now();
    for _ in 0..10 {
        join_all((0..10).map(|_| gateway.get(USERS))).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "100 reads take {:?}", begun.elapsed());
    eventually("100 reads ask for five readers", PATIENCE, || async {
        deployment.worker_ids().await.len() == 6
    })
    .await;
    assert_eq!(deployment.worker_ids().await[..2], at_rest, "no worker was replaced");
    // Looking at the workers is no read.
    eventually("a quiet window leaves one reader", PATIENCE, || async {
        deployment.worker_ids().await == at_rest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_of_consort_every_call_is_503_within_two_seconds() {
    let mut deployment = Deployment::start(PROGRAMS, 1, LASTING).await;
    let gateway = deployment.gateway.caller();
    assert_eq!(gateway.call("PUT", USERS, &user("ann")).await.status, 201);
    let (users, rides) = (deployment.users[0].caller(), deployment.rides[0].caller());
    let orchestrator = deployment.orchestrator.caller();
    deployment.consort.process.pause();
    let read = json!({ "table": "users", "columns": ["username"], "where": "username=ann" });
    let (bob, journey, join, read) =
        (user("bob"), ride("ann", 3, 44), rider("bob"), read.to_string());
    let calls: [(&Caller, &str, &str, &str); 12] = [
        (&users, "PUT", USERS, &bob),
        (&users, "GET", USERS, ""),
        (&users, "DELETE", "/api/v1/users/ann", ""),
        (&users, "POST", "/api/v1/db/clear", ""),
        (&rides, "POST", RIDES, &journey),
        (&rides, "GET", "/api/v1/rides?source=3&destination=44", ""),
        (&rides, "POST", "/api/v1/rides/1", &join),
        (&orchestrator, "POST", "/api/v1/db/read", &read),
        (&orchestrator, "POST", "/api/v1/crash/master", ""),
        (&orchestrator, "GET", "/api/v1/worker/list", ""),
        (&gateway, "GET", USERS, ""),
        (&gateway, "POST", RIDES, &journey),
    ];
    join_all(calls.map(|(place, method, path, body)| async move {
        let begun = Instant::now();
        let answer = place.call(method, path, body).await;
        assert_eq!(answer.status, 503, "{method} {path}: {}", answer.body);
        assert!(begun.elapsed() < ANSWER_WITHIN, "{method} {path}: {:?}", begun.elapsed());
    }))
    .await;
    // A malformed request needs no database.
    assert_eq!(users.call("PUT", USERS, "{}").await.status, 400);
    eventually("the gateway has taken the services out", PATIENCE, || async {
        gateway.call("GET", "/healthz", "").await.status == 503
    })
    .await;
    deployment.consort.process.resume();
    deployment.is_well().await;
    assert_eq!(gateway.call("PUT", USERS, &user("cid")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_instance_is_passed_over_and_comes_back() {
    let mut deployment = Deployment::start(PROGRAMS, 2, LASTING).await;
    let gateway = deployment.gateway.caller();
    deployment.users[0].kill().await;
    for number in 0..10 {
        let made = gateway.call("PUT", USERS, &user(&format!("ann-{number}"))).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let other = deployment.users[1].caller();
    assert_eq!(other.call("GET", COUNT, "").await.status, 503, "one instance cannot be asked");
    deployment.users[0].restart().await;
    assert_eq!(other.get(COUNT).await, json!([10]));
    deployment.users[1].kill().await;
    eventually("the instance gets requests again", PATIENCE, || async {
        gateway.call("GET", USERS, "").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_starts_all_that_the_example_calls_need_and_ends_it() {
    let mut up = RideshareUp::start(PROGRAMS).await;
    let urls = up.urls();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/rideshare/calls.sh");
    let mut calls = Command::new("sh");
    calls.arg(script).args([&urls[0], &urls[1], &urls[3]]);
    let calls =
        tokio::task::spawn_blocking(move || calls.output()).await.expect("it does not panic");
    let calls = calls.expect("a shell");
    let said = String::from_utf8_lossy(&calls.stdout).into_owned();
    assert!(calls.status.success(), "{said}{}", String::from_utf8_lossy(&calls.stderr));
    assert!(said.ends_with("All answers were as expected.\n"), "{said}");
    for url in &urls {
        assert!(up.output().contains(url), "{}", up.output());
    }
    assert_eq!(up.terminate().await, Some(0), "{}", up.output());
    up.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_up_is_killed_all_its_processes_end() {
    let mut up = RideshareUp::start(PROGRAMS).await;
    assert!(up.left() >= 6, "{}", up.left());
    up.kill().await;
    up.all_gone().await;
}

/// The counts of users and of rides.
async fn counts(deployment: &Deployment) -> (u64, u64) {
    let count = async |caller: Caller| {
        let [count]: [u64; 1] = serde_json::from_value(caller.get(COUNT).await).expect("a count");
        count
    };
    (count(deployment.users[0].caller()).await, count(deployment.rides[1].caller()).await)
}

/// The statuses of 24 clients of whom one wins.
fn one_of_24(won: u16) -> Vec<u16> {
    let mut statuses = vec![400; 23];
    statuses.push(won);
    statuses.sort_unstable();
    statuses
}

/// Waits until the crashed worker is gone and a new one has followed; checks who leads.
async fn whole_again(deployment: &Deployment, drill: &str, before: &[u64], crashed: u64) {
    let newest = before.last().copied().unwrap_or_default();
    eventually("the workers are whole again", WHOLE_WITHIN, || async {
        let now = deployment.worker_ids().await;
        let leads = deployment
            .workers()
            .await
            .is_ok_and(|list| list.workers.iter().any(|worker| worker.is_leader()));
        leads && now.len() == before.len() && !now.contains(&crashed) && now.last() > Some(&newest)
    })
    .await;
    let kept: Vec<u64> = before.iter().copied().filter(|id| *id != crashed).collect();
    let now = deployment.worker_ids().await;
    assert_eq!(now[..kept.len()], kept, "the others keep their ids");
    let workers = deployment.workers().await.expect("a list").workers;
    let leader = workers.iter().find(|worker| worker.is_leader()).map(|worker| worker.id);
    match drill {
        "master" => assert_eq!(leader, kept.first().copied(), "the lowest reader leads"),
        _ => assert_eq!(crashed, newest, "the highest reader ends"),
    }
}
