//! Samples by whose code they are in: that of the application, a package, Node, V8, the kernel.
//!
//! Derived from categories, names and modules, never stored, so that recordings of any age are
//! divided alike.

use std::cmp::Reverse;

use nodespy_model::{Category, FastMap, FunctionIndex, Profile, Sample, SmallSort, StackIndex};

use crate::package::package_in;

/// One part of a running Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subsystem {
    /// JavaScript of the application.
    App,
    /// JavaScript that `eval`, `new Function` or `vm` made while the program ran.
    Eval,
    /// JavaScript of packages under `node_modules`.
    Dependencies,
    /// Node's own JavaScript and C++.
    NodeCore,
    /// V8's builtins, inline caches and runtime.
    V8,
    /// V8's parser and compilers.
    Compilation,
    /// V8's garbage collector, wherever it runs.
    Gc,
    /// Compiled regular expressions.
    RegExp,
    /// WebAssembly.
    Wasm,
    /// Native modules: addons and the libraries they bring along.
    Addons,
    /// The libraries that Node is built with.
    Libraries,
    /// The C and C++ libraries of the system.
    Libc,
    /// Native code of other programs, or of no known module.
    OtherNative,
    /// The kernel.
    Kernel,
    /// Time without work, where the source records it.
    Idle,
    /// Code without a name.
    Unknown,
}

impl Subsystem {
    /// Every one, in the order they are shown.
    pub const ALL: [Self; 16] = [
        Self::App,
        Self::Eval,
        Self::Dependencies,
        Self::NodeCore,
        Self::V8,
        Self::Compilation,
        Self::Gc,
        Self::RegExp,
        Self::Wasm,
        Self::Addons,
        Self::Libraries,
        Self::Libc,
        Self::OtherNative,
        Self::Kernel,
        Self::Idle,
        Self::Unknown,
    ];

    /// Its name in data.
    pub fn key(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Eval => "eval",
            Self::Dependencies => "dependencies",
            Self::NodeCore => "node_core",
            Self::V8 => "v8_runtime",
            Self::Compilation => "jit_compilation",
            Self::Gc => "gc",
            Self::RegExp => "regexp",
            Self::Wasm => "wasm",
            Self::Addons => "addons",
            Self::Libraries => "libraries",
            Self::Libc => "libc",
            Self::OtherNative => "other_native",
            Self::Kernel => "kernel",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }

    /// The words shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Eval => "eval'd code",
            Self::Dependencies => "dependencies",
            Self::NodeCore => "node core",
            Self::V8 => "V8 runtime",
            Self::Compilation => "JIT compilation",
            Self::Gc => "GC",
            Self::RegExp => "regexp",
            Self::Wasm => "wasm",
            Self::Addons => "addons",
            Self::Libraries => "libraries",
            Self::Libc => "libc",
            Self::OtherNative => "other native",
            Self::Kernel => "kernel",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }

    /// The category whose colour it has.
    pub fn category(self) -> Category {
        match self {
            Self::App | Self::Eval => Category::App,
            Self::Dependencies => Category::Dependency,
            Self::NodeCore => Category::NodeCore,
            Self::V8 | Self::Compilation => Category::Builtin,
            Self::Gc => Category::Gc,
            Self::RegExp => Category::RegExp,
            Self::Wasm => Category::Wasm,
            Self::Addons | Self::Libraries | Self::Libc | Self::OtherNative => Category::Native,
            Self::Kernel => Category::Kernel,
            Self::Idle => Category::Idle,
            Self::Unknown => Category::Unknown,
        }
    }
}

/// How much of the profile a subsystem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemWeights {
    /// Which one.
    pub subsystem: Subsystem,
    /// The weight of samples in it.
    pub weight: u64,
    /// Its packages, modules or libraries, heaviest first; none where it has no parts.
    pub members: Vec<(String, u64)>,
}

/// What the samples that `keep` accepts were in, in the order of [`Subsystem::ALL`]; those without
/// weight are left out. Every sample counts once: as garbage collection or compilation when any
/// frame is, else by its leaf.
pub fn subsystem_weights(
    profile: &Profile,
    keep: impl Fn(&Sample) -> bool,
) -> Vec<SubsystemWeights> {
    let division = Division::of(profile);
    let mut weights: FastMap<(Subsystem, &str), u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        let weight = weights.entry(division.of_sample(sample)).or_default();
        *weight = weight.saturating_add(sample.weight);
    }
    let of_one = |subsystem: Subsystem| {
        let parts = weights.iter().filter(|((each, _), _)| *each == subsystem);
        let mut members: Vec<(String, u64)> = parts
            .map(|((_, member), weight)| ((*member).to_owned(), *weight))
            .collect();
        members.small_sort_by(|one, other| {
            (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0))
        });
        let weight = members
            .iter()
            .fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight));
        members.retain(|(name, _)| !name.is_empty());
        SubsystemWeights {
            subsystem,
            weight,
            members,
        }
    };
    let all = Subsystem::ALL.into_iter().map(of_one);
    all.filter(|entry| entry.weight > 0).collect()
}

/// Which subsystem every stack of a profile is in.
pub struct Division<'a> {
    profile: &'a Profile,
    of_function: Vec<(Subsystem, &'a str)>,
    /// The collector or a compiler that a stack is in.
    inside: Vec<Option<Subsystem>>,
}

impl<'a> Division<'a> {
    /// Divides a profile.
    pub fn of(profile: &'a Profile) -> Self {
        profile.assert_one_event();
        Self::of_stacks(profile)
    }

    /// The same of a profile whose samples are not counted, of however many events.
    pub(crate) fn of_stacks(profile: &'a Profile) -> Self {
        let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
        let of_function: Vec<(Subsystem, &str)> = functions
            .map(|function| subsystem_of(profile, function))
            .collect();
        // Parents come first, so one pass is enough.
        let mut inside: Vec<Option<Subsystem>> = Vec::with_capacity(profile.stacks.len());
        for stack in &profile.stacks {
            let (own, _) = of_function[profile.frame(stack.frame).function.at()];
            let below = stack.parent.and_then(|parent| inside[parent.at()]);
            let is_inside = matches!(own, Subsystem::Gc | Subsystem::Compilation);
            // A compiler that allocates may collect garbage, but no collector compiles.
            inside.push(match below {
                Some(Subsystem::Gc) => below,
                below => is_inside.then_some(own).or(below),
            });
        }
        Self {
            profile,
            of_function,
            inside,
        }
    }

    /// What a sample was in: the subsystem, and the package, module or library of it.
    pub fn of_sample(&self, sample: &Sample) -> (Subsystem, &'a str) {
        let Some(stack) = sample.stack else {
            return (Subsystem::Unknown, "");
        };
        self.of_stack(stack)
    }

    /// What a frame was in, by the stack that ends with it.
    pub(crate) fn of_stack(&self, stack: StackIndex) -> (Subsystem, &'a str) {
        let leaf = self.of_function[self.profile.function_of(stack).at()];
        self.inside[stack.at()].map_or(leaf, |inside| (inside, ""))
    }
}

/// The subsystem of a function, and the package, module or library it belongs to.
pub fn subsystem_of(profile: &Profile, function: FunctionIndex) -> (Subsystem, &str) {
    let file = profile.file_of(function);
    match profile.function(function).category {
        Category::App if is_evaluated(profile, function) => (Subsystem::Eval, ""),
        Category::App => (Subsystem::App, ""),
        Category::Dependency => (
            Subsystem::Dependencies,
            package_in(file).unwrap_or("node_modules"),
        ),
        Category::NodeCore => (Subsystem::NodeCore, ""),
        Category::Builtin => (Subsystem::V8, ""),
        Category::RegExp => (Subsystem::RegExp, ""),
        Category::Wasm => (Subsystem::Wasm, ""),
        Category::Gc => (Subsystem::Gc, ""),
        Category::Kernel => (Subsystem::Kernel, ""),
        Category::Idle => (Subsystem::Idle, ""),
        Category::Native | Category::Internal => of_native(profile.name_of(function), file),
        Category::Unknown => match of_module(file) {
            // Code without a name still has its module.
            Some((subsystem @ (Subsystem::Addons | Subsystem::Libraries), module)) => {
                (subsystem, module)
            }
            _ => (Subsystem::Unknown, file_name(file)),
        },
    }
}

/// Whether a function is in no file: its text was made while the program ran.
pub fn is_evaluated(profile: &Profile, function: FunctionIndex) -> bool {
    let has_no_file = matches!(profile.file_of(function), "" | UNNAMED_SCRIPT);
    // Formats without lines have no files either, which says nothing.
    has_no_file && profile.function(function).line > 0
}

/// What `vm` calls a script without a name.
const UNNAMED_SCRIPT: &str = "evalmachine.<anonymous>";

/// Parts of the names of V8's parser and compilers (seen in node 16 to 26).
const COMPILERS: [&str; 14] = [
    "v8::internal::compiler::",
    "v8::internal::maglev::",
    "v8::internal::baseline::",
    "v8::internal::interpreter::Bytecode",
    "v8::internal::interpreter::InterpreterCompilationJob",
    "v8::internal::Compiler::",
    "v8::internal::OptimizingCompileDispatcher",
    "v8::internal::OptimizedCompilationJob",
    "v8::internal::Parser",
    "v8::internal::PreParser",
    "v8::internal::parsing::",
    "v8::internal::BackgroundCompileTask",
    "v8::internal::wasm::LiftoffCompiler",
    "v8::internal::wasm::ExecuteCompilationUnits",
];

/// The subsystem of native code, by the function's name and the module it is in.
fn of_native<'a>(name: &str, module: &'a str) -> (Subsystem, &'a str) {
    let is_v8 = name.starts_with("v8::")
        || name.starts_with("Builtins_")
        || name.contains("v8::internal::")
        || name.contains("cppgc::internal::");
    if is_v8 {
        let is_compiler = COMPILERS.iter().any(|part| name.contains(part));
        let subsystem = match is_compiler {
            true => Subsystem::Compilation,
            false => Subsystem::V8,
        };
        return (subsystem, "");
    }
    match of_module(module) {
        Some((Subsystem::NodeCore, _)) => of_node(name),
        Some(known) => known,
        None if name.starts_with("node::") => (Subsystem::NodeCore, ""),
        None => (Subsystem::OtherNative, ""),
    }
}

/// How the names of libraries start that are linked into Node.
const LINKED: [(&str, &[&str]); 5] = [
    ("libuv", &["uv_", "uv__"]),
    (
        "OpenSSL",
        &[
            "AES_",
            "aesni_",
            "aes_",
            "ASN1_",
            "BIO_",
            "BN_",
            "bn_",
            "ChaCha20_",
            "CRYPTO_",
            "d2i_",
            "DH_",
            "DSA_",
            "EC_",
            "ec_",
            "ecp_",
            "EVP_",
            "evp_",
            "gcm_",
            "HMAC_",
            "i2d_",
            "KECCAK",
            "MD5_",
            "md5_",
            "OPENSSL_",
            "ossl_",
            "PEM_",
            "PKCS",
            "poly1305_",
            "RAND_",
            "rsaz_",
            "RSA_",
            "SHA1_",
            "sha1_",
            "SHA256_",
            "sha256_",
            "SHA3_",
            "SHA512_",
            "sha512_",
            "SSL_",
            "ssl_",
            "ssl3_",
            "tls1_",
            "tls13_",
            "tls_",
            "X509_",
            "x25519_",
        ],
    ),
    (
        "zlib",
        &[
            "Cr_z_",
            "inflate",
            "deflate",
            "crc32",
            "adler32",
            "longest_match",
            "fill_window",
            "compress_block",
            "copy_with_crc",
        ],
    ),
    ("brotli", &["Brotli", "BrotliDecoder", "BrotliEncoder"]),
    ("zstd", &["ZSTD_", "HUF_", "FSE_", "HIST_"]),
];

/// The subsystem of native code in the node binary.
fn of_node<'a>(name: &str) -> (Subsystem, &'a str) {
    let linked = LINKED
        .iter()
        .find(|(_, starts)| starts.iter().any(|start| name.starts_with(start)));
    linked.map_or((Subsystem::NodeCore, ""), |(library, _)| {
        (Subsystem::Libraries, library)
    })
}

/// How the files of the system's C and C++ libraries start.
const LIBC: [&str; 9] = [
    "libc.",
    "libc-",
    "libm.",
    "libm-",
    "libpthread",
    "libstdc++",
    "libgcc_s",
    "ld-",
    "[vdso]",
];
/// How the files of libraries start that Node can be built to share.
const SHARED: [(&str, &str); 9] = [
    ("libuv.", "libuv"),
    ("libssl.", "OpenSSL"),
    ("libcrypto.", "OpenSSL"),
    ("libz.", "zlib"),
    ("libbrotli", "brotli"),
    ("libzstd.", "zstd"),
    ("libcares.", "c-ares"),
    ("libnghttp2.", "nghttp2"),
    ("libicu", "ICU"),
];

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// What a module is for; none when that is not known.
fn of_module(module: &str) -> Option<(Subsystem, &str)> {
    let file = file_name(module);
    let is_any = |starts: &[&str]| starts.iter().any(|start| file.starts_with(start));
    if file.is_empty() {
        None
    } else if matches!(file, "node" | "nodejs") || file.starts_with("libnode.so") {
        Some((Subsystem::NodeCore, ""))
    } else if is_any(&LIBC) || file.starts_with("[vdso") {
        Some((Subsystem::Libc, ""))
    } else if let Some((_, name)) = SHARED.iter().find(|(start, _)| file.starts_with(start)) {
        Some((Subsystem::Libraries, name))
    } else if file.ends_with(".node") || file.ends_with(".so") || file.contains(".so.") {
        Some((Subsystem::Addons, file))
    } else {
        Some((Subsystem::OtherNative, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    /// Each subsystem with its weight and members, in words.
    fn divided(lines: &str) -> Vec<String> {
        let profile = profile_of(lines);
        let weights = subsystem_weights(&profile, |_| true);
        let words = weights.iter().map(|entry| {
            let members: Vec<String> = entry
                .members
                .iter()
                .map(|(name, weight)| format!(" {name}={weight}"))
                .collect();
            let label = entry.subsystem.label();
            format!("{label} {}{}", entry.weight, members.concat())
        });
        words.collect()
    }

    #[test]
    fn every_sample_is_in_one_subsystem() {
        let node = "@/usr/bin/node";
        let lines = [
            "a 1".to_owned(),
            "a;d:f@/x/node_modules/qs/a.js 2".to_owned(),
            "a;d:f@/x/node_modules/ms/a.js 3".to_owned(),
            format!("c:listOnTimeout 1\na;n:node::fs::Read(int){node} 2"),
            format!("a;b:LoadIC 4\na;n:v8::internal::Runtime_Get(){node} 1"),
            format!("n:uv_run{node} 5\nn:sha256_block_data_order{node} 6"),
            "n:EVP_DigestUpdate@/usr/lib/libcrypto.so.3 1".to_owned(),
            "n:memcpy@/lib/x86_64-linux-gnu/libc.so.6 7".to_owned(),
            "a;n:sqlite3_step@/x/better_sqlite3.node 8".to_owned(),
            "a;u:[libvips+0x10]@/x/libvips-cpp.so.42 9".to_owned(),
            "u:[node+0x10]@/usr/bin/node 2\n 1".to_owned(),
            "k:read 3\nn:main.main@/x/bin/esbuild 4".to_owned(),
        ];
        assert_eq!(
            divided(&lines.join("\n")),
            [
                "app 1",
                "dependencies 5 ms=3 qs=2",
                "node core 3",
                "V8 runtime 5",
                "addons 17 libvips-cpp.so.42=9 better_sqlite3.node=8",
                "libraries 12 OpenSSL=7 libuv=5",
                "libc 7",
                "other native 4 esbuild=4",
                "kernel 3",
                "unknown 3 node=2",
            ]
        );
    }

    #[test]
    fn code_of_no_file_is_not_the_applications() {
        let mut profile =
            profile_of("a@/app/a.js;made 2\na@/app/a.js;vm@evalmachine.<anonymous> 3");
        let labels = |profile: &Profile| -> Vec<&str> {
            let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
            let subsystems = functions.map(|function| subsystem_of(profile, function).0);
            subsystems.map(Subsystem::label).collect()
        };
        assert_eq!(labels(&profile), ["app"; 3]);
        for function in &mut profile.functions {
            function.line = 1;
        }
        assert_eq!(labels(&profile), ["app", "eval'd code", "eval'd code"]);
    }

    #[test]
    fn collectors_and_compilers_own_what_they_call() {
        let compiler = "n:v8::internal::compiler::PipelineImpl::Run()@/usr/bin/node";
        let lines = format!(
            "a;gc:Scavenge;n:memcpy@/lib/libc.so.6 3\na;{compiler};k:page_fault 4\n\
             {compiler};gc:Scavenge 2\na;n:v8::internal::Compiler::Compile(int) 1"
        );
        assert_eq!(divided(&lines), ["JIT compilation 5", "GC 5"]);
    }
}
