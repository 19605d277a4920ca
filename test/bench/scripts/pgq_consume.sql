DO $$
DECLARE
	batch bigint;
BEGIN
	LOOP
		batch := pgq.next_batch('q', 'c');
		EXIT WHEN batch IS NULL;
		PERFORM ev_id, ev_data FROM pgq.get_batch_events(batch);
		PERFORM pgq.finish_batch(batch);
	END LOOP;
END $$
