SELECT count(pgq.insert_event('q', 'n', '{"n": 1}')) FROM generate_series(1, @batch@);
