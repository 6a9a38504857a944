-- Small documents of the door: API keys, webhooks, audit. Ids are compared by their bytes.
CREATE TABLE record (
    namespace bigint   NOT NULL,
    kind      smallint NOT NULL,
    id        text     COLLATE "C" NOT NULL,
    version   bigint   NOT NULL,
    body      text     NOT NULL,
    PRIMARY KEY (namespace, kind, id)
);
