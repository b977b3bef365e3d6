//! The users service.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use bytes::Bytes;
use clap::Args;
use consort_client::{DbClientError, SqlStatement};
use serde_json::{Value, json};

use crate::counter::{InstanceArgs, RequestCounter};
use crate::database::{Database, DatabaseArgs};
use crate::http::{HttpServer, JsonFields, PathSegment, Problem, only};
use crate::service::{EndArgs, counted, done, serve};
use crate::start_error::StartError;

/// The path of the list of users.
pub(crate) const USERS_PATH: &str = "/api/v1/users";

/// The digits of a password: it is the SHA-1 of what the user typed.
const PASSWORD_DIGITS: usize = 40;

/// The settings of `rideshare users`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UsersArgs {
    /// Address to listen on
    #[arg(
        long,
        env = "RIDESHARE_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8001"
    )]
    listen: SocketAddr,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    instances: InstanceArgs,
    #[command(flatten)]
    end: EndArgs,
}

/// Runs the service until it is told to end.
pub(crate) async fn run(args: UsersArgs) -> Result<(), StartError> {
    let server = HttpServer::bind(args.listen).await?;
    let database = Database::new(&args.database)?;
    let counter = RequestCounter::new(args.instances);
    let router = counted(routes(database.clone()), database, counter);
    serve("users", server, router, &args.end).await
}

/// The routes of its own.
pub(crate) fn routes(database: Database) -> Router {
    Router::new()
        .route(USERS_PATH, only("GET, PUT", get(list).put(create)))
        .route("/api/v1/users/{name}", only("DELETE", delete(remove)))
        .with_state(database)
}

async fn list(State(database): State<Database>) -> Result<Response, Problem> {
    let query = SqlStatement::new("SELECT username FROM users ORDER BY username");
    let names: Vec<Value> = database.read(query).await?.into_iter().flatten().collect();
    Ok(match names.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => Json(names).into_response(),
    })
}

async fn create(State(database): State<Database>, body: Bytes) -> Result<Response, Problem> {
    let user = NewUser::parse(&body)?;
    let insert = SqlStatement::new("INSERT INTO users (username, password) VALUES (?, ?)")
        .bind(user.username)
        .bind(user.password);
    database.write(insert).await.map_err(|error| match error {
        DbClientError::Constraint(_) => Problem::bad_request("the user name is taken"),
        error => error.into(),
    })?;
    Ok((StatusCode::CREATED, Json(json!({}))).into_response())
}

/// Deletes a user. The schema deletes their rides, and their name in the rides of others.
async fn remove(
    State(database): State<Database>,
    PathSegment(name): PathSegment,
) -> Result<Response, Problem> {
    let delete = SqlStatement::new("DELETE FROM users WHERE username = ?").bind(name);
    database.write(delete.expect_changes(1)).await.map_err(|error| match error {
        DbClientError::Expectation(_) => Problem::bad_request("there is no such user"),
        error => error.into(),
    })?;
    Ok(done())
}

/// A user that is to be created. Name and password are stored as sent.
#[derive(Debug, PartialEq, Eq)]
struct NewUser {
    username: String,
    password: String,
}

impl NewUser {
    fn parse(body: &[u8]) -> Result<NewUser, Problem> {
        let fields = JsonFields::parse(body)?;
        let (username, password) = (fields.text("username")?, fields.text("password")?);
        if username.is_empty() {
            return Err(Problem::bad_request("'username' must not be empty"));
        }
        let digits = password.bytes().all(|byte| byte.is_ascii_hexdigit());
        if password.len() != PASSWORD_DIGITS || !digits {
            return Err(Problem::bad_request(format!(
                "'password' must be {PASSWORD_DIGITS} hexadecimal digits"
            )));
        }
        Ok(NewUser { username, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_and_forty_hexadecimal_digits() {
        let digits = "3d725109c7e7c0bfb9d709836735b56d943d263f";
        let other = "3D725109C7E7C0BFB9D709836735B56D943D263F";
        for (username, password, good) in [
            (json!("ann"), json!(digits), true),
            (json!("ann"), json!(other), true),
            (json!(" Ann / ä\n"), json!(digits), true),
            (json!("x".repeat(10_000)), json!(digits), true),
            (json!(""), json!(digits), false),
            (json!(7), json!(digits), false),
            (json!(null), json!(digits), false),
            (json!(["ann"]), json!(digits), false),
            (json!("ann"), json!(""), false),
            (json!("ann"), json!(digits[1..]), false),
            (json!("ann"), json!(format!("{digits}0")), false),
            (json!("ann"), json!(digits.replace('3', "g")), false),
            (json!("ann"), json!(digits.replace('3', " ")), false),
            (json!("ann"), json!("é".repeat(20)), false),
            (json!("ann"), json!(7), false),
        ] {
            let body = json!({ "username": username, "password": password, "other": 1 });
            let user = NewUser::parse(body.to_string().as_bytes());
            assert_eq!(user.is_ok(), good, "{body}");
            if let Ok(user) = user {
                assert_eq!((json!(user.username), json!(user.password)), (username, password));
            }
        }
        assert!(NewUser::parse(b"{\"username\": \"ann\"}").is_err());
    }
}
