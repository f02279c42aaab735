//! What a program may do with a cache, one step at a time.

use marshal::host::Call;
use marshal::{Content, WhenExhausted};

use crate::columns::{Column, Columns};

/// Which shape, and which of four fillings: they differ in the first column, in the very last byte, or in both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    pub(crate) shape: usize,
    pub(crate) fill: u8,
}

/// Sets, graphs and streams are named by any number: the model takes it modulo how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Uploads, lets a kernel look, and holds the set or drops it.
    Upload {
        args: Args,
        hold: bool,
    },
    Drop {
        set: usize,
    },
    Look {
        set: usize,
    },
    ReadBack {
        set: usize,
    },
    OneShot {
        args: Args,
        hold: bool,
    },
    Synchronize,
    Busy,
    Clear,
    /// Lends a set to another stream, uploads meanwhile, and takes it back.
    On {
        set: usize,
        stream: usize,
        meanwhile: Args,
    },
    Reserve {
        shape: usize,
        sets: usize,
    },
    Capture(Capture),
    Launch {
        graph: usize,
    },
    /// Refreshes a set with arguments of its own shape, or of any.
    Refresh {
        graph: usize,
        set: usize,
        args: Args,
        any_shape: bool,
    },
    /// Holds a set of a graph, which may then outlive it.
    Share {
        graph: usize,
        set: usize,
    },
    DropGraph {
        graph: usize,
    },
    Fail {
        call: Call,
        nth: u64,
    },
    /// Gives a batch of copies to the stream: from some sets to the host, from one to the buffer, and from the host to it.
    Batch {
        set: usize,
        sets: usize,
        byte: u8,
    },
    /// Waits for a batch, or lets it go.
    Settle {
        batch: usize,
        wait: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) sets: Vec<Args>,
    pub(crate) reserve: bool,
    /// By the stream's own calls, as others capture: no refresh then.
    pub(crate) by_hand: bool,
    /// An upload that is refused ends the capture, or is left out of it.
    pub(crate) strict: bool,
    pub(crate) meanwhile: Meanwhile,
}

/// What else is done while the stream is captured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meanwhile {
    Nothing,
    Drop(usize),
    DropGraph(usize),
    Clear,
    /// Calls that have no place in a capture, on the set and the graph of that number.
    Refused(usize),
    /// The capture is given up.
    GiveUp,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) device_bytes: Option<u64>,
    pub(crate) staging_bytes: Option<u64>,
    pub(crate) when_exhausted: WhenExhausted,
    /// Work is not begun before it is waited for, or before its fence was asked so often.
    pub(crate) polls: Option<u32>,
    /// The statistics are read after each step, which takes back what graphs have left.
    pub(crate) watched: bool,
    /// The order in which sets, graphs and cache go.
    pub(crate) ending: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) options: Options,
    pub(crate) shapes: Vec<Vec<Column>>,
    pub(crate) ops: Vec<Op>,
}

pub(crate) type Header = [u8; 6];
pub(crate) type Step = [u8; 6];

/// The most columns of a shape.
pub(crate) const WIDTH: usize = 4;

impl Case {
    pub(crate) fn read(header: Header, shapes: &[Vec<[u8; 4]>], ops: &[Step]) -> Self {
        let mut shapes: Vec<Vec<Column>> = shapes.iter().map(|columns| shape(columns)).collect();
        if shapes.is_empty() {
            shapes.push(vec![Column::read([0, 1, 0, 0])]);
        }
        let ops = ops.iter().map(|&step| Op::read(step, shapes.len())).collect();
        Self { options: Options::read(header), shapes, ops }
    }

    pub(crate) fn columns(&self, Args { shape, fill }: Args) -> Columns {
        let mut columns = self.shapes[shape].clone();
        if let Some(first) = columns.first_mut() {
            first.seed = first.seed.wrapping_add(fill >> 1);
        }
        if let Some(last) = columns.last_mut() {
            last.last = last.last.wrapping_add(fill & 1);
        }
        Columns(columns)
    }
}

impl Options {
    fn read([device, staging, when, polls, watched, ending]: Header) -> Self {
        let pick = |choices: [Option<u64>; 8], byte: u8| choices[usize::from(byte % 8)];
        let cap = [None, Some(512), Some(1500), Some(4000), Some(10_000), Some(30_000), None, Some(1024)];
        Self {
            device_bytes: pick(cap, device),
            staging_bytes: pick(cap, staging),
            when_exhausted: [WhenExhausted::Grow, WhenExhausted::Wait, WhenExhausted::Error][usize::from(when % 3)],
            polls: [None, Some(1), Some(3), Some(1000)][usize::from(polls % 4)],
            watched: watched % 2 == 0,
            ending: usize::from(ending),
        }
    }
}

impl Op {
    const CALLS: [Call; 8] = [
        Call::DeviceAlloc,
        Call::HostAlloc,
        Call::Copy,
        Call::EventCreate,
        Call::EventRecord,
        Call::EventQuery,
        Call::StreamWait,
        Call::Launch,
    ];

    fn read([code, a, b, c, d, e]: Step, shapes: usize) -> Self {
        let args = |shape: u8, fill: u8| Args { shape: usize::from(shape) % shapes, fill: fill % 4 };
        let [x, y] = [a, b].map(usize::from);
        match code % 32 {
            // A part of the uploads and drops, so that all others keep their meaning.
            5 if e % 4 == 3 => Self::Batch { set: x, sets: usize::from(c % 4), byte: d },
            7 if e % 4 == 3 => Self::Settle { batch: x, wait: c % 4 != 0 },
            0..=5 => Self::Upload { args: args(a, b), hold: c % 2 == 1 },
            6 | 7 => Self::Drop { set: x },
            8 => Self::Look { set: x },
            9 => Self::ReadBack { set: x },
            10 => Self::OneShot { args: args(a, b), hold: c % 2 == 1 },
            11 => Self::Synchronize,
            12 => Self::Busy,
            13 => Self::Clear,
            14 | 15 => Self::On { set: x, stream: y, meanwhile: args(c, d) },
            16 => Self::Reserve { shape: x % shapes, sets: y % 4 },
            17..=20 => Self::Capture(Capture {
                // Equal shapes among them, and equal bytes.
                sets: (0..=c % 3).map(|i| args(a.wrapping_add(i * (d % 2)), b.wrapping_add(i * (d / 2 % 2)))).collect(),
                reserve: d % 8 != 7,
                by_hand: d / 8 % 4 == 1,
                strict: d / 32 % 2 == 0,
                meanwhile: match e % 16 {
                    0..=7 => Meanwhile::Nothing,
                    8 | 9 => Meanwhile::Drop(usize::from(d)),
                    10 | 11 => Meanwhile::DropGraph(usize::from(d)),
                    12 => Meanwhile::Clear,
                    13 | 14 => Meanwhile::Refused(usize::from(d)),
                    _ => Meanwhile::GiveUp,
                },
            }),
            21..=23 => Self::Launch { graph: x },
            24..=27 => Self::Refresh { graph: x, set: y, args: args(c, d), any_shape: e % 8 == 7 },
            28 => Self::Share { graph: x, set: y },
            29 => Self::DropGraph { graph: x },
            30 => Self::Fail { call: Self::CALLS[x % Self::CALLS.len()], nth: 1 + u64::from(b % 4) },
            _ => Self::Upload { args: args(a, b), hold: true },
        }
    }
}

/// Columns, some of them scratch where others are copied: what is scratch alone makes no copy to count.
fn shape(columns: &[[u8; 4]]) -> Vec<Column> {
    let read = |read: fn([u8; 4]) -> Column| columns.iter().take(WIDTH).copied().map(read).collect::<Vec<_>>();
    let any = read(Column::read_any);
    if any.iter().any(|column| column.content == Content::Copied && column.len != 0) { any } else { read(Column::read) }
}
