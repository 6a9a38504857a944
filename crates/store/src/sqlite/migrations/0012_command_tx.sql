-- A command goes with the history of its transaction; one of its lane, or from before this column, by its age.
ALTER TABLE command ADD COLUMN tx BLOB;

CREATE INDEX command_tx ON command (tx) WHERE tx IS NOT NULL;
CREATE INDEX command_age ON command (at) WHERE done = 1 AND tx IS NULL;
