--
-- lease_virtual: generated columns that are not stored, which 18 brought
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
-- earlier servers know no such column, so nothing here may print
DO $$
DECLARE
	row_text text;
	message text;
BEGIN
	IF current_setting('server_version_num')::int < 180000 THEN
		RETURN;
	END IF;

	EXECUTE 'CREATE TABLE virt (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
		attempt int DEFAULT 1, p int, twice int GENERATED ALWAYS AS (p * 2) VIRTUAL,
		word text GENERATED ALWAYS AS (''p'' || p) VIRTUAL, is_leased boolean GENERATED ALWAYS AS (locked_until IS NOT NULL) VIRTUAL)';
	CREATE TABLE virt_dead (id bigint PRIMARY KEY, p int, twice int, word text, is_leased boolean, attempt int,
		died_at timestamptz, cause text, last_error text, rest jsonb);

	-- a role reads what the table holds
	BEGIN
		PERFORM inbox_adopt('virt', attempt => 'attempt', claimed_at => 'claimed_at', priority => 'twice');
		RAISE 'a virtual column was given a role';
	EXCEPTION WHEN generated_always THEN
		GET STACKED DIAGNOSTICS message = PG_EXCEPTION_DETAIL;
		ASSERT message = 'It is generated and not stored.', message;
	END;

	PERFORM inbox_adopt('virt', attempt => 'attempt', claimed_at => 'claimed_at', max_attempts => 3, dead_letter => 'virt_dead');
	EXECUTE 'INSERT INTO virt(p) VALUES (1), (2), (NULL)';

	-- whole rows, as a row and as a payload
	EXECUTE 'SELECT (id, p, twice, word, is_leased)::text FROM inbox_claim(NULL::virt)' INTO row_text;
	ASSERT row_text = '(1,1,2,p1,t)', row_text;
	SELECT string_agg(concat_ws(' ', d.id, d.payload->>'twice', d.payload->>'word', d.payload->>'is_leased'), ', ')
		INTO row_text FROM inbox_claim('virt', 5) d;
	ASSERT row_text = '2 4 p2 true, 3 true', row_text;
	EXECUTE 'SELECT string_agg((id, twice, is_leased)::text, '' '' ORDER BY id) FROM virt' INTO row_text;
	ASSERT row_text = '(1,2,t) (2,4,t) (3,,t)', row_text;

	-- settled, extended, buried
	EXECUTE 'SELECT string_agg((inbox_extend(''virt'', inbox_receipt(v), ''1 h'')).verdict, '' '') FROM virt v WHERE id = 1' INTO row_text;
	ASSERT row_text = 'ok', row_text;
	EXECUTE 'SELECT string_agg(inbox_settle(''virt'', inbox_receipt(v), CASE id WHEN 1 THEN ''release'' WHEN 2 THEN ''dead'' ELSE ''done'' END), '' '' ORDER BY id)
		FROM virt v' INTO row_text;
	ASSERT row_text = 'ok dead ok', row_text;
	EXECUTE 'SELECT string_agg((id, twice, is_leased)::text, '' '' ORDER BY id) FROM virt' INTO row_text;
	ASSERT row_text = '(1,2,f)', row_text;
	SELECT (id, p, twice, word, is_leased, rest - 'claimed_at')::text INTO row_text FROM virt_dead;
	ASSERT row_text = '(2,2,4,p2,t,{})', row_text;
	PERFORM inbox_forget('virt');
	DROP TABLE virt, virt_dead;
END
$$;
