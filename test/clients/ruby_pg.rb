# Ruby pg: JSON as text; arrays by an encoder.

require 'json'
require 'pg'

QUEUE = ENV['QUEUE']
DB = PG.connect
ARRAY = PG::TextEncoder::Array.new(elements_type: PG::TextEncoder::String.new)

def say(what, got, want)
  puts got == want ? "ok - #{what}" : "not ok - #{what}: #{got}"
end

def rows(sql, *args)
  DB.exec_params(sql, args.map { |a| a.is_a?(Array) ? ARRAY.encode(a) : a }).to_a
end

say 'send', rows('SELECT inbox_send($1, $2, delay => $3, priority => $4) AS id', QUEUE,
                 { n: 1, text: %q(it's "quoted") }.to_json, '0 s', 1)[0]['id'], '1'
say 'send many', rows('SELECT id FROM inbox_send_batch($1, $2, priority => $3, dedup_keys => $4) id', QUEUE,
                      (2..4).map { |n| { n: n }.to_json }, 2, ['a', 'b', nil]).map { |r| r['id'] }, %w[2 3 4]

one = rows('SELECT * FROM inbox_claim($1, $2, $3)', QUEUE, 1, '20 s')[0]
say 'claim', [one['attempt'], JSON.parse(one['payload'])['text']], ['1', %q(it's "quoted")]
extended = rows("SELECT *, locked_until > now() + '9 min'::interval AS late FROM inbox_extend($1, $2, $3)",
                QUEUE, one['receipt'], '10 min')[0]
say 'extend', extended.values_at('verdict', 'new_receipt', 'late'), ['ok', one['receipt'], 't']
two = rows('SELECT * FROM inbox_claim($1)', QUEUE)[0]
say 'settle many', rows('SELECT * FROM inbox_settle_batch($1, $2, $3, $4, $5)', QUEUE,
                        [one['receipt'], two['receipt'], 'garbage', nil], %w[retry dead done done],
                        ['1 h', nil, nil, nil], [%q(it's "no" good), 'never', nil, nil]).map { |r| r['verdict'] },
    %w[ok dead invalid invalid]

receipts = []
seen = []
until (got = rows('SELECT * FROM inbox_next($1, $2, $3)', QUEUE, receipts, 1)).empty?
  receipts = JSON.parse(got.map { |r| r['receipt'] }.to_json)
  seen += got.map { |r| JSON.parse(r['payload'])['n'] }
end
say 'next', seen, [3, 4]
say 'a lost lease', rows('SELECT inbox_settle($1, $2) AS v', QUEUE, one['receipt'])[0]['v'], 'stale'
begin
  rows('SELECT inbox_settle($1, $2, strict => true)', QUEUE, one['receipt'])
  say 'strict', 'no error', 'IB001'
rescue PG::Error => e
  say 'strict', e.result.error_field(PG::Result::PG_DIAG_SQLSTATE), 'IB001'
end
