CREATE EXTENSION inbox;
SELECT inbox_create('work', lease => '10 min');
SELECT count(*) FROM inbox_send_batch('work', array_fill('{"n": 1}'::jsonb, ARRAY[1000]));

CREATE TABLE sample (turn int, pid int, used bigint, anonymous bigint);

-- What this session's process has now.
CREATE FUNCTION take_sample(turn int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sample
	SELECT $1, pg_backend_pid(), sum(used_bytes),
		substring(pg_read_file('/proc/self/status', 0, 10000, true) FROM 'RssAnon:\s*(\d+)')::bigint
	FROM pg_backend_memory_contexts
$$;

-- N rounds of a claim and a settlement, each call in a transaction of its
-- own.  One round in ten each replaces its message, retries, extends, settles
-- twice, and settles as a batch.
CREATE PROCEDURE rounds(n int) LANGUAGE plpgsql AS $$
DECLARE
	r text;
	kind int;
BEGIN
	FOR i IN 1 .. n LOOP
		kind := i % 10;
		SELECT receipt INTO STRICT r FROM inbox_claim('work');
		COMMIT;
		IF kind = 0 THEN
			PERFORM inbox_send('work', '{"n": 1}');
			PERFORM inbox_settle('work', r);
		ELSIF kind = 1 THEN
			PERFORM inbox_settle('work', r, 'retry', delay => '0');
		ELSIF kind = 2 THEN
			PERFORM inbox_extend('work', r, '11 min');
			COMMIT;
			PERFORM inbox_settle('work', r, 'release');
		ELSIF kind = 3 THEN
			PERFORM inbox_settle('work', r, 'release');
			COMMIT;
			PERFORM inbox_settle('work', r, 'release');
		ELSIF kind = 4 THEN
			PERFORM inbox_settle_batch('work', ARRAY[r], '{release}');
		ELSE
			PERFORM inbox_settle('work', r, 'release');
		END IF;
		COMMIT;
	END LOOP;
END
$$;
