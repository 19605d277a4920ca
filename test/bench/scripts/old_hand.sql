-- The same; a loop beside it frees what has expired.
\set dice random(1, 1000)
WITH c AS (SELECT id FROM hand WHERE locked_until IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE hand h SET locked_until = clock_timestamp() + interval '5 s', attempt = attempt + 1 FROM c WHERE h.id = c.id RETURNING h.id AS r, h.payload AS p \aset
\if :dice <= 5
UPDATE hand SET locked_until = NULL, attempt = attempt - 1 WHERE id = :r;
\elif :dice > 10
DELETE FROM hand WHERE id = :r;
\endif
