-- Whether this store is being moved to another database, or was: then no server starts on it again.
-- state: 0 a move was given up, 1 moving, 2 moved. `id` is the move's own, which the other database has as well.
CREATE TABLE moved (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    state  INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    place  TEXT    NOT NULL
) STRICT;
