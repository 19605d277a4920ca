-- One round of a client that works off what the others left.
SELECT inbox_reap('jobs');
BEGIN;
CREATE TEMP TABLE held AS
SELECT id, receipt, attempt, locked_until FROM inbox_claim('jobs', 1000, lease => '10 s');
INSERT INTO journal (id, receipt, what, attempt, began, ends, client)
SELECT id, receipt, 'claim', attempt, locked_until - interval '10 s', locked_until, 'drain' FROM held;
SELECT FROM inbox_settle_batch('jobs', ARRAY(SELECT receipt FROM held), strict => true);
INSERT INTO journal (id, receipt, what, ends, client)
SELECT id, receipt, 'done', '-infinity', 'drain' FROM held;
INSERT INTO effect SELECT id, 'drain' FROM held;
COMMIT;
