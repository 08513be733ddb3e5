//! Requests of OTLP profiles, written byte by byte.

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    varint(&mut bytes, content.len() as u64);
    bytes.extend_from_slice(content);
    bytes
}

pub(crate) fn number(field: u8, value: usize) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    varint(&mut bytes, value as u64);
    bytes
}

fn packed(field_number: u8, values: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values
        .iter()
        .for_each(|value| varint(&mut bytes, *value as u64));
    field(field_number, &bytes)
}

/// An attribute of a resource, by name.
fn attribute(key: &str, value: &str) -> Vec<u8> {
    let value = field(2, &field(1, value.as_bytes()));
    field(1, &[field(1, key.as_bytes()), value].concat())
}

/// An attribute of the dictionary: its key, and its value as a number or a string of the dictionary.
fn row(key: usize, value: Vec<u8>) -> Vec<u8> {
    field(6, &[number(1, key), field(2, &value)].concat())
}

/// What a request is put together of.
#[derive(Default)]
struct Request {
    resource: Vec<u8>,
    samples: Vec<u8>,
    dictionary: Vec<u8>,
}

impl Request {
    /// With these strings after the empty one.
    fn with_strings(strings: &[&str]) -> Self {
        let all = std::iter::once(&"").chain(strings);
        Self {
            dictionary: all.flat_map(|text| field(5, text.as_bytes())).collect(),
            ..Self::default()
        }
    }

    fn sample(&mut self, attributes: &[usize], stack: usize) {
        let sample = [number(1, stack), packed(2, attributes), packed(4, &[1])];
        self.samples.extend(field(2, &sample.concat()));
    }

    fn bytes(self) -> Vec<u8> {
        let scope = field(2, &field(2, &self.samples));
        let of_resource = [field(1, &self.resource), scope].concat();
        [field(1, &of_resource), field(2, &self.dictionary)].concat()
    }
}

pub(crate) fn samples(count: usize) -> Vec<u8> {
    let mut request = Request::with_strings(&[]);
    (0..count).for_each(|_| request.sample(&[], 0));
    request.bytes()
}

/// As many attributes of the resource as samples, each of which has an attribute of its own.
pub(crate) fn attributes(count: usize) -> Vec<u8> {
    let mut request = Request::with_strings(&["thread.id"]);
    for at in 0..count {
        request
            .resource
            .extend(attribute(&format!("key{at}"), "value"));
        request.dictionary.extend(row(1, number(3, at)));
        request.sample(&[at], 0);
    }
    request.bytes()
}

/// A long name of a service that each of many processes has.
pub(crate) fn long_service(count: usize) -> Vec<u8> {
    let long = "x".repeat(count * 100);
    let mut request = Request::with_strings(&["process.pid", "service.name", &long]);
    request.dictionary.extend(row(2, number(8, 3)));
    for at in 0..count {
        request.dictionary.extend(row(1, number(3, at)));
        request.sample(&[0, 1 + at], 0);
    }
    request.bytes()
}

/// A long name that each of many functions has.
pub(crate) fn long_function(count: usize) -> Vec<u8> {
    let long = "x".repeat(count * 1000);
    let mut request = Request::with_strings(&[&long]);
    for at in 0..count {
        let function = [number(1, 1), number(3, 1), number(4, 1 + at)].concat();
        request.dictionary.extend(field(3, &function));
        let location = field(3, &number(1, at));
        request.dictionary.extend(field(2, &location));
        request.dictionary.extend(field(7, &packed(1, &[at])));
        request.sample(&[], at);
    }
    request.bytes()
}

/// A long type of frame that each of many locations has.
pub(crate) fn long_type(count: usize) -> Vec<u8> {
    let long = "x".repeat(count * 100);
    let mut request = Request::with_strings(&["profile.frame.type", &long]);
    request.dictionary.extend(row(1, number(8, 2)));
    for at in 0..count {
        let location = [number(2, 1 + at), packed(4, &[0])].concat();
        request.dictionary.extend(field(2, &location));
        request.dictionary.extend(field(7, &packed(1, &[at])));
        request.sample(&[], at);
    }
    request.bytes()
}
