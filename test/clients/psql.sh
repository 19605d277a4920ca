#!/bin/bash
# psql: variables quote themselves, everything is text.

say() { if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1: $2"; fi; }
psql() { command psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -v queue="$QUEUE" "$@"; }

say 'send' "$(psql -v payload='{"n": 1, "text": "it'\''s \"quoted\""}' \
	<<<"SELECT inbox_send(:'queue', :'payload', delay => '0 s', priority => 1)")" 1
say 'send many' "$(psql <<<"SELECT string_agg(id, ' ') FROM inbox_send_batch(:'queue',
	ARRAY['{\"n\": 2}', '{\"n\": 3}', '{\"n\": 4}']::jsonb[], priority => 2, dedup_keys => '{a,b,NULL}') id")" '2 3 4'

IFS='|' read -r receipt attempt text < <(psql -v rows=1 -v lease='20 s' \
	<<<"SELECT receipt, attempt, payload ->> 'text' FROM inbox_claim(:'queue', :rows, :'lease')")
say 'claim' "$attempt $text" '1 it'\''s "quoted"'
say 'extend' "$(psql -v receipt="$receipt" -v lease='10 min' <<<"
	SELECT verdict, new_receipt, locked_until > now() + '9 min'::interval FROM inbox_extend(:'queue', :'receipt', :'lease')")" \
	"ok|$receipt|t"
second=$(psql <<<"SELECT receipt FROM inbox_claim(:'queue', 1)")
say 'settle many' "$(psql -v a="$receipt" -v b="$second" <<<"SELECT string_agg(verdict, ' ')
	FROM inbox_settle_batch(:'queue', ARRAY[:'a', :'b', 'garbage', NULL], '{retry,dead,done,done}',
		ARRAY['1 h', NULL, NULL, NULL]::interval[], ARRAY['it''s \"no\" good', 'never', NULL, NULL])")" \
	'ok dead invalid invalid'

receipts='{}' seen=
while :; do
	got=$(psql -v receipts="$receipts" <<<"SELECT receipt, payload ->> 'n' FROM inbox_next(:'queue', :'receipts', 1)")
	[ -n "$got" ] || break
	receipts="{${got%|*}}" seen+=" ${got#*|}"
done
say 'next' "$seen" ' 3 4'
say 'a lost lease' "$(psql -v receipt="$receipt" <<<"SELECT inbox_settle(:'queue', :'receipt')")" stale
say 'strict' "$(psql -v receipt="$receipt" <<<"SELECT inbox_settle(:'queue', :'receipt', strict => true)" 2>&1)" \
	'ERROR:  IB001'
