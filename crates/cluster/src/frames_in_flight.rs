//! How many frames of one node are on their way into the log at once, whatever their partitions.

/// The frames that a node has on their way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesInFlight {
    /// As many as there are partitions, each on its own: for a log that takes one frame as easily as many.
    Unbounded,
    /// As many as there are partitions, and all of them at once: for a log that writes whatever has come in one
    /// batch, so that no partition can be slower than the others.
    Joined,
    /// This many, in rounds that wait until most of those who were answered are back. A frame costs a broker much
    /// the same whether it holds one record or a hundred: with a frame in flight for each of many partitions, or one
    /// for each that comes first, frames stay nearly empty, and the broker is busy with frames.
    Few(usize),
}
