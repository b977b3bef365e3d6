//! A stream's own route, for posts that need no router: see [`crate::express`].

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::Entrance;
use super::post::{Form, Key, Outcome, Preset, posted, preset_by};
use crate::express::Said;
use crate::memory::BodyShare;
use crate::problem::Problem;

/// Where events of a stream are posted, beside `/streams/{stream}`.
#[derive(Clone)]
pub struct StreamRoute {
    path: String,
    entrance: Arc<Entrance>,
}

impl StreamRoute {
    pub(super) fn new(path: String, entrance: Arc<Entrance>) -> StreamRoute {
        StreamRoute { path, entrance }
    }

    /// The path, with its fields in braces.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What a request posts, by the fields of its path and its headers; `None` if one of them does not fit.
    pub(crate) fn posted<'a>(
        &self,
        fields: impl Iterator<Item = &'a str>,
        said: &Said<'_>,
    ) -> Option<Posted> {
        if Form::of(said) != Some(Form::Json) {
            return None;
        }
        let preset = preset_by(&self.entrance.stream, fields).ok()?;
        Some(Posted { entrance: Arc::clone(&self.entrance), key: Key::of(said), preset })
    }
}

impl fmt::Debug for StreamRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "POST {}", self.path)
    }
}

/// A post whose body is still to come. Nothing of its head is kept.
pub(crate) struct Posted {
    entrance: Arc<Entrance>,
    key: Key,
    preset: Preset,
}

impl Posted {
    /// The answer to the events of its body.
    pub(crate) async fn events(self, body: Bytes) -> Result<Outcome, Problem> {
        posted(&self.entrance, self.key, body, self.preset, &BodyShare::default()).await
    }
}
