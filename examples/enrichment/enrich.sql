SELECT 'enriched.order' AS subject, to_json(struct(o.data.id, o.data.amount, u.data.name)) AS data
FROM ORDERS o JOIN USERS u ON o.data.user = u.data.user
WHERE o._corrupt IS NULL AND u._corrupt IS NULL
