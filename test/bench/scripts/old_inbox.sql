-- Of a thousand five are released, five are left to expire.
\set dice random(1, 1000)
SELECT receipt AS r, payload AS p FROM inbox_claim('q', 1, '5 s') \aset
\if :dice <= 5
SELECT verdict FROM inbox_settle('q', :r, 'release');
\elif :dice > 10
SELECT verdict FROM inbox_settle('q', :r);
\endif
