-- A store that is being moved in from a file. No server starts here before it is whole and the file is given up.
-- state: 0 filling, 1 filled and verified, 2 servable. `id` is the move's own, which the file has as well.
CREATE TABLE moved_in (
    one     boolean  PRIMARY KEY,
    id      uuid     NOT NULL,
    state   smallint NOT NULL,
    source  text     NOT NULL
);
