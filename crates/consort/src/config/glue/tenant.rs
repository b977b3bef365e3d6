//! `[tenant.NAME]`: the access tokens of a tenant.

use consort_server::{TenantName, Tokens};

use super::{GlueConfig, TenantSettings};
use crate::config::declared::Declaration;
use crate::config::part::ExampleSetting::{Instead, Shown};
use crate::config::part::{Context, DeclarationSpec, ExampleSpec, NameRule};
use crate::config::problem::Problem;
use crate::config::reader::Reader;
use crate::config::spec::{SettingSpec, Visibility};
use crate::config::{Config, Given, checks, read};

/// The label of all tenants that are not declared, in metrics.
const UNDECLARED: &str = consort_server::glue::UNDECLARED_TENANT;

pub(super) const TENANT: DeclarationSpec = DeclarationSpec {
    table: "tenant",
    plural: "tenants",
    doc: "a tenant of the collections, by its access tokens",
    settings: &SETTINGS,
    read: read_declaration,
    names: NameRule { most: 64, dots: true },
    named_by_others: true,
    sibling: None,
    examples: &[ExampleSpec {
        name: "a",
        doc: "a tenant; its tokens, if it has any, open /glue and /feeds/glue for its own documents alone",
        settings: &[Shown("tokens"), Instead("tokens_file")],
    }],
};

static SETTINGS: [SettingSpec; 2] = [
    SettingSpec::new("tokens", &["its access tokens, at least 16 characters each"])
        .with_example("[\"a-token-made-by-openssl-rand\"]")
        .with_visibility(Visibility::Secret),
    SettingSpec::new("tokens_file", &["a file with one access token a line, instead of tokens"])
        .with_example("\"/run/secrets/tenant-a-tokens\""),
];

/// Reads a `[tenant.NAME]`.
fn read_declaration(reader: &mut Reader<'_>, declaration: &Declaration, context: &mut Context<'_>) {
    if declaration.name == UNDECLARED {
        reader.reserved_name("metrics show under it all tenants that are not declared");
    }
    let tokens = read_tokens(reader);
    let Ok(name) = declaration.name.parse::<TenantName>() else { return };
    let Some(tokens) = tokens.filter(|_| !reader.is_flawed()) else { return };
    let settings = TenantSettings { tokens, place: reader.place() };
    context.config.part_mut::<GlueConfig>().tenants.insert(name, settings);
}

/// None if there is a mistake.
fn read_tokens(reader: &mut Reader<'_>) -> Option<Tokens> {
    match (reader.entry("tokens"), reader.entry("tokens_file")) {
        (Some(_), Some(file)) => {
            let reason = "'tokens' is given as well; leave out one of them";
            reader.explain("tokens_file", &file.span, reason);
            None
        }
        (Some(_), None) => reader.read("tokens", |raw| match read::texts(raw)? {
            none if none.is_empty() => Err("must have at least one token".to_owned()),
            tokens => Tokens::new(tokens).map_err(|bad| format!("cannot be used: {bad}")),
        }),
        (None, Some(_)) => reader.read("tokens_file", |raw| {
            let path = read::path(raw)?;
            let told = |wrong: String| format!("names {}: {wrong}", path.display());
            let tokens = checks::tokens_in(&path).map_err(told)?;
            Tokens::new(tokens).map_err(|bad| told(bad.to_string()))
        }),
        // An operator who sends 'Consort-Tenant' for it is all that reaches it, and metrics show it by name.
        (None, None) => Some(Tokens::default()),
    }
}

/// Adds the tenants' tokens to those of the door, when those of `[http]` are known.
pub(super) fn finish(config: &mut Config, _given: &Given, problems: &mut Vec<Problem>) {
    let mut tokens = config.http.tokens.clone();
    for (name, TenantSettings { tokens: own, place }) in &config.glue().tenants {
        match tokens.clone().with_tenant(name.clone(), own) {
            Ok(all) => tokens = all,
            Err(bad) => {
                let message = format!("the tokens of [tenant.{name}] cannot be used: {bad}");
                problems.push(Problem::new(place.clone(), message));
            }
        }
    }
    config.http.tokens = tokens;
}
