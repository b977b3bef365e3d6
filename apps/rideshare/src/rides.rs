//! The rides service.

mod new_ride;
mod search;

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use clap::Args;
use consort_client::{DbClientError, SqlStatement};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::counter::{InstanceArgs, RequestCounter};
use crate::database::{ANSWER_WITHIN, Database, DatabaseArgs};
use crate::http::{HttpServer, JsonFields, PathSegment, Problem, ServiceUrl, only};
use crate::ride_id::RideId;
use crate::service::{EndArgs, counted, done, serve};
use crate::start_error::StartError;
use crate::user_list::UserList;
use new_ride::NewRide;
use search::RideSearch;

/// The settings of `rideshare rides`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RidesArgs {
    /// Address to listen on
    #[arg(
        long,
        env = "RIDESHARE_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8002"
    )]
    listen: SocketAddr,
    /// The gateway, where this service asks for users
    #[arg(
        long,
        env = "RIDESHARE_GATEWAY",
        value_name = "URL",
        default_value = "http://127.0.0.1:8000"
    )]
    gateway: ServiceUrl,
    /// This service's own address, sent as `Origin` when it asks for users [default: http:// and --listen]
    #[arg(long, env = "RIDESHARE_ADVERTISE", value_name = "URL")]
    advertise: Option<ServiceUrl>,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    instances: InstanceArgs,
    #[command(flatten)]
    end: EndArgs,
}

/// What a request needs: the database, and the list of users.
#[derive(Clone, Debug)]
pub(crate) struct Rides {
    database: Database,
    users: UserList,
}

impl Rides {
    /// Asks for users at a gateway, as the instance at `origin`.
    pub(crate) fn new(database: Database, gateway: &ServiceUrl, origin: String) -> Rides {
        Rides { database, users: UserList::new(gateway, origin) }
    }
}

/// A ride, as it is shown. Its columns may hold anything that `db/write` put there.
#[derive(Serialize)]
struct RideAnswer {
    #[serde(rename = "rideId")]
    ride_id: u64,
    created_by: Value,
    /// Those who joined, in order of joining.
    users: Vec<Value>,
    timestamp: Value,
    source: Value,
    destination: Value,
}

/// Runs the service until it is told to end.
pub(crate) async fn run(args: RidesArgs) -> Result<(), StartError> {
    let server = HttpServer::bind(args.listen).await?;
    let database = Database::new(&args.database)?;
    let origin = match args.advertise {
        Some(url) => url.to_string(),
        None => format!("http://{}", server.address()),
    };
    let counter = RequestCounter::new(args.instances);
    let routes = routes(Rides::new(database.clone(), &args.gateway, origin));
    serve("rides", server, counted(routes, database, counter), &args.end).await
}

/// The routes of its own.
pub(crate) fn routes(rides: Rides) -> Router {
    Router::new()
        .route("/api/v1/rides", only("GET, POST", get(list).post(create)))
        .route("/api/v1/rides/count", only("GET", get(count)))
        .route("/api/v1/rides/{id}", only("GET, POST, DELETE", get(show).post(join).delete(remove)))
        .with_state(rides)
}

/// Creates a ride. The users service says whether the creator exists; the foreign key says it again, because a user
/// may be deleted in between.
async fn create(State(rides): State<Rides>, body: Bytes) -> Result<Response, Problem> {
    let ride = NewRide::parse(&body, OffsetDateTime::now_utc())?;
    let unknown = || Problem::bad_request("'created_by' is no user");
    let create = async {
        if !rides.users.contains(&ride.created_by).await? {
            return Err(unknown());
        }
        let sql =
            "INSERT INTO rides (created_by, timestamp, source, destination) VALUES (?, ?, ?, ?)";
        let insert = SqlStatement::new(sql)
            .bind(ride.created_by)
            .bind(ride.timestamp)
            .bind(ride.source.number())
            .bind(ride.destination.number());
        rides.database.write(insert).await.map_err(|error| match error {
            DbClientError::Constraint(_) => unknown(),
            error => error.into(),
        })
    };
    let late = |_| Err(Problem::unavailable("the ride could not be created in time"));
    timeout(ANSWER_WITHIN, create).await.unwrap_or_else(late)?;
    Ok((StatusCode::CREATED, Json(json!({}))).into_response())
}

async fn list(State(rides): State<Rides>, uri: Uri) -> Result<Response, Problem> {
    let search = RideSearch::parse(uri.query().unwrap_or_default())?;
    let rows = rides.database.read(search.query()).await?;
    let found = search::future_rides(rows, OffsetDateTime::now_utc());
    Ok(match found.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => Json(found).into_response(),
    })
}

async fn count(State(rides): State<Rides>) -> Result<Response, Problem> {
    let rows = rides.database.read(SqlStatement::new("SELECT count(*) FROM rides")).await?;
    let counts: Vec<Value> = rows.into_iter().flatten().collect();
    Ok(Json(counts).into_response())
}

/// Shows a ride and those who joined it: two queries on one snapshot.
async fn show(
    State(rides): State<Rides>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let id = ride_id(&id)?;
    let sql = "SELECT created_by, timestamp, source, destination FROM rides WHERE rideId = ?";
    let ride = SqlStatement::new(sql).bind(id.number());
    // The rowid is the order of joining.
    let sql = "SELECT username FROM riders WHERE rideId = ? ORDER BY rowid";
    let riders = SqlStatement::new(sql).bind(id.number());
    let mut results = rides.database.read_many(&[ride, riders]).await?.into_iter();
    let mut next = || results.next().map(|result| result.rows).unwrap_or_default();
    let (ride, riders) = (next(), next());
    let Some(Ok([created_by, timestamp, source, destination])) =
        ride.into_iter().next().map(<[Value; 4]>::try_from)
    else {
        return Err(no_such_ride());
    };
    let (ride_id, users) = (id.number(), riders.into_iter().flatten().collect());
    let ride = RideAnswer { ride_id, created_by, users, timestamp, source, destination };
    Ok(Json(ride).into_response())
}

/// Lets a user join: one statement, so that of two joins at once the table itself refuses one.
async fn join(
    State(rides): State<Rides>,
    PathSegment(id): PathSegment,
    body: Bytes,
) -> Result<Response, Problem> {
    let id = ride_id(&id)?;
    let username = JsonFields::parse(&body)?.text("username")?;
    let sql = "INSERT INTO riders (rideId, username) \
               SELECT rideId, ? FROM rides WHERE rideId = ? AND created_by <> ?";
    let insert = SqlStatement::new(sql)
        .bind(username.as_str())
        .bind(id.number())
        .bind(username.as_str())
        .expect_changes(1);
    rides.database.write(insert).await.map_err(|error| match error {
        DbClientError::Expectation(_) => {
            Problem::bad_request("there is no such ride, or the user created it")
        }
        DbClientError::Constraint(_) => {
            Problem::bad_request("there is no such user, or they have joined already")
        }
        error => error.into(),
    })?;
    Ok(done())
}

async fn remove(
    State(rides): State<Rides>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let id = ride_id(&id)?;
    let delete = SqlStatement::new("DELETE FROM rides WHERE rideId = ?").bind(id.number());
    rides.database.write(delete.expect_changes(1)).await.map_err(|error| match error {
        DbClientError::Expectation(_) => no_such_ride(),
        error => error.into(),
    })?;
    Ok(done())
}

fn ride_id(segment: &str) -> Result<RideId, Problem> {
    RideId::parse(segment).ok_or_else(|| Problem::bad_request("the id of a ride is 1 to 18 digits"))
}

fn no_such_ride() -> Problem {
    Problem::bad_request("there is no such ride")
}
