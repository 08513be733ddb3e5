//! Which objects are requests: those of Node's own class, and what frameworks wrap around them.

use nodespy_model::{CopiedField, MAX_COPIED_FIELDS};

use super::properties::Place;

/// The properties that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Method,
    Url,
    /// What `url` was before express' routers cut their own path off it.
    OriginalUrl,
    /// What they have cut off.
    BaseUrl,
    /// What express has matched.
    Route,
    Path,
    Req,
    Res,
    /// Node's request in that of Next.
    InnerReq,
    /// Node's request in that of fastify.
    Raw,
    Request,
    /// What fastify has matched.
    FastifyContext,
    Config,
    /// What the router of koa has matched.
    MatchedRoute,
    /// The headers of HTTP/2 as they came, an array.
    RawHeaders,
    /// The stream of a request or response of HTTP/2.
    Stream,
    /// What else tells the objects of HTTP/2 from other streams.
    Session,
    Trailers,
    /// Headers of HTTP/2 in a dictionary, and what those have that were received.
    MethodHeader,
    PathHeader,
    SensitiveHeaders,
    /// What Next knows of a request, the page that it has matched, and what that is called.
    NextMeta,
    Match,
    Definition,
    Pathname,
    /// What else tells these objects from others.
    InitUrl,
    Params,
    BundlePath,
    /// What a rendering of React has to do, and whom it tells.
    PingedTasks,
    AbortableTasks,
    OnError,
    OnShellReady,
    /// The context of a closure.
    Context,
    /// The elements of an array.
    Elements,
    /// The one at this position.
    Element(u8),
}

const NAMES: &[(&str, Name)] = &[
    ("method", Name::Method),
    ("url", Name::Url),
    ("originalUrl", Name::OriginalUrl),
    ("baseUrl", Name::BaseUrl),
    ("route", Name::Route),
    ("path", Name::Path),
    ("req", Name::Req),
    ("res", Name::Res),
    ("_req", Name::InnerReq),
    ("raw", Name::Raw),
    ("request", Name::Request),
    ("fastify.context", Name::FastifyContext),
    ("config", Name::Config),
    ("_matchedRoute", Name::MatchedRoute),
    ("rawHeaders", Name::RawHeaders),
    ("stream", Name::Stream),
    ("kSession", Name::Session),
    ("trailers", Name::Trailers),
    ("NextInternalRequestMeta", Name::NextMeta),
    ("match", Name::Match),
    ("definition", Name::Definition),
    ("pathname", Name::Pathname),
    ("initURL", Name::InitUrl),
    ("params", Name::Params),
    ("bundlePath", Name::BundlePath),
    ("pingedTasks", Name::PingedTasks),
    ("abortableTasks", Name::AbortableTasks),
    ("onError", Name::OnError),
    ("onShellReady", Name::OnShellReady),
    (":method", Name::MethodHeader),
    (":path", Name::PathHeader),
    ("sensitiveHeaders", Name::SensitiveHeaders),
    ("nodejs.http2.sensitiveHeaders", Name::SensitiveHeaders),
];

impl Name {
    pub(super) fn of(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, name)| *name)
    }

    fn is_text(self) -> bool {
        use Name::*;
        matches!(
            self,
            Method | Url | OriginalUrl | BaseUrl | Path | MatchedRoute | Pathname | Element(_)
        )
    }

    /// Whether the value is wanted of what is called so in a dictionary: the text of a header, and what a request has.
    pub(super) fn is_of_dictionary(self) -> bool {
        matches!(self, Self::MethodHeader | Self::PathHeader) || OF_REQUEST.contains(&self)
    }

    /// Whether that is an object, of which there is more to be copied.
    pub(super) fn leads_further(self) -> bool {
        matches!(self, Self::Route | Self::NextMeta)
    }

    /// Whether its value is a function that a rendering calls for its request.
    pub(super) fn is_callback(self) -> bool {
        matches!(self, Self::OnError | Self::OnShellReady)
    }

    /// Whether its value is the request that an object is about.
    pub(super) fn leads_to_request(self) -> bool {
        use Name::*;
        matches!(self, Req | InnerReq | Raw | Request | Stream)
    }
}

/// What objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassKind {
    /// Node's `IncomingMessage`.
    Request,
    /// Node's `Http2ServerRequest`.
    Http2Request,
    /// A stream of HTTP/2, which has its request where somebody asked for one.
    Http2Stream,
    /// Node's `IncomingMessage` with its properties in a dictionary: some were deleted, or redefined.
    SlowRequest,
    /// What has a dictionary and no prototype, as the headers of HTTP/2.
    Headers,
    /// What has a request: Node's response, and what frameworks hand to handlers.
    Wrapper,
    /// What React keeps of a rendering: its callbacks were made for a request.
    Rendering,
    /// A function, as one of these callbacks, and the context of one.
    Closure,
    Context,
    /// What a request or a wrapper has.
    Part,
    Other,
}

impl ClassKind {
    /// Whether no other object of a sample is looked for once one of these was found.
    pub(super) fn leads_to_request(self) -> bool {
        use ClassKind::*;
        matches!(self, Request | Http2Request | Wrapper | Rendering)
    }
}

/// What is wanted of Node's own request.
const OF_REQUEST: &[Name] = &[
    Name::Method,
    Name::Url,
    Name::OriginalUrl,
    Name::BaseUrl,
    Name::Route,
    Name::NextMeta,
];

/// Where an array has its elements, and these the first of them, in words.
const ARRAY_ELEMENTS: u64 = 2;
const FIRST_ELEMENT: u64 = 2;

/// The objects of a map.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) kind: ClassKind,
    /// The constructor, where it stands for all its maps: one of Node's own.
    pub(super) family: Option<u64>,
    places: Vec<(Name, Place)>,
}

/// The class of Node's own request, and where it is from.
const INCOMING: &str = "IncomingMessage";
const INCOMING_FILE: &str = "node:_http_incoming";

/// Where Node's streams are.
const STREAMS: &str = "node:internal/streams/";

impl Class {
    /// An array, of which the elements are wanted.
    pub(super) fn array() -> Self {
        let word = ARRAY_ELEMENTS;
        let is_in_array = false;
        Self::part(vec![(Name::Elements, Place { word, is_in_array })])
    }

    /// The elements of an array, of which the first are wanted: all values of the headers that say what is asked for, and as
    /// many of their names as there is room for.
    pub(super) fn elements() -> Self {
        let place = |position: u8| Place {
            word: FIRST_ELEMENT + u64::from(position),
            is_in_array: false,
        };
        let positions = [1, 3, 5, 7, 0, 2, 4];
        Self::part(positions.map(|it| (Name::Element(it), place(it))).to_vec())
    }

    pub(super) const HEADERS: Self = Self::without_places(ClassKind::Headers);
    pub(super) const SLOW_REQUEST: Self = Self::without_places(ClassKind::SlowRequest);
    pub(super) const CONTEXT: Self = Self::without_places(ClassKind::Context);
    pub(super) const OTHER: Self = Self::without_places(ClassKind::Other);

    /// A function that has its context so many bytes from its start.
    pub(super) fn closure(context: u64) -> Self {
        let word = context / 8;
        let is_in_array = false;
        Self {
            kind: ClassKind::Closure,
            family: None,
            places: vec![(Name::Context, Place { word, is_in_array })],
        }
    }

    const fn without_places(kind: ClassKind) -> Self {
        Self {
            kind,
            family: None,
            places: Vec::new(),
        }
    }

    fn part(places: Vec<(Name, Place)>) -> Self {
        Self {
            kind: ClassKind::Part,
            family: None,
            places,
        }
    }

    /// The class of objects with a dictionary that the function of this name and file constructs.
    pub(super) fn with_dictionary((constructor, url): (&str, &str)) -> Self {
        match constructor == INCOMING && url == INCOMING_FILE {
            true => Self::SLOW_REQUEST,
            false => Self::OTHER,
        }
    }

    /// The class of objects with these properties, which the function of this name and file constructs, and which is at this
    /// address if it can stand for them. Frameworks may be bundled under any name, so of theirs the properties decide too.
    pub(super) fn new(
        (constructor, url): (&str, &str),
        address: Option<u64>,
        places: &[(Name, Place)],
    ) -> Self {
        use Name::*;
        let has = |wanted: Name| places.iter().any(|(name, _)| *name == wanted);
        let is_stream = url.starts_with(STREAMS);
        let (kind, wanted): (ClassKind, &[Name]) = match constructor {
            INCOMING if url == INCOMING_FILE => (ClassKind::Request, OF_REQUEST),
            "ServerResponse" if url == "node:_http_server" => (ClassKind::Wrapper, &[Req]),
            // The classes of HTTP/2 are derived from those of streams, which is what objects say of themselves.
            "Readable" if is_stream && has(RawHeaders) && has(Stream) && has(Trailers) => {
                (ClassKind::Http2Request, &[RawHeaders])
            }
            "Duplex" if is_stream && has(Request) && has(Session) => {
                (ClassKind::Http2Stream, &[Request])
            }
            "Stream" if is_stream && has(Stream) && has(Trailers) => {
                (ClassKind::Wrapper, &[Stream])
            }
            "Request" | "_Request" if has(Raw) => (ClassKind::Wrapper, &[Raw, FastifyContext]),
            "Reply" | "_Reply" if has(Request) => (ClassKind::Wrapper, &[Request]),
            // Next's request is in bundles of the application, under any name.
            _ if has(InnerReq) && has(NextMeta) => (ClassKind::Wrapper, &[InnerReq]),
            _ if has(PingedTasks) && has(AbortableTasks) && has(OnError) => {
                (ClassKind::Rendering, &[OnError, OnShellReady])
            }
            "Object" if has(Req) && has(Res) => (ClassKind::Wrapper, &[Req, MatchedRoute]),
            "Object" if has(InitUrl) && has(Match) => (ClassKind::Part, &[Match]),
            "Object" if has(Definition) && has(Params) => (ClassKind::Part, &[Definition]),
            "Object" if has(Pathname) && has(BundlePath) => (ClassKind::Part, &[Pathname]),
            "Route" if has(Path) => (ClassKind::Part, &[Path]),
            "Context" if has(Config) => (ClassKind::Part, &[Config]),
            "Object" if has(Url) && has(Method) => (ClassKind::Part, &[Url]),
            _ => return Self::OTHER,
        };
        // Those of streams are the constructors of others too.
        let is_nodes = url.starts_with("node:") && !is_stream;
        let mut places = places.to_vec();
        places.retain(|(name, place)| {
            wanted.contains(name) && place.word <= CopiedField::LAST_WORD.into()
        });
        Self {
            kind,
            family: address.filter(|_| is_nodes),
            places,
        }
    }

    pub(super) fn place(&self, name: Name) -> Option<Place> {
        let found = self.places.iter().find(|(known, _)| *known == name);
        found.map(|(_, place)| *place)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        self.places.iter().map(|(name, _)| *name)
    }

    /// What is copied of its objects.
    pub(super) fn copied_fields(&self) -> Vec<CopiedField> {
        let field = |(name, place): &(Name, Place)| CopiedField {
            word: place.word as u8,
            is_in_properties: place.is_in_array,
            is_text: name.is_text(),
        };
        let fields = self.places.iter().map(field);
        fields.take(MAX_COPIED_FIELDS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(constructor: &str, url: &str, names: &[Name]) -> Class {
        let place = |(position, name): (usize, &Name)| {
            let word = 3 + position as u64;
            let is_in_array = false;
            (*name, Place { word, is_in_array })
        };
        let places: Vec<_> = names.iter().enumerate().map(place).collect();
        Class::new((constructor, url), Some(0x77), &places)
    }

    #[test]
    fn a_request_is_one_of_nodes_own_class() {
        let names = [Name::Url, Name::Method, Name::Res];
        let request = class("IncomingMessage", "node:_http_incoming", &names);
        assert_eq!(
            (request.kind, request.family),
            (ClassKind::Request, Some(0x77))
        );
        assert_eq!(request.place(Name::Method).unwrap().word, 4);
        assert_eq!(request.place(Name::Res), None);
        let fields = request.copied_fields();
        assert!(fields.len() == 2 && fields.iter().all(|field| field.is_text));
        let other = class("IncomingMessage", "/app/fake.js", &names);
        assert_eq!(other, Class::OTHER);
    }

    #[test]
    fn what_a_framework_wraps_around_a_request_leads_to_it() {
        let fastify = class(
            "Request",
            "/app/bundle.js",
            &[Name::Raw, Name::FastifyContext],
        );
        let koa = class("Object", "", &[Name::Req, Name::Res]);
        for wrapper in [&fastify, &koa] {
            assert_eq!((wrapper.kind, wrapper.family), (ClassKind::Wrapper, None));
            assert!(wrapper.names().any(Name::leads_to_request));
        }
        assert_eq!(class("Request", "/app/a.js", &[Name::Url]), Class::OTHER);
        assert_eq!(class("Object", "", &[Name::Req]), Class::OTHER);
    }

    #[test]
    fn requests_of_http2_are_told_from_other_streams() {
        let readable = "node:internal/streams/readable";
        let names = [Name::RawHeaders, Name::Stream, Name::Trailers];
        let request = class("Readable", readable, &names);
        assert_eq!(
            (request.kind, request.family),
            (ClassKind::Http2Request, None)
        );
        assert_eq!(class("Readable", readable, &names[..2]), Class::OTHER);
        // Others look for its headers.
        let duplex = "node:internal/streams/duplex";
        let stream = class("Duplex", duplex, &[Name::Request, Name::Session]);
        assert_eq!(stream.kind, ClassKind::Http2Stream);
        assert!(!stream.kind.leads_to_request());
        assert_eq!(class("Readable", "/app/a.js", &names), Class::OTHER);
        let fields = Class::elements().copied_fields();
        assert!(fields.len() == MAX_COPIED_FIELDS && fields.iter().all(|field| field.is_text));
    }

    #[test]
    fn a_field_that_is_too_far_is_not_copied() {
        let far = Place {
            word: u64::from(CopiedField::LAST_WORD) + 1,
            is_in_array: true,
        };
        let places = [(Name::Url, far), (Name::Method, far)];
        let class = Class::new(("IncomingMessage", "node:_http_incoming"), Some(7), &places);
        assert!(class.copied_fields().is_empty());
    }
}
