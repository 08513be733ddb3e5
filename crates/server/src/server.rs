//! The server: a request in, an answer out, a thread each.

use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::access::Admission;
use crate::ingest::{Ingest, MAX_BODY_BYTES};
use crate::keeper::Keeper;
use crate::metrics::Requests;
use crate::otlp;
use crate::page;
use crate::push;
use crate::pyroscope::{batch_of_request, id_of};
use crate::query::QueryError;
use crate::routes::{Asked, ROUTES};
use crate::tenant::{self, Tenant};
use crate::webhook::Watch;
use nodespy_http::{
    Answer, BodyError, Connection, Framing, HEAD_TIMEOUT, Head, Parameters, Slot, Tls, accept,
    read_body, read_head, stop_accepting, transfer_deadline,
};
use nodespy_store::StoreError;

/// How often it asks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Stores that are served.
#[derive(Debug)]
pub struct Server {
    tenants: Vec<Tenant>,
    tls: Option<Tls>,
    watch: Option<Watch>,
    requests: Requests,
}

impl Server {
    /// A server of the stores of tenants, each for those who may ask it.
    pub fn new(tenants: Vec<Tenant>) -> Self {
        Self {
            tenants,
            tls: None,
            watch: None,
            requests: Requests::default(),
        }
    }

    /// The same over TLS.
    pub fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// The same, telling webhooks of regressions in the first of the stores.
    pub fn watching(mut self, watch: Option<Watch>) -> Self {
        self.watch = watch;
        self
    }

    /// Answers until it is stopped, a thread for each connection. What is being answered or compacted then is finished first.
    pub fn run(&self, listener: &TcpListener, is_stopped: impl Fn() -> bool + Sync) {
        std::thread::scope(|scope| {
            if let (Some(watch), Some(first)) = (&self.watch, self.tenants.first()) {
                scope.spawn(|| watch.run(&first.stores, unix_seconds));
            }
            for keeper in self.keepers() {
                scope.spawn(|| keeper.run(unix_seconds));
            }
            scope.spawn(|| {
                while !is_stopped() {
                    std::thread::sleep(STOP_INTERVAL);
                }
                self.stop(listener);
            });
            accept(listener, |connection, slot| self.serve(connection, slot));
        });
    }

    /// Ends every thread of [`Server::run`], each when it is done with what it is at.
    fn stop(&self, listener: &TcpListener) {
        if let Some(watch) = &self.watch {
            watch.end();
        }
        self.keepers().for_each(Keeper::end);
        if let Err(error) = stop_accepting(listener) {
            log::error!("connections are still taken: {error}");
        }
    }

    fn keepers(&self) -> impl Iterator<Item = &Keeper> {
        let ingests = self.tenants.iter().filter_map(|it| it.ingest.as_ref());
        ingests.map(Ingest::keeper)
    }

    /// Answers one request.
    fn serve(&self, socket: TcpStream, slot: &Slot<'_>) -> io::Result<()> {
        let sender = socket.peer_addr().ok().map(|address| address.ip());
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let connection = Connection::open(socket, self.tls.as_ref(), deadline)?;
        let mut connection = BufReader::new(connection);
        let head = read_head(&mut connection)?;
        if head.method == "POST" {
            let answer = self.take(&head, &mut connection, sender, slot)?;
            self.requests.count(answer.status);
            let timed = connection.get_mut().timed();
            timed.allow_until(transfer_deadline(answer.body.len() as u64));
            answer.write(connection.get_mut())?;
            // A sender that is still sending would see a broken connection instead.
            connection.get_mut().end_writing()?;
            let timed = connection.get_mut().timed();
            timed.allow_until(Instant::now() + HEAD_TIMEOUT);
            return io::copy(&mut connection.take(4 * MAX_BODY_BYTES), &mut io::sink()).map(drop);
        }
        let answer = self.answer(&head, slot);
        self.requests.count(answer.status);
        let connection = connection.get_mut();
        let deadline = transfer_deadline(answer.body.len() as u64);
        connection.timed().allow_until(deadline);
        match head.method.as_str() {
            "HEAD" => nodespy_http::write_head(connection, &answer)?,
            _ => answer.write(connection)?,
        }
        connection.end_writing()
    }

    /// Takes what is sent, by those who may.
    fn take(
        &self,
        head: &Head,
        connection: &mut BufReader<Connection>,
        sender: Option<IpAddr>,
        slot: &Slot<'_>,
    ) -> io::Result<Answer> {
        let (path, parameters) = Parameters::split(&head.target);
        if self.tenants.iter().all(|tenant| tenant.ingest.is_none()) {
            let why = "this server takes nothing: nodespy serve --ingest does";
            return Ok(Answer::text("405 Method Not Allowed", why));
        }
        let tenant = match tenant::writing(&self.tenants, head) {
            Ok(tenant) => tenant,
            Err(why) => return Ok(Answer::text("403 Forbidden", why)),
        };
        let Some(ingest) = &tenant.ingest else {
            return Ok(Answer::text("403 Forbidden", "nothing is taken for you"));
        };
        if !self.is_kept(slot, tenant) {
            return Ok(crowded());
        }
        if !matches!(
            path,
            "/api/v1/windows" | "/ingest" | push::PATH | nodespy_otlp::PATH
        ) {
            return Ok(Answer::text("404 Not Found", "nothing is taken here"));
        }
        let timed = connection.get_mut().timed();
        timed.allow_until(transfer_deadline(0));
        if head.waits_for_go {
            let go = connection.get_mut();
            go.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            go.flush()?;
        }
        Ok(
            match read_body(connection, head.length, head.is_chunked, MAX_BODY_BYTES) {
                Ok(body) if path == "/ingest" => {
                    let now = unix_seconds();
                    let id = id_of(&head.target, &body);
                    ingest
                        .take_profile(now, id, || batch_of_request(&parameters, body, sender, now))
                }
                Ok(body) if path == push::PATH => {
                    push::take(ingest, head, &body, sender, unix_seconds())
                }
                Ok(body) if path == nodespy_otlp::PATH => {
                    let id = id_of(path, &body);
                    let mut left_out = 0;
                    let taken = ingest.take_profile(unix_seconds(), id, || {
                        let decoded = otlp::decoded(head, &body)?;
                        left_out = decoded.left_out;
                        Ok(decoded.batch)
                    });
                    ingest.count_left_out(left_out);
                    otlp::answer(taken, left_out)
                }
                Ok(body) => ingest.take_windows(&body, unix_seconds()),
                Err(BodyError::Read(error)) => return Err(error),
                Err(error @ BodyError::TooLong(_)) => {
                    Answer::text("413 Content Too Large", &error.to_string())
                }
                Err(error @ BodyError::NoLength) => {
                    Answer::text("411 Length Required", &error.to_string())
                }
                Err(error) => Answer::text("400 Bad Request", &error.to_string()),
            },
        )
    }

    /// Whether a slot of a tenant may stay while it is answered. A tenant that is alone has the whole server.
    fn is_kept(&self, slot: &Slot<'_>, tenant: &Tenant) -> bool {
        let place = self.tenants.iter().position(|it| std::ptr::eq(it, tenant));
        match place.filter(|_| self.tenants.len() > 1) {
            Some(place) => slot.keep_for(place),
            None => {
                slot.keep();
                true
            }
        }
    }

    fn answer(&self, head: &Head, slot: &Slot<'_>) -> Answer {
        let (path, parameters) = Parameters::split(&head.target);
        let asking = tenant::asking(&self.tenants, head, parameters.get("token"));
        let (tenant, admission) = match asking {
            Err(why) => return Answer::text("403 Forbidden", why),
            Ok((tenant, _)) if !self.is_kept(slot, tenant) => return crowded(),
            Ok(asking) => asking,
        };
        if admission == Admission::GrantedByAddress {
            let back = Answer::text("303 See Other", "the token is kept as a cookie");
            let back = back.with_header("Location: /".to_owned());
            return match tenant.access.cookie() {
                Some(cookie) => back.with_header(cookie),
                None => back,
            };
        }
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return Answer::text("405 Method Not Allowed", "only GET and HEAD");
        }
        if path == "/" {
            return page::answer();
        }
        let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) else {
            return Answer::text("404 Not Found", "not here");
        };
        let asked = tenant.stores.ask(|store| {
            route(&Asked {
                parameters: &parameters,
                store,
                requests: &self.requests,
                ingested: tenant.ingest.as_ref().map(Ingest::counts),
                now: unix_seconds(),
            })
        });
        match asked {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(error))) => refusal(&error),
            Ok(None) => Answer::text("503 Service Unavailable", "too many questions at once"),
            Err(error) => refusal(&QueryError::Store(error)),
        }
    }
}

/// What is answered where a tenant has as many connections as it may.
fn crowded() -> Answer {
    let why = "too many connections with this token at once: try again";
    Answer::text("503 Service Unavailable", why)
}

/// What is answered in place of an answer.
fn refusal(error: &QueryError) -> Answer {
    let status = match error {
        QueryError::Bad(_) | QueryError::Store(StoreError::Refused(_)) => "400 Bad Request",
        QueryError::NotFound(_) | QueryError::Filter(_) => "404 Not Found",
        QueryError::Compare(_) => "422 Unprocessable Content",
        QueryError::Store(_) | QueryError::Write(_) => {
            log::error!("a question was not answered: {error}");
            "500 Internal Server Error"
        }
    };
    // The page says why there is no picture where the picture would be.
    Answer {
        framing: Framing::SameOrigin,
        ..Answer::text(status, &error.to_string())
    }
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
