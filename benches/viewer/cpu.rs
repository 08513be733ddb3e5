//! What a page costs. The page notes when it is drawn and when it is ready; meanwhile the CPU time
//! of every page's main thread is read again and again, and looked up afterwards. Nothing is asked
//! of the page while it works.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::browser::Browser;
use crate::contenders::Contender;
use crate::{Cost, Failure, served};

const TIMEOUT: Duration = Duration::from_secs(200);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
const LOOK_FOR_PROCESSES: Duration = Duration::from_millis(40);

/// When, in milliseconds since 1970, and how much CPU time the main thread had used, in milliseconds.
type Series = Vec<(f64, f64)>;

/// Opens a page and measures it.
pub(crate) fn of_page(browser: &Browser, contender: &Contender) -> Result<Cost, Failure> {
    let (empty, address) = addresses(contender)?;
    // A page of the same site first: the process that shows it stays, and its start is not counted.
    browser.open(&empty)?;
    std::thread::sleep(Duration::from_secs(1));
    browser.before_each_page(&format!(
        "window.marks = {{}};
         (function look() {{
           try {{
             if (!marks.drawn && ({})) marks.drawn = performance.timeOrigin + performance.now();
             if (!marks.ready && ({})) marks.ready = performance.timeOrigin + performance.now();
           }} catch {{}}
           if (!marks.ready) requestAnimationFrame(look);
         }})();",
        contender.is_drawn, contender.is_ready
    ))?;
    let is_over = AtomicBool::new(false);
    let (marks, series, started) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(browser.driver_pid(), &is_over));
        std::thread::sleep(Duration::from_millis(300));
        let started = now_ms();
        let marks = open_and_wait(browser, &address);
        // The last look must come after the marks.
        std::thread::sleep(Duration::from_millis(50));
        is_over.store(true, Ordering::Relaxed);
        let series = watching.join().map_err(|_| "the watcher failed")?;
        Ok::<_, Failure>((marks?, series, started))
    })?;
    let busiest = series
        .iter()
        .max_by(|left, right| used(left.1, started).total_cmp(&used(right.1, started)));
    let (pid, series) = busiest.ok_or("no page was seen")?;
    let base = at(series, started);
    Ok(Cost {
        first_ms: at(series, marks.0) - base,
        all_ms: at(series, marks.1) - base,
        memory_mb: memory_mb(*pid).unwrap_or(0.0),
    })
}

/// Where an empty page and the page itself are.
fn addresses(contender: &Contender) -> Result<(String, String), Failure> {
    let Some(folder) = &contender.serves else {
        let empty = contender.page.with_file_name("empty.html");
        std::fs::write(&empty, "<!doctype html><title>empty</title>")?;
        let address = |path: &Path| format!("file://{}", path.display());
        return Ok((address(&empty), address(&contender.page)));
    };
    let port = served::serve(folder, &contender.page)?;
    let profile = format!("http%3A%2F%2F127.0.0.1%3A{port}%2Fprofile");
    Ok((
        format!("http://127.0.0.1:{port}/empty"),
        format!("http://127.0.0.1:{port}/#profileURL={profile}&title=x"),
    ))
}

fn open_and_wait(browser: &Browser, address: &str) -> Result<(f64, f64), Failure> {
    browser.open(address)?;
    let since = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let marks = browser.script("return window.marks ? [marks.drawn, marks.ready] : null");
        if let Ok(marks) = marks
            && let (Some(drawn), Some(ready)) = (marks[0].as_f64(), marks[1].as_f64())
        {
            return Ok((drawn, ready));
        }
        if since.elapsed() > TIMEOUT {
            return Err(format!("not ready after {} s", TIMEOUT.as_secs()).into());
        }
    }
}

/// The CPU time of the main thread of every page of a browser, until it is over.
fn watch(driver: u32, is_over: &AtomicBool) -> BTreeMap<u32, Series> {
    let mut series: BTreeMap<u32, Series> = BTreeMap::new();
    let mut looked = None;
    while !is_over.load(Ordering::Relaxed) {
        if looked.is_none_or(|looked: Instant| looked.elapsed() > LOOK_FOR_PROCESSES) {
            looked = Some(Instant::now());
            for pid in pages_of(driver) {
                series.entry(pid).or_default();
            }
        }
        for (pid, series) in &mut series {
            if let Some(cpu) = main_thread_ms(*pid) {
                series.push((now_ms(), cpu));
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    series
}

/// The CPU time that the main threads of a browser's pages have used so far, in milliseconds.
pub(crate) fn now(browser: &Browser) -> f64 {
    let pages = pages_of(browser.driver_pid());
    pages.into_iter().filter_map(main_thread_ms).sum()
}

fn main_thread_ms(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).ok()?;
    let nanoseconds: f64 = text.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1e6)
}

/// The processes that show pages, among the descendants of chromedriver.
fn pages_of(driver: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        if let Some(parent) = after_name
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
        {
            parents.insert(pid, parent);
        }
    }
    let is_ours = |pid: &u32| {
        let ancestors = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
        ancestors.take(20).any(|ancestor| ancestor == driver)
    };
    let is_page = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("--type=renderer")
    };
    let pids = parents.keys().copied();
    pids.filter(is_ours).filter(is_page).collect()
}

/// The CPU time at a moment: that of the last look before it.
fn at(series: &Series, moment: f64) -> f64 {
    let before = series.partition_point(|(time, _)| *time <= moment);
    before.checked_sub(1).map_or(0.0, |last| series[last].1)
}

fn used(series: &Series, started: f64) -> f64 {
    series.last().map_or(0.0, |(_, cpu)| *cpu) - at(series, started)
}

fn memory_mb(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: f64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1e3)
}

fn now_ms() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
