//! The viewer in a real browser: from a file and from the server, every view, by mouse and by
//! keyboard. Pictures of all of it are left in `target/screenshots`.

mod access;
mod diff;
mod events;
mod findings;
mod hands;
mod looks;
mod routes;
mod shop;
mod start;
mod steps;
mod time;
mod tracks;
mod views;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use nodespy_model::Profile;

use crate::run::{nodespy, run_nodespy};
use crate::scratch::Scratch;
use crate::webdriver::Browser;

/// A page in a browser.
struct Opened {
    browser: Browser,
    address: String,
    /// Where its files are, and room for more.
    scratch: Scratch,
    _server: Option<Server>,
}

/// `nodespy view`, ended by its own pid.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a profile as `.nspy`.
fn write(profile: &Profile, path: &str) {
    let mut file = File::create(path).unwrap();
    nodespy_formats::export(profile, "nspy", &mut file).unwrap();
}

/// Opens the page of a profile from a file. None where there is no browser.
fn open_file(profile: &Profile, hash: &str) -> Option<Opened> {
    let opened = convert(profile)?;
    opened.go(hash);
    Some(opened)
}

/// A browser, and the page of a profile in a file. None where there is no browser.
fn convert(profile: &Profile) -> Option<Opened> {
    let browser = Browser::start()?;
    let scratch = Scratch::for_other_users();
    let [recording, page] = ["new.nspy", "new.html"].map(|name| scratch.file(name));
    write(profile, &recording);
    run_nodespy(&["convert", &recording, &page]).expect_code(0);
    Some(Opened {
        browser,
        address: format!("file://{page}"),
        scratch,
        _server: None,
    })
}

/// Opens the page of a profile as `nodespy view` serves it. None where there is no browser.
fn open_served(profile: &Profile) -> Option<Opened> {
    let browser = Browser::start()?;
    let scratch = Scratch::for_other_users();
    let recording = scratch.file("new.nspy");
    write(profile, &recording);
    let mut child = nodespy(&["view", "--no-open", &recording])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let opened = Opened {
        browser,
        address: address.trim().to_owned(),
        scratch,
        _server: Some(Server(child)),
    };
    opened.go("");
    Some(opened)
}

impl Opened {
    /// Opens the page anew with a state in its address, and waits until all of it is there.
    fn go(&self, hash: &str) {
        self.browser.open("about:blank");
        self.browser.open(&format!("{}#{hash}", self.address));
        self.settle();
    }

    /// Waits until the page has drawn and counted what it was asked to.
    #[track_caller]
    fn settle(&self) {
        // A press of a key asks in the next frame.
        self.browser.next_frames();
        self.browser.wait_for(
            "document.body.dataset.failed || document.body.dataset.ready === 'yes' \
             && document.body.dataset.busy !== 'true'",
        );
        let failed = self.browser.text("document.body.dataset.failed || ''");
        assert_eq!(failed, "", "{}", self.text("#message"));
    }

    #[track_caller]
    fn press(&self, keys: &[&str]) {
        self.browser.press(keys);
        self.settle();
    }

    #[track_caller]
    fn click(&self, selector: &str) {
        self.browser.click(selector);
        self.settle();
    }

    /// The text of the first element that a selector finds; empty when there is none.
    #[track_caller]
    fn text(&self, selector: &str) -> String {
        self.browser.text(&format!(
            "(document.querySelector({selector:?})?.innerText ?? '').trim()"
        ))
    }

    /// The texts of all elements that a selector finds.
    #[track_caller]
    fn texts(&self, selector: &str) -> Vec<String> {
        let found = self.browser.script(&format!(
            "return [...document.querySelectorAll({selector:?})].map((each) => each.innerText.trim())"
        ));
        serde_json::from_value(found).unwrap()
    }

    /// What stands behind the `#` of the address.
    fn hash(&self) -> String {
        self.browser.text("decodeURIComponent(location.hash)")
    }

    /// The part of the address that has this name.
    fn part(&self, name: &str) -> String {
        self.browser.text(&format!(
            "new URLSearchParams(location.hash.slice(1)).get('{name}') ?? ''"
        ))
    }

    /// Where an element is: left, top, width and height.
    #[track_caller]
    fn place(&self, selector: &str) -> [i64; 4] {
        let place = self.browser.script(&format!(
            "const box = document.querySelector({selector:?}).getBoundingClientRect();
             return [box.left, box.top, box.width, box.height].map(Math.round)"
        ));
        serde_json::from_value(place).unwrap()
    }
}
