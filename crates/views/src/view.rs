//! A view: what is kept of a stream's events, and for which groups.

use std::sync::Arc;

use consort_kernel::{Kind as CellKind, Name};

use crate::expression::Expression;
use crate::route::Route;
use crate::stream::Stream;
use crate::value::Kind;
use crate::window::Windows;

/// A declared view.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: Name,
    /// The number that its keys begin with, which is shorter than its name. The cluster gives it when the
    /// view is first defined: see [`Definitions::agree`](crate::Definitions::agree).
    pub number: u64,
    /// The stream that it is kept of.
    pub from: Arc<Stream>,
    /// What tells its groups apart, in the order of its keys.
    pub by: Vec<GroupField>,
    /// What is kept of each group.
    pub aggregate: Aggregate,
    /// Which events count.
    pub condition: Option<Expression>,
    /// The windows of event time that its groups are kept for; without them, a group is kept for good.
    pub windows: Option<Windows>,
    /// Where the rows of its windows are delivered to.
    pub sinks: Vec<String>,
    /// Where it is asked, beside `/views/{view}`.
    pub routes: Vec<Route>,
    /// The shape of its answers on those routes.
    pub answer: Option<Answer>,
}

/// One part of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupField {
    /// How it is called in queries and answers.
    pub name: String,
    /// What it is.
    pub expression: Expression,
}

/// What is kept of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregate {
    /// How many events there were.
    Count,
    /// The sum of a number.
    Sum(Expression),
    /// The smallest value.
    Min(Expression),
    /// The largest value.
    Max(Expression),
    /// The value of the latest event.
    Last(Expression),
    /// How many different values, or tuples of values, there were.
    Distinct(Vec<Expression>),
    /// The different values themselves.
    Set(Expression),
    /// About how many different values there were, in bounded memory.
    DistinctApprox(Vec<Expression>),
}

/// The shape of an answer on a view's own route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Just the value.
    Bare,
    /// An object: each name with the value, or with a field of the group.
    Object(Vec<(String, Shown)>),
}

/// What a name in an answer's shape stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The value.
    Value,
    /// A field of the group, by its place in `by`.
    Group(usize),
}

impl Aggregate {
    /// All of them as a config names them.
    pub const NAMES: [&str; 8] =
        ["count", "sum", "min", "max", "last", "distinct", "set", "distinct_approx"];

    /// As a config names it.
    pub fn name(&self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum(_) => "sum",
            Aggregate::Min(_) => "min",
            Aggregate::Max(_) => "max",
            Aggregate::Last(_) => "last",
            Aggregate::Distinct(_) => "distinct",
            Aggregate::Set(_) => "set",
            Aggregate::DistinctApprox(_) => "distinct_approx",
        }
    }

    /// What is aggregated.
    pub fn expressions(&self) -> &[Expression] {
        match self {
            Aggregate::Count => &[],
            Aggregate::Sum(one)
            | Aggregate::Min(one)
            | Aggregate::Max(one)
            | Aggregate::Last(one)
            | Aggregate::Set(one) => std::slice::from_ref(one),
            Aggregate::Distinct(all) | Aggregate::DistinctApprox(all) => all,
        }
    }

    /// The kind of its values, or of a set's members.
    pub fn kind(&self) -> Kind {
        match self {
            Aggregate::Count | Aggregate::Distinct(_) | Aggregate::DistinctApprox(_) => Kind::Int,
            Aggregate::Sum(one)
            | Aggregate::Min(one)
            | Aggregate::Max(one)
            | Aggregate::Last(one)
            | Aggregate::Set(one) => one.kind(),
        }
    }

    /// The cells it is kept in.
    pub(crate) fn cells(&self) -> CellKind {
        match self {
            Aggregate::Count | Aggregate::Sum(_) => CellKind::Counter,
            Aggregate::Min(_) => CellKind::Min,
            Aggregate::Max(_) => CellKind::Max,
            Aggregate::Last(_) => CellKind::Last,
            Aggregate::Distinct(_) => CellKind::Distinct,
            Aggregate::Set(_) => CellKind::Set,
            Aggregate::DistinctApprox(_) => CellKind::Sketch,
        }
    }
}

impl View {
    /// The kinds of its group fields.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.by.iter().map(|field| field.expression.kind())
    }
}
