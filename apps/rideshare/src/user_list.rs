//! How the rides service asks who the users are.

use std::time::Duration;

use axum::http::{StatusCode, header};

use crate::database::ANSWER_WITHIN;
use crate::http::{HttpClient, Problem, ServiceUrl};
use crate::users::USERS_PATH;

/// How long the list may take.
const LIST_WITHIN: Duration = ANSWER_WITHIN;

/// The list of users, as the gateway gives it.
#[derive(Clone, Debug)]
pub(crate) struct UserList {
    http: HttpClient,
    url: String,
    /// The address of the one who asks.
    origin: String,
}

impl UserList {
    /// The list at a gateway, for the instance at `origin`.
    pub(crate) fn new(gateway: &ServiceUrl, origin: String) -> UserList {
        UserList { http: HttpClient::new(), url: gateway.join(USERS_PATH), origin }
    }

    /// Whether there is a user with this name. Each call is one request.
    pub(crate) async fn contains(&self, name: &str) -> Result<bool, Problem> {
        let failed =
            |reason: String| Problem::unavailable(format!("users cannot be asked: {reason}"));
        let headers = [(header::ORIGIN.as_str(), self.origin.as_str())];
        let answer = self.http.get(&self.url, &headers, LIST_WITHIN).await;
        let answer = answer.map_err(|failure| failed(failure.to_string()))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NO_CONTENT => return Ok(false),
            status => return Err(failed(format!("status {status}"))),
        }
        let names: Vec<String> =
            serde_json::from_slice(answer.body()).map_err(|error| failed(error.to_string()))?;
        Ok(names.iter().any(|known| known == name))
    }
}
