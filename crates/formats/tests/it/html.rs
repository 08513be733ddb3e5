//! Recordings inside HTML pages.

use data_encoding::BASE64;
use nodespy_formats::ImportError;

use crate::sample::{as_filed, read, small, written};

fn page(payload: &str) -> Vec<u8> {
    format!(
        "<!DOCTYPE html>\n<html data-made-by=\"nodespy\"><title>x</title>\n\
         <script type=\"application/nspy\" id=\"recording\">{payload}</script></html>\n"
    )
    .into_bytes()
}

#[test]
fn the_recording_in_a_page_is_the_recording() {
    let payload = BASE64.encode(&written(&small(), "nspy"));
    assert_eq!(read(&page(&payload)).unwrap(), as_filed(&small()));
}

/// A page whose recording is in two elements that `open` and `close`, with another behind them.
fn in_two_elements(open: &str, close: &str, recording: &[u8]) -> Vec<u8> {
    let element = |class: &str, bytes: &[u8]| {
        format!(
            "<{open} class=\"{class}\">{}</{close}>\n",
            BASE64.encode(bytes)
        )
    };
    let (first, rest) = recording.split_at(300);
    let page = format!(
        "<!doctype html>\n<html data-made-by=\"nodespy\"><script>x = '<script>'</script>\n{}{}{}</html>",
        element("recording", first),
        element("recording", rest),
        element("base", b"another"),
    );
    page.into_bytes()
}

/// A page as it is written today.
pub(crate) fn page_of_today(recording: &[u8]) -> Vec<u8> {
    in_two_elements("template", "template", recording)
}

#[test]
fn a_recording_in_several_elements_is_put_together_and_its_base_is_left_out() {
    let recording = written(&small(), "nspy");
    let of_scripts = in_two_elements("script type=\"application/nspy\"", "script", &recording);
    for page in [page_of_today(&recording), of_scripts] {
        assert_eq!(read(&page).unwrap(), as_filed(&small()));
    }
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
