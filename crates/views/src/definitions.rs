//! The streams and views of a config, and how they are declared to the cluster's agreement.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::{Agreed, Agreement, AgreementError};
use consort_kernel::Store;
use serde_json::{Value as Json, json};

use crate::stream::Stream;
use crate::view::View;

/// The kinds of definitions, as messages and the stored cell name them.
const STREAM: &str = "stream";
const VIEW: &str = "view";

/// The streams and views that a config declares.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// The streams.
    pub streams: Vec<Arc<Stream>>,
    /// The views.
    pub views: Vec<Arc<View>>,
}

impl Definitions {
    /// The stream of this name.
    pub fn stream(&self, name: &str) -> Option<&Arc<Stream>> {
        self.streams.iter().find(|stream| stream.name.as_str() == name)
    }

    /// The view of this name.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.iter().find(|view| view.name.as_str() == name)
    }

    /// Settles these definitions alone in the cluster: see [`Agreement::agree`]. The views of the answer have
    /// the numbers that the cluster gave to them.
    pub async fn agree(&self, store: &dyn Store) -> Result<Definitions, AgreementError> {
        self.numbered(&self.declare(Agreement::new()).agree(store).await?)
    }

    /// Adds these definitions to those that all nodes must agree on. Routes, shapes of answers and other
    /// settings that a node may have for itself are not part of them.
    pub fn declare(&self, agreement: Agreement) -> Agreement {
        let agreement = self.streams.iter().fold(agreement, |agreement, stream| {
            agreement.define(STREAM, stream.name.as_str(), stream_settings(stream))
        });
        self.views.iter().fold(agreement, |agreement, view| {
            agreement.define(VIEW, view.name.as_str(), view_settings(view))
        })
    }

    /// These definitions with the numbers that the cluster gave to the views.
    pub fn numbered(&self, agreed: &Agreed) -> Result<Definitions, AgreementError> {
        let number = |view: &Arc<View>| {
            let number = agreed.number(VIEW, view.name.as_str())?;
            Ok(Arc::new(View { number, ..View::clone(view) }))
        };
        let views = self.views.iter().map(number).collect::<Result<_, AgreementError>>()?;
        Ok(Definitions { streams: self.streams.clone(), views })
    }
}

/// The settings of a definition. All values are texts, as in cells that release 0.1 wrote.
type Settings = BTreeMap<String, String>;

fn stream_settings(stream: &Stream) -> Json {
    let fields = stream.schema.fields();
    let name = |at: &usize| fields[*at].name.clone();
    let mut settings = Settings::new();
    for field in fields {
        settings.insert(format!("field {}", field.name), field.ty.written());
    }
    // Streams of JSON, which is the default, are stored as they were before there were others.
    if stream.schema.form().is_line() {
        settings.insert("form".into(), stream.schema.form().to_string());
    }
    if stream.schema.is_inferred() {
        settings.insert("fields".into(), "not declared".into());
    }
    if !stream.key.is_empty() {
        let key: Vec<String> = stream.key.iter().map(name).collect();
        settings.insert("key".into(), key.join(", "));
    }
    if let Some(id) = &stream.id {
        settings.insert("id".into(), name(id));
    }
    if let Some(time) = &stream.time {
        settings.insert("time".into(), name(time));
    }
    settings.insert("ids_for".into(), format!("{:?}", stream.ids_for));
    settings.insert("partitions".into(), stream.partitions.to_string());
    json!(settings)
}

fn view_settings(view: &View) -> Json {
    let texts: Vec<&str> = view.aggregate.expressions().iter().map(|e| e.text()).collect();
    let by: Vec<String> = view
        .by
        .iter()
        .map(|field| match field.expression.text() == field.name {
            true => field.name.clone(),
            false => format!("{} = {}", field.name, field.expression.text()),
        })
        .collect();
    let mut settings = Settings::from([
        ("from".into(), view.from.name.to_string()),
        ("by".into(), by.join(", ")),
        ("aggregate".into(), format!("{}({})", view.aggregate.name(), texts.join(", "))),
    ]);
    if let Some(condition) = &view.condition {
        settings.insert("where".into(), condition.text().into());
    }
    if let Some(windows) = &view.windows {
        settings.insert("window".into(), format!("{:?}", windows.length));
        settings.insert("grace".into(), format!("{:?}", windows.grace));
        settings.insert("keep".into(), format!("{:?}", windows.keep));
        settings.insert("late".into(), windows.late.name().into());
    }
    json!(settings)
}
