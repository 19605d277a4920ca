SELECT id FROM inbox_send('q', '{"n": 1}');
