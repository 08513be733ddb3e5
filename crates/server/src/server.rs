//! The server: a request in, an answer out, a thread each.

use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::access::{Access, Admission};
use crate::http::{
    Answer, HEAD_TIMEOUT, Head, Parameters, TRANSFER_TIMEOUT, TimedReader, accept, read_head,
};
use crate::metrics::Requests;
use crate::page;
use crate::query::QueryError;
use crate::routes::{Asked, ROUTES};
use crate::stores::Stores;

/// A store that is served.
#[derive(Debug)]
pub struct Server {
    stores: Stores,
    access: Access,
    requests: Requests,
}

impl Server {
    /// A server of a store for those who may ask.
    pub fn new(stores: Stores, access: Access) -> Self {
        Self {
            stores,
            access,
            requests: Requests::default(),
        }
    }

    /// Answers for as long as the process lives, a thread for each connection.
    pub fn run(&self, listener: &TcpListener) {
        accept(listener, |connection, known| self.serve(connection, known));
    }

    /// Answers one request. `known` is called when it has turned out to be allowed to ask.
    fn serve(&self, mut connection: TcpStream, known: &dyn Fn()) -> io::Result<()> {
        connection.set_write_timeout(Some(TRANSFER_TIMEOUT))?;
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let mut reader = BufReader::new(TimedReader::until(connection.try_clone()?, deadline));
        let head = read_head(&mut reader)?;
        let answer = self.answer(&head, known);
        self.requests.count(answer.status);
        match head.method.as_str() {
            "HEAD" => crate::http::write_head(&mut connection, &answer),
            _ => answer.write(&mut connection),
        }
    }

    fn answer(&self, head: &Head, known: impl FnOnce()) -> Answer {
        let (path, parameters) = Parameters::split(&head.target);
        match self.access.judge(head, parameters.get("token")) {
            Admission::Refused(why) => return Answer::text("403 Forbidden", why),
            Admission::GrantedByAddress => {
                known();
                let back = Answer::text("303 See Other", "the token is kept as a cookie");
                let back = back.with_header("Location: /".to_owned());
                return match self.access.cookie() {
                    Some(cookie) => back.with_header(cookie),
                    None => back,
                };
            }
            Admission::Granted => known(),
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
        let asked = self.stores.ask(|store| {
            route(&Asked {
                parameters: &parameters,
                store,
                requests: &self.requests,
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

/// What is answered in place of an answer.
fn refusal(error: &QueryError) -> Answer {
    let status = match error {
        QueryError::Bad(_) => "400 Bad Request",
        QueryError::NotFound(_) | QueryError::Filter(_) => "404 Not Found",
        QueryError::Compare(_) => "422 Unprocessable Content",
        QueryError::Store(_) | QueryError::Write(_) => {
            log::error!("a question was not answered: {error}");
            "500 Internal Server Error"
        }
    };
    Answer::text(status, &error.to_string())
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
