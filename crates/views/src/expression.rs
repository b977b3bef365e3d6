//! Expressions over the fields of an event: parsed as CEL, checked against the stream's fields when the
//! config is read, and evaluated without looking anything up by name.
//!
//! An expression over an absent field is absent, as the whole is then unknown; only `field == null` and
//! `field != null` ask for absence itself.

use cel::Program;
use cel::common::ast::{CallExpr, Expr as Ast, IdedExpr, LiteralValue, operators};

pub use crate::evaluate::EvaluationError;
use crate::evaluate::{Arithmetic, Comparison, Find, Node};
use crate::event::Event;
use crate::schema::Schema;
use crate::value::{Kind, Value};

/// How deep an expression may be nested: beyond it a config is refused, not a stack overflown.
const DEPTH_MOST: usize = 64;

/// A checked expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    typed: Typed,
}

/// A node with what is known of its values.
#[derive(Clone, Debug, PartialEq)]
struct Typed {
    node: Node,
    kind: Kind,
    optional: bool,
}

/// Why a text is no expression over these fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Not CEL.
    #[error("'{text}' is no expression: {reason}")]
    Syntax {
        /// What was written.
        text: String,
        /// What the parser says.
        reason: String,
    },
    /// A field that the stream does not have.
    #[error("unknown field '{name}'; there are {known}")]
    UnknownField {
        /// The name.
        name: String,
        /// Those there are, for a sentence.
        known: String,
    },
    /// Operands that do not go together.
    #[error("{operator} cannot be applied to {operands}")]
    Operands {
        /// The operator or function.
        operator: String,
        /// What it was given.
        operands: String,
    },
    /// Something of CEL that is not taken here.
    #[error(
        "{0} cannot be used here: there are + - * / %, comparisons, && || !, ?:, in [..], size(), \
         startsWith(), endsWith(), contains(), and == null"
    )]
    NotTaken(String),
    /// Nested too deeply.
    #[error("the expression is nested more than {DEPTH_MOST} deep")]
    TooDeep,
}

impl Expression {
    /// Reads `text` as an expression over the fields of `schema`.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ExpressionError> {
        let text = text.trim();
        // The common case needs no parser.
        let typed = match schema.resolve(text) {
            Some(at) => Typed::field(schema, at),
            None => {
                let program = Program::compile(text).map_err(|errors| syntax(text, &errors))?;
                Checker { schema }.check(program.expression(), 0)?
            }
        };
        Ok(Expression { text: text.into(), typed })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its values are.
    pub fn kind(&self) -> Kind {
        self.typed.kind
    }

    /// Whether it may be absent.
    pub fn is_optional(&self) -> bool {
        self.typed.optional
    }

    /// The field that it is, if it is just that.
    pub fn as_field(&self) -> Option<usize> {
        match self.typed.node {
            Node::Field(at) => Some(at),
            _ => None,
        }
    }

    /// Its value for an event; none if a field it needs is absent.
    pub fn evaluate(&self, event: &Event) -> Result<Option<Value>, EvaluationError> {
        self.typed.node.evaluate(event)
    }

    /// Whether it is true for an event. A condition on an absent field is not.
    pub fn holds(&self, event: &Event) -> Result<bool, EvaluationError> {
        Ok(self.evaluate(event)? == Some(Value::Bool(true)))
    }
}

impl Typed {
    fn field(schema: &Schema, at: usize) -> Self {
        let ty = &schema.fields()[at].ty;
        Typed { node: Node::Field(at), kind: ty.kind, optional: ty.optional }
    }
}

fn syntax(text: &str, errors: &cel::ParseErrors) -> ExpressionError {
    let reason = errors.errors.first().map_or_else(String::new, |error| error.msg.clone());
    ExpressionError::Syntax { text: text.into(), reason }
}

struct Checker<'a> {
    schema: &'a Schema,
}

impl Checker<'_> {
    fn check(&self, ast: &IdedExpr, depth: usize) -> Result<Typed, ExpressionError> {
        if depth > DEPTH_MOST {
            return Err(ExpressionError::TooDeep);
        }
        match &ast.expr {
            Ast::Ident(name) => match self.schema.resolve(name) {
                Some(at) => Ok(Typed::field(self.schema, at)),
                None => Err(ExpressionError::UnknownField {
                    name: name.clone(),
                    known: self.schema.known().to_string(),
                }),
            },
            Ast::Literal(literal) => {
                let value = constant(literal)?;
                let kind = kind_of(&value);
                Ok(Typed { node: Node::Constant(value), kind, optional: false })
            }
            Ast::Call(call) => self.call(call, depth + 1),
            Ast::List(_) => Err(ExpressionError::NotTaken("a list".into())),
            Ast::Map(_) => Err(ExpressionError::NotTaken("a map".into())),
            Ast::Select(select) => Err(ExpressionError::NotTaken(format!("'.{}'", select.field))),
            Ast::Comprehension(_) => Err(ExpressionError::NotTaken("a comprehension".into())),
            Ast::Struct(_) | Ast::Unspecified => {
                Err(ExpressionError::NotTaken("this construct".into()))
            }
        }
    }

    fn call(&self, call: &CallExpr, depth: usize) -> Result<Typed, ExpressionError> {
        let name = call.func_name.as_str();
        if let Some(asked) = self.null_test(name, &call.args)? {
            return Ok(asked);
        }
        if name == operators::IN
            && let [needle, list] = &call.args[..]
        {
            return self.member(needle, list, depth);
        }
        let operands = call.target.iter().map(|target| &**target).chain(&call.args);
        let operands: Vec<Typed> =
            operands.map(|operand| self.check(operand, depth)).collect::<Result<_, _>>()?;
        build(name, operands)
    }

    /// `field == null` and `field != null`.
    fn null_test(&self, name: &str, args: &[IdedExpr]) -> Result<Option<Typed>, ExpressionError> {
        let is_null = |ast: &IdedExpr| ast.expr == Ast::Literal(LiteralValue::Null);
        let [left, right] = args else { return Ok(None) };
        let other = match (is_null(left), is_null(right)) {
            (true, _) => right,
            (_, true) => left,
            _ => return Ok(None),
        };
        let Node::Field(at) = self.check(other, 0)?.node else {
            return Err(ExpressionError::NotTaken("null, except beside a field,".into()));
        };
        let is = Node::IsNull(at);
        let node = match name {
            operators::EQUALS => is,
            operators::NOT_EQUALS => Node::Not(Box::new(is)),
            _ => return Err(ExpressionError::NotTaken("null, except with == and !=,".into())),
        };
        Ok(Some(Typed { node, kind: Kind::Bool, optional: false }))
    }

    fn member(
        &self,
        needle: &IdedExpr,
        list: &IdedExpr,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        let needle = self.check(needle, depth)?;
        let Ast::List(list) = &list.expr else {
            return Err(ExpressionError::NotTaken("'in' without a list of constants".into()));
        };
        let mut values = Vec::new();
        for element in &list.elements {
            let element = self.check(element, depth)?;
            match element.node {
                Node::Constant(value) if element.kind == needle.kind => values.push(value),
                Node::Constant(_) => {
                    return Err(operands("in", &[needle.kind, element.kind]));
                }
                _ => return Err(ExpressionError::NotTaken("a list of more than constants".into())),
            }
        }
        let optional = needle.optional;
        let node = Node::In(Box::new(needle.node), values);
        Ok(Typed { node, kind: Kind::Bool, optional })
    }
}

fn constant(literal: &LiteralValue) -> Result<Value, ExpressionError> {
    match literal {
        LiteralValue::Boolean(value) => Ok(Value::Bool(*value.inner())),
        LiteralValue::Int(number) => Ok(Value::Int(*number.inner())),
        LiteralValue::String(text) => Ok(Value::Text(text.inner().into())),
        LiteralValue::Double(_) => Err(ExpressionError::NotTaken("a number with a point".into())),
        LiteralValue::UInt(_) => Err(ExpressionError::NotTaken("an unsigned number".into())),
        LiteralValue::Bytes(_) => Err(ExpressionError::NotTaken("a literal of bytes".into())),
        LiteralValue::Null => Err(ExpressionError::NotTaken("null, except beside a field,".into())),
    }
}

fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Bool,
        Value::Int(_) => Kind::Int,
        Value::Decimal(_) => Kind::Decimal(0),
        Value::Text(_) => Kind::Text,
    }
}

fn operands(operator: &str, kinds: &[Kind]) -> ExpressionError {
    // The parser calls them `_+_`, `!_`, `_?_:_`.
    let operator = operator.replace('_', "").replace("@in", "in");
    let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
    ExpressionError::Operands { operator: format!("'{operator}'"), operands: kinds.join(" and ") }
}

/// The expression that `name` makes of its operands.
fn build(name: &str, given: Vec<Typed>) -> Result<Typed, ExpressionError> {
    let kinds: Vec<Kind> = given.iter().map(|operand| operand.kind).collect();
    let optional = given.iter().any(|operand| operand.optional);
    let wrong = || operands(name, &kinds);
    let mut nodes = given.into_iter().map(|operand| Box::new(operand.node));
    let mut next = || nodes.next().ok_or_else(wrong);
    let (node, kind) = match (name, &kinds[..]) {
        (operators::LOGICAL_NOT, [Kind::Bool]) => (Node::Not(next()?), Kind::Bool),
        (operators::NEGATE, [kind @ (Kind::Int | Kind::Decimal(_))]) => {
            (Node::Negate(next()?), *kind)
        }
        (operators::ADD, [Kind::Text, Kind::Text]) => (Node::Join(next()?, next()?), Kind::Text),
        (operators::LOGICAL_AND, [Kind::Bool, Kind::Bool]) => {
            (Node::And(next()?, next()?), Kind::Bool)
        }
        (operators::LOGICAL_OR, [Kind::Bool, Kind::Bool]) => {
            (Node::Or(next()?, next()?), Kind::Bool)
        }
        (operators::CONDITIONAL, [Kind::Bool, then, otherwise]) if then == otherwise => {
            (Node::If(next()?, next()?, next()?), *then)
        }
        ("size", [Kind::Text]) => (Node::Size(next()?), Kind::Int),
        (_, [left, right]) => {
            if let Some(find) = find_named(name)
                && (*left, *right) == (Kind::Text, Kind::Text)
            {
                (Node::Find(find, next()?, next()?), Kind::Bool)
            } else if let Some(comparison) = comparison_named(name)
                && left == right
            {
                (Node::Compare(comparison, next()?, next()?), Kind::Bool)
            } else if let Some(arithmetic) = arithmetic_named(name) {
                let kind = arithmetic_kind(arithmetic, *left, *right).ok_or_else(wrong)?;
                (Node::Arithmetic(arithmetic, next()?, next()?), kind)
            } else {
                return Err(unknown(name, wrong()));
            }
        }
        _ => return Err(unknown(name, wrong())),
    };
    Ok(Typed { node, kind, optional })
}

/// Operators that exist were given the wrong operands; anything else does not exist here.
fn unknown(name: &str, wrong: ExpressionError) -> ExpressionError {
    let exists = name.contains('_')
        || ["size"].contains(&name)
        || find_named(name).is_some()
        || comparison_named(name).is_some();
    if exists { wrong } else { ExpressionError::NotTaken(format!("{name}()")) }
}

fn find_named(name: &str) -> Option<Find> {
    match name {
        "startsWith" => Some(Find::StartsWith),
        "endsWith" => Some(Find::EndsWith),
        "contains" => Some(Find::Contains),
        _ => None,
    }
}

fn comparison_named(name: &str) -> Option<Comparison> {
    match name {
        operators::EQUALS => Some(Comparison::Equal),
        operators::NOT_EQUALS => Some(Comparison::NotEqual),
        operators::LESS => Some(Comparison::Less),
        operators::LESS_EQUALS => Some(Comparison::LessOrEqual),
        operators::GREATER => Some(Comparison::Greater),
        operators::GREATER_EQUALS => Some(Comparison::GreaterOrEqual),
        _ => None,
    }
}

fn arithmetic_named(name: &str) -> Option<Arithmetic> {
    match name {
        operators::ADD => Some(Arithmetic::Add),
        operators::SUBSTRACT => Some(Arithmetic::Subtract),
        operators::MULTIPLY => Some(Arithmetic::Multiply),
        operators::DIVIDE => Some(Arithmetic::Divide),
        operators::MODULO => Some(Arithmetic::Modulo),
        _ => None,
    }
}

/// Whole numbers with each other; decimals of one scale are added; a decimal is multiplied by a whole
/// number. Everything else would have to round.
fn arithmetic_kind(arithmetic: Arithmetic, left: Kind, right: Kind) -> Option<Kind> {
    use Arithmetic::{Add, Multiply, Subtract};
    match (arithmetic, left, right) {
        (_, Kind::Int, Kind::Int) => Some(Kind::Int),
        (Add | Subtract, Kind::Decimal(a), Kind::Decimal(b)) if a == b => Some(left),
        (Multiply, Kind::Decimal(_), Kind::Int) => Some(left),
        (Multiply, Kind::Int, Kind::Decimal(_)) => Some(right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Unknown};

    fn schema() -> Schema {
        let fields = [
            ("lift", "int"),
            ("time", "int"),
            ("name", "text"),
            ("vip", "bool"),
            ("wait", "int?"),
            ("paid", "decimal(2)"),
        ];
        let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
        Schema::new(fields.map(field).into(), Unknown::Reject)
    }

    fn event() -> Event {
        let json = r#"{"lift":7,"time":125,"name":"Ann","vip":true,"paid":"1.50"}"#;
        schema().take(json.as_bytes()).unwrap()
    }

    #[test]
    fn expressions_have_the_values_that_they_say() {
        let int = |number| Ok(Some(Value::Int(number)));
        let truth = |truth| Ok(Some(Value::Bool(truth)));
        let cases = [
            ("lift", int(7)),
            ("lift * 10", int(70)),
            ("time / 60", int(2)),
            ("time % 60 - 6", int(-1)),
            ("-lift", int(-7)),
            ("vip ? lift : 0", int(7)),
            ("size(name) + 1", int(4)),
            ("lift > 5 && name == 'Ann'", truth(true)),
            ("lift in [1, 2, 3]", truth(false)),
            ("name in ['Ann']", truth(true)),
            ("!vip || lift != 7", truth(false)),
            ("name.startsWith('A')", truth(true)),
            ("name.contains('x') || name.endsWith('n')", truth(true)),
            ("name + '!'", Ok(Some(Value::Text("Ann!".into())))),
            ("paid * 3", Ok(Some(Value::Decimal(450)))),
            ("paid + paid", Ok(Some(Value::Decimal(300)))),
            ("wait + 1", Ok(None)),
            ("wait > 1", Ok(None)),
            ("wait == null", truth(true)),
            ("wait != null && wait > 1", truth(false)),
            ("vip || wait > 1", truth(true)),
            ("lift / (lift - 7)", Err(EvaluationError::DivisionByZero)),
            ("lift != 7 && 10 / (lift - 7) > 2", truth(false)),
            ("lift == 7 || 10 / (lift - 7) > 2", truth(true)),
            ("10 / (lift - 7) > 2 || vip", truth(true)),
            ("lift == 7 && 10 / (lift - 7) > 2", Err(EvaluationError::DivisionByZero)),
            ("9223372036854775807 + lift", Err(EvaluationError::Overflow)),
        ];
        for (text, expected) in cases {
            let expression = Expression::parse(text, &schema()).unwrap();
            assert_eq!(expression.evaluate(&event()), expected, "{text}");
            if let Ok(Some(value)) = &expected {
                assert_eq!(expression.kind(), kind_of_shown(value), "{text}");
            }
        }
    }

    fn kind_of_shown(value: &Value) -> Kind {
        match value {
            Value::Decimal(_) => Kind::Decimal(2),
            other => kind_of(other),
        }
    }

    #[test]
    fn mistakes_are_told_when_the_expression_is_read() {
        let cases = [
            ("lfit * 10", "unknown field 'lfit'; there are 'lift', 'time'"),
            ("lift * name", "'*' cannot be applied to int and text"),
            ("lift && vip", "'&&' cannot be applied to int and bool"),
            ("!lift", "'!' cannot be applied to int"),
            ("vip ? lift : name", "'?:' cannot be applied to bool and int and text"),
            ("paid * paid", "'*' cannot be applied to decimal(2) and decimal(2)"),
            ("lift == name", "'==' cannot be applied to int and text"),
            ("lift in ['x']", "'in' cannot be applied to int and text"),
            ("size(lift)", "'size' cannot be applied to int"),
            ("lift +", "'lift +' is no expression"),
            ("", "'' is no expression"),
            ("[lift]", "a list cannot be used here"),
            ("name.matches('x')", "matches() cannot be used here"),
            ("lift * 1.5", "a number with a point cannot be used here"),
            ("lift.x", "'.x' cannot be used here"),
            ("null", "null, except beside a field, cannot be used here"),
        ];
        for (text, expected) in cases {
            let error = Expression::parse(text, &schema()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let deep = format!("{}lift{}", "-(".repeat(70), ")".repeat(70));
        assert_eq!(Expression::parse(&deep, &schema()), Err(ExpressionError::TooDeep));
    }

    #[test]
    fn plain_fields_take_the_fast_path() {
        assert_eq!(Expression::parse(" time ", &schema()).unwrap().as_field(), Some(1));
        assert_eq!(Expression::parse("time + 0", &schema()).unwrap().as_field(), None);
    }
}
