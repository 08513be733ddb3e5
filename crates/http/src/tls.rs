//! TLS of a server, by rustls: a connection that is encrypted, or not, behind one type.
//!
//! The handshake is part of reading the head of a request and has to be over as early as that.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::head::TimedStream;

/// Why a server has no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file has nothing that can be used.
    #[error("{}: no {what} as PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
        /// Why it has none.
        source: pem::Error,
    },
    /// Certificate and key don't belong together, or can't be used.
    #[error("certificate and key can't be used together")]
    Unusable(#[from] rustls::Error),
}

/// What a server proves itself with.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

impl Tls {
    /// A certificate, with those between it and its authority after it, and its key, as PEM.
    pub fn of_files(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let wrong = |path: &Path, what| {
            let path = path.to_owned();
            move |source| TlsError::Pem { path, what, source }
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(|chain| match chain.is_empty() {
                true => Err(pem::Error::NoItemsFound),
                false => Ok(chain),
            })
            .map_err(wrong(certificates, "certificate"))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(wrong(key, "private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self(Arc::new(config)))
    }
}

/// A connection of a server.
pub struct Connection(Stream);

enum Stream {
    Plain(TimedStream),
    Tls(Box<StreamOwned<ServerConnection, TimedStream>>),
}

impl Connection {
    /// A connection that may take until `deadline` to say what it wants.
    pub fn open(socket: TcpStream, tls: Option<&Tls>, deadline: Instant) -> io::Result<Self> {
        let stream = TimedStream::until(socket, deadline);
        Ok(Self(match tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let session =
                    ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
                Stream::Tls(Box::new(StreamOwned::new(session, stream)))
            }
        }))
    }

    /// How long reads may take.
    pub fn timed(&mut self) -> &mut TimedStream {
        match &mut self.0 {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &mut stream.sock,
        }
    }

    /// Says that nothing more is written; what the other side still sends can be read.
    pub fn end_writing(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = &mut self.0 {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        self.timed().socket().shutdown(Shutdown::Write)
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
