# psycopg2: autocommit must be asked for; a dict is bound by Json().

import json
import os
from datetime import timedelta

import psycopg2
from psycopg2.extras import Json, RealDictCursor

queue = os.environ['QUEUE']
connection = psycopg2.connect('', cursor_factory=RealDictCursor)
connection.autocommit = True
cursor = connection.cursor()


def say(what, got, want):
    print(f'ok - {what}' if got == want else f'not ok - {what}: {got}')


def rows(sql, *args):
    cursor.execute(sql, args)
    return cursor.fetchall()


say('send', rows('SELECT inbox_send(%s, %s, delay => %s, priority => %s) AS id', queue,
                 Json({'n': 1, 'text': 'it\'s "quoted"'}), timedelta(0), 1)[0]['id'], '1')
say('send many', [r['id'] for r in rows(
    'SELECT id FROM inbox_send_batch(%s, %s::jsonb[], priority => %s, dedup_keys => %s) id', queue,
    [Json({'n': n}) for n in (2, 3, 4)], 2, ['a', 'b', None])], ['2', '3', '4'])

one = rows('SELECT * FROM inbox_claim(%s, %s, %s)', queue, 1, timedelta(seconds=20))[0]
say('claim', (one['attempt'], one['payload']['text']), (1, 'it\'s "quoted"'))
extended = rows('SELECT * FROM inbox_extend(%s, %s, %s)', queue, one['receipt'], '10 min')[0]
say('extend', (extended['verdict'], extended['new_receipt'],
               extended['locked_until'] - one['locked_until'] > timedelta(minutes=9)), ('ok', one['receipt'], True))
two = rows('SELECT * FROM inbox_claim(%s)', queue)[0]
say('settle many', [r['verdict'] for r in rows(
    'SELECT * FROM inbox_settle_batch(%s, %s, %s, %s::interval[], %s)', queue,
    [one['receipt'], two['receipt'], 'garbage', None], ['retry', 'dead', 'done', 'done'],
    [timedelta(hours=1), None, None, None], ['it\'s "no" good', 'never', None, None])],
    ['ok', 'dead', 'invalid', 'invalid'])

receipts, seen = [], []
while got := rows('SELECT * FROM inbox_next(%s, %s, %s)', queue, receipts, 1):
    receipts = json.loads(json.dumps([r['receipt'] for r in got]))
    seen += [r['payload']['n'] for r in got]
say('next', seen, [3, 4])
say('a lost lease', rows('SELECT inbox_settle(%s, %s) AS v', queue, one['receipt'])[0]['v'], 'stale')
try:
    rows('SELECT inbox_settle(%s, %s, strict => true)', queue, one['receipt'])
    say('strict', 'no error', 'IB001')
except psycopg2.Error as e:
    say('strict', e.pgcode, 'IB001')
