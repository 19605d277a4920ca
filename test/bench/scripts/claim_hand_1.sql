WITH c AS (SELECT id FROM hand WHERE locked_until IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE hand h SET locked_until = clock_timestamp() + interval '30 s', attempt = attempt + 1 FROM c WHERE h.id = c.id RETURNING h.id AS r, h.payload AS p \aset
DELETE FROM hand WHERE id = :r;
