# cases.sh: the cases that pgbench measures in a steady state, and the peers.
# Sourced by suite; see measure.sh for the verbs.

full() { [ "$BENCH" = full ]; }

# The cells of claim_settle and next: batch, clients, durable.
cells() {
	local b c d

	if full; then
		for d in on off; do for b in 1 10 100; do for c in 1 8 64; do echo "$b $c $d"; done; done; done
		echo 1 4 off
	else
		printf '%s\n' "$@"
	fi
}

# Claim in one statement, settle in another.
case_claim_settle() {
	local b c d

	while read -r b c d <&3; do
		compare claim_settle "$b" "$c" "$d" inbox=claim_inbox hand=claim_hand
	done 3< <(cells '1 1 on' '1 4 off' '1 64 on' '10 8 on' '100 64 on')
}

# inbox_next does both in one call; the others have no such thing.
case_next() {
	local b c d

	while read -r b c d <&3; do
		compare next "$b" "$c" "$d" inbox=next_inbox hand=claim_hand
	done 3< <(cells '1 1 on' '1 8 on' '10 8 on' '100 1 off')
}

# The claiming statement alone; the settlements around it are not counted.
case_claim() {
	local b rep s cell

	for b in 1 10 100; do
		cell="claim $b"
		for ((rep = 1; rep <= REPS; rep++)); do
			for s in inbox hand update; do
				steady claim_$s "$(table_of claim_$s)" $b 1 off -r &&
					record claim "$cell" $s $rep 'claimed/s' "$(calc "$b * 1000 / $(first_statement)")"
			done
		done
	done
}

# "insert" is an INSERT into the queue itself, "limit" one into a table of
# the same kind that is no queue.
case_send() {
	local b c d rep s cell systems='inbox limit insert hand'

	[ -n "$HAVE_PGQ" ] && systems+=' pgq'
	for d in off $(full && echo on); do for c in 1 $(full && echo 8); do for b in 1 100 10000; do
		cell="send $b a call · $c client$([ $c = 1 ] || echo s) · $([ $d = on ] && echo durable || echo 'not durable')"
		for ((rep = 1; rep <= REPS; rep++)); do
			for s in $systems; do
				[ $s = pgq ] || q -c "TRUNCATE $(sed 's/inbox\|insert/q/; s/limit/plain/' <<<$s)"
				bench $c $d "$(script send_$s $b)" -T $((T > 2 ? T : 1)) &&
					record send "$cell" $s $rep 'messages/s' "$(calc "$(tps) * $b")"
			done
		done
	done; done; done
	q -c 'TRUNCATE q, hand, plain'
	[ -z "$HAVE_PGQ" ] || q -c "SELECT pgq.drop_queue('q', true); SELECT pgq.create_queue('q'); SELECT pgq.register_consumer('q', 'c')" >/dev/null
}

# Bytes of WAL and touches of buffers per message, one client, nothing else
# going on; once, for they hardly vary.  Full-page images come after a checkpoint, so they are counted apart.
case_wal() {
	local fpw b s rep=1 a z n name cell

	for fpw in off on; do
		q -c 'ALTER SYSTEM SET autovacuum = off' -c "ALTER SYSTEM SET full_page_writes = $fpw" -c 'SELECT pg_reload_conf()' >/dev/null
		for b in 1 10 100; do
			cell="batch $b$([ $fpw = off ] || echo ' · after a checkpoint')"
			n=$((CYCLES / b > 50 ? CYCLES / b : 50))
			for s in inbox next hand update; do
				name=claim_$s; [ $s != next ] || name=next_inbox
				fill "$(table_of $name)" $((n * b + b))
				q -c CHECKPOINT
				a=$(usage)
				bench 1 off "$(script $name $b)" -t $n || continue
				z=$(usage)
				record_usage "$cell" $s $rep $((n * b)) $a $z
			done
		done
	done
	q -c 'ALTER SYSTEM RESET ALL' -c 'SELECT pg_reload_conf()' >/dev/null
}
usage() {
	q -F ' ' -c "SELECT wal_bytes, wal_records, blks_hit + blks_read FROM pg_stat_wal, pg_stat_database WHERE datname = current_database()"
}
record_usage() {
	record wal "$1" $2 $3 'WAL bytes/message' "$(calc "($8 - $5) / $4")"
	record wal "$1" $2 $3 'WAL records/message' "$(calc "($9 - $6) / $4")"
	record wal "$1" $2 $3 'buffers/message' "$(calc "(${10} - $7) / $4")"
}

# Other systems, each through its own interface.  PgQ hands one consumer all
# that came between two ticks and forgets it as a whole: no lease for each.
case_peers() {
	local rep t

	if [ -n "$HAVE_PGQ" ]; then
		for ((rep = 1; rep <= REPS; rep++)); do
			q -c "SELECT count(pgq.insert_event('q', 'n', '{\"n\": 1}')) FROM generate_series(1, $JOBS)" >/dev/null
			q -c "SELECT pgq.force_tick('q')" -c "SELECT pgq.ticker('q')" >/dev/null
			q -c "SELECT pgq.force_tick('q')" -c "SELECT pgq.ticker('q')" >/dev/null
			t=$(ms "$(cat "$here/scripts/pgq_consume.sql")")
			record peers 'consume a batch; one consumer' pgq $rep 'messages/s' "$(calc "$JOBS * 1000 / $t")"
			fill q "$JOBS"
			t=$(ms "$(sed "s/@rows@/$JOBS/" "$here/scripts/next_all.sql")")
			record peers 'consume a batch; one consumer' inbox $rep 'messages/s' "$(calc "$JOBS * 1000 / $t")"
		done
	else
		note 'PgQ is not there'
	fi
	if [ -d "$SCRATCH/node" ]; then
		fill q 10
		for ((rep = 1; rep <= REPS; rep++)); do
			NODE_PATH=$SCRATCH/node/node_modules timeout 600 node "$here/peers.js" "$JOBS" \
				2>"$SCRATCH/log/peers" >"$SCRATCH/peers" || note "peers.js: $(tail -1 "$SCRATCH/log/peers")"
			while IFS=, read -r cell s metric t; do record peers "$cell" "$s" $rep "$metric" "$t"; done <"$SCRATCH/peers"
		done
	else
		note 'no node peers'
	fi
}

# Not part of the benchmark: test/bench/profile.  A server that was built with
# frame pointers also tells what is called by whom.
case_profile() {
	local file pid seconds=${SECONDS_PROFILED:-10} calls=

	[[ $("$PG_CONFIG" --cflags) != *-fno-omit-frame-pointer* ]] || calls='--call-graph fp'
	file=$(script "${PROFILE_SCRIPT:-claim_inbox}" "${PROFILE_BATCH:-1}")
	fill "$(table_of "${PROFILE_SCRIPT:-claim_inbox}")" $((seconds * 40000 * ${PROFILE_BATCH:-1}))
	bench 1 off "$file" -T $((seconds + 3)) &
	sleep 1.5
	pid=$(q -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'")
	perf record -q -e "${PROFILE_EVENT:-cpu-clock:u}" -F 4000 $calls -p "$pid" -o "$SCRATCH/perf.data" -- sleep "$seconds" >"$SCRATCH/log/perf" 2>&1 ||
		{ cat "$SCRATCH/log/perf"; die "perf failed"; }
	wait %1
	{
		echo "# $COMMIT, PostgreSQL $VERSION, ${file##*/}, one client: $(tps) transactions/s"
		echo "# by itself"
		perf_report --no-children -F overhead,sample,dso,symbol | "$here/symbols" "$BINDIR/postgres"
		if [ -n "$calls" ]; then
			echo "# with what it calls"
			perf_report --children -g none -F overhead_children,dso,symbol | head -150
		fi
	} >"$OUT/profile.txt"
	head -"${PROFILE_LINES:-60}" "$OUT/profile.txt"
}
perf_report() { perf report -i "$SCRATCH/perf.data" --stdio "$@" 2>/dev/null | grep -v '^#' | grep .; }
