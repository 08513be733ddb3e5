//! No bytes may crash, hang or exhaust the reader of what a server of Parca replies to `nodespy agent`.
#![no_main]

// By its path: the crate would bring everything along that samples.
#[allow(dead_code)]
#[path = "../../crates/agent/src/grpc_web.rs"]
mod grpc_web;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(status) = grpc_web::status(&[], bytes) {
        assert!(status.message.chars().count() <= 200);
        assert!(!status.message.contains('\n'));
    }
    let header = String::from_utf8_lossy(bytes).into_owned();
    let headers = [("grpc-status", "3"), ("grpc-message", &*header)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(grpc_web::status(&headers, &[]).map(|it| it.code), Some(3));
});
