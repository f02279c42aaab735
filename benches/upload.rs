//! An upload beside what a careful hand would write, all in one run, in turns: medians and ratios, never one number alone.
//!
//! The arguments are a CUTLASS grouped GEMM's nine columns: 12-byte sizes, four pointer arrays, four leading dimensions.
//!
//! - F: one `cuMemcpyHtoDAsync` of the same bytes from page-locked memory that nobody writes: the floor of one copy.
//! - L: nine memcpys with the right padding into one of two page-locked buffers in turn, and that copy. No lock, check, fence or
//!   comparison: wrong as soon as the host runs ahead, but what a careful hand cannot beat.
//! - memcpy, memcmp: of the same bytes on the host.
//!
//! Without a GPU the host part runs alone, and says so. `cargo bench --bench upload`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use marshal::{DeviceArgs, DevicePointer};

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct GemmCoord {
    m: i32,
    n: i32,
    k: i32,
}

#[derive(Clone, DeviceArgs)]
struct GroupedGemm {
    problem_sizes: Vec<GemmCoord>,
    ptr_a: Vec<DevicePointer<u16>>,
    ptr_b: Vec<DevicePointer<u16>>,
    ptr_c: Vec<Option<DevicePointer<f32>>>,
    ptr_d: Vec<DevicePointer<f32>>,
    lda: Vec<i64>,
    ldb: Vec<i64>,
    ldc: Vec<i64>,
    ldd: Vec<i64>,
}

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
struct Gemm {
    problem_size: GemmCoord,
    ptr_a: DevicePointer<u16>,
    ptr_b: DevicePointer<u16>,
    ptr_c: Option<DevicePointer<f32>>,
    ptr_d: DevicePointer<f32>,
    lda: i64,
    ldb: i64,
    ldc: i64,
    ldd: i64,
}

impl GroupedGemm {
    fn new(groups: usize) -> Self {
        let rows = rows(groups);
        Self {
            problem_sizes: rows.iter().map(|r| r.problem_size).collect(),
            ptr_a: rows.iter().map(|r| r.ptr_a).collect(),
            ptr_b: rows.iter().map(|r| r.ptr_b).collect(),
            ptr_c: rows.iter().map(|r| r.ptr_c).collect(),
            ptr_d: rows.iter().map(|r| r.ptr_d).collect(),
            lda: rows.iter().map(|r| r.lda).collect(),
            ldb: rows.iter().map(|r| r.ldb).collect(),
            ldc: rows.iter().map(|r| r.ldc).collect(),
            ldd: rows.iter().map(|r| r.ldd).collect(),
        }
    }

    fn columns(&self) -> [&[u8]; 9] {
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

    /// What a careful hand writes.
    #[inline]
    fn pack_by_hand(&self, image: &mut [u8]) {
        let mut end = 0_usize;
        for column in self.columns() {
            let offset = end.next_multiple_of(16);
            image[end..offset].fill(0);
            end = offset + column.len();
            image[offset..end].copy_from_slice(column);
        }
        image[end..].fill(0);
    }
}

fn rows(groups: usize) -> Vec<Gemm> {
    let pointer = |i: usize| 0x7000_0000_0000 + (i as u64) * 4096;
    let row = |i| Gemm {
        problem_size: GemmCoord { m: i32::try_from(i % 512).unwrap_or(0), n: 4096, k: 14336 },
        ptr_a: DevicePointer::from_raw(pointer(i)).expect("not null"),
        ptr_b: DevicePointer::from_raw(pointer(i + 1)).expect("not null"),
        ptr_c: DevicePointer::from_raw(pointer(i + 2)),
        ptr_d: DevicePointer::from_raw(pointer(i + 3)).expect("not null"),
        lda: 14336,
        ldb: 14336,
        ldc: 4096,
        ldd: 4096,
    };
    (0..groups).map(row).collect()
}

/// One way of doing the job: called with a number that is new each time.
type Way<'a> = (&'static str, Box<dyn FnMut(u64) + 'a>);

/// Microseconds a call, over the rounds.
struct Timing {
    name: &'static str,
    /// Until the calls have returned: the median, and the range of the middle half.
    median: f64,
    low: f64,
    high: f64,
    /// Until the device is idle too: the median.
    to_idle: f64,
}

/// Times `calls` of each way, in `rounds` in which all take turns. `settle` waits for the device.
fn measure(ways: &mut [Way<'_>], rounds: usize, calls: u64, mut settle: impl FnMut()) -> Vec<Timing> {
    let mut times = vec![(Vec::with_capacity(rounds), Vec::with_capacity(rounds)); ways.len()];
    let mut number = 0;
    for round in 0..=rounds {
        for ((_, way), (returned, idle)) in ways.iter_mut().zip(&mut times) {
            settle();
            let start = Instant::now();
            for _ in 0..calls {
                number += 1;
                way(number);
            }
            let elapsed = start.elapsed();
            settle();
            // The first round warms up.
            if round != 0 {
                returned.push(elapsed.as_secs_f64() * 1e6 / calls as f64);
                idle.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
            }
        }
    }
    let timing = |((name, _), (returned, idle)): (&Way<'_>, &mut (Vec<f64>, Vec<f64>))| {
        returned.sort_by(f64::total_cmp);
        idle.sort_by(f64::total_cmp);
        let at = |times: &[f64], quarters: usize| times[times.len() * quarters / 4];
        Timing { name, median: at(returned, 2), low: at(returned, 1), high: at(returned, 3), to_idle: at(idle, 2) }
    };
    ways.iter().zip(&mut times).map(timing).collect()
}

/// A table: host time a call, beside the first way; and until the device was idle.
fn print(title: &str, results: &[Timing]) {
    println!("{title}");
    for Timing { name, median, low, high, to_idle } in results {
        let ratio = median / results[0].median;
        println!("    {name:46} {median:9.3} us  ({low:.3} to {high:.3})  {ratio:6.3} x  to idle {to_idle:9.3}");
    }
}

mod host {
    use marshal::ArgCache;
    use marshal::host::HostDevice;

    use super::{DeviceArgs, DevicePointer, GroupedGemm, Way, black_box, measure, print, rows};

    /// Packing alone, through the library's own walk: an upload of the host backend less its copy would measure the emulation.
    pub(super) fn run() {
        let base = DevicePointer::from_raw(1 << 20).expect("not null");
        for groups in [13, 128, 1024, 13_800, 210_000] {
            let args = GroupedGemm::new(groups);
            let rows = rows(groups);
            let bytes = usize::try_from(args.layout().expect("it fits").copy_bytes()).expect("it fits");
            let source = vec![1_u8; bytes];
            let stream = HostDevice::new().stream();
            let cache = ArgCache::new(&stream).expect("any stream of the host");
            drop(args.upload(&cache).expect("uploaded"));
            let (image_a, mut image_b) = (vec![1_u8; bytes], vec![1_u8; bytes]);
            let (mut by_memcpy, mut by_hand, mut columns, mut transposed) =
                (vec![0; bytes], vec![0; bytes], vec![0; bytes], vec![0; bytes]);
            let mut ways: Vec<Way<'_>> = vec![
                ("memcpy of the bytes", Box::new(|_| black_box(&mut by_memcpy).copy_from_slice(black_box(&source)))),
                ("nine memcpys by hand", Box::new(|_| args.pack_by_hand(black_box(&mut by_hand)))),
                (
                    "columns packed",
                    Box::new(|_| black_box(&args).pack_into(base, black_box(&mut columns)).map(drop).expect("it fits")),
                ),
                (
                    "rows transposed",
                    Box::new(|_| {
                        black_box(&rows).pack_into(base, black_box(&mut transposed)).map(drop).expect("it fits")
                    }),
                ),
            ];
            ways.push((
                "cached, unchanged, no driver",
                Box::new(|_| drop(black_box(&args).upload(&cache).expect("uploaded"))),
            ));
            ways.push((
                "memcmp of the bytes",
                Box::new(|_| {
                    black_box(black_box(&image_a) == black_box(&mut image_b));
                }),
            ));
            let calls = (20_000_000 / bytes as u64).clamp(2, 2000);
            let results = measure(&mut ways, 15, calls, || {});
            drop(ways);
            assert_eq!(by_hand, columns);
            assert_eq!(by_hand, transposed);
            print(&format!("{groups} groups, {bytes} bytes into ordinary memory"), &results);
        }
    }
}

#[cfg(feature = "cuda")]
mod gpu {
    use std::error::Error;
    use std::ffi::c_void;

    use cudarc::driver::{CudaContext, result};
    use marshal::backend::Backend;
    use marshal::cuda::Cuda;
    use marshal::{ArgCache, CacheOptions, DevicePointer, WhenExhausted};

    use super::{DeviceArgs, GroupedGemm, Timing, Way, black_box, measure, print, rows};

    /// The median of the first way whose name holds `part`.
    fn median(results: &[Timing], part: &str) -> f64 {
        results.iter().find(|timing| timing.name.contains(part)).map_or(f64::NAN, |timing| timing.median)
    }

    struct Pinned {
        memory: *mut c_void,
        bytes: usize,
    }

    impl Pinned {
        fn new(bytes: usize) -> Result<Self, Box<dyn Error>> {
            // SAFETY: the flags are none; the memory is freed once, by `drop`.
            let memory = unsafe { result::malloc_host(bytes, 0) }?;
            // SAFETY: the memory is that long, and nobody else has it.
            unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
            Ok(Self { memory, bytes })
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the memory is that long, initialised, and borrowed with `self`.
            unsafe { core::slice::from_raw_parts_mut(self.memory.cast(), self.bytes) }
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            // SAFETY: the memory came from `malloc_host`; the streams were synchronised.
            let _ = unsafe { result::free_host(self.memory) };
        }
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        println!("{}", Cuda::device_name(&stream));
        for groups in [8, 64, 256, 1024, 8192] {
            let mut args = GroupedGemm::new(groups);
            let mut args_last = args.clone();
            let mut rows = rows(groups);
            let (mut args_hand, unchanged, mut args_one_shot) = (args.clone(), args.clone(), args.clone());
            let bytes = usize::try_from(args.layout()?.copy_bytes())?;
            // SAFETY: the memory is written by copies only, and freed at the end of the process.
            let block = unsafe { result::malloc_sync(bytes) }?;
            // SAFETY: as above; freed at the end of the process.
            let ordered = unsafe { result::malloc_async(stream.cu_stream(), bytes) }?;
            let event = context.new_event(None)?;
            let (mut source, mut source_ordered) = (Pinned::new(bytes)?, Pinned::new(bytes)?);
            let mut hand = [Pinned::new(bytes)?, Pinned::new(bytes)?];
            let mut many = (0..64).map(|_| Pinned::new(bytes)).collect::<Result<Vec<_>, _>>()?;
            let (mut args_asked, mut args_fenced) = (args.clone(), args.clone());
            let mut asked = [Pinned::new(bytes)?, Pinned::new(bytes)?];
            let mut fenced = [Pinned::new(bytes)?, Pinned::new(bytes)?];
            let (mut compared, mut args_compared) = ([Pinned::new(bytes)?, Pinned::new(bytes)?], args.clone());
            let fence = context.new_event(None)?;
            let (mut slab, mut args_slab) = (Pinned::new(64 * bytes.next_multiple_of(512))?, args.clone());
            let (mut args_many, mut args_waits) = (args.clone(), args.clone());
            let waits = ArgCache::with_options(
                &stream,
                CacheOptions { when_exhausted: WhenExhausted::Wait, ..CacheOptions::default() },
            )?;
            let (caches, raw) = ([(); 4].map(|()| ArgCache::new(&stream)), stream.cu_stream());
            let [changed, last, by_rows, same] = caches;
            let (changed, last, by_rows, same) = (changed?, last?, by_rows?, same?);
            drop(unchanged.upload(&same)?);
            let (image_a, mut image_b) = (vec![1_u8; bytes], vec![1_u8; bytes]);
            let copy = |from: &[u8]| {
                // SAFETY: the source is page-locked and lives until the stream is synchronised; that it may be overwritten
                // before is what L is. The block is as long.
                unsafe { result::memcpy_htod_async(block, from, raw) }.expect("the copy is submitted");
            };
            let pointer = |n: u64| DevicePointer::from_raw(0x7000_0000_0000 + n).expect("not null");
            let mut ways: Vec<Way<'_>> = vec![
                ("F: raw copy, page-locked, source not touched", Box::new(|_| copy(source.bytes()))),
                (
                    "L: nine memcpys, raw copy",
                    Box::new(|n| {
                        args_hand.ptr_a[0] = pointer(n);
                        let buffer = hand[usize::try_from(n % 2).unwrap_or(0)].bytes();
                        args_hand.pack_by_hand(black_box(buffer));
                        copy(buffer);
                    }),
                ),
                (
                    "L with 64 buffers in turn",
                    Box::new(|n| {
                        args_many.ptr_a[0] = pointer(n);
                        let buffer = many[usize::try_from(n % 64).unwrap_or(0)].bytes();
                        args_many.pack_by_hand(black_box(buffer));
                        copy(buffer);
                    }),
                ),
                (
                    "L, compared with the last image first",
                    Box::new(|n| {
                        args_compared.ptr_a[0] = pointer(n);
                        let [even, odd] = &mut compared;
                        let (buffer, last) = if n % 2 == 0 { (even, odd) } else { (odd, even) };
                        let mut end = 0;
                        let equal = args_compared.columns().iter().all(|column| {
                            let offset = end;
                            end = (offset + column.len()).next_multiple_of(16);
                            last.bytes()[offset..offset + column.len()] == **column
                        });
                        black_box(equal);
                        let buffer = buffer.bytes();
                        args_compared.pack_by_hand(black_box(buffer));
                        copy(buffer);
                    }),
                ),
                (
                    "L, bound, and asked whether it is captured",
                    Box::new(|n| {
                        black_box(Cuda::is_capturing(black_box(&stream)).expect("it is not"));
                        args_asked.ptr_a[0] = pointer(n);
                        let buffer = asked[usize::try_from(n % 2).unwrap_or(0)].bytes();
                        args_asked.pack_by_hand(black_box(buffer));
                        context.bind_to_thread().expect("it is alive");
                        copy(buffer);
                    }),
                ),
                (
                    "L, an event recorded and asked each 32nd time",
                    Box::new(|n| {
                        args_fenced.ptr_a[0] = pointer(n);
                        let buffer = fenced[usize::try_from(n % 2).unwrap_or(0)].bytes();
                        args_fenced.pack_by_hand(black_box(buffer));
                        copy(buffer);
                        if n % 32 == 0 {
                            black_box(fence.is_complete());
                            fence.record(&stream).expect("it is recorded");
                        }
                    }),
                ),
                (
                    "L from one slab of 64 regions",
                    Box::new(|n| {
                        args_slab.ptr_a[0] = pointer(n);
                        let at = usize::try_from(n % 64).unwrap_or(0) * bytes.next_multiple_of(512);
                        let buffer = &mut slab.bytes()[at..at + bytes];
                        args_slab.pack_by_hand(black_box(buffer));
                        copy(buffer);
                    }),
                ),
                (
                    "F into stream-ordered memory",
                    Box::new(|_| {
                        // SAFETY: as for the other block.
                        unsafe { result::memcpy_htod_async(ordered, source_ordered.bytes(), raw) }
                            .expect("the copy is submitted");
                    }),
                ),
                ("the context made current", Box::new(|_| context.bind_to_thread().expect("it is alive"))),
                ("an event recorded", Box::new(|_| event.record(&stream).expect("it is recorded"))),
                (
                    "the question whether the stream is captured",
                    Box::new(|_| {
                        black_box(Cuda::is_capturing(black_box(&stream)).expect("it is not"));
                    }),
                ),
                (
                    "marshal, cached, changed in an early column",
                    Box::new(|n| {
                        args.ptr_a[0] = pointer(n);
                        drop(black_box(&args).upload(&changed).expect("uploaded"));
                    }),
                ),
                (
                    "marshal, cached, changed early, may wait",
                    Box::new(|n| {
                        args_waits.ptr_a[0] = pointer(n);
                        drop(black_box(&args_waits).upload(&waits).expect("uploaded"));
                    }),
                ),
                (
                    "marshal, cached, changed in the last element",
                    Box::new(|n| {
                        *args_last.ldd.last_mut().expect("not empty") = i64::try_from(n).unwrap_or(0);
                        drop(black_box(&args_last).upload(&last).expect("uploaded"));
                    }),
                ),
                (
                    "marshal, cached, rows, changed in the first",
                    Box::new(|n| {
                        rows[0].ptr_a = pointer(n);
                        drop(black_box(&rows).upload(&by_rows).expect("uploaded"));
                    }),
                ),
                (
                    "marshal, cached, unchanged",
                    Box::new(|_| drop(black_box(&unchanged).upload(&same).expect("uploaded"))),
                ),
                (
                    "memcmp of the bytes",
                    Box::new(|_| {
                        black_box(black_box(&image_a) == black_box(&mut image_b));
                    }),
                ),
                (
                    "marshal, one-shot",
                    Box::new(|n| {
                        args_one_shot.ptr_a[0] = pointer(n);
                        drop(black_box(&args_one_shot).upload(&stream).expect("uploaded"));
                    }),
                ),
            ];
            let calls = (4_000_000 / bytes as u64).clamp(20, 500);
            let results = measure(&mut ways, 40, calls, || stream.synchronize().expect("the work was right"));
            drop(ways);
            let (stats, waiting) = (changed.stats(), waits.stats());
            assert_eq!((stats.allocations, same.stats().copies), (1, 1));
            print(&format!("{groups} groups, {bytes} bytes, {calls} calls back to back"), &results);
            println!(
                "  staging: {} bytes where it grew, {} where {} of {} uploads waited",
                stats.staging_bytes, waiting.staging_bytes, waiting.waits, waiting.uploads
            );
            let of = |part| median(&results, part);
            println!(
                "  changed early / L {:.3}, in the last element / L {:.3}, rows / L {:.3}, unchanged / F {:.4}, unchanged / memcmp {:.3}",
                of("changed in an early") / of("L:"),
                of("last element") / of("L:"),
                of("rows") / of("L:"),
                of("unchanged") / of("F:"),
                of("unchanged") / of("memcmp"),
            );
            stream.synchronize()?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    host::run();
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() {
        return gpu::run();
    }
    println!("GPU part not run: no CUDA device");
    Ok(())
}
