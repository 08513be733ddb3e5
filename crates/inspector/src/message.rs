//! One message of the protocol: a reply or an event.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::InspectorError;

/// A message as it comes.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    /// Which command it answers.
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<Complaint>,
    /// Which event it is.
    pub(crate) method: Option<String>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// The error in the reply to a command.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Complaint {
    #[serde(default)]
    pub(crate) message: String,
}

impl<'a> Message<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, InspectorError> {
        serde_json::from_str(text).map_err(|error| InspectorError::BadMessage {
            what: error.to_string(),
        })
    }
}

/// A worker that was found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttachedToWorker {
    pub(crate) session_id: String,
    pub(crate) worker_info: WorkerInfo,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WorkerInfo {
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) url: String,
}

/// A worker that ended, or a message of one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfWorker {
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// A script that V8 knows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScriptParsed {
    #[serde(default)]
    pub(crate) script_id: String,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default, rename = "sourceMapURL")]
    pub(crate) map_url: Option<String>,
    #[serde(default)]
    pub(crate) length: Option<u64>,
}
