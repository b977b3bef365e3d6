//! Datagrams of lines: exact, whoever sends them how often, and everything that is dropped is counted.

use std::net::SocketAddr;

use consort_testbed::eventually;
use serde_json::json;
use tokio::net::UdpSocket;

use crate::bed::{Apart, Here, PATIENCE};
use crate::caller::{Caller, text};
use crate::points::{EVENTS, LINES, are_exact};

fn with_udp(settings: &str) -> String {
    EVENTS.replace("form = \"line-loose\"\n", &format!("form = \"line-loose\"\n{settings}\n"))
}

const LOOPBACK: &str = "udp = \"127.0.0.1:0\"";

async fn sender(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    socket.connect(to).await.expect("an address");
    socket
}

/// The value of a counter of the stream, with these labels beside it.
async fn counted(caller: &mut Caller, name: &str, labels: &str) -> u64 {
    let metrics = text(&caller.get("/metrics").await);
    let name = format!("consort_{name}_total{{stream=\"events\"{labels}}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name} is missing: {metrics}")).parse().expect("a number")
}

async fn dropped(caller: &mut Caller, reason: &str) -> u64 {
    counted(caller, "udp_dropped", &format!(",reason=\"{reason}\"")).await
}

async fn comes_to(node: &Here, reason: &str, value: u64) {
    eventually(reason, PATIENCE, || {
        let mut caller = node.caller();
        async move { dropped(&mut caller, reason).await == value }
    })
    .await;
}

#[tokio::test]
async fn the_events_are_counted_exactly_received_once_or_twice() {
    let node = Here::start(&with_udp(LOOPBACK)).await;
    let mut caller = node.caller();
    let socket = sender(node.udp("events")).await;
    for line in LINES.lines() {
        socket.send(line.as_bytes()).await.expect("it is sent");
    }
    caller.comes_to("/views/all", &json!(5)).await;
    are_exact(&mut caller).await;
    socket.send(LINES.as_bytes()).await.expect("it is sent");
    caller.comes_to("/views/all", &json!(10)).await;
    are_exact(&mut caller).await;
    assert_eq!(counted(&mut caller, "udp_datagrams", "").await, 6);
    assert_eq!(counted(&mut caller, "udp_lines", "").await, 10);
    assert_eq!(counted(&mut caller, "stream_accepted", "").await, 10);
}

#[tokio::test]
async fn a_bad_line_loses_only_itself_and_can_be_looked_at() {
    let node = Here::start(&with_udp(LOOPBACK)).await;
    let mut caller = node.caller();
    let socket = sender(node.udp("events")).await;
    let bad = "event_type=a,product=b value=ann 1\nbroken\n\n# a comment\nevent_type=a value=bob x\nevent_type=a,product=b value=bob";
    socket.send(bad.as_bytes()).await.expect("it is sent");
    socket.send(b"").await.expect("it is sent");
    socket.send(b"\xff\xfe").await.expect("it is sent");
    caller.comes_to("/views/unique_user_event?event_type=a&product=b", &json!(2)).await;
    comes_to(&node, "malformed", 3).await;
    assert_eq!(counted(&mut caller, "udp_lines", "").await, 5);
    assert_eq!(counted(&mut caller, "udp_datagrams", "").await, 3);
    eventually("the bad lines are in the list", PATIENCE, || {
        let mut caller = node.caller();
        async move {
            let list = text(&caller.get("/streams/events/rejects").await);
            list.contains("broken") && list.contains("not a line: column")
        }
    })
    .await;
}

#[tokio::test]
async fn datagrams_of_others_are_dropped_and_counted() {
    let node = Here::start(&with_udp(&format!("{LOOPBACK}\nudp_allow = [\"10.0.0.0/8\"]"))).await;
    let mut caller = node.caller();
    let socket = sender(node.udp("events")).await;
    socket.send(LINES.as_bytes()).await.expect("it is sent");
    comes_to(&node, "disallowed", 1).await;
    assert_eq!(caller.value("/views/all").await, json!(0));
    assert_eq!(counted(&mut caller, "udp_lines", "").await, 0);
}

/// More is sent than anybody takes; of that nothing is lost without being counted.
#[tokio::test]
async fn every_datagram_of_a_flood_is_accounted_for() {
    const SENT: u64 = 20_000;
    const LINES_EACH: u64 = 12;
    let node = Apart::start(&with_udp("udp = \"127.0.0.1:0\"\nudp_buffer = \"256KiB\"")).await;
    let mut caller = node.caller();
    let socket = sender(node.udp("events")).await;
    let line = |at: u64| format!("event_type=e{},product=p value=user{at} {at}", at % 100);
    for datagram in 0..SENT {
        let lines: Vec<String> =
            (0..LINES_EACH).map(|at| line(datagram * LINES_EACH + at)).collect();
        socket.send(lines.join("\n").as_bytes()).await.expect("it is sent");
    }
    eventually("all datagrams are received or counted as dropped", PATIENCE, || {
        let mut caller = node.caller();
        async move {
            let received = counted(&mut caller, "udp_datagrams", "").await;
            received + dropped(&mut caller, "kernel").await == SENT
        }
    })
    .await;
    let received = counted(&mut caller, "udp_datagrams", "").await;
    assert_eq!(counted(&mut caller, "udp_lines", "").await, received * LINES_EACH);
    let lost = dropped(&mut caller, "overload").await + dropped(&mut caller, "unappended").await;
    caller.comes_to("/views/all", &json!(received * LINES_EACH - lost)).await;
}

#[tokio::test]
async fn a_stop_appends_what_was_received() {
    const SENT: u64 = 100;
    let declarations = with_udp(LOOPBACK);
    let mut node = Apart::start(&declarations).await;
    let socket = sender(node.udp("events")).await;
    // The node cannot read, so that all of it waits in the socket when the stop comes.
    node.process.pause();
    for at in 0..SENT {
        let line = format!("event_type=e,product=p value=user{at} {at}");
        socket.send(line.as_bytes()).await.expect("it is sent");
    }
    let ending = node.process.pid();
    terminate(ending);
    node.process.resume();
    let (code, said) = node.end().await;
    assert_eq!(code, Some(0), "{said}");
    node.restart_with(&declarations);
    node.listens().await;
    let mut caller = node.caller();
    caller.comes_to("/views/all", &json!(SENT)).await;
    let path = "/views/unique_user_event?event_type=e&product=p";
    assert_eq!(caller.value(path).await, json!(SENT));
}

/// SIGTERM, without waiting for the end.
fn terminate(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::TERM).expect("a signal");
}

#[tokio::test]
async fn a_node_whose_port_is_taken_says_so() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let address = taken.local_addr().expect("an address");
    let mut node = Apart::begin(&with_udp(&format!("udp = \"{address}\"")));
    let (code, said) = node.end().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("'udp' of the stream 'events': cannot listen on {address}")),
        "{said}"
    );
}
