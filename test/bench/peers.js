// peers.js JOBS: graphile-worker and pg-boss beside inbox, all from one node
// process with the same driver and pool.  Prints cell,system,metric,value.
// Their unit of work is a job handed to a JavaScript function, so most of the
// time is spent here and not in the server: that is what users get.

const { Pool } = require('pg');
const jobs = Number(process.argv[2]);
const singles = Math.max(500, Math.floor(jobs / 10));
const pool = new Pool({ max: 20 });			// where: from PGHOST and friends
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const clock = () => Number(process.hrtime.bigint()) / 1e6;
const print = (cell, system, metric, value) => console.log([cell, system, metric, value.toPrecision(6)].join());

async function rate(cell, system, n, work) {
	const start = clock();
	await work();
	print(cell, system, 'messages/s', n / ((clock() - start) / 1000));
}
const times = (n, f) => Promise.all(Array.from({ length: n }, f));
const each = async (n, f) => { for (let i = 0; i < n; i++) await f(i); };

// Time from "add" being called to the handler being entered.
async function latency(system, n, pace, add, begun) {
	const at = [];
	await each(n, async (i) => { at[i] = clock(); await add(i); await sleep(pace); });
	for (let i = 0; i < 100 && begun.filter(Boolean).length < n; i++) await sleep(50);
	const t = at.map((a, i) => begun[i] - a).filter((x) => x >= 0).sort((a, b) => a - b);
	if (t.length) print('add to handler', system, 'p50 ms', t[Math.floor((t.length - 1) / 2)]);
}

const CELLS = { one: 'node worker · 8 loops · one job a time', many: 'node worker · 1 loop · 100 jobs a time', send: 'node · 1 loop · one send a time' };

async function inbox() {
	const fill = () => pool.query("INSERT INTO q (payload) SELECT jsonb_build_object('n', g) FROM generate_series(1, $1::int) g", [jobs]);
	const next = { name: 'next', text: "SELECT * FROM inbox_next('q', $1::text[], $2)" };
	const loop = async (batch) => {
		let receipts = [];
		do {
			const { rows } = await pool.query({ ...next, values: [receipts, batch] });
			receipts = rows.map((r) => r.receipt);
		} while (receipts.length);
	};

	await pool.query('TRUNCATE q');
	await fill();
	await rate(CELLS.one, 'inbox', jobs, () => times(8, () => loop(1)));
	await fill();
	await rate(CELLS.many, 'inbox', jobs, () => loop(100));
	await rate(CELLS.send, 'inbox', singles, () => each(singles, (i) =>
		pool.query({ name: 'send', text: "SELECT * FROM inbox_send('q', $1)", values: [{ n: i }] })));
	await pool.query('TRUNCATE q');

	const begun = [];
	let stop = false;
	const waiter = (async () => {
		while (!stop) {
			const { rows } = await pool.query("SELECT * FROM inbox_claim('q', wait => '500 ms')");
			for (const r of rows) {
				begun[r.payload.n] = clock();
				await pool.query("SELECT * FROM inbox_settle('q', $1)", [r.receipt]);
			}
		}
	})().catch((e) => { if (e.code !== '0A000') throw e; stop = true; });
	await sleep(100);
	if (!stop) await latency('inbox', 100, 5, (i) => pool.query("SELECT * FROM inbox_send('q', $1)", [{ n: i }]), begun);
	stop = true;
	await waiter;
}

async function graphile() {
	const { runOnce, run, runMigrations, Logger } = require('graphile-worker');
	const logger = new Logger(() => () => {});
	const begun = [];
	const taskList = { nothing: async () => {}, time: async (p) => { begun[p.n] = clock(); } };

	await runMigrations({ pgPool: pool, logger });
	await pool.query("SELECT count(graphile_worker.add_job('nothing', json_build_object('n', g))) FROM generate_series(1, $1::int) g", [jobs]);
	await pool.query('ANALYZE');
	await rate(CELLS.one, 'graphile-worker', jobs, () => runOnce({ pgPool: pool, taskList, concurrency: 8, logger, noHandleSignals: true }));
	await rate(CELLS.send, 'graphile-worker', singles, () => each(singles, (i) =>
		pool.query({ name: 'add', text: "SELECT graphile_worker.add_job('nothing', $1::json)", values: [{ n: i }] })));
	await pool.query('TRUNCATE graphile_worker._private_jobs');
	const runner = await run({ pgPool: pool, taskList, concurrency: 8, logger, noHandleSignals: true });
	await sleep(500);
	await latency('graphile-worker', 100, 5, (i) => pool.query("SELECT graphile_worker.add_job('time', $1::json)", [{ n: i }]), begun);
	await runner.stop();
}

async function pgboss() {
	const PgBoss = require('pg-boss');
	const db = { executeSql: (text, values) => pool.query(text, values) };
	const boss = new (PgBoss.default || PgBoss)({ db, supervise: false, schedule: false });
	const fill = async () => {
		for (let i = 0; i < jobs; i += 1000)
			await boss.insert(Array.from({ length: Math.min(1000, jobs - i) }, (_, k) => ({ name: 'q', data: { n: i + k } })));
		// its own maintenance, or autovacuum, would come to it
		await pool.query('ANALYZE');
	};
	const loop = async (batchSize) => {
		for (;;) {
			const got = await boss.fetch('q', { batchSize });
			if (!got || !got.length) break;
			await boss.complete('q', got.map((j) => j.id));
		}
	};

	boss.on('error', () => {});
	await pool.query('DROP SCHEMA IF EXISTS pgboss CASCADE');
	await boss.start();
	await boss.createQueue('q');
	await fill();
	await rate(CELLS.one, 'pg-boss', jobs, () => times(8, () => loop(1)));
	await fill();
	await rate(CELLS.many, 'pg-boss', jobs, () => loop(100));
	await rate(CELLS.send, 'pg-boss', singles, () => each(singles, (i) => boss.send('q', { n: i })));
	await boss.createQueue('q2');
	const begun = [];
	await boss.work('q2', { pollingIntervalSeconds: 0.5 }, async ([job]) => { begun[job.data.n] = clock(); });
	await latency('pg-boss', 10, 600, (i) => boss.send('q2', { n: i }), begun);
	await boss.stop({ graceful: false, wait: false });
}

(async () => {
	for (const system of [inbox, graphile, pgboss]) {
		try {
			await system();
		} catch (e) {
			console.error(`${system.name}: ${e.message}`);
			process.exitCode = 1;
		}
	}
	process.exit();
})();
