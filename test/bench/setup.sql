-- What the benchmark works on.

CREATE EXTENSION inbox;
SELECT inbox_create('q');

-- The physical limit: the same table and indexes, and no queue.
CREATE TABLE plain (LIKE q INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING INDEXES);

-- The hand-written queue at its best: narrow, claims in key order, one partial
-- index on what is ready and one on what is leased.
CREATE TABLE hand (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	locked_until timestamptz,
	attempt int NOT NULL DEFAULT 0,
	enqueued_at timestamptz NOT NULL DEFAULT now(),
	payload jsonb NOT NULL);
CREATE INDEX hand_ready ON hand (id) WHERE locked_until IS NULL;
CREATE INDEX hand_leased ON hand (locked_until) WHERE locked_until IS NOT NULL;

-- The same for messages that may be delayed.
CREATE TABLE hand_due (LIKE hand INCLUDING DEFAULTS INCLUDING IDENTITY,
	due_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
CREATE INDEX hand_due_ready ON hand_due (due_at, id) WHERE locked_until IS NULL;
CREATE INDEX hand_due_leased ON hand_due (locked_until) WHERE locked_until IS NOT NULL;

-- Whatever storage settings a queue has, the limit has too; and all are
-- vacuumed alike.
DO $$
DECLARE
	setting text;
BEGIN
	FOR setting IN SELECT unnest(reloptions) FROM pg_class WHERE oid = 'q'::regclass LOOP
		EXECUTE format('ALTER TABLE plain SET (%s)', setting);
		IF setting LIKE 'autovacuum%' THEN
			EXECUTE format('ALTER TABLE hand SET (%s)', setting);
			EXECUTE format('ALTER TABLE hand_due SET (%s)', setting);
		END IF;
	END LOOP;
END $$;
