INSERT INTO q (payload) VALUES ('{"n": 1}');
