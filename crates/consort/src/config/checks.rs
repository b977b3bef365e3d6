//! Checks of the node's own tables that need more than one setting, or a look at a file that a setting names.

use std::fs;
use std::path::Path;

use consort_server::Tokens;

use super::problem::{Place, Problem};
use super::read::duration_text;
use super::{ClusterConfig, Config, Given, TOUR_ENGINE};

pub(super) fn across(config: &mut Config, given: &Given, problems: &mut Vec<Problem>) {
    if given.tour {
        tour_engine(config, given, problems);
    }
    broker_needs_redis(config, given, problems);
    authority_needs_tls(config, given, problems);
    tokens_file(config, given, problems);
    reachable_needs_tokens(config, given, problems);
    heartbeats_fit_the_lease(config, given, problems);
    scale_bounds(config, given, problems);
}

impl Given {
    /// Where a setting was given, when it was and could be read.
    pub(crate) fn place(&self, path: &str) -> Option<Place> {
        self.places.get(path).filter(|_| !self.unreadable.contains(path)).cloned()
    }
}

fn tour_engine(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let Some(place) = given.place("engine.url") else { return };
    if config.engine.url.reveal() != TOUR_ENGINE {
        let message = format!(
            "without a config file Consort runs its tour, always in {TOUR_ENGINE}; \
             for another engine write a file (`consort config --defaults > consort.toml`) and give it with -c"
        );
        problems.push(Problem::new(place, message));
    }
}

fn broker_needs_redis(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let Some(place) = given.place("engine.broker") else { return };
    if given.unreadable.contains("engine.url") || config.engine.url.scheme().starts_with("redis") {
        return;
    }
    let message = format!(
        "'broker' in [engine] keeps the streams on RabbitMQ and needs the state on Redis, but 'url' is {}; \
         set 'url' to a redis:// address, or leave out 'broker'",
        config.engine.url
    );
    problems.push(Problem::new(place, message));
}

fn authority_needs_tls(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let Some(place) = given.place("engine.tls_ca") else { return };
    let Some(path) = &config.engine.tls_ca else { return };
    let unreadable = |path: &&str| given.unreadable.contains(*path);
    if given.may_be_over_tls || ["engine.url", "engine.broker"].iter().any(unreadable) {
        return;
    }
    let over_tls = config.engine.url.scheme().starts_with("rediss")
        || config.engine.broker.as_ref().is_some_and(|broker| broker.scheme() == "amqps")
        || given.over_tls;
    if !over_tls {
        let message = "'tls_ca' in [engine] has no use: neither 'url' nor 'broker' is over TLS; \
                       begin one with rediss:// or amqps://, or leave out 'tls_ca'";
        problems.push(Problem::new(place, message));
    } else if let Err(error) = fs::File::open(path) {
        problems.push(Problem::new(
            place,
            format!("'tls_ca' in [engine]: cannot read {}: {error}", path.display()),
        ));
    }
}

fn tokens_file(config: &mut Config, given: &Given, problems: &mut Vec<Problem>) {
    let Some(place) = given.place("http.tokens_file") else { return };
    if !config.http.tokens.is_empty() {
        let message = "'tokens_file' in [http] and 'tokens' are both given; leave out one of them";
        problems.push(Problem::new(place, message));
        return;
    }
    let Some(path) = &config.http.tokens_file else { return };
    match read_tokens(path) {
        Ok(tokens) => config.http.tokens = tokens,
        Err(wrong) => problems.push(Problem::new(
            place,
            format!("'tokens_file' in [http]: {}: {wrong}", path.display()),
        )),
    }
}

fn read_tokens(path: &Path) -> Result<Tokens, String> {
    Tokens::new(tokens_in(path)?).map_err(|bad| bad.to_string())
}

/// The tokens in a file, one a line; never none.
pub(super) fn tokens_in(path: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
    let tokens: Vec<String> =
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    if tokens.is_empty() {
        return Err("it has no tokens; write one a line".to_owned());
    }
    Ok(tokens)
}

fn reachable_needs_tokens(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let Some(place) = given.place("http.listen") else { return };
    // A mistake in the tokens themselves has been told, and a file that gave none as well.
    let tokens_tried = given.unreadable.contains("http.tokens")
        || given.unreadable.contains("http.tokens_file")
        || given.places.contains_key("http.tokens_file");
    let open_to_all = config.http.tokens.is_empty() && !tokens_tried;
    if !config.http.listen.ip().is_loopback() && open_to_all {
        let message = format!(
            "'listen' in [http]: other machines can reach {}, and without access tokens their users could use \
             this node; set 'tokens' or 'tokens_file', or listen on 127.0.0.1",
            config.http.listen
        );
        problems.push(Problem::new(place, message));
    }
}

fn scale_bounds(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let (min, max) = (config.scale.min, config.scale.max);
    let places = ["scale.min", "scale.max"];
    if min <= max || places.iter().any(|path| given.unreadable.contains(*path)) {
        return;
    }
    let Some(place) = places.iter().find_map(|path| given.place(path)) else { return };
    let message = format!(
        "'min' in [scale] must not be above 'max', but 'min' is {min} and 'max' is {max}; lower one or raise the other"
    );
    problems.push(Problem::new(place, message));
}

/// One heartbeat may be lost and another be late before the lease lapses.
fn heartbeats_fit_the_lease(config: &Config, given: &Given, problems: &mut Vec<Problem>) {
    let ClusterConfig { lease, heartbeat } = config.cluster;
    let places = ["cluster.heartbeat", "cluster.lease"];
    if heartbeat * 3 <= lease || places.iter().any(|path| given.unreadable.contains(*path)) {
        return;
    }
    let Some(place) = places.iter().find_map(|path| given.place(path)) else { return };
    let message = format!(
        "'heartbeat' in [cluster] must be at most a third of 'lease', so that one may be lost, but \
         'heartbeat' is {} and 'lease' is {}",
        duration_text(heartbeat),
        duration_text(lease)
    );
    problems.push(Problem::new(place, message));
}
