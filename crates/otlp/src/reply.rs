//! What a receiver answers.

use prost::Message;

use crate::messages::{ExportProfilesPartialSuccess, ExportProfilesServiceResponse, Status};

/// `google.rpc.Code.INVALID_ARGUMENT`.
const INVALID_ARGUMENT: i32 = 3;
/// `google.rpc.Code.UNAVAILABLE`.
const UNAVAILABLE: i32 = 14;

/// The answer to a request that was taken as a whole.
pub fn success() -> Vec<u8> {
    ExportProfilesServiceResponse::default().encode_to_vec()
}

/// The answer to one that was taken with something left out: OTLP has warnings as partial successes that reject nothing.
pub fn success_but(warning: &str) -> Vec<u8> {
    ExportProfilesServiceResponse {
        partial_success: Some(ExportProfilesPartialSuccess {
            rejected_profiles: 0,
            error_message: warning.to_owned(),
        }),
    }
    .encode_to_vec()
}

/// The answer to one that was not, and whether to send it again.
pub fn failure(why: &str, can_be_sent_again: bool) -> Vec<u8> {
    let code = match can_be_sent_again {
        true => UNAVAILABLE,
        false => INVALID_ARGUMENT,
    };
    Status {
        code,
        message: why.to_owned(),
    }
    .encode_to_vec()
}

/// How many profiles a receiver did not take of a request, and why, by its answer.
pub fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let answer = ExportProfilesServiceResponse::decode(answer).ok()?;
    let partial = answer.partial_success?;
    let rejected = u64::try_from(partial.rejected_profiles).unwrap_or(0);
    (rejected > 0).then_some((rejected, partial.error_message))
}

/// What a receiver that answers with an error says.
pub fn failure_message(answer: &[u8]) -> Option<String> {
    let status = Status::decode(answer).ok()?;
    (!status.message.is_empty()).then_some(status.message)
}
