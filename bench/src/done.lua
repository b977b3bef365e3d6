-- Prints what the run found, as one line of JSON.
function done(summary, latency)
  local errors = summary.errors
  io.write("\nRESULT ", string.format(
    '{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"max":%d,"refused":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect, errors.read, errors.write, errors.timeout), "\n")
end
