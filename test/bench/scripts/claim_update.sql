\set k :k + 1
\set a 1 + (:k * :clients + :client_id) * @batch@
\set b :a + @batch@
WITH u AS (UPDATE plain SET locked_until = clock_timestamp() + interval '30 s', claimed_at = clock_timestamp(), attempt = attempt + 1 WHERE id >= :a AND id < :b RETURNING id, payload) SELECT string_agg(id::text, ',') AS r, count(payload) AS n FROM u \gset
DELETE FROM plain WHERE id >= :a AND id < :b;
