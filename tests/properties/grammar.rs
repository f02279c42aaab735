//! Source text out of any bytes: for the derive, which takes what a programmer may write.

/// A word of a struct, or of what is none.
const TOKENS: [&str; 96] = [
    "struct",
    "A",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ":",
    ";",
    "=",
    "#",
    "!",
    "::",
    "&",
    "'a",
    "T",
    "N",
    "u8",
    "Vec",
    "Vec<u8>",
    "pub",
    "pub(crate)",
    "const",
    "usize",
    "where",
    "+",
    "?",
    "dyn",
    "impl",
    "fn",
    "->",
    "*",
    "mut",
    "r#type",
    "Self",
    "self",
    "crate",
    "super",
    "_",
    "..",
    "...",
    "..=",
    "|",
    "@",
    "$",
    "%",
    "-",
    "1",
    "0",
    "16",
    "64",
    "3",
    "1_6u64",
    "0x40",
    "1.5",
    "\"a\"",
    "'c'",
    "b\"x\"",
    "device",
    "#[device(",
    ")]",
    "align",
    "align = 64",
    "align = 16",
    "row",
    "scalar",
    "skip",
    "crate = a::b",
    "enum",
    "union",
    "type",
    "for<'b>",
    "'static",
    "PhantomData<T>",
    "[u8; N]",
    "&'a [T]",
    "Option<T>",
    "Box<[T]>",
    "String",
    "a",
    "b",
    "x",
    "macro_rules",
    "unsafe",
    "async",
    "extern \"C\"",
    "/// words\n",
    "#[cfg(x)]",
    "#[doc = \"x\"]",
    "m!{}",
    "{ 1 + 2 }",
    "~",
];

/// Any tokens.
pub(crate) fn tokens(data: &[u8]) -> String {
    data.iter().map(|&byte| TOKENS[usize::from(byte) % TOKENS.len()]).collect::<Vec<_>>().join(" ")
}

const ATTRIBUTES: [&str; 16] = [
    "",
    "",
    "",
    "",
    "#[device(align = 64)]",
    "#[device(scalar)]",
    "#[device(skip)]",
    "#[device(row)]",
    "#[device(align = 24)]",
    "#[device(align = 8, scalar)]",
    "#[device(skip, scalar)]",
    "#[device(scaler)]",
    "#[device(align)]",
    "/// A line.\n",
    "#[device()] #[device(align = 4096)]",
    "#[device(crate = a::b)]",
];

const TYPES: [&str; 32] = [
    "Vec<u8>",
    "&'a [T]",
    "[u64; N]",
    "Box<[f32]>",
    "Arc<[T]>",
    "Cow<'a, [u16]>",
    "u32",
    "f64",
    "PhantomData<&'a T>",
    "DevicePointer<T>",
    "Option<DevicePointer<f32>>",
    "Vec<<T as Proto>::Word>",
    "[u8; <Self as Width>::WORDS]",
    "Self",
    "!",
    "_",
    "()",
    "(T, &'a mut T)",
    "fn(&'a u8) -> Self",
    "for<'b> fn(&'b u8)",
    "dyn A + 'a",
    "impl A",
    "*const T",
    "a!['a, T]",
    "::a::B<'a, C = T>",
    "r#type::r#A<{ N }>",
    "[T; { 1 + Self::N }]",
    "&'static [T]",
    "Vec<Vec<T>>",
    "[[T; N]; 4]",
    "str",
    "&'a C",
];

const GENERICS: [(&str, &str); 10] = [
    ("", ""),
    ("<'a>", ""),
    ("<T>", ""),
    ("<'a, T: Pod, const N: usize>", ""),
    ("<'a, T: Pod + PartialEq<&'a str> = f32, const N: usize = 4>", "where T: Into<f64> + 'a, <T as Proto>::Word: Pod"),
    ("<const N: usize>", "where [u8; N]: Sized"),
    ("<'a: 'a, T: ?Sized>", "where for<'b> &'b T: Copy"),
    ("<>", "where"),
    ("<#[cfg(x)] T, C: Column>", "where Self: Sized"),
    ("<T = Self, U = T>", ""),
];

const NAMES: [&str; 8] = ["x", "y", "r#type", "_z", "pointer", "self_", "__visitor", "x"];

/// A struct, with all that may be right or wrong in it.
pub(crate) fn structure(data: &[u8]) -> String {
    let mut bytes = data.iter().map(|&byte| usize::from(byte));
    let mut next = || bytes.next();
    let mut pick = |from: usize| next().map_or(0, |byte| byte % from);
    let attributes = [ATTRIBUTES[pick(16)], ATTRIBUTES[pick(16)]].join(" ");
    let visibility = ["", "pub", "pub(crate)", "pub(in a::b)"][pick(4)];
    let (generics, bounds) = GENERICS[pick(GENERICS.len())];
    let form = pick(8);
    let keyword = ["struct", "struct", "struct", "struct", "struct", "struct", "enum", "union"][form];
    let is_tuple = form == 4;
    let fields: Vec<String> = (0..pick(12))
        .map(|_| {
            let attribute = ATTRIBUTES[pick(16)];
            let visibility = ["", "pub", "pub(crate)"][pick(3)];
            let name = if is_tuple { String::new() } else { format!("{}:", NAMES[pick(8)]) };
            format!("{attribute} {visibility} {name} {}", TYPES[pick(32)])
        })
        .collect();
    let fields = fields.join(", ");
    match form {
        4 => format!("{attributes} {visibility} {keyword} A {generics} ({fields}) {bounds};"),
        5 => format!("{attributes} {visibility} {keyword} A {generics} {bounds};"),
        6 => format!("{attributes} {visibility} {keyword} A {generics} {bounds} {{ B {{ {fields} }}, C }}"),
        _ => format!("{attributes} {visibility} {keyword} A {generics} {bounds} {{ {fields} }}"),
    }
}

/// The first byte says whether the rest is a struct, any tokens, or the text itself.
pub(crate) fn text(data: &[u8]) -> String {
    match data.split_first() {
        Some((0..=127, rest)) => structure(rest),
        Some((128..=223, rest)) => tokens(rest),
        Some((_, rest)) => String::from_utf8_lossy(rest).into_owned(),
        None => String::new(),
    }
}
