INSERT INTO plain (payload) VALUES ('{"n": 1}');
