-- Those that ended in another way than most, by a range: for a list of values SQLite builds a table of them, twice for
-- every update of a row.
DROP INDEX tx_ended;
CREATE INDEX tx_ended ON tx (state) WHERE state > 6;
