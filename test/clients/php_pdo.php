<?php
// PHP PDO: prepares on the server, so the types are the functions' own.

$queue = getenv('QUEUE');
$db = new PDO('pgsql:host=' . getenv('PGHOST') . ';port=' . getenv('PGPORT') . ';dbname=' . getenv('PGDATABASE'),
	getenv('PGUSER'));

function say($what, $got, $want)
{
	echo $got === $want ? "ok - $what\n" : "not ok - $what: " . json_encode($got) . "\n";
}

function rows($sql, ...$args)
{
	global $db;
	$statement = $db->prepare($sql);
	$statement->execute(array_map(fn ($a) => is_array($a) ? to_array($a) : $a, $args));
	return $statement->fetchAll(PDO::FETCH_ASSOC);
}

function to_array($values)
{
	return '{' . implode(',', array_map(
		fn ($v) => $v === null ? 'NULL' : '"' . addcslashes($v, '"\\') . '"', $values)) . '}';
}

say('send', rows('SELECT inbox_send(?, ?, delay => ?, priority => ?) AS id', $queue,
	json_encode(['n' => 1, 'text' => 'it\'s "quoted"']), '0 s', 1)[0]['id'], '1');
say('send many', array_column(rows(
	'SELECT id FROM inbox_send_batch(?, ?, priority => ?, dedup_keys => ?) id', $queue,
	array_map(fn ($n) => json_encode(['n' => $n]), [2, 3, 4]), 2, ['a', 'b', null]), 'id'), ['2', '3', '4']);

$one = rows('SELECT * FROM inbox_claim(?, ?, ?)', $queue, 1, '20 s')[0];
say('claim', [$one['attempt'], json_decode($one['payload'])->text], [1, 'it\'s "quoted"']);
$extended = rows("SELECT *, locked_until > now() + '9 min'::interval AS late FROM inbox_extend(?, ?, ?)",
	$queue, $one['receipt'], '10 min')[0];
say('extend', [$extended['verdict'], $extended['new_receipt'], $extended['late']], ['ok', $one['receipt'], true]);
$two = rows('SELECT * FROM inbox_claim(?)', $queue)[0];
say('settle many', array_column(rows('SELECT * FROM inbox_settle_batch(?, ?, ?, ?, ?)', $queue,
	[$one['receipt'], $two['receipt'], 'garbage', null], ['retry', 'dead', 'done', 'done'],
	['1 h', null, null, null], ['it\'s "no" good', 'never', null, null]), 'verdict'),
	['ok', 'dead', 'invalid', 'invalid']);

$receipts = [];
$seen = [];
while ($got = rows('SELECT * FROM inbox_next(?, ?, ?)', $queue, $receipts, 1)) {
	$receipts = json_decode(json_encode(array_column($got, 'receipt')));
	foreach ($got as $row)
		$seen[] = json_decode($row['payload'])->n;
}
say('next', $seen, [3, 4]);
say('a lost lease', rows('SELECT inbox_settle(?, ?) AS v', $queue, $one['receipt'])[0]['v'], 'stale');
try {
	rows('SELECT inbox_settle(?, ?, strict => true)', $queue, $one['receipt']);
	say('strict', 'no error', 'IB001');
} catch (PDOException $e) {
	say('strict', $e->getCode(), 'IB001');
}
