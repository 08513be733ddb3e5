//! The messages of `opentelemetry/proto/profiles/v1development`, as far as they are used. Fields that are not declared are skipped.

/// What is posted.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportProfilesServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub(crate) dictionary: Option<ProfilesDictionary>,
}

/// What is answered.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportProfilesServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<ExportProfilesPartialSuccess>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportProfilesPartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected_profiles: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// `google.rpc.Status`: what is answered in place of success.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// Tables that all profiles of a request share. The first row of each means none.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProfilesDictionary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) mapping_table: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) location_table: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) function_table: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) link_table: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) string_table: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attribute_table: Vec<KeyValueAndUnit>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) stack_table: Vec<Stack>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResourceProfiles {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_profiles: Vec<ScopeProfiles>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) profiles: Vec<Profile>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Profile {
    #[prost(message, optional, tag = "1")]
    pub(crate) sample_type: Option<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<Sample>,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) duration_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) period_type: Option<ValueType>,
    #[prost(int64, tag = "6")]
    pub(crate) period: i64,
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) profile_id: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct ValueType {
    #[prost(int32, tag = "1")]
    pub(crate) type_strindex: i32,
    #[prost(int32, tag = "2")]
    pub(crate) unit_strindex: i32,
}

/// A stack with values, or with the times at which it was seen, or with both.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sample {
    #[prost(int32, tag = "1")]
    pub(crate) stack_index: i32,
    #[prost(int32, repeated, tag = "2")]
    pub(crate) attribute_indices: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub(crate) values: Vec<i64>,
    #[prost(fixed64, repeated, tag = "5")]
    pub(crate) timestamps_unix_nano: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Mapping {
    #[prost(int32, tag = "4")]
    pub(crate) filename_strindex: i32,
}

/// Nothing of it is used; a request has to have an empty one.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Link {}

/// Locations, the leaf first.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Stack {
    #[prost(int32, repeated, tag = "1")]
    pub(crate) location_indices: Vec<i32>,
}

/// A place in code. Of several lines the last is the function that others were put into.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Location {
    #[prost(int32, tag = "1")]
    pub(crate) mapping_index: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) address: u64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    pub(crate) attribute_indices: Vec<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Line {
    #[prost(int32, tag = "1")]
    pub(crate) function_index: i32,
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
    #[prost(int64, tag = "3")]
    pub(crate) column: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Function {
    #[prost(int32, tag = "1")]
    pub(crate) name_strindex: i32,
    #[prost(int32, tag = "2")]
    pub(crate) system_name_strindex: i32,
    #[prost(int32, tag = "3")]
    pub(crate) filename_strindex: i32,
    #[prost(int64, tag = "4")]
    pub(crate) start_line: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValueAndUnit {
    #[prost(int32, tag = "1")]
    pub(crate) key_strindex: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
    #[prost(int32, tag = "3")]
    pub(crate) key_strindex: i32,
}

/// A value; lists and maps are skipped.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 8")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    /// A text of the dictionary.
    #[prost(int32, tag = "8")]
    TextIndex(i32),
}
