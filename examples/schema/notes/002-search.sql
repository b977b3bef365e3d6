-- A full-text index of the notes. Triggers keep it, so no client has to.
CREATE VIRTUAL TABLE notes_search USING fts5 (title, body);

CREATE TRIGGER notes_inserted AFTER INSERT ON notes BEGIN
    INSERT INTO notes_search (rowid, title, body) VALUES (new.id, new.title, new.body);
END;

CREATE TRIGGER notes_updated AFTER UPDATE OF title, body ON notes BEGIN
    UPDATE notes_search SET title = new.title, body = new.body WHERE rowid = new.id;
END;

CREATE TRIGGER notes_deleted AFTER DELETE ON notes BEGIN
    DELETE FROM notes_search WHERE rowid = old.id;
END;
