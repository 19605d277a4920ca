SELECT string_agg(receipt, ',') AS r, count(payload) AS n FROM inbox_next('q', string_to_array(:r, ','), @batch@) \gset
