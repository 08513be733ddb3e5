//! A ClickHouse to test with: the one at `NODESPY_CLICKHOUSE_URL`, else the engine itself as PyPI has it, behind a bridge that
//! speaks its HTTP interface (`tools/clickhouse-bridge.py`).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The address of a database that no other test uses; none where there is no ClickHouse, and the test is skipped.
pub(crate) fn fresh_address() -> Option<String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let database = format!("nodespy_test_{}_{number}", std::process::id());
    Some(format!("{}/{database}", server()?))
}

fn server() -> Option<&'static str> {
    static SERVER: OnceLock<Result<String, String>> = OnceLock::new();
    match SERVER.get_or_init(start) {
        Ok(url) => Some(url),
        Err(why) => {
            crate::skip::skip(why);
            None
        }
    }
}

fn start() -> Result<String, String> {
    if let Ok(url) = std::env::var("NODESPY_CLICKHOUSE_URL") {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let missing = || "no Python with chdb-core-lite: tools/python.sh clickhouse".to_owned();
    // Not installed by a test that merely runs: it is half a gigabyte.
    let folder = root.join("target/python-clickhouse");
    if !folder.join(".installed").exists() {
        return Err(missing());
    }
    let mut bridge = Command::new(folder.join("bin/python"))
        .arg(root.join("tools/clickhouse-bridge.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|_| missing())?;
    let output = bridge.stdout.take().expect("it is piped");
    let mut port = String::new();
    let read = BufReader::new(output).read_line(&mut port);
    if read.is_err() || port.trim().is_empty() {
        return Err("the bridge to chdb-core-lite does not start".to_owned());
    }
    // It ends when its input does, which is open as long as this process lives.
    static BRIDGE: OnceLock<Child> = OnceLock::new();
    let _ = BRIDGE.set(bridge);
    Ok(format!("http://127.0.0.1:{}", port.trim()))
}
