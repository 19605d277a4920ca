SELECT count(*) FROM inbox_send_batch('q', array_fill('{"n": 1}'::jsonb, ARRAY[@batch@]));
