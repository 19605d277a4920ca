# cases_fifo.sh: single claims on a FIFO queue, beside the same on a plain one
# of as many rows.  Sourced by suite; see measure.sh for the verbs.
#
# "inbox" is the FIFO queue, "queue" the plain one.  A released message keeps
# its place, so the shape stays what it is for as many claims as there are.

# fill_groups ROWS GROUP: a table of each kind; GROUP is an expression over g.
fill_groups() {
	local t

	q -c 'TRUNCATE f, q'
	for t in f q; do
		q -c "INSERT INTO $t (payload, group_key, due_at) SELECT jsonb_build_object('n', g), $2, now() - ($1 - g) * interval '10 us' FROM generate_series(1, $1) g" ||
			die "fill failed"
	done
}

# probe_groups CELL
probe_groups() {
	local rep t p50 p99 max settle

	q -c 'VACUUM (ANALYZE) f' -c 'VACUUM (ANALYZE) q'
	for ((rep = 1; rep <= REPS; rep++)); do
		for t in f q; do
			read -r p50 p99 max settle < <(PGOPTIONS='-c synchronous_commit=off' \
				"$SCRATCH/probe" cycle "$CYCLES" "${PROBE_SECONDS:=8}" "SELECT receipt FROM inbox_claim('$t')" \
				"SELECT verdict FROM inbox_settle('$t', \$1, '$2')") && [ -n "$p50" ] ||
				{ note "fifo, $1, $t: the probe failed"; continue; }
			record fifo "$1" "$([ $t = f ] && echo inbox || echo queue)" $rep 'claim p50 µs' "$p50"
			record fifo "$1" "$([ $t = f ] && echo inbox || echo queue)" $rep 'claim p99 µs' "$p99"
			record fifo "$1" "$([ $t = f ] && echo inbox || echo queue)" $rep 'settle p50 µs' "$settle"
		done
	done
}

case_fifo() {
	local groups=100000

	q -c "SELECT inbox_create('f', fifo => true, if_not_exists => true)" >/dev/null || die 'no FIFO queue'
	# all are settled and gone
	fill_groups $groups "'g' || g"
	probe_groups "$(power $groups) groups of one row" done
	fill_groups "$MANY" "'g'"
	probe_groups "one group of $(power "$MANY") rows" done
	# two rows in each; the first is leased in all groups but each hundredth
	fill_groups $((2 * groups)) "'g' || g % $groups"
	q -c "UPDATE f SET locked_until = now() + interval '1 day', claimed_at = now(), attempt = 2 WHERE id IN
		(SELECT min(id) FROM f GROUP BY group_key HAVING substr(group_key, 2)::int % 100 > 0)"
	probe_groups "99 % of $(power $groups) groups blocked" release
	q -c 'TRUNCATE f, q'
}
