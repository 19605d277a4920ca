-- inbox_subscribe and its like: definitions and their errors.  What runs is
-- tested in test/t/07*.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE TYPE sub_job AS (n int);
CREATE DOMAIN sub_text AS text;
CREATE FUNCTION sub_jsonb(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_job(j sub_job) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_domain(t sub_text) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sub_delivery(d inbox_delivery) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE PROCEDURE sub_procedure(j jsonb) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sub_none() RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_two(j jsonb, k int DEFAULT 1) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_set(j jsonb) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sub_plain_text(t text) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_any(a anyelement) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sub_record(r record) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE PROCEDURE sub_inout(INOUT j jsonb) LANGUAGE sql AS 'SELECT j';
SELECT inbox_create('subq');
SELECT inbox_create('subdead', max_attempts => 3);
CREATE FUNCTION sub_row(r subq) RETURNS void LANGUAGE sql AS 'SELECT';

-- what a handler can be
BEGIN;
SELECT inbox_subscribe('jsonb', 'subq', 'sub_jsonb(jsonb)');
ROLLBACK;
BEGIN;
SELECT inbox_subscribe('job', 'subq', 'sub_job(sub_job)', workers => 2, by_key => true, lease => '1 min',
	decode_delay => '5 min', on_decode_error => 'retry', group_key => 'g', time_limit => '90 s');
SELECT inbox_subscribe('delivery', 'subq', 'sub_delivery(inbox_delivery)');
SELECT inbox_subscribe('domain', 'public.subq', 'sub_domain'::regproc::regprocedure);
SELECT inbox_subscribe('row', 'subq', 'sub_row(subq)');
SELECT inbox_subscribe('procedure', 'subdead', 'sub_procedure(jsonb)', on_error => 'dead', on_decode_error => 'dead');
SELECT name, queue, handler, owner = current_user AS mine, workers, by_key, lease, on_error, on_decode_error, decode_delay, group_key, time_limit, paused
FROM inbox_subscriptions ORDER BY name;
ROLLBACK;
SELECT count(*) FROM inbox_subscriptions;

-- what it cannot be
SELECT inbox_subscribe('s', 'subq', 'sub_none()');
SELECT inbox_subscribe('s', 'subq', 'sub_two(jsonb,int)');
SELECT inbox_subscribe('s', 'subq', 'sub_set(jsonb)');
SELECT inbox_subscribe('s', 'subq', 'sub_plain_text(text)');
SELECT inbox_subscribe('s', 'subq', 'sub_any(anyelement)');
SELECT inbox_subscribe('s', 'subq', 'sub_record(record)');
SELECT inbox_subscribe('s', 'subq', 'sub_inout(jsonb)');
SELECT inbox_subscribe('s', 'subq', 'max(int)');
SELECT inbox_subscribe('s', 'subq', 0);
SELECT inbox_subscribe('s', 'subq', 'no_such(jsonb)');
-- another queue's row is just a composite type
BEGIN;
SELECT inbox_subscribe('s', 'subdead', 'sub_row(subq)');
ROLLBACK;

-- other misuse
SELECT inbox_subscribe(NULL, 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_subscribe('', 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_subscribe(repeat('x', 64), 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_subscribe('s', NULL, 'sub_jsonb(jsonb)');
SELECT inbox_subscribe('s', 'no_such', 'sub_jsonb(jsonb)');
SELECT inbox_subscribe('s', 'pg_class', 'sub_jsonb(jsonb)');
SELECT inbox_subscribe('s', 'subq', NULL);
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', workers => 0);
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', workers => NULL);
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', lease => '0');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', on_error => 'drop');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', on_error => 'dead');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', on_decode_error => 'dead');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', on_decode_error => 'ignore');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', on_decode_error => NULL);
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', decode_delay => '1 s');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', decode_delay => '-1 s', on_decode_error => 'retry');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', time_limit => '0');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)', time_limit => '2 days');
CREATE TABLE subplain (id int PRIMARY KEY, locked_until timestamptz);
SET client_min_messages = error;
SELECT inbox_adopt('subplain');
RESET client_min_messages;
SELECT inbox_subscribe('s', 'subplain', 'sub_jsonb(jsonb)', by_key => true);
SELECT inbox_subscribe('s', 'subplain', 'sub_jsonb(jsonb)', group_key => 'g');
BEGIN READ ONLY;
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)');
ROLLBACK;

-- change
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_pause_subscription('s');
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_alter_subscription('s', 'sub_job(sub_job)', workers => 3, by_key => true, lease => '1 min', time_limit => '1 s', group_key => 'g');
SELECT name, handler, workers, by_key, lease, on_error, on_decode_error, decode_delay, group_key, time_limit, paused FROM inbox_subscriptions;
SELECT inbox_alter_subscription('s', on_decode_error => 'retry', decode_delay => '1 s', reset => '{lease,group_key}');
SELECT name, handler, workers, by_key, lease, on_error, on_decode_error, decode_delay, group_key, time_limit, paused FROM inbox_subscriptions;
SELECT inbox_alter_subscription('s', on_decode_error => 'drop');
SELECT inbox_alter_subscription('s', on_decode_error => 'drop', reset => '{decode_delay}');
SELECT inbox_alter_subscription('s', reset => '{workers}');
SELECT inbox_alter_subscription('s', workers => 0);
SELECT inbox_alter_subscription('s', 'sub_none()');
SELECT inbox_alter_subscription('s', workers => 1000000);
SELECT inbox_alter_subscription('t', workers => 1);
SELECT inbox_pause_subscription('t');
SELECT inbox_resume_subscription('t');
SELECT inbox_unsubscribe('t');
SELECT inbox_unsubscribe(NULL);

-- the end
SELECT inbox_unsubscribe('s');
SELECT count(*) FROM inbox_subscriptions;
SELECT inbox_subscribe('s', 'subq', 'sub_jsonb(jsonb)');
SELECT inbox_forget('subq');
SELECT count(*) FROM inbox_subscriptions;
SELECT inbox_subscribe('s', 'subdead', 'sub_jsonb(jsonb)');
SELECT inbox_drop('subdead');
SELECT count(*) FROM inbox_subscriptions;

DROP TABLE subplain;
SET client_min_messages = error;
DROP TABLE subq CASCADE;
