CREATE TABLE users (
    username TEXT NOT NULL PRIMARY KEY,
    password TEXT NOT NULL
);

CREATE TABLE rides (
    rideId      INTEGER PRIMARY KEY AUTOINCREMENT,
    created_by  TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
    timestamp   TEXT NOT NULL,
    source      INTEGER NOT NULL,
    destination INTEGER NOT NULL
);

-- Without a primary key, so that the rowid is the order of joining.
CREATE TABLE riders (
    rideId   INTEGER NOT NULL REFERENCES rides ON DELETE CASCADE,
    username TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
    UNIQUE (rideId, username)
);

CREATE INDEX rides_by_route ON rides (source, destination);
CREATE INDEX rides_by_creator ON rides (created_by);
CREATE INDEX riders_by_user ON riders (username);
