//! Argument sets whose columns are drawn: as many as a case says, of the types that it says.

use bytemuck::{CheckedBitPattern, Pod, Zeroable};
use marshal::{Alignment, ColumnSpec, Content, DeviceArgs, DevicePointer, Element, Error, Visitor};

/// Something to do with an element type that is known when the case is.
pub(crate) trait OnType {
    type Output;

    fn on<T: Element + CheckedBitPattern>(self) -> Self::Output;
}

macro_rules! kinds {
    ($($kind:ident: $element:ty, $size_bytes:literal, $alignment:literal;)*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind),*
        }

        impl Kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),*];

            /// Written out, as CUDA's compilers have it.
            pub(crate) fn size_bytes(self) -> usize {
                match self { $(Self::$kind => $size_bytes),* }
            }

            /// Written out, as CUDA's compilers have it.
            pub(crate) fn alignment(self) -> u64 {
                match self { $(Self::$kind => $alignment),* }
            }

            pub(crate) fn on<F: OnType>(self, f: F) -> F::Output {
                match self { $(Self::$kind => f.on::<$element>()),* }
            }
        }
    };
}

kinds! {
    U8: u8, 1, 1;
    U16: u16, 2, 2;
    Rgb: [u8; 3], 3, 1;
    F32: f32, 4, 4;
    ThreeHalves: [u16; 3], 6, 2;
    U64: u64, 8, 8;
    Pointer: DevicePointer<f32>, 8, 8;
    Nullable: Option<DevicePointer<u16>>, 8, 8;
    Coord: [i32; 3], 12, 4;
    U128: u128, 16, 16;
    Bytes17: [u8; 17], 17, 1;
    ThreeWords: [u64; 3], 24, 8;
    Bytes31: [u8; 31], 31, 1;
    Aligned32: Aligned32, 32, 32;
    ElevenInts: [i32; 11], 44, 4;
    TwoU128: [u128; 3], 48, 16;
    Bytes61: [u8; 61], 61, 1;
    Aligned64: Aligned64, 64, 64;
}

/// More alignment than a column has by default.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(32))]
pub(crate) struct Aligned32([u64; 4]);

/// As large as a cache line, and aligned to one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Aligned64([u32; 16]);

/// A column, and the bytes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) kind: Kind,
    pub(crate) len: usize,
    /// What is asked for; the element's own holds where it is larger.
    pub(crate) alignment: u64,
    /// Says all bytes but the last.
    pub(crate) seed: u8,
    /// Says the last byte.
    pub(crate) last: u8,
    /// What is not copied has no bytes to say.
    pub(crate) content: Content,
}

impl Column {
    const LENS: [usize; 16] = [0, 1, 0, 2, 3, 0, 4, 5, 7, 8, 0, 13, 16, 33, 64, 130];
    const ALIGNMENTS: [u64; 16] = [16, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 1, 16];

    pub(crate) fn read([kind, len, alignment, seed]: [u8; 4]) -> Self {
        let pick = |byte: u8| usize::from(byte % 16);
        Self {
            kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()],
            len: Self::LENS[pick(len)],
            alignment: Self::ALIGNMENTS[pick(alignment)],
            seed,
            last: seed,
            content: Content::Copied,
        }
    }

    /// As [`read`](Self::read), but now and then a column of scratch.
    pub(crate) fn read_any(bytes: [u8; 4]) -> Self {
        let content = match bytes[2] / 16 {
            12 | 13 => Content::Zeroed,
            14 | 15 => Content::Uninit,
            _ => Content::Copied,
        };
        Self { content, ..Self::read(bytes) }
    }

    /// Never 0: no byte is taken for padding, and every pointer is one.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.len * self.kind.size_bytes())
            .map(|i| u8::try_from(1 + (usize::from(self.seed) * 31 + i * 7 + i / 255) % 255).unwrap())
            .collect();
        if let Some(last) = bytes.last_mut() {
            *last = 1 + self.last % 255;
        }
        bytes
    }

    /// The element's own, or what is asked for.
    pub(crate) fn alignment(&self) -> u64 {
        self.alignment.max(self.kind.alignment())
    }
}

/// The most columns of a set.
pub(crate) const MOST: usize = 12;

pub(crate) const NAMES: [&str; MOST] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(pub(crate) Vec<Column>);

/// Address and length of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) address: u64,
    pub(crate) len: usize,
}

pub(crate) type Pointers = [Option<Bound>; MOST];

impl DeviceArgs for Columns {
    type Pointers = Pointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Pointers, Error> {
        let mut pointers = [None; MOST];
        for ((column, name), pointer) in self.0.iter().zip(NAMES).zip(&mut pointers) {
            let spec = ColumnSpec::new(name).with_alignment(Alignment::try_from(column.alignment)?);
            *pointer = Some(column.kind.on(Visit { spec, column, visitor })?);
        }
        Ok(pointers)
    }
}

struct Visit<'v, V> {
    spec: ColumnSpec,
    column: &'v Column,
    visitor: &'v mut V,
}

impl<V: Visitor> OnType for Visit<'_, V> {
    type Output = Result<Bound, Error>;

    fn on<T: Element + CheckedBitPattern>(self) -> Result<Bound, Error> {
        let column = match self.column.content {
            Content::Copied => {
                let bytes = self.column.bytes();
                let elements: Vec<T> =
                    bytes.chunks_exact(size_of::<T>()).map(bytemuck::checked::pod_read_unaligned).collect();
                self.visitor.column(self.spec, &elements)?
            }
            scratch => self.visitor.scratch::<T>(self.spec, scratch, self.column.len)?,
        };
        Ok(Bound { address: column.pointer().address(), len: column.len() })
    }
}
