//! The server of one page: this machine only, and only who knows the token.
//!
//! `GET /TOKEN/` answers the page. `POST /TOKEN/base` takes a recording of any format and answers
//! it as `.nspy`, for the page to compare with. Nothing is written to disk. A name of another site
//! that was made to point here is distinguished from ours by the `Host` header.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use nodespy_http::{Answer, HEAD_TIMEOUT, Head, TimedStream, accept, read_head, transfer_deadline};

use super::redirect::Redirect;

const UPLOAD_BYTES: u64 = 2 << 30;
/// Turns the bytes of a recording into those of a `.nspy` file, or says why not.
pub(super) type Convert<'a> = dyn Fn(&mut dyn Read) -> Result<Vec<u8>, String> + Sync + 'a;

/// What is served.
pub(super) struct Server<'a> {
    pub(super) port: u16,
    pub(super) token: String,
    pub(super) page: Answer,
    pub(super) convert: &'a Convert<'a>,
    /// One upload at a time: each may be large.
    pub(super) uploads: Mutex<()>,
    /// What the browser was opened with, until it has asked for the page.
    pub(super) redirect: Arc<Mutex<Option<Redirect>>>,
}

impl Server<'_> {
    /// Answers until the listener fails, a thread for each connection.
    pub(super) fn run(&self, listener: &TcpListener) {
        accept(listener, |connection, slot| {
            self.answer(connection, &|| slot.keep())
        });
    }

    /// Answers one request. `known` is called when it has turned out to know the token.
    fn answer(&self, connection: TcpStream, known: &dyn Fn()) -> io::Result<()> {
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let mut reader = BufReader::new(TimedStream::until(connection, deadline));
        let head = read_head(&mut reader)?;
        if !self.is_for_us(&head) {
            return Answer::text("403 Forbidden", "not for this host").write(reader.get_mut());
        }
        let path = head.target.split('?').next().unwrap_or_default();
        let within = path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(self.token.as_str()));
        if within.is_some() {
            known();
        }
        match (head.method.as_str(), within) {
            ("GET", Some("/")) => {
                drop(lock(&self.redirect).take());
                write(&self.page, reader.get_mut())
            }
            ("POST", Some("/base")) => {
                let answer = self.take_base(&head, &mut reader)?;
                write(&answer, reader.get_mut())?;
                // A browser that is still sending would see a broken connection instead.
                reader.get_ref().socket().shutdown(Shutdown::Write)?;
                let deadline = Instant::now() + HEAD_TIMEOUT;
                reader.get_mut().allow_until(deadline);
                io::copy(&mut reader.take(2 * UPLOAD_BYTES), &mut io::sink()).map(drop)
            }
            _ => Answer::text("404 Not Found", "not here").write(reader.get_mut()),
        }
    }

    /// Whether a browser that sends this means us, and not a name that was made to point here.
    fn is_for_us(&self, head: &Head) -> bool {
        let names = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let is_ours = |host: &str| names.iter().any(|name| host.eq_ignore_ascii_case(name));
        let origin = head.origin.as_deref();
        head.host.as_deref().is_some_and(is_ours)
            && origin.is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_ours))
    }

    fn take_base(&self, head: &Head, reader: &mut BufReader<TimedStream>) -> io::Result<Answer> {
        let length = match head.length {
            None => return Ok(Answer::text("411 Length Required", "how long is it?")),
            Some(length) if length > UPLOAD_BYTES => {
                return Ok(Answer::text(
                    "413 Content Too Large",
                    "the file is larger than 2 GiB",
                ));
            }
            Some(length) => length,
        };
        let _turn = lock(&self.uploads);
        reader.get_mut().allow_until(transfer_deadline(length));
        if head.waits_for_go {
            reader
                .get_mut()
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        Ok(match (self.convert)(&mut reader.take(length)) {
            Ok(body) => Answer::ok("application/octet-stream", body),
            Err(why) => Answer::text("400 Bad Request", &why),
        })
    }
}

/// Writes an answer, in as much time as one of its size may take.
fn write(answer: &Answer, connection: &mut TimedStream) -> io::Result<()> {
    connection.allow_until(transfer_deadline(answer.body.len() as u64));
    answer.write(connection)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    /// What a server answers to some requests, each on its own connection.
    fn answers(requests: &[&str]) -> Vec<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let convert = |body: &mut dyn Read| {
            let mut text = String::new();
            body.read_to_string(&mut text).unwrap();
            match text.strip_prefix("good ") {
                Some(rest) => Ok(rest.as_bytes().to_vec()),
                None => Err("byte 0: no".to_owned()),
            }
        };
        let server = Server {
            port,
            token: "t0ken".to_owned(),
            page: Answer::ok("text/html; charset=utf-8", b"<html>".to_vec()),
            convert: &convert,
            uploads: Mutex::new(()),
            redirect: Arc::default(),
        };
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || {
                let ask = |request: &&str| {
                    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    let request = request.replace("PORT", &port.to_string());
                    connection.write_all(request.as_bytes()).unwrap();
                    let mut answer = String::new();
                    connection.read_to_string(&mut answer).unwrap();
                    answer
                };
                requests.iter().map(ask).collect::<Vec<String>>()
            });
            for _ in requests {
                let (connection, _) = listener.accept().unwrap();
                let _ = server.answer(connection, &|| {});
            }
            asking.join().unwrap()
        })
    }

    #[test]
    fn the_page_is_for_those_who_know_the_token() {
        let answers = answers(&[
            "GET /t0ken/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
            "GET /t0ken/?x=1 HTTP/1.1\r\nhost: LOCALHOST:PORT\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
            "GET /t0ken/../ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
            "GET /t0ken/ HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n",
            "GET /t0ken/ HTTP/1.1\r\n\r\n",
            "nonsense\r\n\r\n",
        ]);
        let codes: Vec<&str> = answers.iter().map(|answer| &answer[9..12]).collect();
        assert_eq!(codes, ["200", "200", "404", "404", "403", "403", "403"]);
        assert!(answers[0].ends_with("\r\n\r\n<html>"));
    }

    #[test]
    fn a_recording_comes_back_converted_or_with_the_reason_why_not() {
        let answers = answers(&[
            "POST /t0ken/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\n\
             Content-Length: 9\r\n\r\ngood nspy",
            "POST /t0ken/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 3\r\n\r\nbad",
            "POST /t0ken/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 3000000000\r\n\r\n",
            "POST /t0ken/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
            "POST /other/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 3\r\n\r\nbad",
            "POST /t0ken/base HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://evil.example\r\n\
             Content-Length: 3\r\n\r\nbad",
        ]);
        let codes: Vec<&str> = answers.iter().map(|answer| &answer[9..12]).collect();
        assert_eq!(codes, ["200", "400", "413", "411", "404", "403"]);
        assert!(answers[0].contains("application/octet-stream"));
        assert!(answers[0].ends_with("\r\n\r\nnspy"));
        assert!(answers[1].ends_with("byte 0: no\n"));
    }

    /// A server that runs until the test ends, and its port.
    fn serving() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let server = Server {
                port,
                token: "t0ken".to_owned(),
                page: Answer::ok("text/html; charset=utf-8", b"<html>".to_vec()),
                convert: &|_| Err(String::new()),
                uploads: Mutex::new(()),
                redirect: Arc::default(),
            };
            server.run(&listener);
        });
        port
    }

    fn connect(port: u16) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()
    }

    #[test]
    fn a_hundred_connections_that_never_finish_their_heads_block_no_other() {
        let port = serving();
        let mut slow: Vec<TcpStream> = (0..100).map(|_| connect(port)).collect();
        for connection in &mut slow {
            // The oldest may be ended already.
            let _ = connection.write_all(b"GET /");
        }
        let started = Instant::now();
        let mut connection = connect(port);
        write!(
            connection,
            "GET /t0ken/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("<html>"), "{answer:?}");
        assert!(started.elapsed() < HEAD_TIMEOUT);
    }

    #[test]
    fn a_head_that_drips_has_one_deadline() {
        let mut connection = connect(serving());
        connection
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let started = Instant::now();
        let most = HEAD_TIMEOUT + Duration::from_secs(5);
        // A byte every half second: no single read ever waits for five.
        while connection.write_all(b"x").is_ok() {
            assert!(started.elapsed() < most, "still open after {most:?}");
            match connection.read(&mut [0]) {
                Ok(0) => break,
                Ok(_) => panic!("there is nothing to answer"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        assert!(started.elapsed() >= HEAD_TIMEOUT - Duration::from_secs(1));
    }
}
