-- A session's sign of life: the number of its last renewal, and for how long its process counts on it. Whoever has seen the same number
-- for so long, by its own clock, may end the session; the database's clock is not asked. A row without `lasts_ms` is an older
-- program's, which moves `ends_at` alone: it ends by the database's clock, as before. `ends_at` stays, for older programs and for people.
CREATE SEQUENCE session_pulse;
ALTER TABLE session ADD COLUMN pulse bigint NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN lasts_ms bigint;
