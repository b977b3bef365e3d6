//! Rules that can be broken on purpose, one at a time, so that the simulator can prove that it notices.
//! Only with the feature `mutations`, which nothing but the simulator turns on.

/// A rule of the worker that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Commits do not expect the shard's mark.
    NoMarkCheck,
    /// A shard past the batch is applied again, and its mark set back.
    MarksMoveBackwards,
    /// The checkpoint is committed before the shards.
    CheckpointFirst,
    /// Frames that were read are not recognised by their digest.
    NoDigestCheck,
    /// Members that were shown are taken for known whatever became of their commits.
    MembersAlwaysKnown,
    /// The memory is kept although a commit failed.
    MemoryKept,
    /// Records that all shards have taken are planned again.
    TakenPlannedAgain,
    /// Cells of a slice are planned on, whatever the mark was when they were read.
    CellsOfAnyMark,
    /// A step is cut without asking the plan to finish it.
    StepUnfinished,
}
