//! `top` where there is no terminal: a table every two seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nodespy_capture::Interrupts;

use super::Subject;
use super::capture::Update;
use super::table::{self, cells};
use super::totals::{Sort, Totals, Window};
use crate::output;

/// A table comes after as many slices.
const SLICES_A_TABLE: u32 = 2;
const MAX_FUNCTIONS: usize = 10;
/// How often we look whether the user wants to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(
    subject: &Subject,
    updates: &Receiver<Update>,
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let mut totals = Totals::default();
    let mut slices = 0;
    for remark in &subject.remarks {
        output::note(&format!("note: {remark}"));
    }
    loop {
        // Time that was sampled, not time that went by: on a slow machine the first second of
        // samples takes longer than that to name.
        let sampled = Duration::from_nanos(totals.sums(Window::SinceStart).length);
        if interrupts.is_stop_requested() || subject.duration.is_some_and(|most| sampled >= most) {
            break;
        }
        match updates.recv_timeout(POLL_INTERVAL) {
            Ok(Update::Slice(slice)) => {
                totals.add(slice);
                slices += 1;
            }
            Ok(Update::Noted(line)) => {
                output::note(&line);
                continue;
            }
            Ok(Update::Failed(error)) => return Err(error),
            Ok(Update::Ended) => {
                output::note(&format!("{} ended", subject.title));
                break;
            }
            Ok(Update::Started { .. } | Update::Recorded(_)) | Err(RecvTimeoutError::Timeout) => {
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if slices % SLICES_A_TABLE == 0 && !output::stream(&draw(subject, &totals)) {
            return Ok(());
        }
    }
    // What came after the last table.
    if slices % SLICES_A_TABLE != 0 {
        output::stream(&draw(subject, &totals));
    }
    Ok(())
}

fn draw(subject: &Subject, totals: &Totals) -> String {
    let window = Window::Last;
    let sums = totals.sums(window);
    let width = output::width_if_terminal().unwrap_or(120);
    let quality = table::quality(&sums, subject.rate_hz, totals.lost, window);
    let mut text = format!(
        "{} ({})\n{}\n{quality}\n",
        subject.title,
        subject.engine,
        table::load(&sums)
    );
    let threads: Vec<String> = sums
        .threads()
        .iter()
        .filter(|thread| thread.cpu_percent >= 0.5)
        .map(|thread| {
            let name = nodespy_model::printable(&thread.name).into_owned();
            format!("{name} ({}) {:.0} %", thread.tid, thread.cpu_percent)
        })
        .collect();
    if !threads.is_empty() {
        text.push_str(&format!("threads: {}\n", threads.join(", ")));
    }
    if let Some(pool) = &totals.pool {
        text.push_str(&format!("{pool}\n"));
    }
    let [first, second, name] = table::headings(&subject.by);
    text.push_str(&format!("{first:>7}{second:>8}  {name}\n"));
    let mut rows = totals.rows(window, Sort::Own, "");
    rows.retain(|row| row.own > 0);
    rows.truncate(MAX_FUNCTIONS);
    for cells in cells(&rows, &subject.by, sums.shares.total(), width) {
        let line = format!("{}{}  {}", cells.numbers, cells.name, cells.place);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}
