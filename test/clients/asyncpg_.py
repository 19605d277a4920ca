# asyncpg: prepares every statement and asks the server for its types; JSON is
# text unless a codec is set, and an interval is a timedelta.

import asyncio
import json
import os
from datetime import timedelta

import asyncpg


def say(what, got, want):
    print(f'ok - {what}' if got == want else f'not ok - {what}: {got}')


async def main():
    queue = os.environ['QUEUE']
    db = await asyncpg.connect(host=os.environ['PGHOST'])

    say('send', await db.fetchval('SELECT inbox_send($1, $2, delay => $3, priority => $4)', queue,
                                  json.dumps({'n': 1, 'text': 'it\'s "quoted"'}), timedelta(0), 1), '1')
    await db.set_type_codec('jsonb', encoder=json.dumps, decoder=json.loads, schema='pg_catalog')
    say('send many', [r[0] for r in await db.fetch(
        'SELECT inbox_send_batch($1, $2, priority => $3, dedup_keys => $4)', queue,
        [{'n': n} for n in (2, 3, 4)], 2, ['a', 'b', None])], ['2', '3', '4'])

    one = await db.fetchrow('SELECT * FROM inbox_claim($1, $2, $3)', queue, 1, timedelta(seconds=20))
    say('claim', (one['attempt'], one['payload']['text']), (1, 'it\'s "quoted"'))
    extended = await db.fetchrow('SELECT * FROM inbox_extend($1, $2, $3)', queue, one['receipt'],
                                 timedelta(minutes=10))
    say('extend', (extended['verdict'], extended['new_receipt'],
                   extended['locked_until'] - one['locked_until'] > timedelta(minutes=9)),
        ('ok', one['receipt'], True))
    two = await db.fetchrow('SELECT * FROM inbox_claim($1)', queue)
    say('settle many', [r['verdict'] for r in await db.fetch(
        'SELECT * FROM inbox_settle_batch($1, $2, $3, $4, $5)', queue,
        [one['receipt'], two['receipt'], 'garbage', None], ['retry', 'dead', 'done', 'done'],
        [timedelta(hours=1), None, None, None], ['it\'s "no" good', 'never', None, None])],
        ['ok', 'dead', 'invalid', 'invalid'])

    receipts, seen = [], []
    while got := await db.fetch('SELECT * FROM inbox_next($1, $2, $3)', queue, receipts, 1):
        receipts = json.loads(json.dumps([r['receipt'] for r in got]))
        seen += [r['payload']['n'] for r in got]
    say('next', seen, [3, 4])
    say('a lost lease', await db.fetchval('SELECT inbox_settle($1, $2)', queue, one['receipt']), 'stale')
    try:
        await db.fetchval('SELECT inbox_settle($1, $2, strict => true)', queue, one['receipt'])
        say('strict', 'no error', 'IB001')
    except asyncpg.PostgresError as e:
        say('strict', e.sqlstate, 'IB001')


asyncio.run(main())
