DO $$
DECLARE
	receipts text[];
BEGIN
	LOOP
		receipts := ARRAY(SELECT receipt FROM inbox_next('q', receipts, 1000));
		EXIT WHEN receipts = '{}';
		COMMIT;
	END LOOP;
END $$
