-- The audit chain (core/src/audit): rows are only ever added, each sealed with the one before it.
CREATE TABLE audit (
    namespace  bigint NOT NULL,
    seq        bigint NOT NULL,
    at         bigint NOT NULL,
    entry      text   NOT NULL,
    hash       bytea  NOT NULL,
    PRIMARY KEY (namespace, seq)
);

-- Its head, apart from the rows, so that the newest cannot go unseen; and its anchor, the last row that was removed because of its age.
-- The row is locked from the moment a number is taken to the commit.
CREATE TABLE audit_ends (
    namespace    bigint PRIMARY KEY,
    seq          bigint NOT NULL,
    hash         bytea  NOT NULL,
    anchor       bigint NOT NULL,
    anchor_hash  bytea  NOT NULL
) WITH (fillfactor = 10);
