//! Bytes to profiles and back.

use nodespy_formats::{ImportError, ImportOptions, export, import};
use nodespy_model::{Contents, Profile};

/// The profile as `to` writes it.
pub(crate) fn written(profile: &Profile, to: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, to, &mut bytes).unwrap();
    bytes
}

/// What the importer that `bytes` look like makes of them.
pub(crate) fn read(bytes: &[u8]) -> Result<Profile, ImportError> {
    read_with(bytes, &ImportOptions::default())
}

/// One of the events, values or profiles that `bytes` hold.
pub(crate) fn read_event(bytes: &[u8], event: &str) -> Result<Profile, ImportError> {
    let options = ImportOptions {
        event: Some(event.to_owned()),
        ..ImportOptions::default()
    };
    read_with(bytes, &options)
}

fn read_with(bytes: &[u8], options: &ImportOptions) -> Result<Profile, ImportError> {
    match import(bytes.to_vec().into(), options)?.contents {
        Contents::Named(profile) | Contents::PartlyNamed(profile, _) => Ok(*profile),
        Contents::Events(_) => panic!("no format here holds raw events"),
    }
}
