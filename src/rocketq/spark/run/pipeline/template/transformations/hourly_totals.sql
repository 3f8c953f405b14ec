-- Sums by hour and city. An hour is written once no more orders can come for it: those that
-- are more than ten minutes late are left out.
CREATE STREAMING TABLE hourly_totals AS
SELECT window.start AS hour, city, count(*) AS orders, sum(cents) AS cents
FROM STREAM orders WATERMARK ordered_at DELAY OF INTERVAL 10 MINUTES AS o
GROUP BY window(ordered_at, '1 hour'), city
