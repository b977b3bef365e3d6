//! `consort sample-upstream`: an upstream to try once with, which can be told to misbehave.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use consort::config::{LogConfig, LogFormat};
use consort::upstream::SampleUpstream;

use super::signals::Signals;
use super::{FAILED, fail};
use crate::logging::{self, announce};

pub(super) const EXAMPLES: &str = "\
Example, with the node of examples/items.toml:
  consort sample-upstream --listen 127.0.0.1:9000 --delay 200ms
  consort serve -c examples/items.toml
  curl 'http://127.0.0.1:7400/once/items/today?position=0'
  curl http://127.0.0.1:9000/calls

GET or POST /items/PATH answers with a list of five items, another one each time it is asked: each item has its
position, and the number of the call that made the list. So one sees which answers belong together, and how
often the upstream was asked.

GET /calls counts: {\"calls\": 2, \"paths\": {\"/items/today\": 2}}. DELETE /calls begins anew.

Parameters make it misbehave, and can be combined:
  delay=5s            takes longer, beyond --delay
  status=503          answers with another status
  fail=2              the first two calls of a path get 503
  size=2MiB           answers with so many bytes
  empty=1             answers with nothing
  object=1            answers with an object instead of a list
  redirect=URL        answers 302 that leads there
  broken=1            breaks its answer off in the middle
  cache=max-age=60    sends this Cache-Control; blanks and commas in percent code
  tag=a,b             sends this Cache-Tag
  cookie=a            sends this Set-Cookie
  type=text/plain     sends this Content-Type
  echo=1              answers with method, path, query, headers and body as they came";

#[derive(Args)]
pub(crate) struct SampleUpstreamArgs {
    /// Address and port, on this machine; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// How long each answer of /items takes
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = consort::config::duration)]
    delay: Duration,
}

pub(super) fn run(arguments: &SampleUpstreamArgs) -> ExitCode {
    logging::start(&LogConfig::default());
    match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("upstream").build() {
        Ok(runtime) => runtime.block_on(serve(arguments)),
        Err(error) => fail(FAILED, &format!("cannot start threads: {error}")),
    }
}

async fn serve(arguments: &SampleUpstreamArgs) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, &format!("cannot listen for signals: {error}")),
    };
    let SampleUpstreamArgs { listen, delay } = *arguments;
    if !listen.ip().is_loopback() {
        let reason = "the sample upstream is for trials on this machine: listen on 127.0.0.1";
        return fail(FAILED, reason);
    }
    let upstream = match SampleUpstream::bind(listen, delay).await {
        Ok(upstream) => upstream,
        Err(error) => return fail(FAILED, &error.to_string()),
    };
    let address = upstream.address();
    announce(LogFormat::Text, &format!("the sample upstream listens on http://{address}/items/"));
    let told_to_stop = async {
        signals.next().await;
    };
    upstream.run(told_to_stop).await;
    ExitCode::SUCCESS
}
