//! The difference of two documents as a JSON patch.
//!
//! The diff of json-patch repeats the whole path in each operation: two documents of 1 MiB with one long name can differ
//! by gigabytes. This one is never larger than the patch that replaces the document, and a piece may have as many
//! operations.

use serde_json::{Map, Value};

use super::{JsonDocument, write};
use crate::bounds::MAX_OPERATIONS;

/// The patch that makes `to` of `from`: it names the changes, or replaces the whole document if that is shorter.
pub fn diff(from: &JsonDocument, to: &JsonDocument) -> Vec<u8> {
    let whole_size = r#"[{"op":"replace","path":"","value":}]"#.len() + to.size;
    let mut changes = Changes::new(whole_size);
    match changes.compare(&from.root, &to.root) {
        Some(()) => changes.finish(),
        None => {
            let mut whole = Changes::new(whole_size);
            // It has the size that is allowed.
            let _ = whole.push("replace", Some(&to.root));
            whole.finish()
        }
    }
}

/// The operations so far, and the path of the values in hand.
struct Changes {
    text: Vec<u8>,
    operations: usize,
    path: String,
    /// The patch is given up when it would have more bytes.
    max_size: usize,
}

impl Changes {
    fn new(max_size: usize) -> Self {
        Changes { text: vec![b'['], operations: 0, path: String::new(), max_size }
    }

    fn finish(mut self) -> Vec<u8> {
        self.text.push(b']');
        self.text
    }

    /// Adds what makes `to` of `from`. None: the patch has become too long.
    fn compare(&mut self, from: &Value, to: &Value) -> Option<()> {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.compare_objects(from, to),
            (Value::Array(from), Value::Array(to)) => self.compare_arrays(from, to),
            _ if from == to => Some(()),
            _ => self.push("replace", Some(to)),
        }
    }

    fn compare_objects(
        &mut self,
        from: &Map<String, Value>,
        to: &Map<String, Value>,
    ) -> Option<()> {
        for name in from.keys().filter(|&name| !to.contains_key(name)) {
            self.at(name, |changes| changes.push("remove", None))?;
        }
        for (name, value) in to {
            self.at(name, |changes| match from.get(name) {
                Some(old) => changes.compare(old, value),
                None => changes.push("add", Some(value)),
            })?;
        }
        Some(())
    }

    /// Elements at both ends that are equal stay. Those between are compared one by one; elements that are left over
    /// are removed or added.
    fn compare_arrays(&mut self, from: &[Value], to: &[Value]) -> Option<()> {
        let start = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let (from, to) = (&from[start..], &to[start..]);
        let ends = from.iter().rev().zip(to.iter().rev());
        let equal_ends = ends.take_while(|(from, to)| from == to).count();
        let (from, to) = (&from[..from.len() - equal_ends], &to[..to.len() - equal_ends]);
        let both = from.len().min(to.len());
        for (at, (from, to)) in from.iter().zip(to).enumerate() {
            self.at(&(start + at).to_string(), |changes| changes.compare(from, to))?;
        }
        for _ in &from[both..] {
            self.at(&(start + both).to_string(), |changes| changes.push("remove", None))?;
        }
        for (at, value) in to.iter().enumerate().skip(both) {
            self.at(&(start + at).to_string(), |changes| changes.push("add", Some(value)))?;
        }
        Some(())
    }

    /// Goes to a member or element, and back.
    fn at(&mut self, name: &str, change: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        change(self)?;
        self.path.truncate(length);
        Some(())
    }

    fn push(&mut self, operation: &str, value: Option<&Value>) -> Option<()> {
        self.operations += 1;
        if self.operations > MAX_OPERATIONS {
            return None;
        }
        if self.operations > 1 {
            self.text.push(b',');
        }
        self.text.extend_from_slice(format!(r#"{{"op":"{operation}","path":"#).as_bytes());
        write(&Value::from(self.path.as_str()), &mut self.text);
        if let Some(value) = value {
            self.text.extend_from_slice(br#","value":"#);
            write(value, &mut self.text);
        }
        self.text.push(b'}');
        let closed_size = self.text.len() + 1;
        (closed_size <= self.max_size).then_some(())
    }
}
