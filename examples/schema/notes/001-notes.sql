-- Notes of several authors, and their tags.
CREATE TABLE notes (
    id      INTEGER PRIMARY KEY,
    author  TEXT NOT NULL,
    title   TEXT NOT NULL,
    body    TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL DEFAULT (datetime('now'))
) STRICT;

CREATE INDEX notes_by_author ON notes (author, id);

CREATE TABLE tags (
    note INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
    tag  TEXT NOT NULL,
    PRIMARY KEY (note, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_name ON tags (tag);
