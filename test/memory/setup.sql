CREATE EXTENSION inbox;
SELECT inbox_create('work', lease => '10 min');
SELECT count(*) FROM inbox_send_batch('work', array_fill('{"n": 1}'::jsonb, ARRAY[1000]));

CREATE TABLE sample (i int, pid int, used bigint, anonymous bigint);

-- What this session's process has now.
CREATE FUNCTION take_sample(i int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sample
	SELECT $1, pg_backend_pid(), sum(used_bytes),
		substring(pg_read_file('/proc/self/status', 0, 10000, true) FROM 'RssAnon:\s*(\d+)')::bigint
	FROM pg_backend_memory_contexts
$$;
