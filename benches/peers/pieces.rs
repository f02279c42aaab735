//! What a cached upload is made of: the checks of the driver, and what each safety would cost the careful hand.
//!
//! Back to back only, beside F and L of the same rounds.

use marshal::backend::Backend;
use marshal::cuda::Cuda;
use std::hint::black_box;

use super::args::{GroupedGemm, Touch};
use super::gpu::{Device, Gpu, Pinned};
use super::limits::{F, L};
use super::measure::{Effort, Subject, back_to_back, in_turns};
use super::record::{Row, Table};
use super::way::Side;

/// A name, and what is called with a number that is new each time.
type Piece<'p> = (&'static str, Box<dyn FnMut(u64) + 'p>);

/// The careful hand, with as many page-locked buffers as are asked for.
struct Hand<'g> {
    gpu: &'g Gpu,
    args: GroupedGemm,
    buffers: Vec<Pinned>,
    device: Device,
    bytes: usize,
}

impl<'g> Hand<'g> {
    fn new(gpu: &'g Gpu, args: &GroupedGemm, buffers: usize) -> Self {
        let bytes = args.offsets(16).1;
        let buffers = (0..buffers).map(|_| Pinned::new(bytes)).collect();
        Self { gpu, args: args.clone(), buffers, device: Device::new(bytes), bytes }
    }

    /// The buffer of call `number`.
    fn turn(&self, number: u64) -> usize {
        usize::try_from(number % self.buffers.len() as u64).expect("a few buffers")
    }

    fn upload(&mut self, number: u64) {
        self.args.touch(Touch::Early, number);
        let turn = self.turn(number);
        self.args.pack_by_hand(self.buffers[turn].write());
        self.device.copy(&self.buffers[turn], self.bytes, self.gpu);
    }

    /// Whether the bytes are those of the call before.
    fn is_unchanged(&self, number: u64) -> bool {
        let last = self.buffers[self.turn(number.wrapping_sub(1))].read();
        let (offsets, _) = self.args.offsets(16);
        let mut columns = self.args.columns().into_iter().zip(offsets);
        columns.all(|(column, at)| last[at..at + column.len()] == *column)
    }
}

pub(crate) fn run(gpu: &Gpu, groups: usize, effort: Effort) -> Table {
    let args = GroupedGemm::new(groups);
    let bytes = args.offsets(16).1;
    let floor = Hand::new(gpu, &args, 1);
    let [mut two, mut many, mut compared, mut asked, mut fenced] =
        [2, 64, 2, 2, 2].map(|buffers| Hand::new(gpu, &args, buffers));
    let fence = gpu.context.new_event(None).expect("an event");
    let event = gpu.context.new_event(None).expect("an event");
    let (image_a, image_b) = (vec![1_u8; bytes], vec![1_u8; bytes]);
    let mut target = vec![0_u8; bytes];
    let pieces: Vec<Piece<'_>> = vec![
        (F, Box::new(|_| floor.device.copy(&floor.buffers[0], bytes, gpu))),
        (L, Box::new(|number| two.upload(number))),
        ("L with 64 buffers in turn", Box::new(|number| many.upload(number))),
        (
            "L, compared with the last image first",
            Box::new(|number| {
                black_box(compared.is_unchanged(number));
                compared.upload(number);
            }),
        ),
        (
            "L, bound, and asked whether it is captured",
            Box::new(|number| {
                gpu.context.bind_to_thread().expect("it is alive");
                black_box(Cuda::is_capturing(&gpu.stream).expect("it is not"));
                asked.upload(number);
            }),
        ),
        (
            "L, an event asked and recorded each 32nd time",
            Box::new(|number| {
                fenced.upload(number);
                if number.is_multiple_of(32) {
                    black_box(fence.is_complete());
                    fence.record(&gpu.stream).expect("it is recorded");
                }
            }),
        ),
        ("the context made current", Box::new(|_| gpu.context.bind_to_thread().expect("it is alive"))),
        (
            "the question whether the stream is captured",
            Box::new(|_| {
                black_box(Cuda::is_capturing(&gpu.stream).expect("it is not"));
            }),
        ),
        ("an event recorded", Box::new(|_| event.record(&gpu.stream).expect("it is recorded"))),
        (
            "memcmp of the bytes",
            Box::new(|_| {
                black_box(black_box(&image_a[..]) == black_box(&image_b[..]));
            }),
        ),
        ("memcpy of the bytes", Box::new(|_| black_box(&mut target[..]).copy_from_slice(black_box(&image_a)))),
    ];
    let names: Vec<&str> = pieces.iter().map(|&(name, _)| name).collect();
    let mut subjects: Vec<Subject<'_>> = pieces
        .into_iter()
        .map(|(_, mut piece)| -> Subject<'_> {
            let mut number = 0;
            Box::new(move |samples| {
                samples.back_to_back.push(back_to_back(gpu, effort.calls, || {
                    number += 1;
                    piece(number);
                }));
            })
        })
        .collect();
    let timings = in_turns(&mut subjects, effort.rounds);
    drop(subjects);
    let rows = names.into_iter().zip(timings).map(|(name, timings)| Row {
        name: name.into(),
        side: Side::Limit,
        calls: String::new(),
        note: String::new(),
        timings,
        not_run: None,
    });
    Table { title: format!("{groups} groups, {bytes} bytes"), number: groups, bytes, rows: rows.collect() }
}
