SELECT data.sensor AS sensor, CAST(CAST(data.at AS DATE) AS VARCHAR(10)) AS day, count(*) AS readings,
       min(data.celsius) AS lowest, max(data.celsius) AS highest, round(avg(data.celsius), 2) AS mean
FROM HUB
WHERE _corrupt IS NULL
GROUP BY 1, 2
ORDER BY 2, 1
