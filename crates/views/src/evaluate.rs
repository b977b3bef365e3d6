//! Evaluating a checked expression: no names are looked up, and no operand is of a wrong type.

use std::cmp::Ordering;

use crate::event::Event;
use crate::value::Value;

/// Why an expression has no value for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The number does not fit 64 bits.
    #[error("a number grew beyond 64 bits")]
    Overflow,
    /// Division by zero.
    #[error("a division by zero")]
    DivisionByZero,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Field(usize),
    Constant(Value),
    IsNull(usize),
    Not(Box<Node>),
    Negate(Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    Join(Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    In(Box<Node>, Vec<Value>),
    Size(Box<Node>),
    Find(Find, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    StartsWith,
    EndsWith,
    Contains,
}

type Evaluated = Result<Option<Value>, EvaluationError>;

/// Two operands, if neither is absent.
fn both(
    left: &Node,
    right: &Node,
    event: &Event,
) -> Result<Option<(Value, Value)>, EvaluationError> {
    Ok(left.evaluate(event)?.zip(right.evaluate(event)?))
}

impl Node {
    pub(crate) fn evaluate(&self, event: &Event) -> Evaluated {
        Ok(match self {
            Node::Field(at) => event.values.get(*at).cloned().flatten(),
            Node::Constant(value) => Some(value.clone()),
            Node::IsNull(at) => {
                Some(Value::Bool(event.values.get(*at).is_none_or(Option::is_none)))
            }
            Node::Not(of) => of.truth(event)?.map(|truth| Value::Bool(!truth)),
            Node::Negate(of) => of.evaluate(event)?.map(negated).transpose()?,
            Node::Arithmetic(arithmetic, left, right) => both(left, right, event)?
                .map(|(left, right)| calculated(*arithmetic, &left, &right))
                .transpose()?,
            Node::Join(left, right) => match both(left, right, event)? {
                Some((Value::Text(left), Value::Text(right))) => {
                    Some(Value::Text(left + right.as_str()))
                }
                _ => None,
            },
            Node::Compare(comparison, left, right) => both(left, right, event)?
                .map(|(left, right)| Value::Bool(comparison.holds(left.cmp(&right)))),
            Node::And(left, right) => decided(false, left.truth(event), || right.truth(event))?,
            Node::Or(left, right) => decided(true, left.truth(event), || right.truth(event))?,
            Node::If(condition, then, otherwise) => match condition.truth(event)? {
                Some(true) => then.evaluate(event)?,
                Some(false) => otherwise.evaluate(event)?,
                None => None,
            },
            Node::In(needle, values) => {
                needle.evaluate(event)?.map(|value| Value::Bool(values.contains(&value)))
            }
            Node::Size(of) => match of.evaluate(event)? {
                Some(Value::Text(text)) => Some(Value::Int(text.chars().count() as i64)),
                _ => None,
            },
            Node::Find(find, text, part) => match both(text, part, event)? {
                Some((Value::Text(text), Value::Text(part))) => {
                    Some(Value::Bool(find.finds(&text, &part)))
                }
                _ => None,
            },
        })
    }

    fn truth(&self, event: &Event) -> Result<Option<bool>, EvaluationError> {
        Ok(match self.evaluate(event)? {
            Some(Value::Bool(truth)) => Some(truth),
            _ => None,
        })
    }
}

/// Both sides of `&&`, which `false` decides, or of `||`, which `true` does: whatever the other side is, be
/// it absent or without a value, so that `n != 0 && 10 / n > 2` does what it says.
fn decided(
    deciding: bool,
    left: Result<Option<bool>, EvaluationError>,
    right: impl FnOnce() -> Result<Option<bool>, EvaluationError>,
) -> Evaluated {
    let decides = |side: &Result<Option<bool>, _>| *side == Ok(Some(deciding));
    if decides(&left) {
        return Ok(Some(Value::Bool(deciding)));
    }
    let right = right();
    if decides(&right) {
        return Ok(Some(Value::Bool(deciding)));
    }
    Ok(left?.and(right?).map(Value::Bool))
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Find {
    fn finds(self, text: &str, part: &str) -> bool {
        match self {
            Find::StartsWith => text.starts_with(part),
            Find::EndsWith => text.ends_with(part),
            Find::Contains => text.contains(part),
        }
    }
}

fn negated(value: Value) -> Result<Value, EvaluationError> {
    let negate = |number: i64| number.checked_neg().ok_or(EvaluationError::Overflow);
    Ok(match value {
        Value::Int(number) => Value::Int(negate(number)?),
        Value::Decimal(number) => Value::Decimal(negate(number)?),
        other => other,
    })
}

fn calculated(
    arithmetic: Arithmetic,
    left: &Value,
    right: &Value,
) -> Result<Value, EvaluationError> {
    let (a, b, decimal) = match (left, right) {
        (Value::Int(a), Value::Int(b)) => (*a, *b, false),
        (Value::Int(a) | Value::Decimal(a), Value::Int(b) | Value::Decimal(b)) => (*a, *b, true),
        _ => return Ok(left.clone()),
    };
    let result = match arithmetic {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => {
            return Err(EvaluationError::DivisionByZero);
        }
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo => a.checked_rem(b),
    };
    let number = result.ok_or(EvaluationError::Overflow)?;
    Ok(if decimal { Value::Decimal(number) } else { Value::Int(number) })
}
