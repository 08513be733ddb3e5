//! A headless browser for one measurement, by way of chromedriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;

const TIMEOUT: Duration = Duration::from_secs(300);

/// A browser with one window; ended, by its own pid, when dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: PathBuf,
}

impl Browser {
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("chromedriver: {error}"))?;
        let output = driver.stdout.take().ok_or("chromedriver says nothing")?;
        let mut lines = BufReader::new(output).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        let profile = std::env::temp_dir().join(format!("nodespy-viewer-{}", driver.id()));
        let mut browser = Self {
            driver,
            port: port.ok_or("chromedriver does not say its port")?,
            session: String::new(),
            profile,
        };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1400,900",
            &format!("--user-data-dir={}", browser.profile.display()),
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "pageLoadStrategy": "none",
            "goog:chromeOptions": { "binary": chromium()?, "args": arguments },
        } } });
        let answer = browser.request("POST", "/session", &capabilities)?;
        browser.session = answer["sessionId"].as_str().ok_or("no session")?.to_owned();
        Ok(browser)
    }

    pub(crate) fn driver_pid(&self) -> u32 {
        self.driver.id()
    }

    /// Begins to open an address.
    pub(crate) fn open(&self, address: &str) -> Result<(), Failure> {
        self.ask("url", &json!({ "url": address })).map(drop)
    }

    pub(crate) fn script(&self, script: &str) -> Result<Value, Failure> {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Has a script run in every page before its own.
    pub(crate) fn before_each_page(&self, script: &str) -> Result<(), Failure> {
        let parameters = json!({ "source": script });
        let command = "Page.addScriptToEvaluateOnNewDocument";
        self.ask(
            "goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
        .map(drop)
    }

    fn ask(&self, command: &str, body: &Value) -> Result<Value, Failure> {
        self.request(
            "POST",
            &format!("/session/{}/{command}", self.session),
            body,
        )
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        let body = body.to_string();
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err("chromedriver hung up".into());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        let mut answer: Value = serde_json::from_slice(&bytes)?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"]).into()),
            None => Ok(answer["value"].take()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.request("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn chromium() -> Result<String, Failure> {
    let found = Command::new("sh")
        .args(["-c", "command -v chromium || command -v google-chrome"])
        .output()?;
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    match path.is_empty() {
        true => Err("there is no chromium".into()),
        false => Ok(path),
    }
}
