//! A page of metrics, asked for over HTTP: bounded in bytes and time, no redirects.

use std::net::SocketAddr;
use std::time::Duration;

use nodespy_http::{Client, ClientOptions};

use super::RequestOptions;
use super::exposition::total_of;

/// From the first byte of the request to the last of the page, however it arrives.
const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_PAGE_BYTES: u64 = 1 << 20;
const ACCEPT: &str =
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, */*;q=0.1";

/// The value of the counter that an address serves, or why there is none.
pub(super) fn counter_at(address: SocketAddr, options: &RequestOptions) -> Result<u64, String> {
    let client = Client::new(
        &format!("http://{address}"),
        &ClientOptions {
            timeout: Some(TIMEOUT),
            ..ClientOptions::default()
        },
    );
    let client = client.map_err(|error| error.to_string())?;
    let reply = client
        .with_max_reply(MAX_PAGE_BYTES)
        .get(&options.path, &[("Accept", ACCEPT)])
        .map_err(|error| format!("{address}: {error}"))?;
    if !reply.is_ok() {
        return Err(format!("{address}{}: {}", options.path, reply.text()));
    }
    let page = String::from_utf8_lossy(&reply.body);
    total_of(&page, &options.metric).ok_or_else(|| {
        let (path, metric) = (&options.path, &options.metric);
        format!("{address}{path} has no {metric}")
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    /// What becomes of the answer of a server that then sends `drip` again and again, ten times a second.
    fn asked(answer: &[u8], drip: &'static [u8]) -> Result<u64, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = answer.to_vec();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let mut is_taken = connection.write_all(&answer).is_ok();
            while is_taken && !drip.is_empty() {
                std::thread::sleep(Duration::from_millis(100));
                is_taken = connection.write_all(drip).is_ok();
            }
        });
        let options = RequestOptions {
            metric: "requests_total".to_owned(),
            ports: vec![address.port()],
            path: "/metrics".to_owned(),
        };
        let value = counter_at(address, &options);
        server.join().unwrap();
        value
    }

    #[test]
    fn a_page_is_read_to_its_end_or_not_at_all() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nrequests_total 42\n";
        assert_eq!(asked(whole, b""), Ok(42));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n12\r\nrequests_total 42\n\r\n0\r\n\r\n";
        assert_eq!(asked(chunks, b""), Ok(42));
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nrequests_total 42\n";
        assert!(asked(cut, b"").is_err());
    }

    #[test]
    fn what_is_no_page_of_metrics_is_said_so() {
        let why = |answer: &[u8]| asked(answer, b"").unwrap_err();
        let other = why(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nup 1");
        assert!(other.ends_with("has no requests_total"), "{other}");
        let moved = why(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        );
        assert!(moved.contains("302"), "{moved}");
        why(b"SSH-2.0-OpenSSH_9.2\r\n");
        why(b"");
    }

    #[test]
    fn neither_a_long_nor_a_slow_page_is_waited_for() {
        let mut long = b"HTTP/1.1 200 OK\r\n\r\nrequests_total 42\n".to_vec();
        long.resize(long.len() + (1 << 20), b'\n');
        assert!(asked(&long, b"").unwrap_err().contains("1048576 bytes"));
        for slow in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"HTTP/1.1 200 OK\r\n"] {
            let started = Instant::now();
            assert!(asked(slow, b"a: b\r\n").is_err());
            assert!(started.elapsed() < Duration::from_secs(20));
        }
    }
}
