//! What the user of the screen wants to see, and how keys change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::capture::Slice;
use super::totals::{Sort, Totals, Window};

/// What the screen shows.
#[derive(Debug, Default)]
pub(super) struct State {
    live: Totals,
    /// What was there when the user paused.
    paused: Option<Totals>,
    pub(super) window: Window,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    pub(super) has_ended: bool,
    /// What became of the last recording, or at what rate samples are taken from now on, until another key is pressed.
    pub(super) told: Option<String>,
    /// How many functions are above the first one shown.
    pub(super) scroll: usize,
}

/// What a key led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// What was seen lately goes into a file.
    Record,
    Quit,
}

impl State {
    pub(super) fn add(&mut self, slice: Slice) {
        self.live.add(slice);
    }

    /// What is shown: the newest, unless paused.
    pub(super) fn totals(&self) -> &Totals {
        self.paused.as_ref().unwrap_or(&self.live)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::GoOn;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Next::Quit;
        }
        self.told = None;
        if self.is_typing {
            self.type_filter(key.code);
            return Next::GoOn;
        }
        if self.shows_help {
            self.shows_help = false;
            return Next::GoOn;
        }
        self.command(key.code)
    }

    fn command(&mut self, key: KeyCode) -> Next {
        match key {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('r') => {
                // A process that has ended makes no slice any more.
                self.told = Some(match self.has_ended {
                    true => "Nothing is written: the process has ended".to_owned(),
                    false => "Writing what was seen lately …".to_owned(),
                });
                return Next::Record;
            }
            KeyCode::Char('s') => self.sort = Sort::Own,
            KeyCode::Char('t') => self.sort = Sort::Total,
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('w') => {
                self.window = match self.window {
                    Window::Last => Window::SinceStart,
                    Window::SinceStart => Window::Last,
                }
            }
            KeyCode::Char(' ') => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some(self.live.clone()),
                }
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Next::GoOn
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character) => self.filter.push(character),
            _ => {}
        }
        self.scroll = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, text: &str) -> Vec<Next> {
        text.chars()
            .map(|character| {
                let code = match character {
                    '\n' => KeyCode::Enter,
                    '\x1b' => KeyCode::Esc,
                    character => KeyCode::Char(character),
                };
                state.press(KeyEvent::from(code))
            })
            .collect()
    }

    #[test]
    fn a_key_asks_for_a_file_and_what_became_of_it_goes_with_the_next() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "r"), [Next::Record]);
        assert!(state.told.is_some());
        press(&mut state, "s");
        assert_eq!(state.told, None);
        state.has_ended = true;
        press(&mut state, "r");
        let told = state.told.unwrap_or_default();
        assert!(told.contains("has ended"), "{told}");
    }

    #[test]
    fn letters_are_commands_unless_a_filter_is_typed() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "t/quit\n"), [Next::GoOn; 7]);
        assert_eq!(state.filter, "quit");
        assert_eq!(state.sort, Sort::Total);
        assert_eq!(
            press(&mut state, "\x1bwq"),
            [Next::GoOn, Next::GoOn, Next::Quit]
        );
        assert_eq!(state.filter, "");
        assert_eq!(state.window, Window::SinceStart);
    }

    #[test]
    fn control_c_quits_whatever_is_shown() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for keys in ["", "/ab", "?"] {
            let mut state = State::default();
            press(&mut state, keys);
            assert_eq!(state.press(control_c), Next::Quit);
        }
    }

    #[test]
    fn pausing_holds_the_picture_while_samples_go_on() {
        let mut state = State::default();
        let slice = || Slice {
            length: 1,
            ..Default::default()
        };
        state.add(slice());
        press(&mut state, " ");
        state.add(slice());
        assert!(state.is_paused());
        assert_eq!(state.totals().sums(Window::SinceStart).length, 1);
        press(&mut state, " ");
        assert_eq!(state.totals().sums(Window::SinceStart).length, 2);
    }
}
