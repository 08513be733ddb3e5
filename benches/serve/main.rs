//! How long `nodespy serve` takes to answer what its page asks, over thirty days of fifty services: each has eight processes, three
//! versions, and hours as large as those of the store's bench. Windows are there for the last seven days.
//!
//! `serve FOLDER NODESPY` makes the store in that folder, where it is not there yet, and starts that binary.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

#[path = "../store/fleet.rs"]
#[allow(dead_code, reason = "the bench of the store uses the rest")]
mod fleet;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fleet::{Fleet, WINDOWS_AN_HOUR};
use nodespy_model::label_key;
use nodespy_store::{
    CPU_EVENT, Count, Detail, HOUR_SECONDS, OpenMode, Series, SqliteStore, StackHash, Store, Window,
};
use rusqlite::{Connection, params};

type Failure = Box<dyn std::error::Error>;

const SERVICES: usize = 50;
/// Services whose windows are appended; the others are copies of their rows.
const MADE: usize = 2;
const PROCESSES: usize = 8;
const DAYS: u64 = 30;
const DAYS_OF_WINDOWS: u64 = 7;
/// Days that a version is there.
const VERSION_DAYS: u64 = 10;
const DAY: u64 = 24 * HOUR_SECONDS;
const REPEATS: usize = 3;
/// Copies have ids of their own, beyond those of what they are copied from.
const ID_STEP: i64 = 1000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(nodespy)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve FOLDER NODESPY".into());
    };
    let path = Path::new(&folder).join("profiles.sqlite");
    if !path.exists() {
        std::fs::create_dir_all(&folder)?;
        let since = Instant::now();
        make(&path)?;
        println!("made in {:.0} s", since.elapsed().as_secs_f64());
    }
    let megabytes = std::fs::metadata(&path)?.len() as f64 / 1e6;
    println!("{SERVICES} services, {DAYS} days, {megabytes:.0} MB");
    let mut server = Server::start(&nodespy, &folder)?;
    let outcome = ask_all(&server);
    server.child.kill()?;
    server.child.wait()?;
    outcome
}

/// The end of the last hour that is over.
fn end() -> Result<u64, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(now / HOUR_SECONDS * HOUR_SECONDS)
}

fn make(path: &Path) -> Result<(), Failure> {
    let fleet = Fleet::new();
    let mut store = SqliteStore::open(path, OpenMode::Write)?;
    let start = end()? - DAYS * DAY;
    let hours: Vec<Vec<Vec<Count>>> = (0..24).map(|hour| counts_of(&fleet, hour)).collect();
    let series: Vec<Series> = (0..MADE * PROCESSES * (DAYS / VERSION_DAYS) as usize)
        .map(|number| series(&fleet, number))
        .collect();
    for hour in 0..DAYS * 24 {
        let version = (hour / 24 / VERSION_DAYS) as usize;
        let counts = &hours[hour as usize % 24];
        let windows: Vec<Window> = (0..MADE * PROCESSES)
            .map(|place| Window {
                series: version * MADE * PROCESSES + place,
                start: start + hour * HOUR_SECONDS,
                counts: counts[place].clone(),
            })
            .collect();
        let mut stacks: Vec<StackHash> = windows
            .iter()
            .flat_map(|window| &window.counts)
            .map(|count| count.stack)
            .collect();
        stacks.sort_unstable();
        stacks.dedup();
        let unknown = store.unknown_stacks(&stacks)?;
        let mut batch = fleet.batch(windows, &unknown);
        batch.series = series.clone();
        store.append(&batch)?;
        if hour % 24 == 23 {
            store.compact(start + (hour + 1) * HOUR_SECONDS)?;
        }
    }
    store.drop_before(Detail::Windows, end()? - DAYS_OF_WINDOWS * DAY)?;
    drop(store);
    copy(path)
}

/// What each process counted in an hour of the day.
fn counts_of(fleet: &Fleet, hour: u64) -> Vec<Vec<Count>> {
    let mut sums: Vec<BTreeMap<_, Count>> = vec![BTreeMap::new(); MADE * PROCESSES];
    for number in hour * WINDOWS_AN_HOUR..(hour + 1) * WINDOWS_AN_HOUR {
        for (place, window) in fleet.windows(number).into_iter().enumerate() {
            let Some(sums) = sums.get_mut(place) else {
                break;
            };
            for count in window.counts {
                sums.entry(count.stack)
                    .and_modify(|sum: &mut Count| sum.count += count.count)
                    .or_insert(count);
            }
        }
    }
    sums.into_iter()
        .map(|sums| sums.into_values().collect())
        .collect()
}

fn series(fleet: &Fleet, number: usize) -> Series {
    let (version, place) = (number / (MADE * PROCESSES), number % (MADE * PROCESSES));
    let (service, process) = (place / PROCESSES, place % PROCESSES);
    let mut series = fleet.series[0].clone();
    series.service = Fleet::service_name(service);
    series.event = CPU_EVENT.to_owned();
    series
        .labels
        .set(label_key::VERSION, format!("1.{version}.0"));
    series
        .labels
        .set("instance", format!("host-{process}/{}", 1000 + number));
    series
}

/// The other services, row by row.
fn copy(path: &Path) -> Result<(), Failure> {
    let mut connection = Connection::open(path)?;
    for copy in MADE..SERVICES {
        let source = Fleet::service_name(copy % MADE);
        let scope: i64 = connection.query_row(
            "SELECT id FROM scope WHERE service = ?",
            params![source],
            |row| row.get(0),
        )?;
        let (to, shift) = (copy as i64 + ID_STEP, copy as i64 * ID_STEP);
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO scope SELECT ?1, ?2, event, unit FROM scope WHERE id = ?3",
            params![to, Fleet::service_name(copy), scope],
        )?;
        for sql in [
            "INSERT INTO series SELECT id + ?3, ?2, period, version, labels, first, last FROM series WHERE scope = ?1",
            "INSERT INTO hour SELECT ?2, hour, series + ?3, seq, n, counts, sums, times FROM hour WHERE scope = ?1",
            "INSERT INTO rollup SELECT ?2, hour, version, period, n, sums FROM rollup WHERE scope = ?1 AND ?3 > 0",
        ] {
            transaction.execute(sql, params![scope, to, shift])?;
        }
        transaction.commit()?;
    }
    Ok(())
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(nodespy: &str, folder: &str) -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(nodespy)
            .args(["serve", "--store", folder, "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .spawn()?;
        let server = Self { child, port };
        let since = Instant::now();
        while server.ask("/healthz").is_err() {
            if since.elapsed() > Duration::from_secs(20) {
                return Err("the server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn ask(&self, target: &str) -> Result<usize, Failure> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            connection,
            "GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.port
        )?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        match answer.starts_with(b"HTTP/1.1 200") {
            true => Ok(answer.len()),
            false => Err(String::from_utf8_lossy(&answer).into()),
        }
    }
}

fn ask_all(server: &Server) -> Result<(), Failure> {
    let until = end()?;
    let (month, half, day) = (until - DAYS * DAY, until - DAYS / 2 * DAY, until - DAY);
    let service = Fleet::service_name(0);
    for (name, target) in [
        (
            "services, 30 days",
            format!("/api/v1/services?from={month}&until={until}&instances=0"),
        ),
        (
            "CPU of all services, 30 days",
            format!("/api/v1/series?by=service&from={month}&until={until}&step=21600"),
        ),
        (
            "CPU of one by version, 30 days",
            format!("/api/v1/series?service={service}&by=version&from={month}&until={until}"),
        ),
        (
            "viewer of one, 30 days",
            format!("/api/v1/profile?service={service}&format=html&from={month}&until={until}"),
        ),
        (
            "viewer, 15 days against 15",
            format!(
                "/api/v1/profile?service={service}&format=html&from={half}&until={until}&base.from={month}&base.until={half}"
            ),
        ),
        (
            "viewer of one, 24 hours",
            format!("/api/v1/profile?service={service}&format=html&from={day}&until={until}"),
        ),
        (
            "its instances, 24 hours",
            format!("/api/v1/instances?service={service}&from={day}&until={until}"),
        ),
        (
            "its instances, 30 days",
            format!("/api/v1/instances?service={service}&from={month}&until={until}"),
        ),
        (
            "its regressions, 30 days",
            format!("/api/v1/regressions?service={service}&from={month}&until={until}"),
        ),
    ] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..REPEATS {
            let since = Instant::now();
            bytes = server.ask(&target)?;
            times.push(since.elapsed().as_secs_f64() * 1e3);
        }
        let first = times[0];
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{name:<32} {first:8.0} ms at first, {best:6.0} at best  ({:.0} kB)",
            bytes as f64 / 1e3
        );
    }
    Ok(())
}
