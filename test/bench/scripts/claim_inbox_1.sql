SELECT receipt AS r, payload AS p FROM inbox_claim('q') \aset
SELECT verdict FROM inbox_settle('q', :r);
