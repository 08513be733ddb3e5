//! Whose store a request is for. Tenants share nothing but the process: each has a file, tokens and limits of its own.

use nodespy_http::Head;

use crate::access::{Access, Admission};
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

/// The tenant that a request may ask, and how it is let in; `given` is the token in its address.
pub(crate) fn asking<'a>(
    tenants: &'a [Tenant],
    head: &Head,
    given: Option<&str>,
) -> Result<(&'a Tenant, Admission), &'static str> {
    let mut refusal = "no tenant";
    for tenant in tenants {
        match tenant.access.judge(head, given) {
            Admission::Refused(why) => refusal = why,
            admission => return Ok((tenant, admission)),
        }
    }
    Err(refusal)
}
