-- Attempts lie in the order in which they were stored, not by lane: with a thousand lanes every one of them changed a
-- page of its own, and with few of them pages were split in the middle and stayed half empty.
CREATE TABLE attempt_by_age (
    ord      INTEGER PRIMARY KEY,
    lane     INTEGER NOT NULL REFERENCES lane (id),
    slot     INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    tx       INTEGER REFERENCES tx (ord),
    open     INTEGER NOT NULL DEFAULT 1,
    apart    INTEGER NOT NULL DEFAULT 1,
    hash     BLOB    NOT NULL,
    raw      BLOB    NOT NULL,
    details  TEXT    NOT NULL,
    hints    TEXT    NOT NULL
) STRICT;

INSERT INTO attempt_by_age (lane, slot, ordinal, tx, open, apart, hash, raw, details, hints)
SELECT lane, slot, ordinal, tx, open, apart, hash, raw, details, hints FROM attempt ORDER BY lane, slot, ordinal;

DROP TABLE attempt;
ALTER TABLE attempt_by_age RENAME TO attempt;

CREATE UNIQUE INDEX attempt_slot ON attempt (lane, slot, ordinal);
CREATE INDEX attempt_tx ON attempt (tx) WHERE tx IS NOT NULL;
CREATE INDEX attempt_hash ON attempt (substr(hash, 1, 4));
CREATE INDEX attempt_apart ON attempt (lane) WHERE apart = 1 AND open = 1;
