# cases_subscribe.sh: handlers inside the server against a client's loop.
# Sourced by suite; see measure.sh for the verbs.

handled() { q -c "SELECT coalesce(sum(handled), 0) FROM inbox_subscriptions"; }

# subscribed BATCH WORKERS DURABLE: let a subscription with a handler that does
# nothing run for T seconds on a table that is not drained meanwhile; sets RATE.
subscribed() {
	local batch=$1 workers=$2 durable=$3 key rows rest try from to began ended

	key=subscription/$batch/$workers
	rows=${FILL[$key]:-$(((T + 2) * (batch == 1 ? 30000 : 150000)))}
	RATE=
	q -c "ALTER SYSTEM SET inbox.subscription_batch = $batch" -c 'SELECT pg_reload_conf()' \
		-c "ALTER DATABASE bench SET synchronous_commit = $durable" >/dev/null
	for try in 1 2 3 4; do
		fill q "$rows"
		q -c "SELECT inbox_subscribe('bench', 'q', 'noop(jsonb)', workers => $workers)" >/dev/null
		until [ "$(q -c "SELECT running FROM inbox_subscriptions")" = "$workers" ]; do sleep 0.05; done
		sleep 0.5
		read -r from began < <(echo "$(handled) $EPOCHREALTIME")
		sleep "$T"
		read -r to ended < <(echo "$(handled) $EPOCHREALTIME")
		rest=$(left q)
		q -c "SELECT inbox_unsubscribe('bench')" >/dev/null
		until [ "$(q -c "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'inbox subscription'")" = 0 ]; do sleep 0.05; done
		[ "$rest" -le $((batch * workers)) ] || break
		rows=$((rows * 5 / 2))
	done
	[ "$rest" -gt $((batch * workers)) ] || note "$key: drained"
	FILL[$key]=$(((rows - rest) * 8 / 5 + 4 * batch * workers + 2000))
	RATE=$(calc "($to - $from) / ($ended - $began)")
}

# A handler that does nothing, against the fastest loop of clients, inbox_next,
# with the same number of connections and messages a claim.
case_subscription() {
	local b w d rep cell

	q -c "CREATE OR REPLACE FUNCTION noop(message jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END'" >/dev/null
	for d in off $(full && echo on); do for w in 1 4; do for b in 1 10 100; do
		cell="claims of $b · $w worker$([ $w = 1 ] || echo s) · $([ $d = on ] && echo durable || echo 'not durable')"
		for ((rep = 1; rep <= REPS; rep++)); do
			subscribed $b $w $d && record subscription "$cell" inbox $rep 'messages/s' "$RATE"
			steady next_inbox q $b $w $d && record subscription "$cell" client $rep 'messages/s' "$RATE"
		done
	done; done; done
	q -c 'ALTER SYSTEM RESET inbox.subscription_batch' -c 'SELECT pg_reload_conf()' \
		-c 'ALTER DATABASE bench RESET synchronous_commit' >/dev/null
}
