-- Where the process of a session can be reached: told to callers of a lane that it owns.
ALTER TABLE session ADD COLUMN address text;
