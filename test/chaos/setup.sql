-- What the clients write and the checker reads.  No table has a key: what
-- must not happen has to be able to happen here.
CREATE EXTENSION inbox;
SELECT inbox_create('jobs', lease => '2 s', max_attempts => 5);

-- every message, written in the transaction that sent it
CREATE TABLE sent (id text);

-- done and dropped messages, written in the transaction that settled them
CREATE TABLE effect (id text, client text);

-- Every change of a lease that its client asked for, written in the
-- transaction that made it.  That transaction holds the message's row lock
-- when it takes a number, so for one message the numbers are in the order in
-- which the changes happened, across crashes too.
CREATE TABLE journal (
	seq bigserial,
	id text,
	receipt text,
	what text,				-- claim, extend, or the outcome of a settlement
	attempt int,
	began timestamptz,		-- claim: the instant at which it judged and began
	ends timestamptz,		-- end of the lease from then on
	client text
);

-- what clients were told had been committed; loaded at the end
CREATE TABLE seen (id text, receipt text, what text);

-- One row per invariant, with how often it is broken.
CREATE VIEW invariant AS
WITH fate AS (
	SELECT s.id,
		(SELECT count(*) FROM effect e WHERE e.id = s.id) AS effects,
		(SELECT count(*) FROM jobs j WHERE j.id = s.id::bigint) AS queued,
		(SELECT count(*) FROM jobs_dead d WHERE d.id::text = s.id) AS dead
	FROM sent s
), history AS (
	SELECT *, lag(ends) OVER w AS in_force,
		max(seq) FILTER (WHERE what = 'claim')
			OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_claim
	FROM journal WINDOW w AS (PARTITION BY id ORDER BY seq)
), claimed AS (
	SELECT receipt, min(seq) AS seq FROM journal WHERE what = 'claim' GROUP BY receipt
)
SELECT 1 AS n, 'no message is lost' AS name,
	(SELECT count(*) FROM fate WHERE effects + queued + dead = 0) AS broken
UNION ALL
SELECT 2, 'no message is in two places', (SELECT count(*) FROM fate WHERE queued + dead + least(effects, 1) > 1)
UNION ALL
SELECT 3, 'each effect happened once', (SELECT count(*) FROM fate WHERE effects > 1)
UNION ALL
SELECT 4, 'nothing is there that nobody sent',
	(SELECT count(*) FROM (SELECT id FROM effect UNION SELECT id::text FROM jobs UNION SELECT id::text FROM jobs_dead) x
	 WHERE id NOT IN (SELECT id FROM sent))
UNION ALL
SELECT 5, 'no claim began before the lease in force had ended or been given up',
	(SELECT count(*) FROM history WHERE what = 'claim' AND in_force > began)
UNION ALL
SELECT 6, 'nobody extended or settled what another had claimed since',
	(SELECT count(*) FROM history h JOIN claimed c USING (receipt)
	 WHERE h.what <> 'claim' AND h.last_claim > c.seq)
UNION ALL
SELECT 7, 'no receipt was handed out twice',
	(SELECT count(*) FROM (SELECT FROM journal WHERE what = 'claim' GROUP BY receipt HAVING count(*) > 1) x)
UNION ALL
SELECT 8, 'no delivery was beyond the cap',
	(SELECT count(*) FROM journal WHERE what = 'claim' AND attempt > 5)
UNION ALL
SELECT 9, 'whatever a client was told is in the journal',
	(SELECT count(*) FROM seen s WHERE NOT EXISTS
		(SELECT FROM journal j WHERE (j.id, j.receipt, j.what) = (s.id, s.receipt, s.what)
		 UNION ALL SELECT FROM sent t WHERE s.what = 'sent' AND t.id = s.id));
CREATE INDEX ON journal (id, seq);
CREATE INDEX ON effect (id);
CREATE INDEX ON sent (id);
