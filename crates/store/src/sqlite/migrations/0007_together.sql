-- A row of the journal may be a list of entries: what one commit tells of one transaction (src/journal.rs). Nothing has to be
-- changed for that, but a program that does not know it must not open the file.

-- Hashes come in no order, so nearly every attempt changes another page of their index. With the first four bytes of
-- each it has a third of the pages.
DROP INDEX attempt_hash;
CREATE INDEX attempt_hash ON attempt (substr(hash, 1, 4));
