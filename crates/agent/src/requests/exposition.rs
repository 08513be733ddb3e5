//! A counter in Prometheus' text format, or in OpenMetrics': its value over all label sets. Depends on nothing else here, so that it can
//! be fuzzed.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>. A page has as many lines as it has bytes at most, and each byte is
//! looked at once; types, help, timestamps and exemplars are not needed.

/// Whole numbers are exact up to here; what is larger is no number of requests.
const MAX_VALUE: f64 = 9_007_199_254_740_992.0;
/// What ends a page of OpenMetrics.
const END: &str = "# EOF";

/// The values of all label sets of a metric, added up; none where the page has no such metric.
pub(crate) fn total_of(page: &str, metric: &str) -> Option<u64> {
    let lines = page.lines().take_while(|line| line.trim_end() != END);
    let mut values = lines.filter_map(|line| value_of(line, metric)).peekable();
    values.peek()?;
    let total = values.fold(0.0, |sum: f64, value| sum + value);
    Some(total.min(MAX_VALUE).round() as u64)
}

/// The value of a line of the metric: `name{label="value"} 1027 1395066363000 # {trace_id="x"} 1`. Values that are no count are left out.
fn value_of(line: &str, metric: &str) -> Option<f64> {
    let rest = line.trim_start().strip_prefix(metric)?;
    let values = match rest.chars().next()? {
        '{' => after_labels(rest)?,
        ' ' | '\t' => match rest.trim_start().starts_with('{') {
            true => after_labels(rest)?,
            false => rest,
        },
        // The beginning of a longer name.
        _ => return None,
    };
    let value: f64 = values.split_ascii_whitespace().next()?.parse().ok()?;
    (0.0..=MAX_VALUE).contains(&value).then_some(value)
}

/// What is behind labels, in whose quoted values a brace is a letter.
fn after_labels(text: &str) -> Option<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return text.get(at + 1..),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: &str = "http_requests_total";

    #[test]
    fn label_sets_are_added_up() {
        let page = "# HELP http_requests_total Requests {so far} 7\n\
                    # TYPE http_requests_total counter\n\
                    http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
                    http_requests_total{method=\"get\",path=\"/a}b\\\"} 9 \\\\\"} 3\r\n\
                    http_requests_total { code = \"500\" , } +1e2\n\
                    \thttp_requests_total\t4\n\
                    http_requests_totals 50\n\
                    http_requests_total_created 1.7e9\n\
                    other_http_requests_total 60\n";
        assert_eq!(total_of(page, REQUESTS), Some(1134));
        assert_eq!(total_of(page, "http_requests"), None);
    }

    #[test]
    fn openmetrics_has_exemplars_and_an_end() {
        let page = "# TYPE http_requests counter\n\
                    http_requests_total{code=\"200\"} 17.0 1520879607.789 # {trace_id=\"KOO5S4vxi0o\"} 0.67\n\
                    http_request_seconds_bucket{le=\"+Inf\"} 9\n\
                    http_request_seconds_count 9.0\n\
                    # EOF\n\
                    http_requests_total 100\n";
        assert_eq!(total_of(page, REQUESTS), Some(17));
        assert_eq!(total_of(page, "http_request_seconds_count"), Some(9));
    }

    #[test]
    fn what_is_no_count_is_left_out() {
        for odd in [
            "NaN", "+Inf", "-Inf", "inf", "-1", "1e300", "0x10", "1_000", "", "#", "{", "{a=\"",
        ] {
            let page = format!("{REQUESTS} {odd}\n");
            assert_eq!(total_of(&page, REQUESTS), None, "{odd}");
            let page = format!("{REQUESTS}{{a=\"b\"}} {odd}\n{REQUESTS} 5");
            assert_eq!(total_of(&page, REQUESTS), Some(5), "{odd}");
        }
        assert_eq!(
            total_of(&format!("{REQUESTS}{{a=\"b}} 1\n"), REQUESTS),
            None
        );
        let many = format!("{REQUESTS} 9007199254740992\n").repeat(1000);
        assert_eq!(total_of(&many, REQUESTS), Some(1 << 53));
        assert_eq!(total_of("", REQUESTS), None);
    }

    /// The short version of the fuzz target `exposition`.
    #[test]
    fn no_bytes_break_it() {
        let page = b"http_requests_total{a=\"\\\"}\",b=\"\"} 1e3 7 # {c=\"d\"} 1\n# EOF\n";
        for at in 0..page.len() {
            for byte in [0, b'"', b'\\', b'}', b'\n', 0xff] {
                let mut changed = page.to_vec();
                changed[at] = byte;
                let _ = total_of(&String::from_utf8_lossy(&changed), REQUESTS);
                let _ = total_of(&String::from_utf8_lossy(&changed[..at]), REQUESTS);
            }
        }
    }
}
