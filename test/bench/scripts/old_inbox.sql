-- Of a thousand five are released, five are left to expire.
\set dice random(1, 1000)
SELECT max(receipt) AS r, count(payload) AS n FROM inbox_claim('q', 1, '5 s') \gset
\if :dice <= 5
SELECT verdict FROM inbox_settle('q', :r, 'release');
\elif :dice > 10
SELECT verdict FROM inbox_settle('q', :r);
\endif
