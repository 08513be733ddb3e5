//! The terminal: taken, drawn on, and given back whatever happens.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context;
use nodespy_capture::Interrupts;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::capture::{Capture, Update};
use super::state::{Next, State};
use super::{Subject, screen};
use crate::output::{self, Stream};

/// How long we wait for a key before looking for a new slice.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The terminal while it is ours. Given back when dropped; on a panic, in any thread, a hook does
/// so before the message is printed.
struct Taken(DefaultTerminal);

impl Taken {
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| {
            // It may have got half way.
            ratatui::restore();
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(super) fn run(
    subject: &Subject,
    capture: &Capture,
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let has_color = output::has_color(Stream::Standard);
    let mut terminal = Taken::take().context("cannot use the terminal; try --lines")?;
    let mut state = State::default();
    let started = Instant::now();
    let mut is_stale = true;
    while !interrupts.is_stop_requested()
        && subject.duration.is_none_or(|most| started.elapsed() < most)
    {
        is_stale |= take_updates(&capture.updates, &mut state)?;
        if is_stale {
            terminal
                .0
                .draw(|frame| screen::draw(frame, subject, &mut state, has_color))?;
            is_stale = false;
        }
        match wait_for_event()? {
            Some(Event::Key(key)) => {
                match state.press(key) {
                    Next::Quit => break,
                    Next::Record => capture.record(),
                    Next::GoOn => {}
                }
                is_stale = true;
            }
            Some(_) => is_stale = true,
            None => {}
        }
    }
    Ok(())
}

/// Takes what the capturing thread has sent; returns whether there was anything.
fn take_updates(updates: &Receiver<Update>, state: &mut State) -> anyhow::Result<bool> {
    let mut is_new = false;
    loop {
        match updates.try_recv() {
            Ok(Update::Slice(slice)) => state.add(slice),
            Ok(Update::Failed(error)) => return Err(error),
            // What was seen stays on the screen until the user quits.
            Ok(Update::Ended) => state.has_ended = true,
            Ok(Update::Recorded(told) | Update::Noted(told)) => state.told = Some(told),
            Ok(Update::Started { .. }) => {}
            Err(TryRecvError::Empty) => return Ok(is_new),
            Err(TryRecvError::Disconnected) if state.has_ended => return Ok(is_new),
            Err(TryRecvError::Disconnected) => anyhow::bail!("the capturing thread ended"),
        }
        is_new = true;
    }
}

/// Waits a moment for a key or another size.
fn wait_for_event() -> io::Result<Option<Event>> {
    let is_ready = match event::poll(POLL_INTERVAL) {
        // A signal: the caller looks whether it was one to stop.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        is_ready => is_ready?,
    };
    is_ready.then(event::read).transpose()
}
