-- view inbox_workers: its shape, and who may see it.  What it shows depends
-- on whether the library is preloaded; test/t has that.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;

SELECT attname, format_type(atttypid, atttypmod)
FROM pg_attribute WHERE attrelid = 'inbox_workers'::regclass AND attnum > 0
ORDER BY attnum;

SELECT obj_description('inbox_workers'::regclass) IS NOT NULL AS has_comment,
	has_table_privilege('pg_monitor', 'inbox_workers', 'SELECT') AS may_select;

-- preloaded: one row for each database that has been looked into
SELECT count(*) <= (SELECT count(*) FROM pg_database) AS sane FROM inbox_workers;

-- without preload nobody works
SELECT current_setting('shared_preload_libraries') ~ 'inbox' OR count(*) = 0 AS empty
FROM inbox_workers;

CREATE ROLE regress_inbox_anybody;
SET ROLE regress_inbox_anybody;
SELECT count(*) >= 0 AS may_look FROM inbox_workers;
RESET ROLE;
DROP ROLE regress_inbox_anybody;
