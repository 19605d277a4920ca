-- What a transaction has passed is open again when it is undone, also where
-- it passed a row because it had changed it itself.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
SELECT inbox_create('hints_rollback');
INSERT INTO hints_rollback (payload) VALUES ('1'), ('2'), ('3');

-- deleted by hand
BEGIN;
DELETE FROM hints_rollback WHERE id = 1;
SELECT id FROM inbox_claim('hints_rollback', 1);
ROLLBACK;
SELECT id FROM inbox_claim('hints_rollback', 1);

-- settled after its lease was over
SELECT receipt FROM inbox_stamp('hints_rollback', ARRAY['2']) \gset
UPDATE hints_rollback SET locked_until = now() - interval '1 second' WHERE id = 2;
BEGIN;
SELECT id FROM inbox_next('hints_rollback', ARRAY[:'receipt'], 1);
ROLLBACK;
SELECT id FROM inbox_claim('hints_rollback', 1);

-- the same in a savepoint
UPDATE hints_rollback SET locked_until = NULL WHERE id = 1;
BEGIN;
SAVEPOINT s;
UPDATE hints_rollback SET due_at = now() + interval '1 day' WHERE id = 1;
SELECT id FROM inbox_claim('hints_rollback', 1);
ROLLBACK TO s;
COMMIT;
SELECT id FROM inbox_claim('hints_rollback', 3) ORDER BY 1;
DROP TABLE hints_rollback;

-- a claim that fails at its second row had reserved them all
SELECT inbox_create('hints_rollback');
INSERT INTO hints_rollback (payload) VALUES ('1'), ('2'), ('3');
CREATE FUNCTION fail_at(id bigint, locked_until timestamptz) RETURNS boolean
	LANGUAGE plpgsql AS $$
BEGIN
	RETURN locked_until IS NULL OR id::text <> current_setting('test.fail_at', true);
END $$;
ALTER TABLE hints_rollback ADD CONSTRAINT fails CHECK (fail_at(id, locked_until));
SET test.fail_at = 2;
\set VERBOSITY terse
SELECT id FROM inbox_claim('hints_rollback', 3);
RESET test.fail_at;
SELECT id FROM inbox_claim('hints_rollback', 3);
DROP TABLE hints_rollback;
DROP FUNCTION fail_at;
