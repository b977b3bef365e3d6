//! The selectors of RFC 5261, a part of XPath 1.0, as steps.
//!
//! An element name without prefix is in the default namespace of the *patch* (§4.2.2), which XPath 1.0 cannot express.

use super::names::{self, Binding, QualifiedName};
use crate::bounds::MAX_DEPTH;
use crate::{Reason, Rejection};
use std::ops::Range;

/// The most steps of a selector: one for each level of a document, and one for an attribute.
const MAX_STEPS: usize = MAX_DEPTH + 1;
/// The most conditions of a selector: each has a name to resolve, and no selector of use has so many.
const MAX_CONDITIONS: usize = 100;

/// A way from the document to one node.
#[derive(Debug)]
pub(super) struct Selector {
    text: Box<str>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// Whether it begins with `//`: at any depth.
    pub(super) is_deep: bool,
    pub(super) test: NodeTest,
    pub(super) conditions: Vec<Condition>,
    source: Range<usize>,
}

/// The nodes that a step looks at.
#[derive(Debug)]
pub(super) enum NodeTest {
    AnyElement,
    Element(QualifiedName),
    Attribute(QualifiedName),
    /// The declaration of a prefix.
    Namespace(Box<str>),
    Text,
    Comment,
    /// Instructions, with this target if there is one.
    Instruction(Option<Box<str>>),
}

/// A condition in brackets.
#[derive(Debug)]
pub(super) enum Condition {
    /// The nth of the nodes so far, from 1.
    Position(usize),
    /// `[@a='v']`
    Attribute(QualifiedName, Box<str>),
    /// `[name='v']`
    Child(QualifiedName, Box<str>),
    /// `[.='v']`
    Own(Box<str>),
}

impl Selector {
    /// Reads a selector. `resolve` knows the prefixes that the patch declares around it.
    pub(super) fn parse(
        text: &str,
        resolve: &dyn Fn(&str) -> Option<Binding>,
    ) -> Result<Selector, Rejection> {
        let steps = Reader { text, at: 0, resolve, conditions: 0 }.selector()?;
        Ok(Selector { text: text.into(), steps })
    }

    /// The node test of the last step.
    pub(super) fn target(&self) -> Option<&NodeTest> {
        self.steps.last().map(|step| &step.test)
    }

    /// A step as a rejection names it.
    pub(super) fn describe(&self, step: usize) -> String {
        let source = self.steps.get(step).map_or("", |step| &self.text[step.source.clone()]);
        let (selector, step, steps) = (super::quote(&self.text), step + 1, self.steps.len());
        format!("step {step} of {steps} ({}) of the selector {selector}", super::quote(source))
    }
}

/// A walk over the text of a selector.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    resolve: &'a dyn Fn(&str) -> Option<Binding>,
    conditions: usize,
}

impl<'a> Reader<'a> {
    fn selector(mut self) -> Result<Vec<Step>, Rejection> {
        let mut steps = Vec::new();
        let mut is_deep = self.accept("//");
        if !is_deep && self.accept("/") && self.is_at_end() {
            return Err(self.unsupported("'/' alone, the document itself"));
        }
        loop {
            steps.push(self.step(is_deep)?);
            if self.is_at_end() {
                return Ok(steps);
            }
            is_deep = self.accept("//");
            if !is_deep && !self.accept("/") {
                return Err(self.unexpected());
            }
            let is_leaf = !matches!(
                steps.last().map(|step| &step.test),
                Some(NodeTest::AnyElement | NodeTest::Element(_))
            );
            if is_leaf {
                return Err(self.unsupported("a step behind one that finds no elements"));
            }
            if steps.len() == MAX_STEPS {
                return Err(self.unsupported(&format!("more than {MAX_STEPS} steps")));
            }
        }
    }

    fn step(&mut self, is_deep: bool) -> Result<Step, Rejection> {
        self.skip_space();
        let start = self.at;
        let test = self.node_test()?;
        let mut conditions = Vec::new();
        while self.accept("[") {
            if matches!(test, NodeTest::Attribute(_) | NodeTest::Namespace(_)) {
                return Err(self.unsupported("a condition on an attribute or a namespace"));
            }
            self.conditions += 1;
            if self.conditions > MAX_CONDITIONS {
                return Err(self.unsupported(&format!("more than {MAX_CONDITIONS} conditions")));
            }
            conditions.push(self.condition()?);
            self.expect("]")?;
        }
        Ok(Step { is_deep, test, conditions, source: start..self.at })
    }

    fn node_test(&mut self) -> Result<NodeTest, Rejection> {
        if self.accept("@") {
            if self.accept("*") {
                return Err(self.unsupported("'@*'"));
            }
            let (prefix, local) = self.name()?;
            return Ok(NodeTest::Attribute(self.attribute_name(prefix, local)?));
        }
        if self.accept("*") {
            return Ok(NodeTest::AnyElement);
        }
        let (prefix, local) = self.name()?;
        if prefix.is_empty() && self.accept("::") {
            if local != "namespace" {
                return Err(self.unsupported(&format!("the axis {}", super::quote(local))));
            }
            return Ok(NodeTest::Namespace(self.ncname()?.into()));
        }
        if self.accept("(") {
            return self.function(prefix, local);
        }
        Ok(NodeTest::Element(self.element_name(prefix, local)?))
    }

    /// A node type with its parentheses, behind the first.
    fn function(&mut self, prefix: &str, name: &str) -> Result<NodeTest, Rejection> {
        let test = match (prefix, name) {
            ("", "text") => NodeTest::Text,
            ("", "comment") => NodeTest::Comment,
            ("", "processing-instruction") => {
                let has_target = matches!(self.peek(), Some('\'' | '"'));
                let target = if has_target { Some(self.literal()?.into()) } else { None };
                NodeTest::Instruction(target)
            }
            ("", "id") => return Err(no_ids()),
            _ => return Err(self.unsupported(&format!("the function {}", super::quote(name)))),
        };
        self.expect(")")?;
        Ok(test)
    }

    /// A condition, between its brackets.
    fn condition(&mut self) -> Result<Condition, Rejection> {
        match self.peek() {
            Some('0'..='9') => return self.position(),
            Some('.') if !self.text[self.at..].starts_with("..") => {
                self.at += 1;
                return Ok(Condition::Own(self.compared()?));
            }
            Some('@') => {
                self.at += 1;
                let (prefix, local) = self.name()?;
                let name = self.attribute_name(prefix, local)?;
                return Ok(Condition::Attribute(name, self.compared()?));
            }
            Some('\'' | '"') => return Err(self.unsupported("a condition that begins with a text")),
            _ => {}
        }
        let (prefix, local) = self.name()?;
        if self.accept("(") {
            let is_id = prefix.is_empty() && local == "id";
            let function = format!("the function {}", super::quote(local));
            return Err(if is_id { no_ids() } else { self.unsupported(&function) });
        }
        let name = self.element_name(prefix, local)?;
        Ok(Condition::Child(name, self.compared()?))
    }

    fn position(&mut self) -> Result<Condition, Rejection> {
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        self.at += digits;
        // No document has so many nodes that the largest number could be one of them.
        Ok(Condition::Position(rest[..digits].parse().unwrap_or(usize::MAX)))
    }

    /// `='v'`
    fn compared(&mut self) -> Result<Box<str>, Rejection> {
        if self.peek() == Some(']') {
            return Err(self.unsupported("a condition without '='"));
        }
        self.expect("=")?;
        match self.peek() {
            Some('\'' | '"') => Ok(self.literal()?.into()),
            None => Err(self.unexpected()),
            Some(_) => Err(self.unsupported("a comparison with anything but a text in quotes")),
        }
    }

    fn literal(&mut self) -> Result<&'a str, Rejection> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some((literal, _)) = quote.and_then(|quote| rest[1..].split_once(quote)) else {
            return Err(self.malformed("a text has no end"));
        };
        self.at += literal.len() + 2;
        Ok(literal)
    }

    /// A name with its prefix, which is empty if there is none.
    fn name(&mut self) -> Result<(&'a str, &'a str), Rejection> {
        let name = self.ncname()?;
        let rest = &self.text[self.at..];
        if !rest.starts_with(':') || rest.starts_with("::") {
            return Ok(("", name));
        }
        self.at += 1;
        if self.text[self.at..].starts_with('*') {
            return Err(self.unsupported(&super::quote(&format!("{name}:*"))));
        }
        Ok((name, self.ncname()?))
    }

    fn ncname(&mut self) -> Result<&'a str, Rejection> {
        self.skip_space();
        let rest = &self.text[self.at..];
        if !rest.starts_with(names::is_name_start) {
            return Err(self.unexpected_but(&["..", ".", "$", "(", "-"]));
        }
        let name = &rest[..rest.len() - rest.trim_start_matches(names::is_name_char).len()];
        self.at += name.len();
        Ok(name)
    }

    fn element_name(&self, prefix: &str, local: &str) -> Result<QualifiedName, Rejection> {
        match (self.resolve)(prefix) {
            Some(binding) => Ok(QualifiedName::new(prefix, local, binding)),
            None => {
                let detail =
                    format!("the patch does not declare the prefix {}", super::quote(prefix));
                Err(Rejection::new(Reason::INVALID_NAMESPACE_PREFIX, detail))
            }
        }
    }

    /// Attributes without prefix are in no namespace.
    fn attribute_name(&self, prefix: &str, local: &str) -> Result<QualifiedName, Rejection> {
        match prefix {
            "" => Ok(QualifiedName::new("", local, None)),
            prefix => self.element_name(prefix, local),
        }
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn accept(&mut self, token: &str) -> bool {
        self.skip_space();
        let is_next = self.text[self.at..].starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), Rejection> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Behind a step or in a condition: the text is an operator that RFC 5261 leaves out, or no XPath at all.
    fn unexpected(&mut self) -> Rejection {
        self.unexpected_but(&[
            "|", "+", "-", "=", "!=", "<", ">", "*", "$", "(", ".", "and ", "or ", "div ", "mod ",
        ])
    }

    /// The text is one of these parts of XPath, which RFC 5261 leaves out, or no XPath at all.
    fn unexpected_but(&mut self, parts: &[&str]) -> Rejection {
        let Some(c) = self.peek() else { return self.malformed("it ends too early") };
        let rest = &self.text[self.at..];
        match parts.iter().find(|part| rest.starts_with(**part)) {
            Some(part) => self.unsupported(&format!("'{}'", part.trim())),
            None => self.malformed(&format!("'{c}' is not expected")),
        }
    }

    fn malformed(&self, fault: &str) -> Rejection {
        let detail =
            format!("the selector {}, at byte {}: {fault}", super::quote(self.text), self.at);
        Rejection::new(Reason::INVALID_ATTRIBUTE_VALUE, detail)
    }

    fn unsupported(&self, part: &str) -> Rejection {
        let selector = super::quote(self.text);
        let detail =
            format!("the selector {selector}, at byte {}: {part} is not supported", self.at);
        Rejection::new(Reason::INVALID_PATCH_DIRECTIVE, detail)
    }
}

fn no_ids() -> Rejection {
    Rejection::new(
        Reason::UNSUPPORTED_ID_FUNCTION,
        "id() needs a schema that says which attributes are ids",
    )
}
