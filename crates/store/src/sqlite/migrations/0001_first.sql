-- The first schema. Numbers of 64 bits without sign are kept as the signed number of the same bits; ids and hashes
-- are blobs; what is never searched is JSON. Indexes are few and narrow: every one is paid for by every write.

-- Installations that share the file. `probes` is what a check for writability writes.
CREATE TABLE namespace (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    probes  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- An account, on whatever chain: idempotency keys belong to it.
CREATE TABLE account (
    id         INTEGER PRIMARY KEY,
    namespace  INTEGER NOT NULL REFERENCES namespace (id),
    address    BLOB    NOT NULL,
    UNIQUE (namespace, address)
) STRICT;

-- Runs of a process that hold leases. They live until they are closed, or until another process opens the file.
CREATE TABLE session (
    namespace  INTEGER NOT NULL REFERENCES namespace (id),
    id         BLOB    NOT NULL,
    node       TEXT    NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane (
    id       INTEGER PRIMARY KEY,
    account  INTEGER NOT NULL REFERENCES account (id),
    chain    INTEGER NOT NULL,
    token    INTEGER NOT NULL DEFAULT 0,
    version  INTEGER NOT NULL DEFAULT 0,
    session  BLOB,
    details  TEXT    NOT NULL DEFAULT '{}',
    UNIQUE (account, chain)
) STRICT;

-- `request` is written once; `status` is what changes. The columns before them are what is searched.
-- phase: 0 waiting for a slot, 1 bound to one, 2 ended.
-- state: 0 accepted, 1 simulated, 2 awaiting_approval, 3 signed, 4 broadcast, 5 mined,
--        6 confirmed, 7 reverted, 8 failed, 9 cancelled, 10 expired.
CREATE TABLE tx (
    ord         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL,
    namespace   INTEGER NOT NULL REFERENCES namespace (id),
    account     INTEGER NOT NULL REFERENCES account (id),
    lane        INTEGER NOT NULL REFERENCES lane (id),
    request_id  TEXT,
    phase       INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    slot        INTEGER,
    request     TEXT    NOT NULL,
    status      TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX tx_id ON tx (id, namespace);
-- One transaction per signer and key, for ever.
CREATE UNIQUE INDEX tx_key ON tx (account, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX tx_lane ON tx (lane);
CREATE INDEX tx_waiting ON tx (lane) WHERE phase = 0;
-- One live transaction per slot.
CREATE UNIQUE INDEX tx_bound ON tx (lane, slot) WHERE phase = 1;
-- Those that ended in another way than most.
CREATE INDEX tx_ended ON tx (state) WHERE state IN (7, 8, 9, 10);

-- Signed bytes. `open` until the chain has settled the slot.
CREATE TABLE attempt (
    lane     INTEGER NOT NULL REFERENCES lane (id),
    slot     INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    tx       INTEGER REFERENCES tx (ord),
    open     INTEGER NOT NULL DEFAULT 1,
    hash     BLOB    NOT NULL,
    raw      BLOB    NOT NULL,
    details  TEXT    NOT NULL,
    hints    TEXT    NOT NULL,
    PRIMARY KEY (lane, slot, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_open ON attempt (lane) WHERE open = 1;
CREATE INDEX attempt_tx ON attempt (tx) WHERE tx IS NOT NULL;
CREATE INDEX attempt_hash ON attempt (hash);

CREATE TABLE journal (
    seq    INTEGER PRIMARY KEY,
    lane   INTEGER NOT NULL REFERENCES lane (id),
    tx     INTEGER REFERENCES tx (ord),
    at     INTEGER NOT NULL,
    entry  TEXT    NOT NULL
) STRICT;

CREATE INDEX journal_tx ON journal (tx) WHERE tx IS NOT NULL;

CREATE TABLE command (
    seq        INTEGER PRIMARY KEY,
    namespace  INTEGER NOT NULL REFERENCES namespace (id),
    id         BLOB    NOT NULL,
    lane       INTEGER NOT NULL REFERENCES lane (id),
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    done       INTEGER NOT NULL DEFAULT 0,
    UNIQUE (id, namespace)
) STRICT;

CREATE INDEX command_open ON command (lane) WHERE done = 0;

CREATE TABLE chain (
    namespace  INTEGER NOT NULL REFERENCES namespace (id),
    chain      INTEGER NOT NULL,
    record     TEXT    NOT NULL,
    PRIMARY KEY (namespace, chain)
) STRICT, WITHOUT ROWID;
