//! Lines that wait for a target: bounded in bytes, the oldest given up first.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::metrics::TargetMetrics;

/// What a line costs beside its bytes.
const LINE_COST: usize = 64;

/// A queue with many who fill it and one who empties it.
#[derive(Debug)]
pub(super) struct Queue {
    most: usize,
    waiting: Mutex<Waiting>,
    news: Notify,
    metrics: TargetMetrics,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    /// A queue for so many bytes.
    pub(super) fn new(most: usize, metrics: TargetMetrics) -> Queue {
        Queue { most, waiting: Mutex::default(), news: Notify::new(), metrics }
    }

    /// Adds a line. The oldest are let go where there is no room.
    pub(super) fn push(&self, line: Bytes) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += line.len() + LINE_COST;
        waiting.lines.push_back(line);
        while waiting.bytes > self.most {
            let Some(oldest) = waiting.lines.pop_front() else { break };
            waiting.bytes -= oldest.len() + LINE_COST;
            self.metrics.full.inc();
        }
        self.show(&waiting);
        drop(waiting);
        self.news.notify_one();
    }

    /// Waits until there is a line; `false` when it is closed and empty.
    pub(super) async fn has_lines(&self) -> bool {
        loop {
            {
                let waiting = self.waiting.lock();
                if !waiting.lines.is_empty() || waiting.closed {
                    return !waiting.lines.is_empty();
                }
            }
            self.news.notified().await;
        }
    }

    /// The oldest lines, up to so many bytes and at least one; waits for the first. None when it is closed and
    /// empty.
    pub(super) async fn take(&self, bytes: usize) -> Option<Vec<Bytes>> {
        if !self.has_lines().await {
            return None;
        }
        let waiting = &mut *self.waiting.lock();
        let (mut taken, mut size) = (Vec::new(), 0);
        while let Some(line) = waiting.lines.front() {
            size += line.len() + 1;
            if size > bytes && !taken.is_empty() {
                break;
            }
            waiting.bytes -= line.len() + LINE_COST;
            taken.extend(waiting.lines.pop_front());
        }
        self.show(waiting);
        Some(taken)
    }

    /// Puts lines back that were taken and not delivered, as far as there is room: newer ones go before.
    pub(super) fn put_back(&self, lines: Vec<Bytes>) {
        let mut waiting = self.waiting.lock();
        for line in lines.into_iter().rev() {
            let bytes = line.len() + LINE_COST;
            if waiting.bytes + bytes > self.most {
                self.metrics.full.inc();
                continue;
            }
            waiting.bytes += bytes;
            waiting.lines.push_front(line);
        }
        self.show(&waiting);
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.news.notify_one();
    }

    /// How many lines wait.
    pub(super) fn lines(&self) -> usize {
        self.waiting.lock().lines.len()
    }

    fn show(&self, waiting: &Waiting) {
        self.metrics.waiting.set(i64::try_from(waiting.bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::metrics::Counts;
    use prometheus_client::registry::Registry;

    fn queue(lines: usize) -> Queue {
        let metrics = Counts::register(&mut Registry::default()).of("t");
        Queue::new(lines * (1 + LINE_COST), metrics)
    }

    fn line(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[tokio::test]
    async fn a_full_queue_lets_go_of_its_oldest_lines() {
        let queue = queue(3);
        for text in ["a", "b", "c", "d", "e"] {
            queue.push(line(text));
        }
        assert_eq!(queue.metrics.full.get(), 2);
        assert_eq!(queue.take(4).await, Some(vec![line("c"), line("d")]));
        queue.push(line("f"));
        queue.push(line("g"));
        queue.put_back(vec![line("c"), line("d")]);
        assert_eq!(queue.metrics.full.get(), 4, "there was no room for what came back");
        queue.close();
        assert_eq!(queue.take(100).await, Some(vec![line("e"), line("f"), line("g")]));
        assert_eq!((queue.take(100).await, queue.metrics.waiting.get()), (None, 0));
    }

    #[tokio::test]
    async fn what_came_back_goes_first() {
        let queue = queue(3);
        queue.push(line("c"));
        queue.put_back(vec![line("a"), line("b")]);
        assert_eq!(queue.take(1).await, Some(vec![line("a")]));
        assert_eq!(queue.take(100).await, Some(vec![line("b"), line("c")]));
    }
}
