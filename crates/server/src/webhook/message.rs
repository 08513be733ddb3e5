//! What a webhook is told.

use std::fmt::Write;

use data_encoding::HEXLOWER;
use nodespy_analysis::{FunctionChange, Verdict};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::query::{Deployment, Slower, link, regression_json};

/// How many regressions are lines of a message.
const MAX_LINES: usize = 20;

/// Whose form a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Slack,
}

/// A function that is slower since a deployment.
pub(super) struct Found<'a> {
    deployment: &'a Deployment,
    slower: &'a Slower,
}

impl<'a> Found<'a> {
    pub(super) fn all_of(deployment: &'a Deployment) -> impl Iterator<Item = Self> {
        let slower = deployment.slower.iter();
        slower.map(move |slower| Self { deployment, slower })
    }

    fn change(&self) -> &'a FunctionChange {
        &self.slower.change
    }

    /// Whether it is more than suspected.
    pub(super) fn is_sure(&self) -> bool {
        self.change().own.verdict == Verdict::Regression
    }

    /// What it is noted as, for the webhook of this address.
    pub(super) fn id(&self, address: &str) -> String {
        self.id_of(address, self.is_sure())
    }

    /// What it may have been noted as. One that was suspected is told again when it is sure, not the other way around.
    pub(super) fn known_as(&self, address: &str) -> Vec<String> {
        let mut ids = vec![self.id_of(address, true)];
        if !self.is_sure() {
            ids.push(self.id_of(address, false));
        }
        ids
    }

    fn id_of(&self, address: &str, is_sure: bool) -> String {
        let mut hasher = Sha256::new();
        let ordinal = self.change().id.ordinal.to_string();
        for text in [
            address,
            &self.deployment.service,
            &self.deployment.before_version,
            &self.deployment.version,
            &self.change().id.name,
            &self.change().id.file,
            &ordinal,
            if is_sure { "sure" } else { "suspected" },
        ] {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        HEXLOWER.encode(&hasher.finalize()[..16])
    }

    /// The page with the difference between the versions.
    fn link(&self, page: &str) -> String {
        format!("{page}{}", link(self.deployment))
    }

    fn json(&self, page: &str) -> Value {
        let mut row = regression_json(self.deployment, self.slower);
        row["link"] = self.link(page).into();
        row
    }

    /// `shop 2.0.0: +25.1 % [+19.4 %, +30.0 %] parseOrders shop.js:4, regression` in Slack's markup.
    fn slack_line(&self, page: &str) -> String {
        let own = &self.change().own;
        let interval = own.interval.map_or_else(String::new, |(low, high)| {
            format!(" [{}, {}]", percent(low), percent(high))
        });
        let through = match &self.change().callers[..] {
            [] => String::new(),
            [caller, ..] => format!(" through `{}`", escaped(&caller.id.name).replace('`', "'")),
        };
        let place = match &*self.change().location.file {
            "" => String::new(),
            file => format!(" {file}:{}", self.change().location.line),
        };
        format!(
            "<{}|{} {} → {}>: *{}*{interval} `{}`{}{through}, {}",
            self.link(page),
            escaped(&self.deployment.service),
            escaped(version(&self.deployment.before_version)),
            escaped(version(&self.deployment.version)),
            percent(own.ratio),
            escaped(&self.change().id.name).replace('`', "'"),
            escaped(&place),
            own.verdict.label()
        )
    }
}

impl Kind {
    pub(super) fn called(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "slack" => Some(Self::Slack),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
        }
    }

    /// What is posted: these, with links to the server's page.
    pub(super) fn body(self, found: &[&Found<'_>], page: &str) -> Vec<u8> {
        let value = match self {
            Self::Json => {
                let rows: Vec<Value> = found.iter().map(|it| it.json(page)).collect();
                json!({ "regressions": rows })
            }
            Self::Slack => {
                let mut text = "Slower since a deployment:".to_owned();
                for it in found.iter().take(MAX_LINES) {
                    let _ = write!(text, "\n• {}", it.slack_line(page));
                }
                if found.len() > MAX_LINES {
                    let _ = write!(text, "\n• and {} more", found.len() - MAX_LINES);
                }
                json!({ "text": text })
            }
        };
        value.to_string().into_bytes()
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

fn version(name: &str) -> &str {
    match name {
        "" => "(no version)",
        name => name,
    }
}

/// Text that Slack takes for no markup: a name of a function mentions nobody.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}
