-- A command goes with the history of its transaction; one of its lane, or from before this column, by its age.
ALTER TABLE command ADD COLUMN tx uuid;

CREATE INDEX command_tx ON command (tx) WHERE tx IS NOT NULL;
CREATE INDEX command_age ON command (namespace, at) WHERE done AND tx IS NULL;
