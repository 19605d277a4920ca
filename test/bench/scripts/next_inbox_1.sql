SELECT receipt AS r, payload AS p FROM inbox_next('q', ARRAY[:r]) \aset
