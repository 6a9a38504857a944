-- A call: the nonce that its caller gave, and the API key that it came with, empty where there was none. It identifies a transaction
-- of its lane, until that ends without anything signed.
ALTER TABLE tx ADD COLUMN api_key TEXT;
ALTER TABLE tx ADD COLUMN caller_nonce INTEGER;

-- Which key the calls before came with was not stored: they count as calls without one. Where several gave one nonce, the newest
-- has it.
UPDATE tx SET api_key = '', caller_nonce = json_extract(request, '$.atOnce.nonce')
WHERE ord IN (
    SELECT max(ord) FROM tx
    WHERE request LIKE '%"atOnce":{"nonce":%'
        AND typeof(json_extract(request, '$.atOnce.nonce')) = 'integer'
        AND NOT (phase = 2 AND json_extract(status, '$.hash') IS NULL)
    GROUP BY lane, json_extract(request, '$.atOnce.nonce'));

CREATE UNIQUE INDEX tx_call ON tx (lane, api_key, caller_nonce) WHERE caller_nonce IS NOT NULL;

-- The same of what stays. `first_hash` is what its callers were told, if another one won.
ALTER TABLE kept ADD COLUMN lane INTEGER;
ALTER TABLE kept ADD COLUMN api_key TEXT;
ALTER TABLE kept ADD COLUMN caller_nonce INTEGER;
ALTER TABLE kept ADD COLUMN first_hash BLOB;
CREATE UNIQUE INDEX kept_call ON kept (lane, api_key, caller_nonce) WHERE caller_nonce IS NOT NULL;
CREATE INDEX kept_first_hash ON kept (first_hash) WHERE first_hash IS NOT NULL;
