-- What stays of transactions whose history was removed: their ids and keys are taken for ever.
CREATE TABLE kept (
    namespace   INTEGER NOT NULL REFERENCES namespace (id),
    id          BLOB    NOT NULL,
    account     INTEGER NOT NULL REFERENCES account (id),
    request_id  TEXT,
    details     TEXT    NOT NULL,
    PRIMARY KEY (id, namespace)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX kept_key ON kept (account, request_id) WHERE request_id IS NOT NULL;
