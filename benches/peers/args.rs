//! The arguments that every way brings to the device: a CUTLASS grouped GEMM's nine columns, and what a hand writes to pack them.

use bytemuck::{Pod, Zeroable};
use marshal::{DeviceArgs, DevicePointer};

/// How many columns there are.
pub(crate) const COLUMNS: usize = 9;

/// A byte offset for every column, and the size of the whole.
pub(crate) type Offsets = ([usize; COLUMNS], usize);

/// A problem's sizes, as CUTLASS has them.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct GemmCoord {
    pub(crate) m: i32,
    pub(crate) n: i32,
    pub(crate) k: i32,
}

/// Column form: 76 bytes a group.
#[derive(Clone, DeviceArgs)]
pub(crate) struct GroupedGemm {
    pub(crate) problem_sizes: Vec<GemmCoord>,
    pub(crate) ptr_a: Vec<DevicePointer<u16>>,
    pub(crate) ptr_b: Vec<DevicePointer<u16>>,
    pub(crate) ptr_c: Vec<Option<DevicePointer<f32>>>,
    pub(crate) ptr_d: Vec<DevicePointer<f32>>,
    pub(crate) lda: Vec<i64>,
    pub(crate) ldb: Vec<i64>,
    pub(crate) ldc: Vec<i64>,
    pub(crate) ldd: Vec<i64>,
}

/// Row form: one group.
#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
pub(crate) struct Gemm {
    pub(crate) problem_size: GemmCoord,
    pub(crate) ptr_a: DevicePointer<u16>,
    pub(crate) ptr_b: DevicePointer<u16>,
    pub(crate) ptr_c: Option<DevicePointer<f32>>,
    pub(crate) ptr_d: DevicePointer<f32>,
    pub(crate) lda: i64,
    pub(crate) ldb: i64,
    pub(crate) ldc: i64,
    pub(crate) ldd: i64,
}

/// Which element is new in every call. A call that changes nothing could be one that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The first of `ptr_a`: a comparison finds it early.
    Early,
    /// The last of `ldd`: a comparison reads everything before.
    Last,
    /// The first of `ptr_c`, which a grouped GEMM with beta = 0 does not read: it stays right.
    Unread,
}

impl Touch {
    /// The column, counted from 0, and the row of `groups`.
    pub(crate) fn place(self, groups: usize) -> (usize, usize) {
        match self {
            Self::Early => (1, 0),
            Self::Last => (8, groups - 1),
            Self::Unread => (3, 0),
        }
    }

    /// What is written there by call `number`: an address that is never null, and aligned as matrices are.
    pub(crate) fn word(number: u64) -> u64 {
        0x6000_0000_0000 + number % (1 << 32) * 16
    }
}

impl GroupedGemm {
    pub(crate) fn new(groups: usize) -> Self {
        let rows = rows(groups);
        Self {
            problem_sizes: rows.iter().map(|row| row.problem_size).collect(),
            ptr_a: rows.iter().map(|row| row.ptr_a).collect(),
            ptr_b: rows.iter().map(|row| row.ptr_b).collect(),
            ptr_c: rows.iter().map(|row| row.ptr_c).collect(),
            ptr_d: rows.iter().map(|row| row.ptr_d).collect(),
            lda: rows.iter().map(|row| row.lda).collect(),
            ldb: rows.iter().map(|row| row.ldb).collect(),
            ldc: rows.iter().map(|row| row.ldc).collect(),
            ldd: rows.iter().map(|row| row.ldd).collect(),
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.problem_sizes.len()
    }

    pub(crate) fn row(&self, row: usize) -> Gemm {
        Gemm {
            problem_size: self.problem_sizes[row],
            ptr_a: self.ptr_a[row],
            ptr_b: self.ptr_b[row],
            ptr_c: self.ptr_c[row],
            ptr_d: self.ptr_d[row],
            lda: self.lda[row],
            ldb: self.ldb[row],
            ldc: self.ldc[row],
            ldd: self.ldd[row],
        }
    }

    pub(crate) fn to_rows(&self) -> Vec<Gemm> {
        (0..self.groups()).map(|row| self.row(row)).collect()
    }

    pub(crate) fn columns(&self) -> [&[u8]; COLUMNS] {
        [
            bytemuck::cast_slice(&self.problem_sizes),
            bytemuck::cast_slice(&self.ptr_a),
            bytemuck::cast_slice(&self.ptr_b),
            bytemuck::cast_slice(&self.ptr_c),
            bytemuck::cast_slice(&self.ptr_d),
            bytemuck::cast_slice(&self.lda),
            bytemuck::cast_slice(&self.ldb),
            bytemuck::cast_slice(&self.ldc),
            bytemuck::cast_slice(&self.ldd),
        ]
    }

    /// Makes the arguments those of call `number`.
    pub(crate) fn touch(&mut self, touch: Touch, number: u64) {
        let word = Touch::word(number);
        let (_, row) = touch.place(self.groups());
        match touch {
            Touch::Early => self.ptr_a[row] = DevicePointer::from_raw(word).expect("not null"),
            Touch::Unread => self.ptr_c[row] = DevicePointer::from_raw(word),
            Touch::Last => self.ldd[row] = i64::try_from(word).expect("below 2^63"),
        }
    }

    /// Where each column begins when each is aligned to `alignment` bytes, and the size, rounded up likewise.
    pub(crate) fn offsets(&self, alignment: usize) -> Offsets {
        let mut end = 0_usize;
        let offsets = self.columns().map(|column| {
            let offset = end.next_multiple_of(alignment);
            end = offset + column.len();
            offset
        });
        (offsets, end.next_multiple_of(alignment))
    }

    /// What a careful hand writes: the image that marshal makes, zeros in the gaps.
    #[inline]
    pub(crate) fn pack_by_hand(&self, image: &mut [u8]) {
        let mut end = 0_usize;
        for column in self.columns() {
            let offset = end.next_multiple_of(16);
            image[end..offset].fill(0);
            end = offset + column.len();
            image[offset..end].copy_from_slice(column);
        }
        image[end..].fill(0);
    }

    /// The columns at `offsets`; the gaps stay as they are.
    #[inline]
    pub(crate) fn copy_to(&self, offsets: &[usize; COLUMNS], image: &mut [u8]) {
        for (column, &offset) in self.columns().into_iter().zip(offsets) {
            image[offset..offset + column.len()].copy_from_slice(column);
        }
    }
}

/// The same groups in row form.
pub(crate) fn rows(groups: usize) -> Vec<Gemm> {
    let address = |i: usize| 0x7000_0000_0000 + (i as u64) * 4096;
    let row = |i| Gemm {
        problem_size: GemmCoord { m: i32::try_from(i % 512).expect("below 512"), n: 4096, k: 14336 },
        ptr_a: DevicePointer::from_raw(address(i)).expect("not null"),
        ptr_b: DevicePointer::from_raw(address(i + 1)).expect("not null"),
        ptr_c: DevicePointer::from_raw(address(i + 2)),
        ptr_d: DevicePointer::from_raw(address(i + 3)).expect("not null"),
        lda: 14336,
        ldb: 14336,
        ldc: 4096,
        ldd: 4096,
    };
    (0..groups).map(row).collect()
}
