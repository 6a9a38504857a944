-- Small documents of the door: API keys, webhooks, audit.
CREATE TABLE record (
    namespace INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    body      TEXT    NOT NULL,
    PRIMARY KEY (namespace, kind, id)
) STRICT, WITHOUT ROWID;
