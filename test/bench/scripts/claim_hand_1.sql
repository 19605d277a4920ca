WITH c AS (SELECT id FROM hand WHERE locked_until IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), u AS (UPDATE hand h SET locked_until = clock_timestamp() + interval '30 s', attempt = attempt + 1 FROM c WHERE h.id = c.id RETURNING h.id, h.payload) SELECT coalesce(max(id), 0) AS r, count(payload) AS n FROM u \gset
DELETE FROM hand WHERE id = :r;
