//! Names in the model: worlds that differ only in them are one.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Program, World, Write};
use crate::decide::Before;
use crate::fence::Fence;
use crate::state::State;
use crate::step::Next;

/// The name of all attempts that have not won, where their names must not count.
const PENDING: usize = 1000;

pub(super) fn fence_of(n: usize) -> Fence {
    Fence { incarnation: 1, attempt: n as u64 }
}

impl Write {
    pub(super) fn fences(&mut self, each: &mut dyn FnMut(&mut Fence)) {
        each(&mut self.by);
        self.expect.iter_mut().for_each(|state| fences_of(state, each));
        if let Next::Put(state) = &mut self.next {
            fences_of(state, each);
        }
    }
}

impl Program {
    pub(super) fn fences(&mut self, each: &mut dyn FnMut(&mut Fence)) {
        match self {
            Program::Looking(before) => seen(before, each),
            Program::Winning(write, before) => {
                write.fences(each);
                seen(before, each);
            }
            Program::Unsure(fence, before) => {
                each(fence);
                seen(before, each);
            }
            Program::Working { fence, held, .. } => {
                each(fence);
                fences_of(held, each);
            }
            Program::Renewing { write, .. }
            | Program::Storing { write, .. }
            | Program::Leaving(write) => write.fences(each),
            Program::Rechecking { fence, .. } => each(fence),
            Program::Settling { next, fence, .. } => {
                each(fence);
                if let Next::Put(state) = next {
                    fences_of(state, each);
                }
            }
            Program::Idle | Program::Dead => {}
        }
    }
}

pub(super) fn seen(before: &mut Before, each: &mut dyn FnMut(&mut Fence)) {
    if let Before::Saw(Some(fence)) = before {
        each(fence);
    }
}

pub(super) fn fences_of(state: &mut State, each: &mut dyn FnMut(&mut Fence)) {
    match state {
        State::Computing(hold) => each(&mut hold.fence),
        State::Failed(failed) => each(&mut failed.fence),
        State::Ready(ready) => {
            each(&mut ready.generation);
            ready.refresh.iter_mut().for_each(|hold| each(&mut hold.fence));
        }
    }
}

impl World {
    /// Makes worlds equal that differ in names only. Nodes have none, so their order tells nothing. Of
    /// attempts only their order counts, and those that nothing speaks of any more are forgotten.
    pub(super) fn normalise(&mut self) {
        let shown = self.shown();
        let mut spoken = Vec::new();
        for node in &mut self.nodes {
            if let Program::Looking(before)
            | Program::Winning(_, before)
            | Program::Unsure(_, before) = &mut node.program
                && *before != Before::Nothing
                && *before != Before::Saw(shown)
            {
                // An outcome that is not there any more never comes back.
                *before = Before::Saw(None);
            }
            node.program.fences(&mut |fence| spoken.push(*fence));
        }
        self.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| spoken.push(*f)));
        self.limbo.iter_mut().for_each(|write| write.fences(&mut |f| spoken.push(*f)));
        self.won.retain(|fence| spoken.contains(fence));
        self.purged.retain(|fence| spoken.contains(fence));
        self.purged.sort_unstable();
        self.published.retain(|(fence, _)| spoken.contains(fence));
        self.published.sort_unstable();
        self.computed.retain(|fence| spoken.contains(fence));
        self.computed.sort_unstable();

        let won = self.won.clone();
        let rank = |fence: &Fence| won.iter().position(|won| won == fence);
        let masked = |fence: &Fence| fence_of(rank(fence).unwrap_or(PENDING));
        self.nodes.sort_by_cached_key(|node| {
            let mut node = node.clone();
            node.program.fences(&mut |fence| *fence = masked(fence));
            let mut hash = DefaultHasher::new();
            node.hash(&mut hash);
            hash.finish()
        });
        let mut names = won.clone();
        for node in &mut self.nodes {
            node.program.fences(&mut |fence| {
                if !names.contains(fence) {
                    names.push(*fence);
                }
            });
        }
        names.extend(spoken.into_iter().filter(|f| !won.contains(f)));
        let rename = |fence: &mut Fence| {
            if let Some(place) = names.iter().position(|name| name == fence) {
                *fence = fence_of(place);
            }
        };
        self.nodes.iter_mut().for_each(|node| node.program.fences(&mut |f| rename(f)));
        self.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| rename(f)));
        self.limbo.iter_mut().for_each(|write| write.fences(&mut |f| rename(f)));
        self.published.iter_mut().for_each(|(fence, _)| rename(fence));
        [&mut self.won, &mut self.purged, &mut self.computed]
            .into_iter()
            .for_each(|list| list.iter_mut().for_each(rename));
    }

    /// A fence that nothing speaks of.
    pub(super) fn new_fence(&self) -> Fence {
        let mut world = self.clone();
        let mut used = world.won.clone();
        world.nodes.iter_mut().for_each(|node| node.program.fences(&mut |f| used.push(*f)));
        world.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| used.push(*f)));
        world.limbo.iter_mut().for_each(|write| write.fences(&mut |f| used.push(*f)));
        let next = used.iter().map(|fence| fence.attempt + 1).max();
        Fence { incarnation: 1, attempt: next.unwrap_or(0) }
    }
}
