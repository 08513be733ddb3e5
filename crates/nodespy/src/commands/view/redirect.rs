//! Opens the browser without showing the address to other users: what a command is called with is
//! in `ps`, so the browser gets the name of a file that only its owner can read, and which leads to
//! the address.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::output_file::give_to_sudo_caller;

/// A file that is gone when it was read, or with this.
pub(super) struct Redirect(PathBuf);

impl Redirect {
    /// Leads to `address`. `name` must not be guessable from it.
    pub(super) fn to(address: &str, folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(format!("nodespy-view-{name}.html"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&path)?;
        let redirect = Self(path);
        // The browser is theirs.
        give_to_sudo_caller(&file)?;
        writeln!(
            file,
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\">\
             <title>nodespy</title><a href=\"{address}\">The recording</a>"
        )?;
        Ok(redirect)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The user's own folder for such files, which ends with the session, else the one for all.
pub(super) fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|folder| folder.is_dir())
        .unwrap_or_else(std::env::temp_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_its_owners_leads_to_the_address_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let address = "http://127.0.0.1:1234/t0ken/";
        let redirect = Redirect::to(address, folder.path(), "other").unwrap();
        let path = redirect.path().to_owned();
        assert!(!path.to_string_lossy().contains("t0ken"));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("url={address}\"")));
        assert!(Redirect::to(address, folder.path(), "other").is_err());
        drop(redirect);
        assert!(!path.exists());
    }
}
