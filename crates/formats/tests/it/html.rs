//! Recordings inside HTML pages.

use nodespy_formats::ImportError;

use crate::sample::{as_filed, read, small, written};

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| usize::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            text.push(match position <= group.len() {
                true => LETTERS[bits >> (18 - 6 * position) & 63] as char,
                false => '=',
            });
        }
    }
    text
}

fn page(payload: &str) -> Vec<u8> {
    format!(
        "<!DOCTYPE html>\n<html data-made-by=\"nodespy\"><title>x</title>\n\
         <script type=\"application/nspy\" id=\"recording\">{payload}</script></html>\n"
    )
    .into_bytes()
}

#[test]
fn the_recording_in_a_page_is_the_recording() {
    let payload = base64(&written(&small(), "nspy"));
    assert_eq!(read(&page(&payload)).unwrap(), as_filed(&small()));
}

#[test]
fn a_recording_in_pieces_is_put_together_and_its_base_is_left_out() {
    let bytes = written(&small(), "nspy");
    let piece = |class: &str, bytes: &[u8]| {
        format!(
            "<script type=\"application/nspy\" class=\"{class}\">{}</script>\n",
            base64(bytes)
        )
    };
    let (first, rest) = bytes.split_at(300);
    let page = format!(
        "<!doctype html>\n<html data-made-by=\"nodespy\"><script>x = '<script>'</script>\n{}{}{}</html>",
        piece("recording", first),
        piece("recording", rest),
        piece("base", b"another"),
    );
    assert_eq!(read(page.as_bytes()).unwrap(), as_filed(&small()));
}

#[test]
fn a_page_without_a_recording_says_so() {
    let error = read(b"<!doctype html><p>nodespy is nice</p>").unwrap_err();
    assert!(matches!(error, ImportError::NoPayload));
    let bytes = page("TlNQ?");
    let error = read(&bytes).unwrap_err();
    let place = bytes.iter().position(|byte| *byte == b'?').unwrap() as u64;
    assert!(
        matches!(error, ImportError::Damaged { at, .. } if at == place),
        "{error}"
    );
    assert!(matches!(read(&page("")), Err(ImportError::Empty)));
}
