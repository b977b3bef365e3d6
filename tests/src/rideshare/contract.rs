//! Every call of the contract, good and bad, as tables. They run in this order on tables that have never been used, so
//! the ids of rides are known.

use serde_json::{Value, json};

use super::calls::{Expected, FUTURE, PASSWORD, ride, rider, user};
use super::deployment::Deployment;

/// Which process is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Gateway,
    Users,
    Rides,
    Orchestrator,
}

/// A call and its expected answer.
struct Case {
    place: Place,
    method: &'static str,
    path: String,
    body: String,
    status: u16,
    expected: Expected,
}

/// Makes all calls of the contract.
///
/// # Panics
///
/// If an answer is not the expected one.
pub async fn check(deployment: &Deployment) {
    let tables =
        [users(), rides(), long_texts(), joins(), deletions(), tables(), clearing(), methods()];
    for case in tables.into_iter().flatten() {
        let part = match case.place {
            Place::Gateway => &deployment.gateway,
            Place::Users => &deployment.users[0],
            Place::Rides => &deployment.rides[0],
            Place::Orchestrator => &deployment.orchestrator,
        };
        let call = (case.method, &*case.path, &*case.body);
        part.caller().check(call, case.status, &case.expected).await;
    }
}

/// A call at the gateway.
fn call(
    method: &'static str,
    path: impl Into<String>,
    body: impl ToString,
    status: u16,
    expected: Expected,
) -> Case {
    let (path, body) = (path.into(), body.to_string());
    Case { place: Place::Gateway, method, path, body, status, expected }
}

/// The same call at another process.
fn at(place: Place, case: Case) -> Case {
    Case { place, ..case }
}

fn bad(method: &'static str, path: impl Into<String>, body: impl ToString) -> Case {
    call(method, path, body, 400, Expected::Problem)
}

fn done(method: &'static str, path: impl Into<String>, body: impl ToString) -> Case {
    call(method, path, body, 200, Expected::Body(json!({})))
}

fn created(method: &'static str, path: impl Into<String>, body: impl ToString) -> Case {
    call(method, path, body, 201, Expected::Body(json!({})))
}

fn shows(path: impl Into<String>, body: Value) -> Case {
    call("GET", path, "", 200, Expected::Body(body))
}

fn nothing(path: impl Into<String>) -> Case {
    call("GET", path, "", 204, Expected::Empty)
}

fn users() -> Vec<Case> {
    const USERS: &str = "/api/v1/users";
    let with = |name: Value, password: Value| json!({ "username": name, "password": password });
    vec![
        nothing(USERS),
        created("PUT", USERS, user("bob")),
        created("PUT", USERS, user("ann")),
        created("PUT", USERS, user("Ann")),
        created("PUT", USERS, user(" a/b?c&d=ü🚗 ")),
        created("PUT", USERS, with(json!("cid"), json!(PASSWORD.to_uppercase()))),
        shows(USERS, json!([" a/b?c&d=ü🚗 ", "Ann", "ann", "bob", "cid"])),
        bad("PUT", USERS, user("ann")),
        bad("PUT", USERS, user("")),
        bad("PUT", USERS, with(json!(7), json!(PASSWORD))),
        bad("PUT", USERS, with(json!(null), json!(PASSWORD))),
        bad("PUT", USERS, with(json!("dan"), json!(&PASSWORD[1..]))),
        bad("PUT", USERS, with(json!("dan"), json!(format!("{PASSWORD}0")))),
        bad("PUT", USERS, with(json!("dan"), json!(PASSWORD.replace('3', "g")))),
        bad("PUT", USERS, with(json!("dan"), json!(7))),
        bad("PUT", USERS, json!({ "username": "dan" })),
        bad("PUT", USERS, ""),
        bad("PUT", USERS, "{"),
        bad("PUT", USERS, json!(["dan", PASSWORD])),
        done("DELETE", "/api/v1/users/%20a%2Fb%3Fc%26d%3D%C3%BC%F0%9F%9A%97%20", ""),
        done("DELETE", "/api/v1/users/Ann", "an unneeded body"),
        bad("DELETE", "/api/v1/users/Ann", ""),
        bad("DELETE", "/api/v1/users/nobody", ""),
        bad("DELETE", "/api/v1/users/%FF", ""),
        shows(USERS, json!(["ann", "bob", "cid"])),
    ]
}

fn rides() -> Vec<Case> {
    const RIDES: &str = "/api/v1/rides";
    let changed = |member: &str, value: Value| {
        let mut body =
            json!({ "created_by": "ann", "timestamp": FUTURE, "source": 3, "destination": 44 });
        body[member] = value;
        body
    };
    let shown = |id: u64, source: u64, destination: u64| {
        shows(
            format!("{RIDES}/{id}"),
            json!({ "rideId": id, "created_by": "ann", "users": [], "timestamp": FUTURE,
                "source": source, "destination": destination }),
        )
    };
    let listed = |id: u64| json!({ "rideId": id, "username": "ann", "timestamp": FUTURE });
    vec![
        shows("/api/v1/rides/count", json!([0])),
        nothing("/api/v1/rides?source=3&destination=44"),
        created("POST", RIDES, ride("ann", 3, 44)),
        created("POST", RIDES, changed("source", json!("003"))),
        created("POST", RIDES, changed("later", json!({ "unknown": [1] }))),
        created("POST", RIDES, ride("ann", 198, 1)),
        bad("POST", RIDES, ride("nobody", 3, 44)),
        bad("POST", RIDES, ride("", 3, 44)),
        bad("POST", RIDES, changed("created_by", json!(7))),
        bad("POST", RIDES, changed("timestamp", json!("01-06-2001:00-30-14"))),
        bad("POST", RIDES, changed("timestamp", json!("31-06-2099:00-30-14"))),
        bad("POST", RIDES, changed("timestamp", json!("2099-06-01T14:30:00Z"))),
        bad("POST", RIDES, changed("timestamp", json!(4_083_921_000_u64))),
        bad("POST", RIDES, changed("source", json!(44))),
        bad("POST", RIDES, changed("source", json!(0))),
        bad("POST", RIDES, changed("source", json!(199))),
        bad("POST", RIDES, changed("source", json!(-3))),
        bad("POST", RIDES, changed("source", json!(3.5))),
        bad("POST", RIDES, changed("source", json!(true))),
        bad("POST", RIDES, changed("source", json!("+3"))),
        bad("POST", RIDES, changed("source", json!("0003"))),
        bad("POST", RIDES, changed("destination", json!(null))),
        bad("POST", RIDES, json!({ "created_by": "ann" })),
        bad("POST", RIDES, "none"),
        shows("/api/v1/rides/count", json!([4])),
        shows("/api/v1/rides?source=3&destination=44", json!([listed(1), listed(2), listed(3)])),
        shows("/api/v1/rides?destination=001&source=198", json!([listed(4)])),
        nothing("/api/v1/rides?source=44&destination=3"),
        nothing("/api/v1/rides?source=3&destination=3"),
        bad("GET", "/api/v1/rides", ""),
        bad("GET", "/api/v1/rides?source=3", ""),
        bad("GET", "/api/v1/rides?source=3&destination=", ""),
        bad("GET", "/api/v1/rides?source=0&destination=44", ""),
        bad("GET", "/api/v1/rides?source=3&destination=199", ""),
        bad("GET", "/api/v1/rides?source=x&destination=44", ""),
        bad("GET", "/api/v1/rides?source=%2B3&destination=44", ""),
        shown(1, 3, 44),
        shown(4, 198, 1),
        bad("GET", "/api/v1/rides/5", ""),
        bad("GET", "/api/v1/rides/0", ""),
        bad("GET", "/api/v1/rides/-1", ""),
        bad("GET", "/api/v1/rides/1.0", ""),
        bad("GET", "/api/v1/rides/one", ""),
        bad("GET", "/api/v1/rides/%FF", ""),
        bad("GET", "/api/v1/rides/999999999999999999", ""),
        bad("GET", "/api/v1/rides/9999999999999999999", ""),
        bad("GET", format!("/api/v1/rides/{}", "9".repeat(10_000)), ""),
    ]
}

fn long_texts() -> Vec<Case> {
    let mut cases = Vec::new();
    for (character, code) in [("x", "x"), ("ä", "%C3%A4")] {
        let (name, path) = (character.repeat(10_000), code.repeat(10_000));
        cases.extend([
            created("PUT", "/api/v1/users", user(&name)),
            bad("PUT", "/api/v1/users", user(&name)),
            created("POST", "/api/v1/rides", ride(&name, 100, 101)),
            done("POST", "/api/v1/rides/1", rider(&name)),
            bad("POST", "/api/v1/rides/1", rider(&name)),
            done("DELETE", format!("/api/v1/users/{path}"), ""),
            bad("DELETE", format!("/api/v1/users/{path}"), ""),
            nothing("/api/v1/rides?source=100&destination=101"),
        ]);
    }
    let large = format!("{{\"username\": \"{}\"}}", "x".repeat(1 << 20));
    cases.push(call("PUT", "/api/v1/users", large, 413, Expected::Problem));
    cases
}

fn joins() -> Vec<Case> {
    let ride = |users: Value| {
        let body = json!({ "rideId": 1, "created_by": "ann", "users": users, "timestamp": FUTURE,
            "source": 3, "destination": 44 });
        shows("/api/v1/rides/1", body)
    };
    vec![
        done("POST", "/api/v1/rides/1", rider("cid")),
        done("POST", "/api/v1/rides/1", rider("bob")),
        ride(json!(["cid", "bob"])),
        bad("POST", "/api/v1/rides/1", rider("bob")),
        bad("POST", "/api/v1/rides/1", rider("ann")),
        bad("POST", "/api/v1/rides/1", rider("nobody")),
        bad("POST", "/api/v1/rides/1", rider("")),
        bad("POST", "/api/v1/rides/99", rider("bob")),
        bad("POST", "/api/v1/rides/one", rider("bob")),
        bad("POST", "/api/v1/rides/1", json!({ "username": 7 })),
        bad("POST", "/api/v1/rides/1", json!({ "user": "bob" })),
        bad("POST", "/api/v1/rides/1", ""),
        ride(json!(["cid", "bob"])),
    ]
}

fn deletions() -> Vec<Case> {
    let ride = |id: u64, users: Value| {
        let body = json!({ "rideId": id, "created_by": "ann", "users": users, "timestamp": FUTURE,
            "source": 3, "destination": 44 });
        shows(format!("/api/v1/rides/{id}"), body)
    };
    vec![
        done("DELETE", "/api/v1/users/cid", ""),
        ride(1, json!(["bob"])),
        done("DELETE", "/api/v1/rides/2", ""),
        bad("DELETE", "/api/v1/rides/2", ""),
        bad("DELETE", "/api/v1/rides/one", ""),
        bad("GET", "/api/v1/rides/2", ""),
        created("POST", "/api/v1/rides", ride_of_bob()),
        done("DELETE", "/api/v1/users/bob", ""),
        ride(1, json!([])),
        nothing("/api/v1/rides?source=7&destination=8"),
        shows("/api/v1/rides/count", json!([3])),
    ]
}

fn ride_of_bob() -> String {
    ride("bob", 7, 8)
}

fn tables() -> Vec<Case> {
    const WRITE: &str = "/api/v1/db/write";
    const READ: &str = "/api/v1/db/read";
    let insert = |table: &str, columns: Value, values: Value| json!({ "table": table, "columns": columns, "insert": values });
    let read = |table: &str, columns: Value, condition: &str| json!({ "table": table, "columns": columns, "where": condition });
    let rows = |table: &str, columns: Value, condition: &str, rows: Value| {
        call("POST", READ, read(table, columns, condition), 200, Expected::Body(rows))
    };
    let user = json!(["username", "password"]);
    let journey = json!(["created_by", "timestamp", "source", "destination"]);
    let cases = vec![
        created("POST", WRITE, insert("users", user.clone(), json!(["dan", "any text"]))),
        created("POST", WRITE, insert("users", user.clone(), json!([7, 0.5]))),
        bad("POST", WRITE, insert("users", user.clone(), json!(["dan", "again"]))),
        bad("POST", WRITE, insert("users", user.clone(), json!(["eve", null]))),
        bad("POST", WRITE, insert("users", user.clone(), json!(["eve"]))),
        bad("POST", WRITE, insert("users", user.clone(), json!(["eve", true]))),
        bad("POST", WRITE, insert("users", json!([]), json!([]))),
        bad("POST", WRITE, insert("users", json!(["username", "age"]), json!(["eve", 7]))),
        bad("POST", WRITE, insert("users", json!(["username", "username"]), json!(["e", "f"]))),
        bad("POST", WRITE, insert("sqlite_master", json!(["name"]), json!(["x"]))),
        bad("POST", WRITE, insert("riders", json!(["rideId", "username"]), json!([99, "ann"]))),
        bad("POST", WRITE, insert("rides", json!(["rideId"]), json!(["not a number"]))),
        bad(
            "POST",
            WRITE,
            insert("riders", json!(["rideId", "username"]), json!([u64::MAX, "ann"])),
        ),
        bad("POST", WRITE, json!({ "table": "users", "isDelete": true })),
        bad("POST", WRITE, json!({ "table": "users", "isDelete": true, "where": "1=1" })),
        bad("POST", WRITE, ""),
        // A time that is none is never listed.
        created("POST", WRITE, insert("rides", journey, json!(["ann", "soon", 50, 51]))),
        at(Place::Gateway, nothing("/api/v1/rides?source=50&destination=51")),
        rows(
            "rides",
            json!(["timestamp"]),
            "source=50 and destination=51",
            json!([{ "timestamp": "soon" }]),
        ),
        rows(
            "users",
            user.clone(),
            "username=dan",
            json!([{ "username": "dan", "password": "any text" }]),
        ),
        rows(
            "users",
            json!(["password"]),
            "username=7 and password=0.5",
            json!([{ "password": "0.5" }]),
        ),
        rows("users", user.clone(), "username=DAN", json!([])),
        rows("users", user.clone(), "username=dan and password=other", json!([])),
        rows("rides", json!(["rideId"]), "rideId=1", json!([{ "rideId": 1 }])),
        rows("rides", json!(["rideId"]), "rideId=one", json!([])),
        bad("POST", READ, json!({ "table": "users", "columns": user })),
        bad("POST", READ, read("users", json!([]), "username=dan")),
        bad("POST", READ, read("users", json!(["*"]), "username=dan")),
        bad("POST", READ, read("users", json!(["username", "username"]), "username=dan")),
        bad("POST", READ, read("cars", json!(["username"]), "username=dan")),
        bad("POST", READ, read("users", json!(["username"]), "")),
        bad("POST", READ, read("users", json!(["username"]), "username")),
        bad("POST", READ, read("users", json!(["username"]), "rowid=1")),
        bad("POST", READ, read("users", json!(["username"]), "username=dan and ")),
        created(
            "POST",
            WRITE,
            json!({ "table": "users", "isDelete": true, "where": "username=dan" }),
        ),
        created(
            "POST",
            WRITE,
            json!({ "table": "users", "isDelete": true, "where": "username=dan" }),
        ),
        rows("users", json!(["username"]), "username=dan", json!([])),
        created(
            "POST",
            WRITE,
            json!({ "table": "users", "isDelete": true, "where": "username=7" }),
        ),
    ];
    let moved = |case: Case| match case.path.starts_with("/api/v1/db/") {
        true => at(Place::Orchestrator, case),
        false => case,
    };
    cases.into_iter().map(moved).collect()
}

/// `db/clear` on each of the three, and ids that never come again.
fn clearing() -> Vec<Case> {
    let mut cases = Vec::new();
    // Five rides of the API and one of `db/write` came before, and two that long names created.
    for (place, id) in
        [(Place::Users, 9), (Place::Rides, 10), (Place::Orchestrator, 11), (Place::Gateway, 12)]
    {
        cases.extend([
            at(place, done("POST", "/api/v1/db/clear", "")),
            nothing("/api/v1/users"),
            shows("/api/v1/rides/count", json!([0])),
            created("PUT", "/api/v1/users", user("ann")),
            created("POST", "/api/v1/rides", ride("ann", 3, 44)),
            shows(
                "/api/v1/rides?source=3&destination=44",
                json!([{ "rideId": id, "username": "ann", "timestamp": FUTURE }]),
            ),
        ]);
    }
    cases
}

/// Other methods and other paths.
fn methods() -> Vec<Case> {
    use Place::{Gateway, Orchestrator, Rides, Users};
    let mut cases = Vec::new();
    for (place, path, allow) in [
        (Gateway, "/api/v1/users", "GET, PUT"),
        (Gateway, "/api/v1/users/ann", "DELETE"),
        (Gateway, "/api/v1/rides", "GET, POST"),
        (Gateway, "/api/v1/rides/1", "GET, POST, DELETE"),
        (Gateway, "/api/v1/rides/count", "GET"),
        (Gateway, "/api/v1/_count", "GET, DELETE"),
        (Gateway, "/api/v1/db/clear", "POST"),
        (Users, "/api/v1/_count", "GET, DELETE"),
        (Users, "/api/v1/db/clear", "POST"),
        (Rides, "/api/v1/db/clear", "POST"),
        (Orchestrator, "/api/v1/db/write", "POST"),
        (Orchestrator, "/api/v1/db/read", "POST"),
        (Orchestrator, "/api/v1/db/clear", "POST"),
        (Orchestrator, "/api/v1/crash/master", "POST"),
        (Orchestrator, "/api/v1/crash/slave", "POST"),
        (Orchestrator, "/api/v1/worker/list", "GET"),
    ] {
        let known: Vec<&str> = allow.split(", ").collect();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            if !known.contains(&method) {
                cases.push(at(place, call(method, path, "{}", 405, Expected::Allow(allow))));
            }
        }
    }
    for (place, path) in [
        (Gateway, "/"),
        (Gateway, "/api/v1/users/"),
        (Gateway, "/api/v1/users/a/b"),
        (Gateway, "/api/v1/rides/1/users"),
        (Gateway, "/api/v1/worker/list"),
        (Users, "/api/v1/rides"),
        (Rides, "/api/v1/users"),
        (Orchestrator, "/api/v1/_count"),
    ] {
        cases.push(at(place, call("GET", path, "", 404, Expected::Problem)));
    }
    cases
}
