//! The nodes that may serve a read: which of them have workers, and which of two is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use consort_db::view::DatabaseView;
use consort_db::worker::cell::WorkerState;
use parking_lot::Mutex;

use crate::peers::RoleOwner;

/// The forwarded reads of this node that are under way, by the node that serves them.
#[derive(Debug, Default)]
pub(super) struct NodeLoads(Mutex<BTreeMap<String, Arc<AtomicUsize>>>);

/// One forwarded read under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl NodeLoads {
    /// Counts a read that is sent to a node, until the returned value is dropped.
    pub(super) fn begin(&self, node: &str) -> UnderWay {
        let mut loads = self.0.lock();
        // Nodes that left are forgotten when another one comes.
        if !loads.contains_key(node) {
            loads.retain(|_, load| load.load(Ordering::Relaxed) > 0);
        }
        let load = Arc::clone(loads.entry(node.to_owned()).or_default());
        load.fetch_add(1, Ordering::Relaxed);
        UnderWay(load)
    }

    fn of_node(&self, node: &str) -> usize {
        self.0.lock().get(node).map_or(0, |load| load.load(Ordering::Relaxed))
    }

    /// The other nodes that are asked for a read, in order: of two nodes with a reader the less loaded one first, then
    /// the leader's node. `draw` is a random number.
    pub(super) fn candidates(
        &self,
        view: &DatabaseView,
        own: Option<&str>,
        draw: u64,
    ) -> Vec<RoleOwner> {
        let mut readers: Vec<&str> = view
            .workers
            .iter()
            .filter(|worker| worker.state == WorkerState::Fit && !view.leads(worker.id))
            .map(|worker| worker.node.as_str())
            .filter(|node| Some(*node) != own && view.nodes.contains_key(*node))
            .collect();
        readers.sort_unstable();
        readers.dedup();
        let mut chosen = two_of(&readers, draw);
        chosen.sort_by_key(|node| self.of_node(node));
        let leader = view.leader().map(|leader| leader.node.as_str());
        if let Some(leader) = leader.filter(|leader| Some(*leader) != own) {
            chosen.retain(|node| *node != leader);
            chosen.push(leader);
        }
        let owner = |node: &str| {
            let address = view.nodes.get(node)?.address.clone();
            Some(RoleOwner { node: node.to_owned(), address, is_here: false })
        };
        chosen.into_iter().filter_map(owner).collect()
    }
}

/// Two of these, or all if there are no more.
fn two_of<'a>(nodes: &[&'a str], draw: u64) -> Vec<&'a str> {
    let count = nodes.len() as u64;
    if count <= 2 {
        return nodes.to_vec();
    }
    let (first, step) = (draw % count, 1 + (draw >> 32) % (count - 1));
    [first, (first + step) % count].map(|at| nodes[at as usize]).to_vec()
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use consort_db::DbPosition;
    use consort_db::head::{DbHead, HeadHolder, HeadState};
    use consort_db::view::LiveNode;
    use consort_db::worker::cell::WorkerCell;
    use consort_kernel::Timestamp;

    use super::*;

    fn worker(id: u64, node: &str, state: WorkerState) -> WorkerCell {
        let applied = DbPosition { era: 1, index: 1 };
        let (slot, since) = (id as u16, Timestamp(0));
        WorkerCell { id, slot, node: node.into(), incarnation: 1, since, applied, state }
    }

    /// Workers by node, of which the first one leads.
    fn view(workers: &[(&str, WorkerState)]) -> DatabaseView {
        let holder = HeadHolder { node: "a".into(), incarnation: 1, slot: 1, worker: 1, claim: 1 };
        let created = DbHead::created(1, 1, 1);
        let head = DbHead { state: HeadState::Led, holder: Some(holder), ..created };
        let cell =
            |(n, (node, state)): (usize, &(&str, WorkerState))| worker(n as u64 + 1, node, *state);
        let live = |(node, _): &(&str, WorkerState)| {
            (node.to_string(), LiveNode { incarnation: 1, address: format!("{node}:1") })
        };
        DatabaseView {
            head: Some(head),
            workers: workers.iter().enumerate().map(cell).collect(),
            nodes: workers.iter().map(live).collect(),
            ..DatabaseView::default()
        }
    }

    fn asked(loads: &NodeLoads, view: &DatabaseView, own: &str, draw: u64) -> Vec<String> {
        let found = loads.candidates(view, Some(own), draw);
        found.iter().map(|owner| format!("{}={}", owner.node, owner.address)).collect()
    }

    #[test]
    fn a_reader_of_another_node_is_asked_before_the_leader() {
        use WorkerState::{Fit, Loading, Unfit};
        let loads = NodeLoads::default();
        for (workers, own, expected) in [
            (&[("a", Fit), ("b", Fit)][..], "x", &["b=b:1", "a=a:1"][..]),
            (&[("a", Fit), ("b", Fit)], "a", &["b=b:1"]),
            (&[("a", Fit), ("b", Fit)], "b", &["a=a:1"]),
            (&[("a", Fit), ("b", Loading), ("c", Unfit)], "x", &["a=a:1"]),
            (&[("a", Fit), ("a", Fit), ("b", Fit)], "x", &["b=b:1", "a=a:1"]),
            (&[], "x", &[]),
        ] {
            assert_eq!(asked(&loads, &view(workers), own, 0), expected, "{workers:?} from {own}");
        }
    }

    #[test]
    fn the_less_loaded_of_two_readers_comes_first() {
        use WorkerState::Fit;
        let (loads, view) = (NodeLoads::default(), view(&[("a", Fit), ("b", Fit), ("c", Fit)]));
        let first = |loads: &NodeLoads| asked(loads, &view, "x", 0).remove(0);
        assert_eq!(first(&loads), "b=b:1");
        let under_way = loads.begin("b");
        assert_eq!(first(&loads), "c=c:1");
        drop(under_way);
        assert_eq!(first(&loads), "b=b:1");
    }

    #[test]
    fn two_of_many_are_never_the_same_and_each_has_its_turn() {
        let nodes = ["a", "b", "c", "d"];
        let mut drawn = std::collections::BTreeSet::new();
        for draw in 0..100u64 {
            let two = two_of(&nodes, draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_ne!(two[0], two[1]);
            drawn.extend(two);
        }
        assert_eq!(drawn.len(), 4);
    }
}
