//! A browser for the tests: chromedriver on a port of its own, and the few commands of the WebDriver
//! protocol that tests of a page need. One browser serves all tests of a process.
//!
//! Written out rather than taken from a crate: the protocol is one JSON object for each request,
//! and a client of it would bring seventy packages and an asynchronous runtime along.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::at_exit::at_exit;
use crate::skip::skip;

/// Far longer than anything takes, even on a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_secs(120);

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const ARGUMENTS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];

/// A fresh tab of the browser that all tests of this process share, one after the other.
pub(crate) struct Browser {
    session: MutexGuard<'static, Option<Session>>,
}

/// chromedriver and its browser, which end with this process.
struct Session {
    port: u16,
    id: String,
}

impl Browser {
    /// Takes the browser, starting it for the first test. None where there is no chromium or no
    /// chromedriver.
    pub(crate) fn start() -> Option<Self> {
        static SHARED: Mutex<Option<Session>> = Mutex::new(None);
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let browser = BROWSERS.into_iter().find(is_there);
        let Some(browser) = browser.filter(|_| is_there(&"chromedriver")) else {
            skip("there is no chromium or no chromedriver");
            return None;
        };
        // A test that failed leaves the browser to the next, which opens a tab of its own.
        let mut session = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_none() {
            *session = Some(Session::start(browser));
        }
        let browser = Self { session };
        browser.open_tab();
        browser.resize(1280, 800);
        Some(browser)
    }

    /// Replaces the tab of the test before, with all it kept.
    fn open_tab(&self) {
        let old = self.request("GET", &self.path("window/handles"), &Value::Null);
        let new = self.ask("window/new", &json!({ "type": "tab" }));
        for handle in old.as_array().unwrap() {
            self.ask("window", &json!({ "handle": handle }));
            self.request("DELETE", &self.path("window"), &Value::Null);
        }
        self.ask("window", &json!({ "handle": new["handle"] }));
        let everything = json!({ "origin": "file://", "storageTypes": "all" });
        self.devtools("Storage.clearDataForOrigin", everything);
        self.console();
    }

    fn path(&self, command: &str) -> String {
        format!("/session/{}/{command}", self.held().id)
    }

    fn held(&self) -> &Session {
        self.session.as_ref().expect("it was started")
    }
    /// Opens an address.
    pub(crate) fn open(&self, address: &str) {
        self.ask("url", &json!({ "url": address }));
    }

    /// Runs a script in the page and returns what it returns.
    #[track_caller]
    pub(crate) fn script(&self, script: &str) -> Value {
        self.script_with(script, json!([]))
    }

    /// The same with `arguments`.
    #[track_caller]
    pub(crate) fn script_with(&self, script: &str, arguments: Value) -> Value {
        self.ask(
            "execute/sync",
            &json!({ "script": script, "args": arguments }),
        )
    }

    /// What an expression is in the page, as text.
    #[track_caller]
    pub(crate) fn text(&self, expression: &str) -> String {
        match self.script(&format!("return {expression}")) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub(crate) fn wait_for(&self, expression: &str) {
        let since = Instant::now();
        while self.script(&format!("return Boolean({expression})")) != Value::Bool(true) {
            assert!(
                since.elapsed() < DEADLINE,
                "never: {expression}; the page says {:?}, and the console {:?}",
                self.text("document.body.innerText.slice(0, 500)"),
                self.console()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the page has drawn twice: what an event asked for is under way then.
    #[track_caller]
    pub(crate) fn next_frames(&self) {
        let script = "const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))";
        self.ask("execute/async", &json!({ "script": script, "args": [] }));
    }

    /// Presses keys one after the other, each alone: a character, or the name of a key.
    #[track_caller]
    pub(crate) fn press(&self, keys: &[&str]) {
        self.press_holding("", keys);
    }

    /// Presses keys while another is held down.
    #[track_caller]
    pub(crate) fn press_holding(&self, held: &str, keys: &[&str]) {
        let mut actions = Vec::new();
        let held = code_of(held);
        if !held.is_empty() {
            actions.push(json!({ "type": "keyDown", "value": held }));
        }
        for key in keys {
            actions.push(json!({ "type": "keyDown", "value": code_of(key) }));
            actions.push(json!({ "type": "keyUp", "value": code_of(key) }));
        }
        if !held.is_empty() {
            actions.push(json!({ "type": "keyUp", "value": held }));
        }
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.ask("actions", &json!({ "actions": [keyboard] }));
    }

    /// Types text into whatever has the focus.
    #[track_caller]
    pub(crate) fn write(&self, text: &str) {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        self.press(&letters.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Presses the first mouse button at a place, moves it through others, and lets it go.
    #[track_caller]
    pub(crate) fn drag(&self, places: &[(i64, i64)]) {
        self.point(places, 0, &[]);
    }

    /// Presses a mouse button at a place.
    #[track_caller]
    pub(crate) fn press_button(&self, place: (i64, i64), button: u64) {
        self.point(&[place], button, &[]);
    }

    /// Moves the mouse to a place.
    #[track_caller]
    pub(crate) fn hover(&self, (x, y): (i64, i64)) {
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": [
            { "type": "pointerMove", "x": x, "y": y, "duration": 20 },
        ] });
        self.ask("actions", &json!({ "actions": [mouse] }));
    }

    /// Drags while a key is held down.
    #[track_caller]
    pub(crate) fn drag_holding(&self, key: &str, places: &[(i64, i64)]) {
        self.point(places, 0, &[key]);
    }

    fn point(&self, places: &[(i64, i64)], button: u64, held: &[&str]) {
        let at =
            |(x, y): (i64, i64)| json!({ "type": "pointerMove", "x": x, "y": y, "duration": 20 });
        let mut mouse = vec![at(places[0])];
        mouse.push(json!({ "type": "pointerDown", "button": button }));
        mouse.extend(places[1..].iter().map(|place| at(*place)));
        mouse.push(json!({ "type": "pointerUp", "button": button }));
        let pause = || json!({ "type": "pause" });
        let mut keyboard: Vec<Value> = mouse.iter().map(|_| pause()).collect();
        for key in held {
            mouse.insert(0, pause());
            mouse.push(pause());
            keyboard.insert(0, json!({ "type": "keyDown", "value": code_of(key) }));
            keyboard.push(json!({ "type": "keyUp", "value": code_of(key) }));
        }
        self.ask(
            "actions",
            &json!({ "actions": [
                { "type": "key", "id": "keyboard", "actions": keyboard },
                { "type": "pointer", "id": "mouse", "actions": mouse },
            ] }),
        );
    }

    /// Puts fingers down at the first of their places, moves them all through the others, and lifts
    /// them.
    #[track_caller]
    pub(crate) fn touch(&self, fingers: &[&[(i64, i64)]]) {
        self.touch_for(fingers, 0);
    }

    /// Holds a finger still at a place for a second.
    #[track_caller]
    pub(crate) fn touch_long(&self, place: (i64, i64)) {
        self.touch_for(&[&[place]], 1000);
    }

    fn touch_for(&self, fingers: &[&[(i64, i64)]], milliseconds: u64) {
        let finger = |(number, places): (usize, &&[(i64, i64)])| {
            let at = |(x, y): &(i64, i64), duration: u64| json!({ "type": "pointerMove", "x": x, "y": y, "duration": duration });
            let mut actions = vec![at(&places[0], 0)];
            actions.push(json!({ "type": "pointerDown", "button": 0 }));
            actions.push(json!({ "type": "pause", "duration": milliseconds }));
            actions.extend(places[1..].iter().map(|place| at(place, 100)));
            actions.push(json!({ "type": "pointerUp", "button": 0 }));
            json!({
                "type": "pointer",
                "id": format!("finger {number}"),
                "parameters": { "pointerType": "touch" },
                "actions": actions,
            })
        };
        let fingers: Vec<Value> = fingers.iter().enumerate().map(finger).collect();
        self.ask("actions", &json!({ "actions": fingers }));
    }

    /// Clicks the element that a selector finds, as a person would: it must be in sight.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask(&format!("element/{element}/click"), &json!({}));
    }

    /// Hands a file to an `<input type=file>`.
    #[track_caller]
    pub(crate) fn choose_file(&self, selector: &str, path: &str) {
        let element = self.element(selector);
        self.ask(
            &format!("element/{element}/value"),
            &json!({ "text": path }),
        );
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.ask(
            "element",
            &json!({ "using": "css selector", "value": selector }),
        );
        let ids = found.as_object().unwrap().values();
        ids.map(|id| id.as_str().unwrap().to_owned())
            .next()
            .unwrap()
    }

    /// Gives the page this much room.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// Says that the reader prefers dark pages, or that nothing moves.
    pub(crate) fn prefer(&self, feature: &str, value: &str) {
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": feature, "value": value }] }),
        );
    }

    /// Asks something of the browser that WebDriver has no command for.
    pub(crate) fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.ask(
            "goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    /// Keeps a picture of the page in `target/screenshots/NAME.png`.
    #[track_caller]
    pub(crate) fn screenshot(&self, name: &str) -> PathBuf {
        let picture = self.request("GET", &self.path("screenshot"), &Value::Null);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.png"));
        let picture = BASE64.decode(picture.as_str().unwrap().as_bytes());
        std::fs::write(&file, picture.unwrap()).unwrap();
        file
    }

    /// What the page wrote to its console and what went wrong in it.
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.ask("se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().map(Value::to_string).collect()
    }

    /// Fails if anything went wrong in the page, as far as its console tells.
    #[track_caller]
    pub(crate) fn expect_quiet_console(&self) {
        let console = self.console();
        assert!(console.is_empty(), "{console:#?}");
    }

    #[track_caller]
    fn ask(&self, command: &str, body: &Value) -> Value {
        self.request("POST", &self.path(command), body)
    }

    #[track_caller]
    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        request(self.held().port, method, path, body)
    }
}

impl Session {
    fn start(browser: &str) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port_of(&mut driver);
        let path = Command::new("sh")
            .args(["-c", &format!("command -v {browser}")])
            .output()
            .unwrap();
        // Not a `Scratch`: it has to outlive every test.
        let profile = std::env::temp_dir().join(format!("nodespy-browser-{}", std::process::id()));
        let profile = profile.to_str().unwrap();
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={profile}"));
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {
                "binary": String::from_utf8_lossy(&path.stdout).trim(),
                "args": arguments,
            },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = request(port, "POST", "/session", &capabilities);
        let id = answer["sessionId"].as_str().unwrap().to_owned();
        let address = format!("http://127.0.0.1:{port}/session/{id}");
        at_exit(
            "curl -s -X DELETE \"$0\"; kill \"$1\"; rm -rf \"$2\"",
            &[&address, &driver.id().to_string(), profile],
        );
        Self { port, id }
    }
}

#[track_caller]
fn request(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let (status, value) = exchange(port, method, path, body).unwrap();
    assert!(status == 200, "{method} {path}: {value}");
    value
}

fn exchange(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(DEADLINE))?;
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let mut answer: Value = serde_json::from_slice(&bytes)?;
    Ok((status.unwrap_or(0), answer["value"].take()))
}

/// The port that chromedriver says it took.
fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    // What it says later must go somewhere.
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("chromedriver says its port")
}

/// The character that WebDriver has for a key.
fn code_of(key: &str) -> String {
    let code = match key {
        "Backspace" => '\u{e003}',
        "Tab" => '\u{e004}',
        "Enter" => '\u{e007}',
        "Shift" => '\u{e008}',
        "Control" => '\u{e009}',
        "Escape" => '\u{e00c}',
        "End" => '\u{e010}',
        "Home" => '\u{e011}',
        "ArrowLeft" => '\u{e012}',
        "ArrowUp" => '\u{e013}',
        "ArrowRight" => '\u{e014}',
        "ArrowDown" => '\u{e015}',
        key => return key.to_owned(),
    };
    code.to_string()
}
