-- The tables of a store in ClickHouse, format 1. `nodespy store init` fills in what stands in ${…} and runs this;
-- `nodespy store init --print` shows what it would run.
--
-- Every table takes the same row twice without harm: rows are replaced by their key, so that whatever is sent or made
-- again changes nothing. Times are seconds of UTC; `at` is in microseconds, by ClickHouse's own clock.

CREATE DATABASE IF NOT EXISTS ${DATABASE}${ON_CLUSTER};

-- Ten seconds of a series are one row. `part` is 0 for a window that came whole; what is added to it later is a part of its own.
CREATE TABLE IF NOT EXISTS ${DATABASE}.windows${ON_CLUSTER}
(
    service LowCardinality(String),
    event LowCardinality(String),
    start DateTime('UTC') CODEC(Delta, ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    part UInt64 CODEC(ZSTD(1)),
    period UInt64 CODEC(ZSTD(1)),
    version LowCardinality(String),
    stacks Array(LowCardinality(UInt64)) CODEC(ZSTD(1)),
    roles Array(UInt8) CODEC(ZSTD(1)),
    counts Array(UInt64) CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree
PARTITION BY toDate(start, 'UTC')
ORDER BY (service, event, toStartOfHour(start, 'UTC'), series, start, part)
TTL start + INTERVAL ${KEEP_WINDOWS} SECOND
SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1;

-- An hour of a series: its stacks, and what each window counted (`windows` are places in the hour, from 0).
CREATE TABLE IF NOT EXISTS ${DATABASE}.hours${ON_CLUSTER}
(
    service LowCardinality(String),
    event LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    period UInt64 CODEC(ZSTD(1)),
    version LowCardinality(String),
    stacks Array(LowCardinality(UInt64)) CODEC(ZSTD(1)),
    roles Array(UInt8) CODEC(ZSTD(1)),
    counts Array(UInt64) CODEC(ZSTD(1)),
    windows Array(UInt16) CODEC(Delta, ZSTD(1)),
    totals Array(UInt64) CODEC(ZSTD(1)),
    at UInt64 CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(at)
PARTITION BY toDate(hour, 'UTC')
ORDER BY (service, event, hour, series)
TTL hour + INTERVAL ${KEEP_HOURS} SECOND
SETTINGS index_granularity = 256, ttl_only_drop_parts = 1;

-- An hour of a version of a service.
CREATE TABLE IF NOT EXISTS ${DATABASE}.rollups${ON_CLUSTER}
(
    service LowCardinality(String),
    event LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    version LowCardinality(String),
    period UInt64 CODEC(ZSTD(1)),
    unit UInt8,
    stacks Array(LowCardinality(UInt64)) CODEC(ZSTD(1)),
    roles Array(UInt8) CODEC(ZSTD(1)),
    counts Array(UInt64) CODEC(ZSTD(1)),
    at UInt64 CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(at)
PARTITION BY toStartOfMonth(hour, 'UTC')
ORDER BY (service, event, hour, version, period)
TTL hour + INTERVAL ${KEEP_ROLLUPS} SECOND
SETTINGS index_granularity = 256, ttl_only_drop_parts = 1;

-- Hours that got windows after they were made (is_made = 0), and when they were made again.
CREATE TABLE IF NOT EXISTS ${DATABASE}.late${ON_CLUSTER}
(
    service LowCardinality(String),
    event LowCardinality(String),
    hour DateTime('UTC'),
    is_made UInt8,
    at UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ${REPLICATED}MergeTree
ORDER BY (service, event, hour)
TTL hour + INTERVAL ${KEEP_WINDOWS} SECOND;

-- What windows belong to, with the first and the last of them.
CREATE TABLE IF NOT EXISTS ${DATABASE}.series${ON_CLUSTER}
(
    service LowCardinality(String),
    event LowCardinality(String),
    id UInt64,
    unit UInt8,
    period UInt64,
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    first SimpleAggregateFunction(min, UInt32),
    last SimpleAggregateFunction(max, UInt32)
)
ENGINE = ${REPLICATED}AggregatingMergeTree
ORDER BY (service, event, id)
TTL toDateTime(last, 'UTC') + INTERVAL ${KEEP_HOURS} SECOND
SETTINGS index_granularity = 256;

-- Stacks by the first eight bytes of their hash: frames, root first. `seen` is renewed while a stack is counted.
CREATE TABLE IF NOT EXISTS ${DATABASE}.stacks${ON_CLUSTER}
(
    id UInt64 CODEC(ZSTD(1)),
    hash FixedString(16) CODEC(ZSTD(1)),
    frames Array(LowCardinality(FixedString(16))) CODEC(ZSTD(1)),
    seen DateTime('UTC')
)
ENGINE = ${REPLICATED}ReplacingMergeTree(seen)
ORDER BY id
TTL seen + INTERVAL ${KEEP_NAMES} SECOND
SETTINGS index_granularity = 256;

-- Places in functions, by their hash.
CREATE TABLE IF NOT EXISTS ${DATABASE}.frames${ON_CLUSTER}
(
    hash FixedString(16) CODEC(ZSTD(1)),
    name LowCardinality(String),
    file LowCardinality(String),
    function_line UInt32,
    function_column UInt32,
    category UInt8,
    line UInt32,
    column UInt32,
    flags UInt8,
    seen DateTime('UTC')
)
ENGINE = ${REPLICATED}ReplacingMergeTree(seen)
ORDER BY hash
TTL seen + INTERVAL ${KEEP_NAMES} SECOND
SETTINGS index_granularity = 256;

-- What was dropped and compacted until when, how long what is kept, and the format of the tables.
CREATE TABLE IF NOT EXISTS ${DATABASE}.marks${ON_CLUSTER}
(
    name LowCardinality(String),
    value UInt64,
    version UInt64
)
ENGINE = ${REPLICATED}ReplacingMergeTree(version)
ORDER BY name;
