INSERT INTO q (payload) SELECT p FROM unnest(array_fill('{"n": 1}'::jsonb, ARRAY[@batch@])) p;
