INSERT INTO hand (payload) VALUES ('{"n": 1}');
