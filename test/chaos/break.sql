-- Break invariant :n on purpose, show how often it is broken now, roll back.
BEGIN;
SELECT id AS victim, receipt AS victims_receipt FROM journal WHERE what = 'done' LIMIT 1 \gset
CREATE TEMP TABLE doing (n int, statement text);
INSERT INTO doing VALUES
	(1, 'DELETE FROM effect WHERE id = %1$L'),
	(2, 'INSERT INTO jobs (id, payload) OVERRIDING SYSTEM VALUE VALUES (%1$L, ''{}'')'),
	(3, 'INSERT INTO effect VALUES (%1$L)'),
	(4, 'INSERT INTO effect VALUES (''nobody'')'),
	(5, 'INSERT INTO journal (id, receipt, what, began, ends) VALUES
		(%1$L, ''a'', ''claim'', now(), now() + interval ''10 s''),
		(%1$L, ''b'', ''claim'', now() + interval ''9 s'', now() + interval ''20 s'')'),
	(6, 'INSERT INTO journal (id, receipt, what, began, ends) VALUES
		(%1$L, ''a'', ''claim'', now(), now() + interval ''1 s''),
		(%1$L, ''b'', ''claim'', now() + interval ''2 s'', now() + interval ''3 s''),
		(%1$L, ''a'', ''extend'', NULL, now() + interval ''4 s'')'),
	(7, 'INSERT INTO journal (id, receipt, what) SELECT id, receipt, what FROM journal WHERE what = ''claim'''),
	(8, 'UPDATE journal SET attempt = 6 WHERE seq = (SELECT min(seq) FROM journal WHERE what = ''claim'')'),
	(9, 'DELETE FROM journal WHERE receipt = %2$L');
SELECT format(statement, :'victim', :'victims_receipt') FROM doing WHERE n = :n \gexec
SELECT broken FROM invariant WHERE n = :n;
ROLLBACK;
