-- A call: the nonce that its caller gave, and the API key that it came with, empty where there was none. It identifies a transaction
-- of its lane, until that ends without anything signed.
ALTER TABLE tx ADD COLUMN api_key text COLLATE "C";
ALTER TABLE tx ADD COLUMN caller_nonce bigint;

-- Which key the calls before came with was not stored: they count as calls without one. Where several gave one nonce, the newest
-- has it.
WITH called AS (
    SELECT ord, lane, status, phase, (request::json #>> '{atOnce,nonce}')::numeric AS nonce
    FROM tx WHERE request LIKE '%"atOnce":{"nonce":%'
), newest AS (
    SELECT max(ord) AS ord, nonce FROM called
    WHERE nonce <= 9223372036854775807 AND NOT (phase = 2 AND status::json #>> '{hash}' IS NULL)
    GROUP BY lane, nonce
)
UPDATE tx SET api_key = '', caller_nonce = newest.nonce::bigint FROM newest WHERE tx.ord = newest.ord;

CREATE UNIQUE INDEX tx_call ON tx (lane, api_key, caller_nonce) WHERE caller_nonce IS NOT NULL;

-- The same of what stays. `first_hash` is what its callers were told, if another one won.
ALTER TABLE kept ADD COLUMN lane bigint;
ALTER TABLE kept ADD COLUMN api_key text COLLATE "C";
ALTER TABLE kept ADD COLUMN caller_nonce bigint;
ALTER TABLE kept ADD COLUMN first_hash bytea;
CREATE UNIQUE INDEX kept_call ON kept (lane, api_key, caller_nonce) WHERE caller_nonce IS NOT NULL;
CREATE INDEX kept_first_hash ON kept (first_hash) WHERE first_hash IS NOT NULL;
