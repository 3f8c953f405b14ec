CREATE MATERIALIZED VIEW city_totals AS
SELECT city, count(*) AS orders, sum(cents) AS cents
FROM orders
GROUP BY city
