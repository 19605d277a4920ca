# measure.sh: how the cases measure.  Sourced by suite.
#
# A figure is a line of bench.csv: case, cell, system, repetition, metric,
# value.  The report makes medians and ratios; here nothing is judged.

OUT=$SCRATCH/out
mkdir -p "$OUT" "$SCRATCH/pgb"
declare -A FILL=()

record() { (IFS=,; echo "$*") >>"$OUT/bench.csv"; }
note() { echo "$*" >>"$OUT/notes.txt"; say "$*"; }

createdb_and_tables() {
	q -c 'CREATE DATABASE bench' >/dev/null
	export PGDATABASE=bench
	q -f "$here/setup.sql" >/dev/null || die "setup.sql failed"
	HAVE_PGQ=
	if q -c 'CREATE EXTENSION pgq' >/dev/null 2>&1; then
		HAVE_PGQ=1
		q -c "SELECT pgq.create_queue('q'); SELECT pgq.register_consumer('q', 'c')" >/dev/null
	fi
}

# ---------------------------------------------------------------------------
# Tables full of messages

# fill TABLE ROWS [FIRST_CELL]: throw all away and add that many, the way
# time would have: each due ten microseconds after the one before.
fill() {
	local table=$1 rows=$2 from=1 to cols='payload' vals="jsonb_build_object('n', g)"

	case $table in
		q | plain | hand_due) cols+=', due_at'; vals+=", now() - ($rows - g) * interval '10 us'" ;;
	esac
	q -c "TRUNCATE $table RESTART IDENTITY" || die "truncate failed"
	while [ $from -le "$rows" ]; do
		to=$((from + 999999)); [ $to -le "$rows" ] || to=$rows
		q -c "INSERT INTO $table ($cols) SELECT $vals FROM generate_series($from, $to) g" || die "fill failed"
		from=$((to + 1))
	done
	q -c "VACUUM (ANALYZE) $table"
}

# What nobody has taken yet.
left() {
	case $1 in
		plain) q -c "SELECT count(*) FROM plain" ;;
		*) q -c "SELECT count(*) FROM $1 WHERE locked_until IS NULL" ;;
	esac
}

# ---------------------------------------------------------------------------
# pgbench

# script NAME BATCH: the file to run.  The batch is written into the text, so
# that a hand-written LIMIT is planned for what it is.
script() {
	local from=$here/scripts/$1.sql to=$SCRATCH/pgb/$1.$2

	[ "$2" != 1 ] || [ ! -e "$here/scripts/$1_1.sql" ] || from=$here/scripts/$1_1.sql
	sed "s/@batch@/$2/g" "$from" >"$to"
	echo "$to"
}

# bench CLIENTS DURABLE FILE ARG...: run pgbench; its report is $SCRATCH/pgbench.
bench() {
	local clients=$1 durable=$2 file=$3; shift 3

	PGOPTIONS="-c synchronous_commit=$durable" "$BINDIR/pgbench" -n -M prepared \
		-c "$clients" -j $((clients < 2 ? 1 : 2)) -f "$file" -D clients="$clients" -D r=0@0 -D k=-1 "$@" \
		>"$SCRATCH/pgbench" 2>"$SCRATCH/pgbench.err" ||
		{ head -3 "$SCRATCH/pgbench.err" >&2; note "pgbench failed in ${file##*/}: $(grep -m1 -i error "$SCRATCH/pgbench.err")"; return 1; }
}
tps() { sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$SCRATCH/pgbench" | tail -1; }
transactions() { sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$SCRATCH/pgbench"; }
# milliseconds of the first SQL statement, from pgbench -r
first_statement() {
	sed -n '/^statement latencies/,$p' "$SCRATCH/pgbench" |
		awk 'NR > 1 && $3 !~ /^\\/ { print $1; exit }'
}
calc() { awk "BEGIN { printf \"%.6g\", $1 }"; }

# steady SCRIPT TABLE BATCH CLIENTS DURABLE [ARG...]: run T seconds on a table
# that is not drained meanwhile; sets RATE to messages a second.  What was
# consumed is counted in the table, not assumed.
steady() {
	local name=$1 table=$2 batch=$3 clients=$4 durable=$5 key rows rest try file; shift 5

	key=$name/$batch/$clients/$durable
	file=$(script "$name" "$batch")
	rows=${FILL[$key]:-$((T * (batch == 1 ? 20000 : batch == 10 ? 80000 : 150000)))}
	RATE=
	for try in 1 2 3 4; do
		fill "$table" "$rows"
		bench "$clients" "$durable" "$file" -T "$T" "$@" || return 1
		rest=$(left "$table")
		[ "$rest" -le $((batch * clients)) ] || break
		rows=$((rows * 5 / 2))
	done
	[ "$rest" -gt $((batch * clients)) ] || note "$key: drained"
	RATE=$(calc "($rows - $rest) / $(transactions) * $(tps)")
	FILL[$key]=$(((rows - rest) * 8 / 5 + 4 * batch * clients + 2000))
}

table_of() { case $1 in *hand) echo hand ;; *update) echo plain ;; *) echo q ;; esac; }

# compare CASE PREFIX BATCH CLIENTS DURABLE SYSTEM=SCRIPT...: the systems one
# after the other, REPS times.
compare() {
	local case=$1 batch=$2 clients=$3 durable=$4 rep pair cell; shift 4

	cell="batch $batch · $clients client$([ "$clients" = 1 ] || echo s) · $([ "$durable" = on ] && echo durable || echo 'not durable')"
	for ((rep = 1; rep <= REPS; rep++)); do
		for pair; do
			steady "${pair#*=}" "$(table_of "${pair#*=}")" "$batch" "$clients" "$durable" &&
				record "$case" "$cell" "${pair%%=*}" $rep 'messages/s' "$RATE"
		done
	done
}

# ms SQL: how long it takes
ms() { "$BINDIR/psql" -XAtq -v ON_ERROR_STOP=1 -c '\timing on' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -1; }

# Lease the first ROWS of a table for so long.
lease() {
	local table=$1 rows=$2 time=$3 step=10000 k

	for ((k = 0; k < rows; k += step)); do
		if [ "$table" = q ]; then
			echo "SELECT count(*) FROM inbox_claim_ids('q', $step, '$time');"
		else
			echo "UPDATE $table SET locked_until = clock_timestamp() + '$time', attempt = attempt + 1 WHERE id > $k AND id <= $k + $step;"
		fi
	done | PGOPTIONS='-c synchronous_commit=off' q -f - >/dev/null || die "could not lease"
}
