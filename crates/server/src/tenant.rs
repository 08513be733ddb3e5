//! Whose store a request is for. Tenants share nothing but the process: each has a file, tokens and limits of its own.

use nodespy_http::Head;

use crate::access::{Access, Admission, Proof};
use crate::ingest::Ingest;
use crate::stores::Stores;

/// A store that is served, and who may ask it.
#[derive(Debug)]
pub struct Tenant {
    pub(crate) stores: Stores,
    pub(crate) access: Access,
    pub(crate) ingest: Option<Ingest>,
}

impl Tenant {
    /// A store for those who may ask, which takes what those send who may write, if it takes anything.
    pub fn new(stores: Stores, access: Access, ingest: Option<Ingest>) -> Self {
        Self {
            stores,
            access,
            ingest,
        }
    }
}

/// The tenant that a request may write to; else why it may not.
pub(crate) fn writing<'a>(tenants: &'a [Tenant], head: &Head) -> Result<&'a Tenant, &'static str> {
    let mut refusal = "no tenant";
    for tenant in tenants {
        match tenant.access.refuses_writing(head) {
            None => return Ok(tenant),
            Some(why) => refusal = why,
        }
    }
    Err(refusal)
}

/// The tenant that a request may ask, and how it is let in; `given` is the token in its address. A token that somebody gives counts
/// before what a browser has kept, whichever tenants they are of.
pub(crate) fn asking<'a>(
    tenants: &'a [Tenant],
    head: &Head,
    given: Option<&str>,
) -> Result<(&'a Tenant, Admission), &'static str> {
    for proof in Proof::ALL {
        let mut tenants = tenants.iter();
        if let Some(tenant) = tenants.find(|it| it.access.accepts(proof, head, given)) {
            return Ok((tenant, proof.admission()));
        }
    }
    Err(tenants.last().map_or("no tenant", |it| it.access.refusal()))
}

#[cfg(test)]
mod tests {
    use nodespy_store::{OpenMode, SqliteStore};

    use super::*;
    use crate::access::{Token, Transport};

    const TOKENS: [&str; 2] = ["first-0123456789abcdef", "second-0123456789abcdef"];

    fn tenants(folder: &std::path::Path) -> Vec<Tenant> {
        let everywhere = "0.0.0.0:4600".parse().unwrap();
        let tenant = |token: &str| {
            let path = folder.join(token);
            SqliteStore::open(&path, OpenMode::Write).unwrap();
            let token = Some(Token::of_text(token).unwrap());
            let access = Access::new(everywhere, Transport::Tls, token).unwrap();
            Tenant::new(Stores::open(&path).unwrap(), access, None)
        };
        TOKENS.map(tenant).into()
    }

    #[test]
    fn a_token_that_is_given_counts_before_what_a_browser_kept() {
        let folder = tempfile::tempdir().unwrap();
        let tenants = tenants(folder.path());
        let [first, second] = TOKENS;
        let kept = Head {
            cookie: Some(format!("nodespy-token={first}")),
            ..Head::default()
        };
        let asked = |head: &Head, given| {
            let (tenant, admission) = asking(&tenants, head, given).unwrap();
            let place = tenants.iter().position(|it| std::ptr::eq(it, tenant));
            (place.unwrap(), admission)
        };
        assert_eq!(asked(&kept, None), (0, Admission::Granted));
        assert_eq!(asked(&kept, Some(second)), (1, Admission::GrantedByAddress));
        // Also its own: the address is left without the token.
        assert_eq!(asked(&kept, Some(first)), (0, Admission::GrantedByAddress));
        assert_eq!(asked(&kept, Some("wrong")), (0, Admission::Granted));
        let sent = Head {
            authorization: Some(format!("Bearer {second}")),
            ..kept
        };
        assert_eq!(asked(&sent, None), (1, Admission::Granted));
        assert!(asking(&tenants, &Head::default(), Some("wrong")).is_err());
    }
}
