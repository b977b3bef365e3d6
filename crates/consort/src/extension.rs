//! What a program of its own adds to a node.

use std::fmt;
use std::sync::Arc;

use consort_engines::Engine;

use crate::parts::Part;

type WrapEngine = Arc<dyn Fn(Engine) -> Engine + Send + Sync>;

/// Parts beside those of every node, and a decorator of the engine. The default adds nothing.
#[derive(Clone, Default)]
pub struct Extension {
    pub(crate) parts: Vec<Arc<dyn Part>>,
    wrap: Option<WrapEngine>,
}

impl Extension {
    /// Adds a part behind those that are there.
    pub fn with_part(mut self, part: Arc<dyn Part>) -> Extension {
        self.parts.push(part);
        self
    }

    /// Puts a decorator before the engine, such as one that measures or limits each call of its store.
    pub fn with_engine(
        mut self,
        wrap: impl Fn(Engine) -> Engine + Send + Sync + 'static,
    ) -> Extension {
        self.wrap = Some(Arc::new(wrap));
        self
    }

    pub(crate) fn wrapped(&self, engine: Engine) -> Engine {
        match &self.wrap {
            Some(wrap) => wrap(engine),
            None => engine,
        }
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension").field("parts", &self.parts).finish_non_exhaustive()
    }
}
