//! Where windows go: a store of this machine, or a spool on disk from which they are sent.

use std::borrow::Cow;
use std::sync::Arc;

use nodespy_capture::unix_now;
use nodespy_http::Client;
use nodespy_store::{
    Batch, REQUESTS_EVENT, Retention, Store, StoreError, Upkeep, Window, batch_to_bytes,
};

use crate::counters::Counters;
use crate::log_line::{Level, Log, LogLine};
use crate::otlp::Otlp;
use crate::parca::Parca;
use crate::pyroscope::Pyroscope;
use crate::receiver::{NodespyServer, Receiver};
use crate::sender::Sender;
use crate::spool::Spool;

/// Where windows go.
pub struct Destination {
    /// What it is called in the log.
    name: String,
    kind: Kind,
}

enum Kind {
    Store(Box<dyn Store + Send>, Retention),
    Remote {
        spool: Spool,
        receiver: Box<dyn Receiver>,
        takes: Takes,
    },
}

/// What a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Every window.
    All,
    /// Windows that are profiles: no counts of requests.
    Profiles,
}

impl Destination {
    /// A store, and how long it keeps what.
    pub fn store(name: &str, store: Box<dyn Store + Send>, retention: Retention) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Store(store, retention),
        }
    }

    /// A server of nodespy; what it does not take yet waits in a spool.
    pub fn server(client: Client, spool: Spool) -> Self {
        let name = client.base().to_owned();
        Self::remote(name, spool, Box::new(NodespyServer(client)), Takes::All)
    }

    /// A server of Pyroscope, or one that takes what its SDKs send.
    pub fn pyroscope(client: Client, spool: Spool) -> Self {
        let name = client.base().to_owned();
        Self::remote(
            name,
            spool,
            Box::new(Pyroscope::new(client)),
            Takes::Profiles,
        )
    }

    /// A collector of OpenTelemetry, or one that takes what those take.
    pub fn otlp(client: Client, spool: Spool) -> Self {
        let name = client.base().to_owned();
        Self::remote(name, spool, Box::new(Otlp(client)), Takes::Profiles)
    }

    /// A server of Parca.
    pub fn parca(client: Client, spool: Spool) -> Self {
        let name = client.base().to_owned();
        Self::remote(name, spool, Box::new(Parca::new(client)), Takes::Profiles)
    }

    fn remote(name: String, spool: Spool, receiver: Box<dyn Receiver>, takes: Takes) -> Self {
        let kind = Kind::Remote {
            spool,
            receiver,
            takes,
        };
        Self { name, kind }
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The way in, and the thread that sends what came in.
    pub(crate) fn open(
        self,
        counters: &Arc<Counters>,
        log: &Log,
        enter: fn(),
    ) -> (Box<dyn Sink>, Option<Sender>) {
        match self.kind {
            Kind::Store(store, retention) => {
                let sink = StoreSink {
                    store,
                    upkeep: Upkeep::new(retention),
                    counters: Arc::clone(counters),
                    log: Arc::clone(log),
                };
                (Box::new(sink), None)
            }
            Kind::Remote {
                spool,
                receiver,
                takes,
            } => {
                let spool = Arc::new(spool);
                let _ = counters.spool.set(Arc::clone(&spool));
                let sink = SpoolSink {
                    spool: Arc::clone(&spool),
                    takes,
                    counters: Arc::clone(counters),
                    log: Arc::clone(log),
                };
                let counters = Arc::clone(counters);
                let sender = Sender::start(spool, receiver, counters, Arc::clone(log), enter);
                (Box::new(sink), Some(sender))
            }
        }
    }
}

/// Why a batch was not taken.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Trying again can help.
    Again(String),
    /// It can't.
    ForGood(String),
}

/// What takes windows, one batch after the other.
pub(crate) trait Sink: Send {
    /// The parts of a batch that it takes at once, each appended until it is there: none is appended again for another.
    fn parts(&self, batch: Batch) -> Vec<Batch> {
        vec![batch]
    }

    /// When this returns, the batch survives a crash.
    fn append(&mut self, batch: &Batch) -> Result<(), Failure>;

    /// What is to be done now and then.
    fn upkeep(&mut self) {}
}

struct StoreSink {
    store: Box<dyn Store + Send>,
    upkeep: Upkeep,
    counters: Arc<Counters>,
    log: Log,
}

impl Sink for StoreSink {
    fn append(&mut self, batch: &Batch) -> Result<(), Failure> {
        let appended = self.store.append(batch).map_err(|error| {
            let why = with_causes(&error);
            match is_refusal(&error) {
                true => Failure::ForGood(why),
                false => Failure::Again(why),
            }
        })?;
        self.counters.count(&appended);
        let not_new = appended.repeated + appended.too_old;
        if not_new > 0 {
            let line = LogLine::new(Level::Warn, "windows were there already");
            (self.log)(&line.with("windows", not_new));
        }
        Ok(())
    }

    fn upkeep(&mut self) {
        match self
            .upkeep
            .run(&mut *self.store, unix_now() / 1_000_000_000)
        {
            Ok(None) => {}
            Ok(Some(kept)) => (self.log)(&LogLine::info("store").with("bytes", kept.bytes)),
            Err(error) => {
                let line = LogLine::new(Level::Warn, "store not compacted");
                (self.log)(&line.with("why", with_causes(&error)));
            }
        }
    }
}

struct SpoolSink {
    spool: Arc<Spool>,
    takes: Takes,
    counters: Arc<Counters>,
    log: Log,
}

impl Sink for SpoolSink {
    /// A server has limits: on a very large machine ten seconds can be more than it takes in one request.
    fn parts(&self, batch: Batch) -> Vec<Batch> {
        batch.into_parts()
    }

    fn append(&mut self, batch: &Batch) -> Result<(), Failure> {
        let batch = match self.takes {
            Takes::All => Cow::Borrowed(batch),
            Takes::Profiles => profiles_of(batch),
        };
        if batch.windows.is_empty() {
            return Ok(());
        }
        let bytes = batch_to_bytes(&batch);
        let pushed = self.spool.push(&bytes, batch.windows.len() as u64);
        let dropped = pushed.map_err(|error| Failure::Again(error.to_string()))?;
        if dropped > 0 {
            self.counters.drop_windows(dropped);
            let line = LogLine::new(Level::Error, "windows dropped").with("windows", dropped);
            (self.log)(&line.with("why", "the spool is full, the oldest go"));
        }
        Ok(())
    }
}

/// The windows of a batch that are profiles.
fn profiles_of(batch: &Batch) -> Cow<'_, Batch> {
    let is_profile = |window: &Window| {
        let series = batch.series.get(window.series);
        series.is_none_or(|series| series.event != REQUESTS_EVENT)
    };
    if batch.windows.iter().all(is_profile) {
        return Cow::Borrowed(batch);
    }
    let mut profiles = batch.clone();
    profiles.windows.retain(is_profile);
    Cow::Owned(profiles)
}

/// Whether trying again can't help.
fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Refused(_)
            | StoreError::UnknownStacks(_)
            | StoreError::OtherUnit { .. }
            | StoreError::ReadOnly
            | StoreError::Damaged(_)
    )
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
