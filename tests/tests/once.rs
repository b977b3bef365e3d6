//! Once end to end, on three nodes and a real Redis: a herd is one call of the upstream, whoever is killed, paused,
//! cut off or restarted meanwhile, and what was refused or purged is never served.
//!
//! A run is short by default. `CONSORT_TESTBED_ONCE_ROUNDS=500` herds so often, and `CONSORT_TESTBED_ONCE_HURTS=20`
//! hurts so many holders in each way.

use std::time::Duration;

use consort_testbed::eventually;
use consort_tests::once::crew::{Crew, LASTING, NODES, PATIENCE};
use consort_tests::once::effort::times;
use consort_tests::once::herd::{Herd, Said, one_answer, statuses};
use consort_tests::seed::seed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_consort-under-test");

/// The clients of the great herd.
const HERD: usize = 1_000;

/// The clients of each node, where something else is the point.
const FEW: usize = 30;

/// A lease that lapses soon; nothing is asserted about when.
const SHORT: &str = "lease = '1s'\n";

/// Long enough to find out who computes, and to hurt it.
const SLOW: &str = "delay=2s";

/// What a cache serves without having heard of a purge: the promise of `Once::purge`.
const UNHEARD: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cold_requests_over_three_nodes_are_one_call_and_one_answer() {
    let rounds = times("CONSORT_TESTBED_ONCE_ROUNDS", 25);
    let crew = Crew::start(PROGRAM, LASTING).await;
    let mut herd = crew.herd(HERD).await;
    for round in 0..rounds {
        let path = format!("cold-{round}");
        let answers = herd.ask(&format!("/once/items/{path}")).await;
        assert_eq!(answers.len(), HERD);
        one_answer(&answers);
        assert_eq!(crew.upstream.calls(&path).await, 1, "round {round}");
    }
    let computations: u64 = crew.figures("computations_total").await.iter().sum();
    assert_eq!(computations, rounds as u64);
    for source in ["computed", "joined", "store", "node"] {
        let answers = format!("answers_total{{once=\"items\",source=\"{source}\"}}");
        eprintln!("{rounds} rounds, {source}: {:?}", crew.figures(&answers).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_killed_is_replaced_by_exactly_one() {
    let mut crew = Crew::start(PROGRAM, &format!("{LASTING}{SHORT}")).await;
    for round in 0..times("CONSORT_TESTBED_ONCE_HURTS", 3) {
        let path = format!("killed-{round}");
        let takeovers = crew.figures("takeovers_total").await;
        let (holder, asking) = begin(&crew, &path).await;
        crew.kill(holder).await;
        let mut others = Vec::new();
        for (at, asking) in asking.into_iter().enumerate() {
            let answers = asking.await.expect("the herd is answered");
            match at == holder {
                true => assert!(answers.iter().all(|said| said.reply.is_err()), "{answers:?}"),
                false => others.extend(answers),
            }
        }
        let generation = one_answer(&others);
        assert_eq!(crew.upstream.calls(&path).await, 2, "one more call");
        assert_eq!(others[0].call(), Some(2 * round as u64 + 2), "and it is what they got");
        let mut taken = 0;
        for at in (0..NODES).filter(|at| *at != holder) {
            taken += crew.figure(at, "takeovers_total").await - takeovers[at];
        }
        assert_eq!(taken, 1);
        crew.restart(holder).await;
        assert_eq!(same_everywhere(&crew, &path).await, generation);
        assert_eq!(crew.upstream.calls(&path).await, 2);
        eprintln!("round {round}: node {holder} was killed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_paused_past_its_lease_is_refused() {
    let mut crew = Crew::start(PROGRAM, &format!("{LASTING}{SHORT}")).await;
    for round in 0..times("CONSORT_TESTBED_ONCE_HURTS", 2) {
        let path = format!("paused-{round}");
        let refused = crew.figures("refused_total").await;
        let (holder, mut asking) = begin(&crew, &path).await;
        crew.pause(holder);
        let late = asking.remove(holder);
        let others = tokio::spawn(all(asking));
        // It comes back in turn when another's value is there, and when another is about to make it.
        let back_early = round % 2 == 1;
        if back_early {
            crew.upstream.is_asked(&path, 2).await;
            crew.resume(holder);
        }
        let mut others = others.await.expect("the others' herds are answered");
        crew.resume(holder);
        others.extend(late.await.expect("the holder's own herd is answered"));
        assert_eq!(others.len(), NODES * FEW);
        let generation = one_answer(&others);
        assert_eq!(others[0].call(), Some(2 * round as u64 + 2), "not what the late one had");
        eventually("the late one is refused", PATIENCE, || async {
            crew.figure(holder, "refused_total").await == refused[holder] + 1
        })
        .await;
        assert_eq!(same_everywhere(&crew, &path).await, generation);
        assert_eq!(crew.upstream.calls(&path).await, 2);
        eprintln!("round {round}: node {holder} was paused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_a_holder_is_hurt_there_is_one_answer() {
    let mut random = StdRng::seed_from_u64(seed("whenever"));
    let mut crew = Crew::start(PROGRAM, &format!("{LASTING}{SHORT}")).await;
    for round in 0..times("CONSORT_TESTBED_ONCE_HURTS", 3) {
        let path = format!("whenever-{round}");
        let asked = format!("/once/items/{path}?delay=300ms");
        let (holder, asking) = begin_at(&crew, &path, &asked).await;
        // About when the value comes and is published: it takes half a second in all.
        sleep(Duration::from_millis(random.random_range(250..700))).await;
        let pause = round % 3 == 2;
        match pause {
            true => crew.pause(holder),
            false => crew.kill(holder).await,
        }
        if pause {
            // Whether or not it has published, others have had the time to take over.
            sleep(Duration::from_secs(2)).await;
            crew.resume(holder);
        }
        let answers = all(asking).await;
        // What the holder said before it died, others say as well.
        let (good, lost): (Vec<&Said>, Vec<&Said>) =
            answers.iter().partition(|said| said.status() == 200);
        assert!(lost.iter().all(|said| said.node == holder && said.reply.is_err()), "{lost:?}");
        assert!(lost.is_empty() || !pause, "{lost:?}");
        let generation = one_answer(good);
        if !pause {
            crew.restart(holder).await;
        }
        assert_eq!(same_at(&crew, &asked).await, generation);
        let calls = crew.upstream.calls(&path).await;
        assert!((1..=2).contains(&calls), "{calls}");
        let how = if pause { "paused" } else { "killed" };
        eprintln!("round {round}: node {holder} {how}, {} lost, {calls} calls", lost.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_from_the_store_is_refused() {
    let settings = format!("{LASTING}{SHORT}wait = '20s'\n");
    let mut crew = Crew::start_on_lines(PROGRAM, &settings).await;
    for round in 0..times("CONSORT_TESTBED_ONCE_HURTS", 2) {
        let path = format!("cut-{round}");
        let (holder, mut asking) = begin(&crew, &path).await;
        crew.silence(holder);
        let own = asking.remove(holder);
        let others = all(asking).await;
        let generation = one_answer(&others);
        assert_eq!(others[0].call(), Some(2 * round as u64 + 2), "another's value");
        crew.heal(holder);
        // Those who waited there have the others' answer, or were told that the store is away.
        let own = own.await.expect("the holder's own herd is answered");
        let (good, told): (Vec<&Said>, Vec<&Said>) =
            own.iter().partition(|said| said.status() == 200);
        assert!(good.iter().all(|said| said.generation() == generation), "{good:?}");
        told.into_iter().for_each(Said::is_told);
        let back = || async { crew.get(holder, &slow(&path)).await.status() == 200 };
        eventually("it is back", PATIENCE, back).await;
        crew.is_well().await;
        assert_eq!(same_everywhere(&crew, &path).await, generation);
        assert_eq!(crew.upstream.calls(&path).await, 2);
        eprintln!("round {round}: node {holder} was cut off, its herd got {:?}", statuses(&own));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hangs_when_redis_is_restarted_in_the_middle_of_a_herd() {
    const WAIT: Duration = Duration::from_secs(10);
    let mut random = StdRng::seed_from_u64(seed("restarted"));
    let settings = format!("{LASTING}wait = '{}s'\n", WAIT.as_secs());
    let mut crew = Crew::start(PROGRAM, &settings).await;
    for round in 0..times("CONSORT_TESTBED_ONCE_HURTS", 2) {
        let path = format!("restarted-{round}");
        let asked = Instant::now();
        let (_, asking) = begin(&crew, &path).await;
        // Beyond the usual rounds, it is killed at any moment until the value has been published.
        if round >= 2 {
            sleep(Duration::from_millis(random.random_range(0..2_300))).await;
        }
        crew.redis.kill().await;
        // In turn it is back at once, and only when those who wait have lost their patience with it.
        if round % 2 == 1 {
            sleep_until(asked + WAIT / 2).await;
        }
        crew.redis.restart().await;
        let answers = all(asking).await;
        // The rest is what a busy machine may take to say so.
        assert!(asked.elapsed() < WAIT + PATIENCE / 2, "{:?}", asked.elapsed());
        let good: Vec<&Said> = answers.iter().filter(|said| said.status() == 200).collect();
        answers.iter().filter(|said| said.status() != 200).for_each(Said::is_told);
        let heals = || async {
            for at in 0..NODES {
                if crew.get(at, &slow(&path)).await.status() != 200 {
                    return false;
                }
            }
            true
        };
        eventually("it goes on", PATIENCE, heals).await;
        crew.is_well().await;
        let generation = same_everywhere(&crew, &path).await;
        assert!(good.iter().all(|said| said.generation() == generation), "{good:?}");
        let calls = crew.upstream.calls(&path).await;
        // What the first one computed may have been lost with its lease, and no more than that.
        assert!((1..=2).contains(&calls), "{calls}");
        eprintln!("round {round}: {:?}, {calls} calls", statuses(&answers));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_fails_is_asked_once_and_everybody_is_told() {
    let settings = format!(
        "{LASTING}timeout = '1s'\nmax_value = '64KiB'\n\
         [once.nowhere]\nupstream = 'http://127.0.0.1:1/{{path}}'\nerrors_for = '1h'\n"
    );
    let crew = Crew::start(PROGRAM, &settings).await;
    let mut herd = crew.herd(NODES * FEW).await;
    for (space, path, switches, status, problem) in [
        ("items", "failing", "?status=500", 502, "upstream-refused"),
        ("items", "slow", "?delay=20s", 504, "upstream-timeout"),
        ("items", "huge", "?size=1MiB", 502, "upstream-too-large"),
        ("items", "broken", "?broken=1", 502, "upstream-malformed"),
        ("items", "empty", "?empty=1", 200, ""),
        ("nowhere", "unreachable", "", 502, "upstream-unreachable"),
    ] {
        let before: u64 = crew.figures("computations_total").await.iter().sum();
        // The second time it is what was kept.
        for _ in 0..2 {
            let answers = herd.ask(&format!("/once/{space}/{path}{switches}")).await;
            for said in &answers {
                assert_eq!((said.status(), &*said.problem()), (status, problem), "{said:?}");
            }
            if status == 200 {
                one_answer(&answers);
                assert!(answers[0].body().is_empty());
            }
        }
        let computed: u64 = crew.figures("computations_total").await.iter().sum();
        assert_eq!(computed - before, 1, "{path}");
        assert_eq!(crew.upstream.calls(path).await, u64::from(space == "items"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_serves_what_was_purged() {
    let mut crew = Crew::start_on_lines(PROGRAM, &format!("{LASTING}wait = '5s'\n")).await;
    for (name, purge) in [("key", r#"{"key": "key?tag=key"}"#), ("tag", r#"{"tag": "tag"}"#)] {
        let path = format!("/once/items/{name}?tag={name}");
        // Heard: the node that purged at once, the others after no more than the promise.
        let old = held_by_all(&crew, &path).await;
        let purged = purge_by(&crew, purge).await;
        assert_ne!(crew.get(0, &path).await.generation(), old);
        let (mut new, mut seen) = ([false; NODES], 0);
        while purged.elapsed() < UNHEARD + Duration::from_millis(500) {
            for (at, new) in new.iter_mut().enumerate() {
                let begun = purged.elapsed();
                let said = crew.get(at, &path).await;
                assert_eq!(said.status(), 200, "{said:?}");
                match said.generation() == old {
                    true => {
                        assert!(begun < UNHEARD, "node {at} serves it {begun:?} after the purge");
                        assert!(!*new, "node {at} has it again {begun:?} after the purge");
                        seen += 1;
                    }
                    false => *new = true,
                }
            }
        }
        let generation = same_at(&crew, &path).await;
        assert_ne!(generation, old);
        assert_eq!(crew.upstream.calls(name).await, 2);

        // Unheard: one was paused, and one cannot hear.
        let old = held_by_all(&crew, &path).await;
        crew.pause(1);
        crew.silence(2);
        let purged = purge_by(&crew, purge).await;
        sleep_until(purged + UNHEARD).await;
        crew.resume(1);
        let resumed = crew.get(1, &path).await;
        assert!(resumed.generation() != old, "{resumed:?}");
        let deaf = crew.get(2, &path).await;
        assert!(deaf.generation() != old, "{deaf:?}");
        crew.heal(2);
        let back = || async { crew.get(2, &path).await.status() == 200 };
        eventually("it is back", PATIENCE, back).await;
        assert_ne!(same_at(&crew, &path).await, old);
        assert_eq!(crew.upstream.calls(name).await, 3);
        eprintln!(
            "by {name}: {seen} old answers before it was heard; the deaf node said {}",
            deaf.status()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_being_computed_when_it_was_purged_is_refused() {
    // No renewal comes before the value, so that nothing but its publication can be refused.
    let crew = Crew::start(PROGRAM, &format!("{LASTING}lease = '60s'\n")).await;
    for (round, by_tag) in [false, true, false, true].into_iter().enumerate() {
        let path = format!("computing-{round}");
        let refused: u64 = crew.figures("refused_total").await.iter().sum();
        let (holder, asking) = begin(&crew, &path).await;
        let purge = match by_tag {
            true => format!("{{\"tag\": \"{path}\"}}"),
            false => format!("{{\"key\": \"{path}?{SLOW}&tag={path}\"}}"),
        };
        let elsewhere = (holder + 1) % NODES;
        let purged = crew.post(elsewhere, "/once/items/purge", &purge).await;
        assert_eq!(purged.status(), 200, "{purged:?}");
        let answers = all(asking).await;
        let generation = one_answer(&answers);
        assert_eq!(answers[0].call(), Some(2 * round as u64 + 2), "what was computed anew");
        eventually("the first one is refused", PATIENCE, || async {
            crew.figures("refused_total").await.iter().sum::<u64>() == refused + 1
        })
        .await;
        assert_eq!(same_everywhere(&crew, &path).await, generation);
        assert_eq!(crew.upstream.calls(&path).await, 2);
    }
}

/// Where a slow answer is; its tag is its path.
fn slow(path: &str) -> String {
    format!("/once/items/{path}?{SLOW}&tag={path}")
}

/// Lets a herd of each node ask for a slow answer, until it is being computed. Tells by which node.
async fn begin(crew: &Crew, path: &str) -> (usize, Vec<JoinHandle<Vec<Said>>>) {
    begin_at(crew, path, &slow(path)).await
}

async fn begin_at(crew: &Crew, path: &str, asked: &str) -> (usize, Vec<JoinHandle<Vec<Said>>>) {
    let before = crew.figures("computations_total").await;
    let ask = |mut herd: Herd| {
        let path = asked.to_owned();
        tokio::spawn(async move { herd.ask(&path).await })
    };
    let asking = crew.herds(FEW).await.into_iter().map(ask).collect();
    crew.upstream.is_asked(path, 1).await;
    (crew.holder(before).await, asking)
}

async fn all(asking: Vec<JoinHandle<Vec<Said>>>) -> Vec<Said> {
    let answers = futures::future::join_all(asking).await;
    answers.into_iter().flat_map(|answers| answers.expect("the herd is answered")).collect()
}

/// Asks every node for a slow answer that is there, and tells its one generation.
async fn same_everywhere(crew: &Crew, path: &str) -> String {
    same_at(crew, &slow(path)).await
}

async fn same_at(crew: &Crew, path: &str) -> String {
    let mut answers = Vec::new();
    for at in 0..NODES {
        answers.push(crew.get(at, path).await);
    }
    one_answer(&answers)
}

/// Asks until every node has the answer in its memory, and tells its generation.
async fn held_by_all(crew: &Crew, path: &str) -> String {
    const OF_NODE: &str = "answers_total{once=\"items\",source=\"node\"}";
    for at in 0..NODES {
        eventually("the node has it in its memory", PATIENCE, || async {
            let before = crew.figure(at, OF_NODE).await;
            crew.get(at, path).await;
            crew.figure(at, OF_NODE).await > before
        })
        .await;
    }
    same_at(crew, path).await
}

/// Purges on the first node; tells when that was answered.
async fn purge_by(crew: &Crew, purge: &str) -> Instant {
    let said = crew.post(0, "/once/items/purge", purge).await;
    let purged = Instant::now();
    assert_eq!((said.status(), &said.body()[..]), (200, &b"{\"purged\":1}"[..]), "{said:?}");
    purged
}
