-- Where this database is (src/postgres/place.rs): the cluster's own number, if this user may ask for it, the database's, and that of the
-- table of lanes. A dump that is put into another place, or back into this one, brings the numbers of the place it was made in.
CREATE TABLE place (
    one       boolean PRIMARY KEY,
    cluster   bigint,
    database  bigint  NOT NULL,
    lanes     bigint  NOT NULL
);

-- Namespaces for which the database is an older copy of itself, and why. A person's word removes them.
CREATE TABLE older (
    namespace  bigint PRIMARY KEY,
    why        text   NOT NULL
);
