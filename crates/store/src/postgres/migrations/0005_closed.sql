-- Slots are closed by one number of the lane instead of a write to every attempt. An attempt is open while `open` is true
-- and its slot is not below the lane's `closed`; one that is `apart` is open while `open` is true, whatever its slot.
-- Apart are those that were here before, those that an older program stores, and those that are stored below `closed`.
ALTER TABLE lane ADD COLUMN closed bigint NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN apart boolean NOT NULL DEFAULT true;
UPDATE lane SET closed = GREATEST(0, COALESCE(
    (SELECT LEAST(max(slot), 9223372036854775806) + 1 FROM attempt WHERE attempt.lane = lane.id), 0));
DROP INDEX attempt_open;
CREATE INDEX attempt_apart ON attempt (lane) WHERE apart AND open;
