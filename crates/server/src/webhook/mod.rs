//! Tells others of regressions: a POST of JSON, or of what Slack and those that take the same show as a message.
//!
//! A [`Watch`] judges the deployments of the last day again and again and hands what is new to a [`Courier`], a thread of its own that
//! sends. The watch reads what agents sent and may be confined; the courier reads nothing but what the watch wrote. What a webhook has
//! taken is noted in a file, so that a server that starts again does not say it again.

mod message;
mod notified;

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nodespy_http::{Client, ClientOptions};
use nodespy_store::UnixSeconds;

use self::message::{Found, Kind};
use self::notified::Notified;
use crate::bell::{Bell, Woken};
use crate::query::{Deployment, QueryError, RegressionOptions, keep_lasting, regressions};
use crate::stores::Stores;

/// How far back deployments are judged.
const HORIZON_SECONDS: u64 = 86_400;

/// Where regressions are posted to.
#[derive(Debug, Clone)]
pub struct Webhook {
    kind: Kind,
    /// Its address, which may be a secret by itself: never logged.
    client: Client,
    /// Whether what is only likely is posted too.
    takes_likely: bool,
}

impl Webhook {
    /// The webhooks of a file: `json URL` or `slack URL` a line, with `likely` behind it for suspected regressions too, `#` before remarks.
    pub fn of_lines(text: &str, options: &ClientOptions) -> Result<Vec<Self>, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                let wrong = |why: &str| format!("line {}: {why}", number + 1);
                let (kind, url) = line.split_once(char::is_whitespace).unwrap_or_default();
                let kind = Kind::called(kind)
                    .ok_or_else(|| wrong("json URL or slack URL is what a line says"))?;
                let url = url.trim();
                let (url, word) = url.split_once(char::is_whitespace).unwrap_or((url, ""));
                let takes_likely = match word.trim() {
                    "" => false,
                    "likely" => true,
                    _ => return Err(wrong("likely is all that follows the address of a webhook")),
                };
                let client = Client::new(url, options);
                // The error of a client names the address.
                let client = client.map_err(|_| wrong("that is no address of a webhook"))?;
                Ok(Self {
                    kind,
                    client,
                    takes_likely,
                })
            })
            .collect()
    }
}

/// What is to be posted where, and who waits for what becomes of it.
struct Letter {
    to: usize,
    body: Vec<u8>,
    outcome: Sender<Result<(), String>>,
}

/// What the watch knows of a webhook.
#[derive(Debug)]
struct Recipient {
    kind: Kind,
    address: String,
    takes_likely: bool,
}

impl Recipient {
    /// Whether it is to be told of something.
    fn wants(&self, found: &Found<'_>, notified: &Notified) -> bool {
        (found.is_sure() || self.takes_likely) && !notified.has(&found.known_as(&self.address))
    }
}

/// The thread that posts.
#[derive(Debug)]
pub struct Courier {
    letters: Sender<Letter>,
    recipients: Vec<Recipient>,
}

impl Courier {
    /// Starts the thread; `enter` is the first that it does.
    pub fn start(webhooks: Vec<Webhook>, enter: fn()) -> Self {
        let recipients = webhooks.iter().map(|webhook| Recipient {
            kind: webhook.kind,
            address: webhook.client.base().to_owned(),
            takes_likely: webhook.takes_likely,
        });
        let recipients = recipients.collect();
        let (letters, received) = channel();
        std::thread::spawn(move || {
            enter();
            post_all(&webhooks, &received);
        });
        Self {
            letters,
            recipients,
        }
    }

    fn post(&self, to: usize, body: Vec<u8>) -> Result<(), String> {
        let (outcome, answer) = channel();
        let letter = Letter { to, body, outcome };
        let gone = |_| "the thread that posts has ended".to_owned();
        self.letters.send(letter).map_err(|_| gone(()))?;
        answer.recv().map_err(|_| gone(()))?
    }
}

fn post_all(webhooks: &[Webhook], letters: &Receiver<Letter>) {
    for letter in letters {
        let headers = [("Content-Type", "application/json")];
        let posted = webhooks[letter.to].client.post("", &headers, &letter.body);
        let outcome = match posted {
            Ok(reply) if reply.is_ok() => Ok(()),
            Ok(reply) => Err(reply.text()),
            Err(error) => Err(error.to_string()),
        };
        let _ = letter.outcome.send(outcome);
    }
}

/// Judges deployments and tells of what is new.
#[derive(Debug)]
pub struct Watch {
    courier: Courier,
    notified: Notified,
    interval: Duration,
    bell: Bell,
    /// Where the server's page is.
    page: String,
    options: RegressionOptions,
}

impl Watch {
    /// A watch that remembers in a file of this folder what it has told.
    pub fn new(
        courier: Courier,
        folder: &Path,
        interval: Duration,
        page: &str,
    ) -> std::io::Result<Self> {
        Ok(Self {
            courier,
            notified: Notified::open(folder)?,
            interval,
            bell: Bell::default(),
            page: page.trim_end_matches('/').to_owned(),
            options: RegressionOptions::default(),
        })
    }

    pub(crate) fn run(&self, stores: &Stores, now: fn() -> UnixSeconds) {
        loop {
            if let Err(error) = self.check(stores, now()) {
                log::error!("regressions were not looked for: {error}");
            }
            if self.bell.wait(self.interval) == Woken::ToEnd {
                return;
            }
        }
    }

    /// Ends the thread that runs it.
    pub(crate) fn end(&self) {
        self.bell.end();
    }

    /// Judges the deployments of the last day and tells of what is new and was to be seen a while ago already. What can't be told is tried again the next time.
    pub fn check(&self, stores: &Stores, now: UnixSeconds) -> Result<(), QueryError> {
        let Some(mut deployments) = self.judged(stores, now, UnixSeconds::MAX)? else {
            // Too many others ask.
            return Ok(());
        };
        if !self.has_new(&deployments) {
            return Ok(());
        }
        let before = now.saturating_sub(self.options.min_length);
        let Some(earlier) = self.judged(stores, now, before)? else {
            return Ok(());
        };
        keep_lasting(&mut deployments, &earlier);
        let all: Vec<Found<'_>> = deployments.iter().flat_map(Found::all_of).collect();
        for (to, recipient) in self.courier.recipients.iter().enumerate() {
            let is_new = |found: &&Found<'_>| recipient.wants(found, &self.notified);
            let new: Vec<&Found<'_>> = all.iter().filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            let name = recipient.kind.name();
            match (self.courier).post(to, recipient.kind.body(&new, &self.page)) {
                Ok(()) => {
                    log::info!("told the {name} webhook of {} regressions", new.len());
                    let ids = new.iter().map(|found| found.id(&recipient.address));
                    if let Err(error) = self.notified.add(ids) {
                        log::error!("cannot note what webhooks were told: {error}");
                    }
                }
                Err(why) => log::error!("the {name} webhook took nothing: {why}"),
            }
        }
        Ok(())
    }

    /// The deployments of the last day, by what was seen until then; none where too many others ask.
    fn judged(
        &self,
        stores: &Stores,
        now: UnixSeconds,
        until: UnixSeconds,
    ) -> Result<Option<Vec<Deployment>>, QueryError> {
        let time = now.saturating_sub(HORIZON_SECONDS)..now;
        let options = RegressionOptions {
            until,
            ..self.options.clone()
        };
        let judged = stores.ask(|store| regressions(store, None, time, &options));
        judged.map_err(QueryError::Store)?.transpose()
    }

    /// Whether a webhook has not been told of something.
    fn has_new(&self, deployments: &[Deployment]) -> bool {
        self.courier.recipients.iter().any(|recipient| {
            let mut all = deployments.iter().flat_map(Found::all_of);
            all.any(|found| recipient.wants(&found, &self.notified))
        })
    }
}
