SELECT string_agg(receipt, ',') AS r, count(payload) AS n FROM inbox_claim('q', @batch@) \gset
SELECT count(*) FROM inbox_settle_batch('q', string_to_array(:r, ','));
