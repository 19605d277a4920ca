# cases_state.sh: the cases that depend on what is in the table, on who holds
# what, or on time passing.  Sourced by suite; see measure.sh for the verbs.

claim_of() {
	case $1 in
		inbox) echo "SELECT receipt FROM inbox_claim('q')" ;;
		hand) echo "WITH c AS (SELECT id FROM hand WHERE locked_until IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE hand h SET locked_until = clock_timestamp() + interval '30 s', attempt = attempt + 1 FROM c WHERE h.id = c.id RETURNING h.id" ;;
		hand_due) echo "WITH c AS (SELECT id FROM hand_due WHERE locked_until IS NULL AND due_at <= now() ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE hand_due h SET locked_until = clock_timestamp() + interval '30 s', attempt = attempt + 1 FROM c WHERE h.id = c.id RETURNING h.id" ;;
	esac
}
settle_of() {
	case $1 in
		inbox) echo "SELECT verdict FROM inbox_settle('q', \$1)" ;;
		*) echo "DELETE FROM $1 WHERE id = \$1::bigint" ;;
	esac
}

# probe_cycles CASE CELL SYSTEM REP: time single claims of one client.
probe_cycles() {
	local p50 p99 max settle

	read -r p50 p99 max settle < <(PGOPTIONS='-c synchronous_commit=off' \
		"$SCRATCH/probe" cycle "$CYCLES" "${PROBE_SECONDS:=8}" "$(claim_of "$3")" "$(settle_of "$3")") && [ -n "$p50" ] ||
		{ note "$1 $2 $3: the probe failed"; return; }
	record "$1" "$2" "$3" "$4" 'claim p50 µs' "$p50"
	record "$1" "$2" "$3" "$4" 'claim p99 µs' "$p99"
	record "$1" "$2" "$3" "$4" 'settle p50 µs' "$settle"
}
both_probes() {
	local case=$1 cell=$2 rep s; shift 2

	for ((rep = 1; rep <= REPS; rep++)); do
		for s; do probe_cycles "$case" "$cell" "$s" $rep; done
	done
}
power() { awk "BEGIN { n = $1; e = 0; while (n >= 10 && n % 10 == 0) { n /= 10; e++ } if (n == 1) printf \"10^%d\", e; else printf \"%d·10^%d\", n, e }"; }

case_depth() {
	local n most=$CYCLES CYCLES

	for n in $DEPTHS; do
		# no more than half of it is consumed
		CYCLES=$((n / 2 / REPS < most ? n / 2 / REPS : most))
		fill q "$n"
		fill hand "$n"
		both_probes depth "depth $(power "$n")" inbox hand
	done
}

# MANY rows leased and unsettled, all of them before the rows one can have.
case_leased() {
	local ready=$((CYCLES * REPS + 20000))

	fill q $ready; fill hand $ready
	both_probes leased 'none leased' inbox hand
	fill q $((MANY + ready)); fill hand $((MANY + ready))
	lease q "$MANY" '1 h'; lease hand "$MANY" '1 h'
	both_probes leased "$(power "$MANY") leased ahead" inbox hand
}

case_delayed() {
	local ready=$((CYCLES * REPS + 20000)) t

	fill q $ready; fill hand_due $ready
	both_probes delayed 'none delayed' inbox hand_due
	for t in q hand_due; do
		q -c "INSERT INTO $t (payload, due_at) SELECT jsonb_build_object('n', g), now() + interval '1 day' + g * interval '1 ms' FROM generate_series(1, $MANY) g" \
			-c "INSERT INTO $t (payload, due_at) SELECT jsonb_build_object('n', g), now() FROM generate_series(1, $ready) g"
		q -c "VACUUM (ANALYZE) $t"
	done
	both_probes delayed "$(power "$MANY") delayed" inbox hand_due
}

# A pass of the reaper over MANY leases: none has ended, then all have.  By
# hand that is an UPDATE through the index on locked_until.
case_reap() {
	local rep free="UPDATE hand SET locked_until = NULL WHERE locked_until <= now()"
	local cell="$(power "$MANY") leases; none ended" ended="$(power "$MANY") leases; all ended"

	fill q "$MANY"; fill hand "$MANY"
	lease q "$MANY" '1 h'; lease hand "$MANY" '1 h'
	for ((rep = 1; rep <= REPS; rep++)); do
		record reap "$cell" inbox $rep 'pass ms' "$(ms "SELECT * FROM inbox_reap('q')")"
		record reap "$cell" hand $rep 'pass ms' "$(ms "$free")"
	done
	for ((rep = 1; rep <= REPS; rep++)); do
		fill q "$MANY"; fill hand "$MANY"
		lease q "$MANY" '1 s'; lease hand "$MANY" '1 s'
		sleep 1.5
		record reap "$ended" inbox $rep 'pass ms' "$(ms "SELECT * FROM inbox_reap('q')")"
		record reap "$ended" hand $rep 'pass ms' "$(ms "$free")"
		record reap "$ended; next claim" inbox $rep 'claim ms' "$(ms "$(claim_of inbox)")"
		record reap "$ended; next claim" hand $rep 'claim ms' "$(ms "$(claim_of hand)")"
	done
}

# From the sender's COMMIT leaving the client to the claim's answer arriving.
# By hand waiters LISTEN and each sender NOTIFYs.
case_latency() {
	local w rep have=1

	q -c "SELECT * FROM inbox_claim('q', wait => '10 ms')" >/dev/null 2>"$SCRATCH/err" ||
		{ have=; note "inbox_claim(wait) is not there: $(head -1 "$SCRATCH/err")"; }
	for ((rep = 1; rep <= REPS; rep++)); do for w in 1 64; do
		q -c 'TRUNCATE q, hand'
		[ -z "$have" ] || probe_wait inbox $w $rep - \
			"SELECT receipt, payload->>'n' FROM inbox_claim('q', wait => '2 s')" \
			"SELECT verdict FROM inbox_settle('q', \$1)" \
			"INSERT INTO q (payload) VALUES (jsonb_build_object('n', \$1::text))"
		probe_wait hand $w $rep hand \
			"$(claim_of hand), h.payload->>'n'" "$(settle_of hand)" \
			"INSERT INTO hand (payload) VALUES (jsonb_build_object('n', \$1::text))"
	done; done
}
probe_wait() {
	local s=$1 w=$2 rep=$3 p50 p99 max lost cell="$2 waiter$([ $2 = 1 ] || echo s)"; shift 3

	read -r p50 p99 max lost < <("$SCRATCH/probe" wait "$w" "$MESSAGES" 5 "$@") && [ -n "$p50" ] ||
		{ note "latency, $cell, $s: the probe failed"; return; }
	record latency "$cell" $s $rep 'p50 ms' "$p50"
	record latency "$cell" $s $rep 'p99 ms' "$p99"
	[ "$lost" = 0 ] || note "latency, $cell, $s: $lost messages never came"
}

# Four clients at full speed; after AROUND seconds somebody takes a snapshot
# and keeps it for HOLD seconds.  A feeder keeps the table at its depth.  The
# first WARM seconds count for nothing: until autovacuum joins in for the first
# time, no queue runs as it does for the rest of its life.
case_old_snapshot() {
	local s

	for s in inbox hand; do timeline $s "$([ $s = inbox ] && echo q || echo hand)"; done
}
timeline() {
	local s=$1 table=$2 from=$((WARM + AROUND)) log=$SCRATCH/progress.$1 extra=
	local to=$((from + HOLD)) total=$((from + HOLD + AROUND))

	fill "$table" "${LOOKAHEAD:=300000}"
	PGOPTIONS='-c synchronous_commit=off' "$BINDIR/pgbench" -n -M prepared -c 4 -j 2 -T $total -P 1 \
		-f "$here/scripts/old_$s.sql" >"$SCRATCH/pgbench" 2>"$log" &
	local bench=$!
	feeder "$table" "$log" $bench & local feeder=$!
	if [ $s = hand ]; then
		while kill -0 $bench 2>/dev/null; do
			q -c 'UPDATE hand SET locked_until = NULL WHERE locked_until <= now()'
			sleep 1
		done & extra=$!
	fi
	sleep "$from"
	q -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT count(*) FROM pg_class' -c "SELECT pg_sleep($HOLD)" -c COMMIT >/dev/null
	wait $bench || note "old_snapshot, $s: $(grep -m1 -i error "$log")"
	wait $feeder $extra

	sed -n 's/^progress: \([0-9.]*\) s, \([0-9.]*\) tps.*/\1 \2/p' "$log" |
		awk -v s=$s '{ printf "%s,%.0f,%.1f\n", s, $1, $2 }' >>"$OUT/timeline.csv"
	window $s 'before' "$WARM" "$from"
	window $s 'held; first tenth' "$from" $((from + (HOLD + 9) / 10))
	window $s 'held; last third' $((to - HOLD / 3)) "$to"
	window $s 'held; all' "$from" "$to"
	window $s 'after' $((to + AROUND / 2)) $total
	printf 'around=%s\nhold=%s\n' "$from" "$HOLD" >"$OUT/timeline.txt"
}
window() {
	record old_snapshot "$2" $1 1 'cycles/s' "$(awk -F, -v s=$1 -v a=$3 -v z=$4 \
		'$1 == s && $2 > a && $2 <= z { n++; sum += $3 } END { printf "%.1f", n ? sum / n : 0 }' "$OUT/timeline.csv")"
}
feeder() {
	local table=$1 log=$2 bench=$3 sent=0 done_

	while kill -0 "$bench" 2>/dev/null; do
		done_=$(sed -n 's/^progress: .* s, \([0-9.]*\) tps.*/\1/p' "$log" | awk '{ n += $1 } END { printf "%.0f", n }')
		if [ "$done_" -gt $((sent + 2000)) ]; then
			PGOPTIONS='-c synchronous_commit=off' q -c \
				"INSERT INTO $table (payload) SELECT jsonb_build_object('n', g) FROM generate_series(1, $done_ - $sent) g"
			sent=$done_
		fi
		sleep 0.5
	done
}

# What a session keeps after a thousand cycles, beyond one that only said
# hello; and what the server keeps for all.
case_memory() {
	local s n own name

	fill q 5000; fill hand 5000
	for s in none inbox hand; do
		{
			for ((n = 0; n < 1000; n++)); do
				case $s in
					inbox) echo "SELECT receipt AS r FROM inbox_claim('q') \\gset"; echo "SELECT inbox_settle('q', :'r') AS v \\gset" ;;
					hand) echo "$(claim_of hand) AS r \\gset"; echo "DELETE FROM hand WHERE id = :r;" ;;
				esac
			done
			echo "SELECT sum(total_bytes) / 1024 || ' ' || coalesce((SELECT (regexp_match(pg_read_file('/proc/' || pg_backend_pid() || '/status'), 'RssAnon:\s+(\d+)'))[1]), '0') FROM pg_backend_memory_contexts;"
		} | q -f - >"$SCRATCH/memory" || { note "memory, $s failed"; continue; }
		read -r n own < <(tail -1 "$SCRATCH/memory")
		name=$s; [ $s != none ] || name=idle
		record memory 'a session after 1000 cycles' $name 1 'contexts kB' "$n"
		record memory 'a session after 1000 cycles' $name 1 'own memory kB' "$own"
	done
	record memory 'shared memory' inbox 1 'kB' "$(q -c "SELECT coalesce(sum(allocated_size), 0) / 1024 FROM pg_shmem_allocations WHERE name ~* 'inbox'")"
}
