SELECT max(receipt) AS r, count(payload) AS n FROM inbox_claim('q') \gset
SELECT verdict FROM inbox_settle('q', :r);
