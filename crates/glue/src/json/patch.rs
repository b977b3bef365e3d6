//! Applies the operations of a JSON patch, RFC 6902.
//!
//! Each operation is checked against the bounds before it changes the tree, and leaves what it takes to undo it. Sizes
//! are counted for what an operation adds and takes away, never for the whole tree.
//!
//! Only work that an operation can cause over and over with a few bytes is counted: copies and moves, and the elements
//! that make room. All other work is bounded by the sizes of the piece and of the document.

use std::mem;

use json_patch::PatchOperation;
use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

use super::equal::equal;
use super::measure::{Measure, name_size, size};
use super::shown;
use super::tree::{Slot, find, missing, slot};
use super::undo::{Undo, put_back};
use crate::bounds::{MAX_DEPTH, MAX_MOVES, MAX_VISITS};
use crate::{Reason, Rejection};

/// Applies all operations to a value of this size and returns the new size, or undoes those that were applied.
pub(super) fn patch(
    root: &mut Value,
    root_size: usize,
    operations: Vec<PatchOperation>,
    max_document: usize,
) -> Result<usize, Rejection> {
    let mut patching = Patching {
        root,
        budget: Budget {
            size: root_size,
            // A collection's bound may have been lowered. Its larger documents can then shrink in steps.
            max_size: max_document.max(root_size),
            visits: 0,
            moves: 0,
        },
        undo: Vec::with_capacity(operations.len()),
    };
    let applied = patching.apply_all(operations).and_then(|size| {
        if size > max_document {
            return Err(too_large(size, max_document));
        }
        Ok(size)
    });
    if applied.is_err() {
        patching.undo();
    }
    applied
}

/// A patch under way.
struct Patching<'r> {
    root: &'r mut Value,
    budget: Budget,
    undo: Vec<Undo>,
}

impl Patching<'_> {
    fn apply_all(&mut self, operations: Vec<PatchOperation>) -> Result<usize, Rejection> {
        for (index, operation) in operations.into_iter().enumerate() {
            let (name, applied) = self.apply(operation);
            applied.map_err(|Rejection { reason, detail }| {
                let detail = format!("operation {index} ({name}), counted from 0: {detail}");
                Rejection { reason, detail }
            })?;
        }
        Ok(self.budget.size)
    }

    fn apply(&mut self, operation: PatchOperation) -> (&'static str, Result<(), Rejection>) {
        match operation {
            PatchOperation::Add(add) => ("add", self.add(add.path, add.value)),
            PatchOperation::Remove(remove) => ("remove", self.remove(remove.path)),
            PatchOperation::Replace(replace) => {
                ("replace", self.replace(replace.path, replace.value))
            }
            PatchOperation::Move(moving) => ("move", self.move_value(moving.from, moving.path)),
            PatchOperation::Copy(copy) => ("copy", self.copy(&copy.from, copy.path)),
            PatchOperation::Test(test) => ("test", self.test(&test.path, &test.value)),
        }
    }

    fn undo(&mut self) {
        while let Some(entry) = self.undo.pop() {
            entry.revert(self.root);
        }
    }

    fn add(&mut self, path: PointerBuf, mut value: Value) -> Result<(), Rejection> {
        let measure = Measure::new(&value);
        let replaced = self.put(&path, &mut value, measure)?;
        self.undo.push(Undo::Put { path, replaced });
        Ok(())
    }

    fn remove(&mut self, path: PointerBuf) -> Result<(), Rejection> {
        let (value, _) = self.take(&path)?;
        self.undo.push(Undo::Removed { path, value });
        Ok(())
    }

    fn replace(&mut self, path: PointerBuf, value: Value) -> Result<(), Rejection> {
        let measure = Measure::new(&value);
        let old = match slot(self.root, &path) {
            Some(Slot::Root(root)) => Some(root),
            Some(Slot::Member(members, name)) => members.get_mut(name.as_ref()),
            Some(Slot::Element(elements, index)) => match index.for_len(elements.len()) {
                Ok(index) => elements.get_mut(index),
                Err(_) => None,
            },
            None => None,
        };
        let Some(old) = old else { return Err(missing(self.root, &path)) };
        check_depth(&path, measure)?;
        let old_size = if path.is_root() { self.budget.size } else { size(old) };
        self.budget.resize(old_size, measure.size)?;
        let replaced = Some(mem::replace(old, value));
        self.undo.push(Undo::Put { path, replaced });
        Ok(())
    }

    /// A move is a removal and an addition (RFC 6902, section 4.4): the target is looked for in the tree without the
    /// source, where the elements behind the source have other indices. If there is no such target, or a bound is
    /// reached, the source goes back at once.
    fn move_value(&mut self, from: PointerBuf, path: PointerBuf) -> Result<(), Rejection> {
        if from == path {
            return match find(self.root, &from) {
                Some(_) => Ok(()),
                None => Err(missing(self.root, &from)),
            };
        }
        if path.starts_with(&from) {
            let (from, path) = (shown(from.as_str()), shown(path.as_str()));
            let detail = format!("the target \"{path}\" is inside of the source \"{from}\"");
            return Err(Rejection::new(Reason::MOVE_INTO_ITSELF, detail));
        }
        let (mut value, measure) = self.take(&from)?;
        let visited = self.budget.visit(measure.cost);
        match visited.and_then(|()| self.put(&path, &mut value, measure)) {
            Ok(replaced) => self.undo.push(Undo::Moved { from, path, replaced }),
            Err(rejection) => {
                put_back(self.root, &from, value);
                return Err(rejection);
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Pointer, path: PointerBuf) -> Result<(), Rejection> {
        let Some(source) = find(self.root, from) else { return Err(missing(self.root, from)) };
        let measure = Measure::new(source);
        self.budget.visit(measure.cost)?;
        let mut value = source.clone();
        let replaced = self.put(&path, &mut value, measure)?;
        self.undo.push(Undo::Put { path, replaced });
        Ok(())
    }

    fn test(&self, path: &Pointer, expected: &Value) -> Result<(), Rejection> {
        match find(self.root, path) {
            Some(value) if equal(value, expected) => Ok(()),
            Some(_) => {
                let place = shown(path.as_str());
                let detail = format!("the value at \"{place}\" is another than expected");
                Err(Rejection::new(Reason::TEST_FAILED, detail))
            }
            None => Err(missing(self.root, path)),
        }
    }

    /// Moves the value to the path as `add` does, and returns the one that it replaced. A value that cannot stand there
    /// stays with the caller.
    fn put(
        &mut self,
        path: &Pointer,
        value: &mut Value,
        measure: Measure,
    ) -> Result<Option<Value>, Rejection> {
        let Some(slot) = slot(self.root, path) else { return Err(missing(self.root, path)) };
        check_depth(path, measure)?;
        match slot {
            Slot::Root(root) => {
                self.budget.resize(self.budget.size, measure.size)?;
                Ok(Some(mem::replace(root, value.take())))
            }
            Slot::Member(members, name) => {
                if let Some(old) = members.get_mut(name.as_ref()) {
                    self.budget.resize(size(old), measure.size)?;
                    return Ok(Some(mem::replace(old, value.take())));
                }
                let comma = usize::from(!members.is_empty());
                self.budget.resize(0, name_size(&name) + measure.size + comma)?;
                members.insert(name.into_owned(), value.take());
                Ok(None)
            }
            Slot::Element(elements, index) => {
                let Ok(index) = index.for_len_incl(elements.len()) else {
                    return Err(missing(self.root, path));
                };
                let comma = usize::from(!elements.is_empty());
                self.budget.move_elements(elements.len() - index)?;
                self.budget.resize(0, measure.size + comma)?;
                elements.insert(index, value.take());
                Ok(None)
            }
        }
    }

    /// Takes the value at the path out of the tree.
    fn take(&mut self, path: &Pointer) -> Result<(Value, Measure), Rejection> {
        let (taken, name, comma) = match slot(self.root, path) {
            Some(Slot::Member(members, name)) => {
                let taken = members.remove(name.as_ref());
                (taken, name_size(&name), usize::from(!members.is_empty()))
            }
            Some(Slot::Element(elements, index)) => {
                let taken = match index.for_len(elements.len()) {
                    Ok(index) => {
                        self.budget.move_elements(elements.len() - index - 1)?;
                        Some(elements.remove(index))
                    }
                    Err(_) => None,
                };
                (taken, 0, usize::from(!elements.is_empty()))
            }
            Some(Slot::Root(_)) => {
                let detail = "a patch cannot remove the whole document: send a delete";
                return Err(Rejection::new(Reason::MISSING_PATH, detail));
            }
            None => (None, 0, 0),
        };
        let Some(taken) = taken else { return Err(missing(self.root, path)) };
        let measure = Measure::new(&taken);
        self.budget.size -= name + measure.size + comma;
        Ok((taken, measure))
    }
}

/// What a patch has used of its bounds.
struct Budget {
    /// The size of the document.
    size: usize,
    max_size: usize,
    visits: usize,
    moves: usize,
}

impl Budget {
    /// Counts bytes that are taken away and bytes that are added.
    fn resize(&mut self, removed: usize, added: usize) -> Result<(), Rejection> {
        let size = self.size - removed + added;
        if size > self.max_size {
            return Err(too_large(size, self.max_size));
        }
        self.size = size;
        Ok(())
    }

    fn visit(&mut self, nodes: usize) -> Result<(), Rejection> {
        self.visits += nodes;
        if self.visits > MAX_VISITS {
            return Err(Rejection::new(
                Reason::TOO_COSTLY,
                format!("copies and moves of the patch visit more than {MAX_VISITS} nodes"),
            ));
        }
        Ok(())
    }

    fn move_elements(&mut self, count: usize) -> Result<(), Rejection> {
        self.moves += count;
        if self.moves > MAX_MOVES {
            return Err(Rejection::new(
                Reason::TOO_COSTLY,
                format!("the patch moves more than {MAX_MOVES} array elements aside"),
            ));
        }
        Ok(())
    }
}

fn check_depth(path: &Pointer, measure: Measure) -> Result<(), Rejection> {
    if path.count() + measure.depth > MAX_DEPTH {
        let place = shown(path.as_str());
        return Err(Rejection::new(
            Reason::TOO_DEEP,
            format!("with the value at \"{place}\" the document has more than {MAX_DEPTH} levels"),
        ));
    }
    Ok(())
}

fn too_large(size: usize, max_size: usize) -> Rejection {
    Rejection::new(
        Reason::TOO_LARGE,
        format!("the document would have {size} bytes, at most {max_size} are allowed"),
    )
}
