-- The audit chain (core/src/audit): rows are only ever added, each sealed with the one before it.
CREATE TABLE audit (
    namespace  INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    entry      TEXT    NOT NULL,
    hash       BLOB    NOT NULL,
    PRIMARY KEY (namespace, seq)
) STRICT, WITHOUT ROWID;

-- Its head, apart from the rows, so that the newest cannot go unseen; and its anchor, the last row that was removed because of its age.
CREATE TABLE audit_ends (
    namespace    INTEGER PRIMARY KEY,
    seq          INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    anchor       INTEGER NOT NULL,
    anchor_hash  BLOB    NOT NULL
) STRICT;
