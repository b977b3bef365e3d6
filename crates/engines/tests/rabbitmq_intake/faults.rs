//! Connections cut and silenced, brokers killed, queues that are not there.

use std::collections::BTreeSet;
use std::time::Duration;

use consort_kernel::{Fault, Message, Tag};
use consort_testbed::{Direction, RabbitOptions, RabbitServer, eventually};
use tokio::time::timeout;

use crate::owner::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_of_a_lost_connection_acknowledge_nothing() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..10).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    let old = take_all(&inlet, 10).await;
    proxy.cut();
    eventually("it is cut", PATIENCE, || async { proxy.connections() == 0 }).await;
    // Whether the inlet has noticed or not: those come again.
    let _ = inlet.settle(&tags(&old[..5])).await;
    let again = take_all(&inlet, 10).await;
    assert_eq!(numbers(&again), (0..10).collect::<Vec<_>>());
    assert!(again.iter().all(|message| message.redelivered));

    // They have the numbers of others now.
    inlet.settle(&tags(&old)).await.expect("passed over");
    inlet.settle(&tags(&again[..3])).await.expect("settled");
    inlet.settle(&tags(&old)).await.expect("passed over");
    drop(inlet);
    assert_eq!(owner.left().await, (3..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_at_any_byte_lose_nothing_and_settle_nothing_else() {
    const MESSAGES: u32 = 2_000;
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..MESSAGES).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    // Every seventh message is never settled, and so must stay in the queue whatever happens.
    let keep = |message: &Message| number(&message.body).is_multiple_of(7);
    let (mut seen, mut sessions) = (BTreeSet::new(), BTreeSet::new());
    let taking = async {
        while seen.len() < MESSAGES as usize || sessions.len() < 6 {
            let messages = take(&inlet, 100, Duration::from_millis(300)).await.unwrap_or_default();
            let fresh = messages.first().is_some_and(|first| sessions.insert(first.tag.session()));
            // Each of the first sessions is cut once, among deliveries or among acknowledgements; or
            // when it is quiet.
            match fresh && sessions.len() < 6 {
                true if rand::random() => {
                    proxy.cut_after(Direction::ToServer, rand::random_range(0..200));
                }
                true => proxy.cut_after(Direction::ToClient, rand::random_range(0..40_000)),
                false if messages.is_empty() && sessions.len() < 6 => proxy.cut(),
                false => {}
            }
            let mut settled = Vec::new();
            for message in &messages {
                seen.insert(number(&message.body));
                if !keep(message) {
                    settled.push(message.tag);
                }
            }
            // In two calls at once, interleaved.
            let (even, odd): (Vec<Tag>, Vec<Tag>) =
                settled.into_iter().partition(|tag| tag.number().is_multiple_of(2));
            let _ = tokio::join!(inlet.settle(&even), inlet.settle(&odd));
        }
    };
    timeout(PATIENCE, taking).await.expect("every message comes");
    drop(inlet);
    let left: BTreeSet<u32> = owner.left().await.into_iter().collect();
    let kept: BTreeSet<u32> = (0..MESSAGES).filter(|id| id.is_multiple_of(7)).collect();
    assert!(left.is_superset(&kept), "gone: {:?}", kept.difference(&left));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_swallows_everything_is_left() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish([1, 2]).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    let taken = take_all(&inlet, 2).await;
    proxy.swallow(Direction::ToServer);
    proxy.swallow(Direction::ToClient);
    // They seem to be settled, and the broker never hears of it.
    let _ = timeout(PATIENCE, inlet.settle(&tags(&taken))).await.expect("settling ends");
    assert_eq!(take(&inlet, 10, PATIENCE).await, None, "the silence is noticed");
    proxy.heal();
    let again = take_all(&inlet, 2).await;
    assert_eq!(numbers(&again), [1, 2]);
    inlet.settle(&tags(&again)).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_goes_on_after_the_broker_was_killed() {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..500).await;
    // An end in good order writes down that there is a queue; see the faults of the log.
    server.stop().await;
    server.restart().await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 300).await;
    inlet.settle(&tags(&taken[..100])).await.expect("settled");
    server.kill().await;
    assert!(fault(&inlet).await.retryable());
    inlet.settle(&tags(&taken[100..200])).await.expect("passed over");
    server.restart().await;

    // The broker may not have written down the settling of the first hundred, but nothing else.
    let mut seen = BTreeSet::new();
    let taking = async {
        while !(100..500).all(|id| seen.contains(&id)) {
            let messages = take(&inlet, 100, PATIENCE).await.unwrap_or_default();
            inlet.settle(&tags(&messages)).await.expect("settled");
            seen.extend(numbers(&messages));
        }
    };
    timeout(PATIENCE, taking).await.expect("all that was not settled comes again");
    drop(inlet);
    let owner = Owner::of(&server.url(), owner.queue).await;
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_queue_is_told_and_found_once_it_is_there() {
    let server = RabbitServer::shared().await;
    let owner = Owner::new(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    for _ in 0..2 {
        let Fault::Retryable(said) = fault(&inlet).await else { panic!("not passing") };
        assert!(said.contains(&owner.queue) && said.contains("no such queue"), "{said}");
        assert!(said.contains("***@127.0.0.1") && !said.contains("guest:"), "{said}");
    }
    owner.declare("classic").await;
    owner.publish([1]).await;
    assert_eq!(numbers(&take_all(&inlet, 1).await), [1]);

    // Deleted under a take that waits, with a message that was not settled.
    let deleted = async {
        let fault = fault(&inlet).await;
        assert!(fault.retryable(), "{fault}");
    };
    tokio::join!(deleted, owner.delete());
    let Fault::Retryable(said) = fault(&inlet).await else { panic!("not passing") };
    assert!(said.contains("queue"), "{said}");
    owner.declare("classic").await;
    owner.publish([2]).await;
    assert_eq!(numbers(&take_all(&inlet, 1).await), [2]);
    assert!(!format!("{inlet:?}").contains("guest:"), "{inlet:?}");
}
