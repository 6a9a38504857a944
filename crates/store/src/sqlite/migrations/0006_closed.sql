-- Slots are closed by one number of the lane instead of a write to every attempt. An attempt is open while `open` is 1 and
-- its slot is not below the lane's `closed`; one that is `apart` is open while `open` is 1, whatever its slot. Apart are
-- those that were here before, and those that are stored below `closed`.
ALTER TABLE lane ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN apart INTEGER NOT NULL DEFAULT 1;
UPDATE lane SET closed = max(0, COALESCE(
    (SELECT min(max(slot), 9223372036854775806) + 1 FROM attempt WHERE attempt.lane = lane.id), 0));
DROP INDEX attempt_open;
CREATE INDEX attempt_apart ON attempt (lane) WHERE apart = 1 AND open = 1;
