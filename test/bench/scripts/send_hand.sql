INSERT INTO hand (payload) SELECT p FROM unnest(array_fill('{"n": 1}'::jsonb, ARRAY[@batch@])) p;
