//! A folder and one profile, served for a viewer that asks for both.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use crate::Failure;

/// Serves `folder`, and `profile` as `/profile`, until the program ends; returns the port.
pub(crate) fn serve(folder: &Path, profile: &Path) -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let (folder, profile) = (folder.to_owned(), profile.to_owned());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (folder, profile) = (folder.clone(), profile.clone());
            std::thread::spawn(move || answer(connection, &folder, &profile));
        }
    });
    Ok(port)
}

fn answer(mut connection: TcpStream, folder: &Path, profile: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let name = path.split('?').next().unwrap_or_default();
    let file: PathBuf = match name.trim_start_matches('/') {
        "profile" => profile.to_owned(),
        "" => folder.join("index.html"),
        name => folder.join(name.replace("..", "")),
    };
    let kind = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        _ => "application/octet-stream",
    };
    if name == "/empty" {
        return connection.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\
              Connection: close\r\n\r\n<!doctype html>",
        );
    }
    let Ok(bytes) = std::fs::read(&file) else {
        return connection.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    write!(
        connection,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    connection.write_all(&bytes)
}
