-- The mark beside the file (src/sqlite/mark.rs). `lineage` is drawn once, and anew when a person accepts a file that went back.
-- `awaits` is absent once a mark of this lineage was written. Until then it is what may lie beside the file instead: the text
-- of the mark before it, or nothing. `moves` counts how often the write-ahead log was moved into the file.
CREATE TABLE mark (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    lineage  BLOB    NOT NULL,
    awaits   TEXT,
    moves    INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO mark (one, lineage, awaits) VALUES (1, randomblob(16), '');

-- Namespaces for which the file is an older copy of itself, and why. A person's word removes them.
CREATE TABLE older (
    namespace  INTEGER PRIMARY KEY REFERENCES namespace (id),
    why        TEXT    NOT NULL
) STRICT;
