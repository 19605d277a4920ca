SELECT pgq.insert_event('q', 'n', '{"n": 1}');
