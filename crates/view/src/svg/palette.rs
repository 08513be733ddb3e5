//! Which colour a box gets: by its name, by its kind of code, or by how much it grew.

use std::fmt;
use std::str::FromStr;

use nodespy_model::Category;

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl fmt::Display for Rgb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rgb({},{},{})", self.0, self.1, self.2)
    }
}

impl FromStr for Rgb {
    type Err = String;

    /// `#rrggbb` or `rgb(r,g,b)`.
    fn from_str(text: &str) -> Result<Self, String> {
        let from_hex = || {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
            Some(Self(
                (number >> 16) as u8,
                (number >> 8) as u8,
                number as u8,
            ))
        };
        let from_parts = || {
            let parts = text.strip_prefix("rgb(")?.strip_suffix(')')?;
            let mut parts = parts.split(',').map(|part| part.trim().parse::<u8>().ok());
            let color = Self(parts.next()??, parts.next()??, parts.next()??);
            parts.next().is_none().then_some(color)
        };
        from_hex()
            .or_else(from_parts)
            .ok_or_else(|| format!("{text:?} is no colour; write #rrggbb"))
    }
}

/// A family of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hue {
    Hot,
    Mem,
    Io,
    Red,
    Green,
    Blue,
    Aqua,
    Yellow,
    Purple,
    Orange,
    Grey,
}

impl Hue {
    /// Its shades: the darkest of each part, and by how much three numbers from 0 to 1 lighten it.
    fn shade(self, [one, two, three]: [f32; 3]) -> Rgb {
        let parts = match self {
            Self::Hot => [(205, 50.0 * three), (0, 230.0 * one), (0, 55.0 * two)],
            Self::Mem => [(0, 0.0), (190, 50.0 * two), (0, 210.0 * one)],
            Self::Io => [(80, 60.0 * one), (80, 60.0 * one), (190, 55.0 * two)],
            Self::Red => [(200, 55.0 * one), (50, 80.0 * one), (50, 80.0 * one)],
            Self::Green => [(50, 60.0 * one), (200, 55.0 * one), (50, 60.0 * one)],
            Self::Blue => [(80, 60.0 * one), (80, 60.0 * one), (205, 50.0 * one)],
            Self::Aqua => [(50, 60.0 * one), (165, 55.0 * one), (165, 55.0 * one)],
            Self::Yellow => [(175, 55.0 * one), (175, 55.0 * one), (50, 20.0 * one)],
            Self::Purple => [(190, 65.0 * one), (80, 60.0 * one), (190, 65.0 * one)],
            Self::Orange => [(190, 65.0 * one), (90, 65.0 * one), (0, 0.0)],
            Self::Grey => [(190, 30.0 * one), (190, 30.0 * one), (190, 30.0 * one)],
        };
        let [red, green, blue] = parts.map(|(base, more)| base + more as u8);
        Rgb(red, green, blue)
    }
}

macro_rules! palettes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// How names are coloured. All but the last are FlameGraph's and inferno's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum Palette {
            $($(#[$doc])* $variant,)*
        }

        impl Palette {
            /// Every palette, by the name people write.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($name, Self::$variant),)*];
        }
    };
}

palettes! {
    /// Red to yellow.
    #[default]
    Hot = "hot",
    /// Green, for memory.
    Mem = "mem",
    /// Blue, for input and output.
    Io = "io",
    /// Aqua, for who woke whom.
    Wakeup = "wakeup",
    /// Blue for waiting, aqua for those who end it.
    Chain = "chain",
    /// Java green, C++ yellow, the kernel orange, the rest red.
    Java = "java",
    /// JavaScript green, builtins aqua, C++ yellow, the kernel orange, the rest red.
    Js = "js",
    /// Perl green, C++ yellow, the kernel orange, the rest red.
    Perl = "perl",
    /// Packages aqua, Python's own yellow, the rest red.
    Python = "python",
    /// Rust's own orange, other Rust aqua, the rest yellow.
    Rust = "rust",
    /// Red alone.
    Red = "red",
    /// Green alone.
    Green = "green",
    /// Blue alone.
    Blue = "blue",
    /// Aqua alone.
    Aqua = "aqua",
    /// Yellow alone.
    Yellow = "yellow",
    /// Purple alone.
    Purple = "purple",
    /// Orange alone.
    Orange = "orange",
    /// By the kind of code that nodespy knows it to be, whatever the name looks like.
    Category = "category",
}

impl FromStr for Palette {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, palette)| *palette).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!(
                "there is no palette {text:?}; there are {}",
                names.join(", ")
            )
        })
    }
}

impl Palette {
    fn hue(self, name: &str, category: Option<Category>) -> Hue {
        match self {
            Self::Hot => Hue::Hot,
            Self::Mem => Hue::Mem,
            Self::Io => Hue::Io,
            Self::Red => Hue::Red,
            Self::Green => Hue::Green,
            Self::Blue => Hue::Blue,
            Self::Aqua | Self::Wakeup => Hue::Aqua,
            Self::Yellow => Hue::Yellow,
            Self::Purple => Hue::Purple,
            Self::Orange => Hue::Orange,
            Self::Chain => match name.ends_with("_[w]") {
                true => Hue::Aqua,
                false => Hue::Blue,
            },
            Self::Java => java(name),
            Self::Js => js(name),
            Self::Perl => perl(name),
            Self::Python => python(name),
            Self::Rust => rust(name),
            Self::Category => category.map_or(Hue::Grey, of_category),
        }
    }
}

fn of_category(category: Category) -> Hue {
    match category {
        Category::App => Hue::Green,
        Category::Dependency => Hue::Purple,
        Category::NodeCore | Category::Builtin | Category::Internal => Hue::Aqua,
        Category::Wasm | Category::RegExp => Hue::Blue,
        Category::Gc => Hue::Red,
        Category::Native => Hue::Yellow,
        Category::Kernel => Hue::Orange,
        Category::Idle | Category::Unknown => Hue::Grey,
    }
}

/// FlameGraph's mark at the end of a name: `k`ernel, `i`nlined, `j`it, `w`aker.
fn mark(name: &str) -> Option<u8> {
    match name.as_bytes() {
        [.., b'_', b'[', mark, b']'] => Some(*mark),
        _ => None,
    }
}

fn java(name: &str) -> Hue {
    match mark(name) {
        Some(b'k') => return Hue::Orange,
        Some(b'i') => return Hue::Aqua,
        Some(b'j') => return Hue::Green,
        _ => {}
    }
    if name.contains("::") || name.starts_with("-[") || name.starts_with("+[") {
        return Hue::Yellow;
    }
    let class = name.strip_prefix('L').unwrap_or(name);
    let is_java = class.contains('/')
        || (class.contains('.') && !class.starts_with('['))
        || class.starts_with(|first: char| first.is_ascii_uppercase());
    if is_java { Hue::Green } else { Hue::Red }
}

fn js(name: &str) -> Hue {
    match mark(name) {
        Some(b'k') => return Hue::Orange,
        Some(b'j') if name.contains('/') => return Hue::Green,
        Some(b'j') => return Hue::Aqua,
        _ => {}
    }
    if !name.is_empty() && name.trim().is_empty() {
        Hue::Green
    } else if name.contains("::") {
        Hue::Yellow
    } else if name.contains(':') {
        Hue::Aqua
    } else if name.contains("/") && name.contains("node_modules/") {
        Hue::Purple
    } else if name.find('/').is_some_and(|at| name[at..].contains(".js")) {
        Hue::Green
    } else {
        Hue::Red
    }
}

fn perl(name: &str) -> Hue {
    if mark(name) == Some(b'k') {
        Hue::Orange
    } else if name.contains("Perl") || name.contains(".pl") {
        Hue::Green
    } else if name.contains("::") {
        Hue::Yellow
    } else {
        Hue::Red
    }
}

fn python(name: &str) -> Hue {
    let mut parts = name.split(['/', '\\']);
    if parts.clone().any(|part| part == "site-packages") {
        return Hue::Aqua;
    }
    let is_version = |rest: &str| {
        rest.chars()
            .all(|each| each.is_ascii_digit() || each == '.')
    };
    let is_library = |part: &str| {
        let rest = part.strip_prefix("python");
        let rest = rest.or_else(|| part.strip_prefix("Python"));
        rest.is_some_and(is_version)
    };
    let is_own = ["<built-in", "<method", "<frozen"]
        .iter()
        .any(|start| name.starts_with(start));
    if is_own || parts.any(is_library) {
        Hue::Yellow
    } else {
        Hue::Red
    }
}

fn rust(name: &str) -> Hue {
    let name = name.split_once('`').map_or(name, |(_, after)| after);
    // Asynchronous functions of anybody are instances of this generic of core.
    let is_future = name.starts_with("<core::future::from_generator::GenFuture<T>");
    let is_own = ["core::", "std::", "alloc::"].iter().any(|start| {
        let inner = name.strip_prefix('<').unwrap_or(name);
        inner.starts_with(start)
    });
    if is_own && !is_future {
        Hue::Orange
    } else if name.contains("::") {
        Hue::Aqua
    } else {
        Hue::Yellow
    }
}

/// Where the shade of a name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shades {
    /// From the whole name: the same name has the same shade in every picture.
    #[default]
    Name,
    /// From the start of the name above all: names that start alike look alike.
    Start,
    /// From chance, different in every picture.
    Chance,
}

impl Shades {
    fn of(self, name: &str, chance: u64) -> [f32; 3] {
        let spread = |number: u64| (number >> 40) as f32 / (1u64 << 24) as f32;
        match self {
            Self::Start => {
                let forward = by_start(name.bytes());
                let backward = by_start(name.bytes().rev());
                [forward, backward, backward]
            }
            Self::Name | Self::Chance => {
                let seed = if self == Self::Chance { chance } else { 0 };
                let first = mix(name.bytes().fold(seed, |state, byte| {
                    (state ^ u64::from(byte))
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .rotate_left(29)
                }));
                let second = mix(first);
                [first, second, mix(second)].map(spread)
            }
        }
    }
}

/// Spreads a number over all bits.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (number ^ (number >> 32)).wrapping_mul(0xa076_1d64_78bd_642f)
}

/// A number from 0 to 1 in which each byte counts half as much as the one before.
fn by_start(bytes: impl Iterator<Item = u8>) -> f32 {
    let mut weight = 0.5;
    let mut number = 0.0;
    for byte in bytes.take(8) {
        number += weight * f32::from(byte.wrapping_mul(37) % 64) / 63.0;
        weight /= 2.0;
    }
    number
}

/// The colour of a name.
pub(super) fn color(
    palette: Palette,
    shades: Shades,
    name: &str,
    category: Option<Category>,
    chance: u64,
) -> Rgb {
    // Two names that tools put between stacks.
    match name {
        "--" => return Rgb(160, 160, 160),
        "-" => return Rgb(200, 200, 200),
        _ => {}
    }
    palette.hue(name, category).shade(shades.of(name, chance))
}

/// The colour of a box that grew by `growth` where the most is `most`: red for more, blue for
/// less, nearly white for neither. Text is legible on the strongest of them.
pub(super) fn growth_color(growth: i64, most: u64) -> Rgb {
    let part = (growth.unsigned_abs() as f64 / most.max(1) as f64).min(1.0);
    let faded = (210.0 - 120.0 * part) as u8;
    match growth {
        0 => Rgb(250, 250, 250),
        1.. => Rgb(255, faded, faded),
        _ => Rgb(faded, faded, 255),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_hues_people_know() {
        for (name, hue) in [
            ("do_syscall_64_[k]", Hue::Orange),
            ("LazyCompile:*a /app/b.js:1:2_[j]", Hue::Green),
            ("LoadIC_[j]", Hue::Aqua),
            ("v8::internal::Heap", Hue::Yellow),
            ("Builtin:ArrayMap", Hue::Aqua),
            ("/app/node_modules/x/y", Hue::Purple),
            ("/app/lib/x.js", Hue::Green),
            ("  ", Hue::Green),
            ("memcpy", Hue::Red),
        ] {
            assert_eq!(js(name), hue, "{name}");
        }
        assert_eq!(java("Ljava/lang/String;.length"), Hue::Green);
        assert_eq!(java("[unknown]"), Hue::Red);
        assert_eq!(rust("<alloc::vec::Vec<T> as Drop>::drop"), Hue::Orange);
        assert_eq!(rust("app::main"), Hue::Aqua);
        assert_eq!(python("run (/usr/lib/python3.11/asyncio.py)"), Hue::Yellow);
    }

    #[test]
    fn every_shade_is_a_colour() {
        for (_, palette) in Palette::ALL {
            for name in ["", "a", "é_[j]", "node::Start", "x/y.js"] {
                for shades in [Shades::Name, Shades::Start, Shades::Chance] {
                    let first = color(*palette, shades, name, None, 7);
                    assert_eq!(first, color(*palette, shades, name, None, 7));
                }
            }
        }
    }

    #[test]
    fn colours_are_read_as_people_write_them() {
        assert_eq!("#10ff08".parse(), Ok(Rgb(16, 255, 8)));
        assert_eq!("rgb(1, 2,3)".parse(), Ok(Rgb(1, 2, 3)));
        for bad in [
            "#12345",
            "#1234567",
            "#+12345",
            "red",
            "rgb(1,2)",
            "rgb(1,2,3,4)",
        ] {
            assert!(bad.parse::<Rgb>().is_err(), "{bad}");
        }
        assert!("plaid".parse::<Palette>().unwrap_err().contains("wakeup"));
    }

    #[test]
    fn growth_is_red_and_shrinking_blue() {
        assert_eq!(growth_color(10, 10), Rgb(255, 90, 90));
        assert_eq!(growth_color(-5, 10), Rgb(150, 150, 255));
        assert_eq!(growth_color(i64::MIN, 0), Rgb(90, 90, 255));
    }
}
