//! Images: which formats there are, and what the library says for those that a module names.

use std::fmt::Write as _;

use proc_macro2::{TokenStream, TokenTree};

use crate::ty::{F32, I32, Ty, U32};

/// What a channel is in memory, what kernels have for it, and the functions between both.
struct Channel {
    /// What formats with it are called behind their channels.
    suffix: &'static str,
    stored: &'static str,
    seen: Seen,
    decode: &'static str,
    encode: Encode,
}

/// How a number that kernels have becomes a channel.
#[derive(Clone, Copy)]
enum Encode {
    By(&'static str),
    /// Held between two numbers first.
    Held(&'static str, &'static str),
    Same,
}

/// The numbers that kernels have for texels' channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Float,
    Unsigned,
    Signed,
}

impl Seen {
    pub(crate) fn ty(self) -> Ty {
        match self {
            Seen::Float => F32,
            Seen::Unsigned => U32,
            Seen::Signed => I32,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Seen::Float => "f32",
            Seen::Unsigned => "u32",
            Seen::Signed => "i32",
        }
    }
}

const fn by(
    suffix: &'static str,
    stored: &'static str,
    decode: &'static str,
    encode: &'static str,
) -> Channel {
    Channel { suffix, stored, seen: Seen::Float, decode, encode: Encode::By(encode) }
}

const fn whole(suffix: &'static str, stored: &'static str, seen: Seen, encode: Encode) -> Channel {
    Channel { suffix, stored, seen, decode: "", encode }
}

const PLAIN: Channel = by("8Unorm", "u8", "unorm8", "to_unorm8");

const CHANNELS: &[Channel] = &[
    PLAIN,
    by("8UnormSrgb", "u8", "srgb8", "to_srgb8"),
    by("8Snorm", "i8", "snorm8", "to_snorm8"),
    by("16Unorm", "u16", "unorm16", "to_unorm16"),
    by("16Snorm", "i16", "snorm16", "to_snorm16"),
    by("16Float", "u16", "half", "to_half"),
    whole("8Uint", "u8", Seen::Unsigned, Encode::Held("0", "255")),
    whole("8Sint", "i8", Seen::Signed, Encode::Held("-128", "127")),
    whole("16Uint", "u16", Seen::Unsigned, Encode::Held("0", "65535")),
    whole("16Sint", "i16", Seen::Signed, Encode::Held("-32768", "32767")),
    whole("32Uint", "u32", Seen::Unsigned, Encode::Same),
    whole("32Sint", "i32", Seen::Signed, Encode::Same),
    whole("32Float", "f32", Seen::Float, Encode::Same),
];

/// In which order memory has the four numbers that kernels see.
const ORDERS: [(&str, &[usize]); 4] =
    [("Rgba", &[0, 1, 2, 3]), ("Rg", &[0, 1]), ("R", &[0]), ("Bgra", &[2, 1, 0, 3])];

/// The channels of the format of this name.
fn format(name: &str) -> Option<(&'static Channel, &'static [usize])> {
    ORDERS.iter().find_map(|(prefix, order)| {
        let suffix = name.strip_prefix(prefix)?;
        let channel = CHANNELS.iter().find(|channel| channel.suffix == suffix)?;
        let has = match (suffix, *prefix) {
            ("8Unorm", _) => true,
            ("8UnormSrgb", _) => order.len() == 4,
            (_, prefix) => prefix != "Bgra",
        };
        has.then_some((channel, *order))
    })
}

/// What kernels see of the texels of this name, if it is one of a format.
pub(crate) fn seen(name: &str) -> Option<Seen> {
    format(name).map(|(channel, _)| channel.seen)
}

/// What the library has to say for images, where a module has some.
pub(crate) fn text(module: &TokenStream) -> String {
    let mut names = Vec::new();
    named(module.clone(), &mut names);
    if names.is_empty() {
        return String::new();
    }
    let mut text = include_str!("images.rs").to_owned();
    for seen in [Seen::Float, Seen::Unsigned, Seen::Signed] {
        loads_and_stores(seen, &mut text);
    }
    names.iter().for_each(|name| texel(name, &mut text));
    text
}

/// The names of images, samplers and texels in a module.
fn named(tokens: TokenStream, names: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => named(group.stream(), names),
            TokenTree::Ident(name) => {
                let name = name.to_string();
                let is_one = matches!(&*name, "Image" | "Sampler") || format(&name).is_some();
                if is_one && !names.contains(&name) {
                    names.push(name);
                }
            }
            _ => {}
        }
    }
}

/// The functions that read and write a texel, for images of one to three dimensions.
fn loads_and_stores(seen: Seen, text: &mut String) {
    let seen = seen.name();
    for (dims, at, indices) in
        [(1, "u32", "[at]"), (2, "Vec2<u32>", "[at.y][at.x]"), (3, "Vec3<u32>", "[at.z][at.y][at.x]")]
    {
        let _ = write!(
            text,
            "fn load_{seen}_{dims}<T>(image: &Image<T, {dims}>, at: {at}) -> Vec4<{seen}> {{ image{indices}.decode() }}
             fn store_{seen}_{dims}<T>(image: &mut Image<T, {dims}>, at: {at}, value: Vec4<{seen}>) {{
                 image{indices} = T::encode(value);
             }}"
        );
    }
}

/// The struct of a format, with what it is to kernels.
fn texel(name: &str, text: &mut String) {
    let Some((channel, order)) = format(name) else { return };
    let Channel { stored, seen, .. } = channel;
    // Of light alone the steps are uneven.
    let of = |at: usize| if at == 3 && channel.suffix == "8UnormSrgb" { &PLAIN } else { channel };
    let (seen, n) = (seen.name(), order.len());
    let one = if seen == "f32" { "1.0" } else { "1" };
    let zero = if seen == "f32" { "0.0" } else { "0" };
    let read = (0..4).map(|at| match order.iter().position(|of| *of == at) {
        Some(channel) => match of(at).decode {
            "" => format!("self.channels[{channel}] as {seen}"),
            decode => format!("{decode}(self.channels[{channel}])"),
        },
        None if at == 3 => one.to_owned(),
        None => zero.to_owned(),
    });
    let read = read.collect::<Vec<_>>().join(", ");
    let written = order.iter().map(|at| {
        let value = format!("value.{}", ["x", "y", "z", "w"][*at]);
        match of(*at).encode {
            Encode::By(function) => format!("{function}({value})"),
            Encode::Held(least, most) => format!("{value}.clamp({least}, {most}) as {stored}"),
            Encode::Same => value,
        }
    });
    let written = written.collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "#[derive(Clone, Copy)]
         pub struct {name} {{ channels: [{stored}; {n}] }}
         impl {name} {{
             fn decode(self) -> Vec4<{seen}> {{ Vec4::new({read}) }}
             fn encode(value: Vec4<{seen}>) -> {name} {{ {name} {{ channels: [{written}] }} }}
         }}"
    );
}
