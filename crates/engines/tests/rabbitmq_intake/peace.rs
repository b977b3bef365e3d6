//! What a consumer may count on while nothing fails.

use std::time::Duration;

use consort_engines::{OpenError, open_inlet};
use consort_kernel::{Fault, Message, limits};
use consort_testbed::{RabbitServer, eventually};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use tokio::time::timeout;

use crate::owner::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_taken_and_settled_is_gone() {
    let server = RabbitServer::shared().await;
    for kind in ["classic", "quorum"] {
        let owner = Owner::new(&server.url()).await;
        owner.declare(kind).await;
        // More than the broker sends ahead.
        owner.publish(0..2_500).await;
        let inlet = owner.inlet(&server.url()).await;
        let mut taken = Vec::new();
        while taken.len() < 2_500 {
            let messages = take(&inlet, 300, PATIENCE).await.expect("no fault");
            assert!(messages.len() <= 300);
            // The later half first, one by one and again, then the rest.
            let tags = tags(&messages);
            let (front, back) = tags.split_at(tags.len() / 2);
            for tags in [back, back, &tags, front, &[]] {
                inlet.settle(tags).await.expect("settled");
            }
            taken.extend(messages);
        }
        assert_eq!(numbers(&taken), (0..2_500).collect::<Vec<_>>());
        for message in &taken {
            assert_eq!(message.id, Some(format!("id-{}", number(&message.body))));
            assert!(!message.redelivered);
        }
        assert_eq!(take(&inlet, 300, QUIET).await, Some(vec![]));
        drop(inlet);
        assert_eq!(owner.left().await, [0_u32; 0], "of the {kind} queue");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_settled_comes_again() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..10).await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 10).await;
    inlet.settle(&[taken[3].tag, taken[0].tag, taken[7].tag]).await.expect("settled");
    drop(inlet);

    let inlet = owner.inlet(&server.url()).await;
    let again = take_all(&inlet, 7).await;
    assert_eq!(numbers(&again), [1, 2, 4, 5, 6, 8, 9]);
    assert!(again.iter().all(|message| message.redelivered));
    assert_eq!(again[0].id, Some("id-1".into()));

    // The tags of the first inlet name the same numbers on other channels.
    inlet.settle(&tags(&taken)).await.expect("passed over");
    inlet.settle(&[again[1].tag]).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [1, 4, 5, 6, 8, 9]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_a_bound_is_out_at_once() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..1_200).await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 1_000).await;
    assert_eq!(take(&inlet, 1_000, QUIET).await, Some(vec![]));
    inlet.settle(&[taken[500].tag]).await.expect("settled");
    assert_eq!(numbers(&take_all(&inlet, 1).await), [1_000]);
    assert_eq!(take(&inlet, 1_000, QUIET).await, Some(vec![]));
    inlet.settle(&tags(&taken)).await.expect("settled");
    let rest = take_all(&inlet, 199).await;
    assert_eq!(numbers(&rest), (1_001..1_200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_every_size_are_handed_over() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let sizes = [0, limits::RECORD_BYTES + 1, limits::PAGE_BYTES, 1, limits::PAGE_BYTES + 1, 2];
    for size in sizes {
        let confirm = owner.send(&vec![b'x'; size], BasicProperties::default()).await;
        assert!(confirm.await.expect("a confirm").is_ack());
    }
    let inlet = owner.inlet(&server.url()).await;
    let mut taken = Vec::new();
    while taken.len() < sizes.len() {
        let messages = take(&inlet, 100, PATIENCE).await.expect("no fault");
        let before_last = messages.iter().rev().skip(1).map(|message| message.body.len());
        assert!(before_last.sum::<usize>() < limits::PAGE_BYTES);
        taken.extend(messages);
    }
    assert_eq!(taken.iter().map(|message| message.body.len()).collect::<Vec<_>>(), sizes);
    assert!(taken.iter().all(|message| message.id.is_none()));
    inlet.settle(&tags(&taken)).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_take_is_woken_by_a_message() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    assert_eq!(take(&inlet, 10, QUIET).await, Some(vec![]));
    owner.publish([1]).await;
    let first = take_all(&inlet, 1).await;
    let waiting = tokio::spawn({
        let inlet = inlet.clone();
        async move { inlet.take(10, 2 * PATIENCE).await }
    });
    // Settling does not wait for the take.
    inlet.settle(&tags(&first)).await.expect("settled");
    owner.publish([2]).await;
    let woken = timeout(PATIENCE, waiting).await.expect("it wakes").expect("the take");
    assert_eq!(numbers(&woken.expect("a message")), [2]);
    drop(inlet);
    assert_eq!(owner.left().await, [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_is_dropped_takes_nothing() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    let publishing = async {
        for id in 0..300 {
            owner.publish([id]).await;
        }
    };
    let taking = async {
        let mut taken: Vec<Message> = Vec::new();
        let mut dropped = 0;
        while taken.len() < 300 {
            // Dropped at some point of its way, the connecting included.
            let patience = Duration::from_micros(rand::random_range(0..20_000));
            match timeout(patience, inlet.take(7, PATIENCE)).await {
                Ok(messages) => taken.extend(messages.expect("no fault")),
                Err(_) => dropped += 1,
            }
        }
        assert!(dropped > 0);
        taken
    };
    let (_, taken) =
        timeout(PATIENCE, async { tokio::join!(publishing, taking) }).await.expect("all");
    // Each once: nothing was left behind in a dropped call to come again.
    assert_eq!(numbers(&taken), (0..300).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_refused_and_what_came_out_of_one_is_not() {
    let server = RabbitServer::shared().await;
    let owner = Owner::new(&server.url()).await;
    owner.declare("stream").await;
    let inlet = owner.inlet(&server.url()).await;
    // It delivers only what comes after the inlet.
    let refused = eventually("the stream is noticed", PATIENCE, || async {
        owner.publish([1]).await;
        inlet.take(1, QUIET).await.err()
    })
    .await;
    assert!(
        matches!(&refused, Fault::Fatal(said) if said.contains("stream") && said.contains(&owner.queue)),
        "{refused}"
    );

    let owner = Owner::with_queue(&server.url()).await;
    let mut headers = FieldTable::default();
    headers.insert("x-stream-offset".into(), AMQPValue::LongLongInt(5));
    for id in ["1", "2"] {
        let properties = BasicProperties::default().with_headers(headers.clone());
        assert!(owner.send(id.as_bytes(), properties).await.await.expect("a confirm").is_ack());
    }
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 2).await;
    inlet.settle(&tags(&taken)).await.expect("settled");
    drop(inlet);
    assert_eq!(numbers(&taken), [1, 2]);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_names_are_looked_at_before_anything_is_taken() {
    let long = "q".repeat(256);
    for (url, queue) in [
        ("redis://user:sesame@127.0.0.1/", "queue"),
        ("user:sesame@127.0.0.1", "queue"),
        ("amqp://user:sesame@127.0.0.1:x/", "queue"),
        ("amqp://user:sesame@127.0.0.1/%2f", ""),
        ("amqp://user:sesame@127.0.0.1/%2f", &long),
    ] {
        let refused = open_inlet(url, queue, None).await.expect_err("unusable");
        assert!(matches!(refused, OpenError::Unusable { .. }), "{refused:?}");
        let said = format!("{refused} {refused:?}");
        assert!(said.contains("127.0.0.1") && !said.contains("sesame"), "{said}");
    }
    // Nobody is there: told by taking, and told again.
    let inlet =
        open_inlet("amqp://user:sesame@127.0.0.1:1/%2f", "queue", None).await.expect("open");
    for _ in 0..2 {
        let fault = fault(&inlet).await;
        assert!(fault.retryable() && !fault.to_string().contains("sesame"), "{fault}");
    }
}
