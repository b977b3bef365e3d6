//! The gateway: one address for both services.

mod forward;
mod health;
mod instances;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use clap::Args;

use crate::http::{HttpClient, HttpServer, Problem, ServiceUrl, only, read_body};
use crate::service::{EndArgs, HEALTH_PATH, done, serve};
use crate::start_error::StartError;
use crate::users::USERS_PATH;
use instances::Instances;

/// The settings of `rideshare gateway`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayArgs {
    /// Address to listen on
    #[arg(
        long,
        env = "RIDESHARE_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8000"
    )]
    listen: SocketAddr,
    /// Instances of the users service, used in turn
    #[arg(
        long,
        env = "RIDESHARE_USERS",
        value_name = "URL[,URL]",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:8001"
    )]
    users: Vec<ServiceUrl>,
    /// Instances of the rides service, used in turn
    #[arg(
        long,
        env = "RIDESHARE_RIDES",
        value_name = "URL[,URL]",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:8002"
    )]
    rides: Vec<ServiceUrl>,
    #[command(flatten)]
    end: EndArgs,
}

/// The instances of both services, and how they are asked.
#[derive(Debug)]
struct Gateway {
    users: Instances,
    rides: Instances,
    http: HttpClient,
}

impl Gateway {
    fn new(users: Vec<ServiceUrl>, rides: Vec<ServiceUrl>) -> Gateway {
        let (users, rides) = (Instances::new("users", users), Instances::new("rides", rides));
        Gateway { users, rides, http: HttpClient::new() }
    }

    /// The service that answers on a path.
    fn service(&self, path: &str) -> &Instances {
        if path.starts_with(USERS_PATH) { &self.users } else { &self.rides }
    }
}

/// Runs the gateway until it is told to end.
pub(crate) async fn run(args: GatewayArgs) -> Result<(), StartError> {
    let server = HttpServer::bind(args.listen).await?;
    let gateway = Arc::new(Gateway::new(args.users, args.rides));
    let checks = health::check_all(&gateway);
    serve("gateway", server, router(gateway), &args.end).await?;
    drop(checks);
    Ok(())
}

fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route(HEALTH_PATH, only("GET", get(check_health)))
        .fallback(forward::forward)
        .layer(from_fn(read_body))
        .with_state(gateway)
}

async fn check_health(State(gateway): State<Arc<Gateway>>) -> Result<Response, Problem> {
    for service in [&gateway.users, &gateway.rides] {
        if service.healthy().is_empty() {
            return Err(service.unavailable());
        }
    }
    Ok(done())
}
