//! Declarations in C++, written one after the other: each type once, after those that it is made of.

use core::fmt::Write;

use crate::cuda_types::{self, CudaType};
use crate::kernel_struct::{KernelStruct, Member};

/// What every header begins with.
const PRELUDE: &str = "\
#ifndef MARSHAL_DEVICE_COLUMN
#define MARSHAL_DEVICE_COLUMN
#ifdef __CUDACC__
#define MARSHAL_HOST_DEVICE __host__ __device__
#else
#define MARSHAL_HOST_DEVICE
#endif
#ifdef __CUDACC_RTC__
#define MARSHAL_OFFSETOF(type, member) __INTADDR__(&(((type*)0)->member))
#else
#define MARSHAL_OFFSETOF(type, member) __builtin_offsetof(type, member)
#endif
namespace marshal {
// A column on the device: the first element, and how many there are.
template <class T>
struct DeviceColumn {
    T* pointer;
    unsigned long long len;
    MARSHAL_HOST_DEVICE T& operator[](unsigned long long index) const { return pointer[index]; }
};
// Rows of different lengths: row i is values[offsets[i]] to values[offsets[i + 1]], and begins at rows[i].
template <class T, class O = int>
struct RaggedPointers {
    DeviceColumn<T> values;
    DeviceColumn<O> offsets;
    DeviceColumn<T*> rows;
};
// 128-bit integers, where the compiler has them (NVRTC: --device-int128).
#if defined(__SIZEOF_INT128__) || defined(__CUDACC_RTC_INT128__)
typedef __int128 int128;
typedef unsigned __int128 uint128;
#else
struct alignas(16) int128 { unsigned long long low; long long high; };
struct alignas(16) uint128 { unsigned long long low, high; };
#endif
// Four lanes of 64 bits, aligned to 16 bytes. CUDA 13 gave these names of their own and deprecated those of CUDA 12.
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ >= 13
typedef ::longlong4_16a longlong4;
typedef ::ulonglong4_16a ulonglong4;
typedef ::double4_16a double4;
#elif defined(__CUDACC__)
typedef ::longlong4 longlong4;
typedef ::ulonglong4 ulonglong4;
typedef ::double4 double4;
#else
struct alignas(16) longlong4 { long long x, y, z, w; };
struct alignas(16) ulonglong4 { unsigned long long x, y, z, w; };
struct alignas(16) double4 { double x, y, z, w; };
#endif
}
#endif
";

/// The declarations so far.
#[derive(Debug, Default)]
pub struct Declarations {
    includes: Vec<&'static str>,
    /// What is declared: the name in Rust, the name in C++.
    declared: Vec<(&'static str, String)>,
    text: String,
}

impl Declarations {
    /// The name of the struct `P`, which is declared with its members where it is not yet.
    pub(crate) fn structure<P: KernelStruct>(&mut self) -> String {
        let rust = core::any::type_name::<P>();
        if let Some(name) = self.find(rust) {
            return name;
        }
        let members: Vec<_> = P::MEMBERS.iter().map(|member| (member, member.declare(self))).collect();
        let name = self.claim(rust, &format!("{}{}", P::NAME, arguments(rust)), "");
        self.open(&name);
        let mut body = format!("// {rust}\nstruct {name} {{\n");
        for (member, ty) in &members {
            body.extend(["    ", ty, " ", &identifier(member.spec().name()), ";\n"]);
        }
        body.push_str("};\n");
        self.text.push_str(&body);
        self.close();
        // An empty struct has one byte in C++, and none in Rust.
        if size_of::<P>() != 0 {
            self.assert_layout(&name, size_of::<P>(), align_of::<P>());
            self.assert_offsets(&name, P::MEMBERS);
        }
        name
    }

    /// The name of a column of `T`, whose elements are declared; or are `c_type`, which somebody else declares.
    pub(crate) fn column<T: 'static>(&mut self, c_type: Option<&str>) -> String {
        format!("marshal::DeviceColumn<{}>", self.named_element::<T>(c_type))
    }

    /// The name of the three columns that rows of `T` become.
    pub(crate) fn ragged<T: 'static, O: 'static>(&mut self, c_type: Option<&str>) -> String {
        let (element, offset) = (self.named_element::<T>(c_type), self.element::<O>());
        format!("marshal::RaggedPointers<{element}, {offset}>")
    }

    fn named_element<T: 'static>(&mut self, c_type: Option<&str>) -> String {
        let Some(c_type) = c_type else { return self.element::<T>() };
        self.assert_once(c_type, size_of::<T>(), align_of::<T>());
        c_type.to_owned()
    }

    fn element<T: 'static>(&mut self) -> String {
        if let Some(CudaType { name, include }) = cuda_types::find::<T>() {
            if !include.is_empty() && !self.includes.contains(&include) {
                self.includes.push(include);
            }
            self.assert_once(&name, size_of::<T>(), align_of::<T>());
            return name;
        }
        self.opaque(core::any::type_name::<T>(), size_of::<T>(), align_of::<T>())
    }

    /// A struct of so many bytes, for an element that has no name in C++.
    fn opaque(&mut self, rust: &'static str, size: usize, alignment: usize) -> String {
        if let Some(name) = self.find(rust) {
            return name;
        }
        let name = self.claim(rust, &format!("{}{}", last_segment(rust), arguments(rust)), "marshal::opaque::");
        let bare = name.trim_start_matches("marshal::opaque::").to_owned();
        self.open(&name);
        // Writing to a String does not fail.
        let _ = write!(
            self.text,
            "// {rust}: no type that this header can name. Say which it is with #[device(c_type = \"..\")].\n\
             namespace marshal {{ namespace opaque {{\n\
             struct alignas({alignment}) {bare} {{ unsigned char bytes[{size}]; }};\n}} }}\n"
        );
        self.close();
        self.assert_layout(&name, size, alignment);
        name
    }

    fn find(&self, rust: &str) -> Option<String> {
        self.declared.iter().find(|(known, _)| *known == rust).map(|(_, name)| name.clone())
    }

    /// A name that nothing else has here.
    fn claim(&mut self, rust: &'static str, wanted: &str, namespace: &str) -> String {
        let wanted = format!("{namespace}{}", identifier(wanted));
        let is_taken = |name: &String| self.declared.iter().any(|(_, known)| known == name);
        let numbered = (2..).map(|number: u32| format!("{wanted}_{number}"));
        let name = core::iter::once(wanted.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(wanted);
        self.declared.push((rust, name.clone()));
        name
    }

    /// A definition that another header may hold too. What is asserted of it stands outside, so that another definition under the
    /// same name is noticed.
    fn open(&mut self, name: &str) {
        let guard = macro_name(name);
        self.text.extend(["#ifndef ", &guard, "\n#define ", &guard, "\n"]);
    }

    fn close(&mut self) {
        self.text.push_str("#endif\n");
    }

    fn assert_once(&mut self, name: &str, size: usize, alignment: usize) {
        let line = layout_assertion(name, size, alignment);
        if !self.text.contains(&line) {
            self.text.push_str(&line);
        }
    }

    fn assert_layout(&mut self, name: &str, size: usize, alignment: usize) {
        self.text.push_str(&layout_assertion(name, size, alignment));
    }

    /// Members of a `repr(C)` struct stand one after the other, each at the least multiple of its alignment.
    fn assert_offsets(&mut self, name: &str, members: &[Member]) {
        let mut end = core::alloc::Layout::new::<()>();
        for member in members {
            let Ok((with_member, offset)) = end.extend(member.layout()) else { return };
            end = with_member;
            let member = identifier(member.spec().name());
            let _ = writeln!(
                self.text,
                "static_assert(MARSHAL_OFFSETOF({name}, {member}) == {offset}, \"offset of {name}::{member}\");"
            );
        }
    }

    pub(crate) fn finish(self, name: &str) -> String {
        let guard = format!("{}_HEADER", macro_name(name));
        let includes: String = self.includes.iter().map(|include| format!("#include <{include}>\n")).collect();
        format!(
            "// The device pointers {name}, as marshal::cuda_header wrote them.\n\
             #ifndef {guard}\n#define {guard}\n{includes}{PRELUDE}{}#endif\n",
            self.text
        )
    }
}

fn layout_assertion(name: &str, size: usize, alignment: usize) -> String {
    format!(
        "static_assert(sizeof({name}) == {size} && alignof({name}) == {alignment}, \"{name} is {size} bytes, aligned to {alignment}\");\n"
    )
}

/// `GemmCoord` of `user::shapes::GemmCoord` and of `user::GemmCoord<f32>`.
fn last_segment(rust: &str) -> &str {
    let path = rust.split(['<', '[', '(', ' ']).find(|part| !part.is_empty()).unwrap_or("Element");
    path.rsplit("::").next().unwrap_or(path)
}

/// `_f32_Metre` of `Point<f32, user::Metre>`, so that each instance of a generic type has a name of its own.
fn arguments(rust: &str) -> String {
    let Some((_, arguments)) = rust.split_once('<') else { return String::new() };
    let words = arguments.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')).map(|word| {
        let last = word.rsplit("::").next().unwrap_or(word);
        if last.is_empty() { String::new() } else { format!("_{last}") }
    });
    words.collect()
}

fn macro_name(name: &str) -> String {
    format!("MARSHAL_TYPE_{}", name.replace("::", "_"))
}

/// Words of C++ that are names in Rust.
const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "constexpr",
    "default",
    "delete",
    "double",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "requires",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "throw",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "xor",
    "const",
    "enum",
    "extern",
    "struct",
    "static",
    "do",
    "if",
    "else",
    "for",
    "while",
    "return",
    "break",
    "continue",
    "true",
    "false",
    "try",
];

/// `name` as a name in C++: `_0` for a tuple's first member, `class_` for what is a word there.
fn identifier(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else if KEYWORDS.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}
