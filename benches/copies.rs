//! A batch of copies beside what people write today, all in one run, in turns: medians and ratios, never one number alone.
//!
//! In each direction, for so many copies of so many bytes to or from places on the device that are no neighbours:
//!
//! - loop: one `cuMemcpy*Async` a copy; batch: one `cuMemcpyBatchAsync`; from pageable memory, and from page-locked memory that
//!   nobody writes.
//! - contiguous: one copy of as many bytes, the floor of all.
//! - by hand: borrowed sources gathered into one page-locked buffer and one `cuMemcpyBatchAsync` from it, without a check, a lock or
//!   a fence, and so wrong as soon as the host runs ahead: what a careful hand cannot beat.
//! - 5 us after the last: what the batch costs whose host does something in between. The pause is counted. The driver's call is
//!   dearer then by more than the pause where the device has run dry: no host that packs or checks is spared that.
//! - marshal: the whole of `CopyBatch`, filled anew each time; from borrowed memory, and from page-locked memory by value.
//!
//! Without a GPU nothing is measured, and it says so. `cargo bench --bench copies [htod|dtoh|dtod] [64x1024]`: the
//! second for 64 copies of 1,024 bytes each.

use std::error::Error;

#[cfg(feature = "cuda")]
mod gpu {
    use std::error::Error;
    use std::ffi::c_void;
    use std::hint::black_box;
    use std::sync::Arc;
    use std::time::Instant;

    use cudarc::driver::{CudaContext, CudaStream, result, sys};
    use marshal::backend::Backend;
    use marshal::cuda::Cuda;
    use marshal::{CopyBatch, CopyStaging, DevicePointer, DeviceRange, DeviceRangeMut};

    const COPIES: [usize; 8] = [2, 3, 4, 16, 64, 256, 1024, 4096];
    const SIZES: [usize; 5] = [64, 1 << 10, 16 << 10, 128 << 10, 1 << 20];
    /// All copies of a batch together.
    const MOST_BYTES: usize = 64 << 20;
    const ROUNDS: usize = 11;

    type Way<'a> = (&'static str, Box<dyn FnMut() + 'a>);

    /// A way's name, its median in microseconds of host time, and until the stream is idle.
    type Medians = Vec<(&'static str, f64, f64)>;

    /// `CUmemcpyAttributes_v1` without hints: the order in which sources are read, and zeros.
    type Attributes = [u32; 6];
    const STREAM_ORDER: Attributes = [1, 0, 0, 0, 0, 0];
    type BatchCall = unsafe extern "C" fn(
        *mut u64,
        *mut u64,
        *mut usize,
        usize,
        *mut Attributes,
        *mut usize,
        usize,
        *mut usize,
        sys::CUstream,
    ) -> sys::CUresult;

    /// The raw call, as of CUDA 12.8: cudarc has it in builds for some versions only.
    fn batch_call() -> Option<BatchCall> {
        type Get = unsafe extern "C" fn(*const i8, *mut *mut c_void, i32, u64, *mut u32) -> sys::CUresult;
        let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
        // SAFETY: the driver, which is loaded already.
        let library = names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())?;
        // SAFETY: the signature of cuda.h.
        let get = unsafe { library.get::<Get>(b"cuGetProcAddress_v2\0") }.ok()?;
        let (mut address, mut status) = (core::ptr::null_mut(), 0);
        // SAFETY: a C string, and results that go to locals.
        unsafe { get(c"cuMemcpyBatchAsync".as_ptr().cast(), &raw mut address, 12080, 0, &raw mut status) };
        core::mem::forget(library);
        // SAFETY: what is asked for version 12.8 has the signature of 12.8.
        (!address.is_null()).then(|| unsafe { core::mem::transmute::<*mut c_void, BatchCall>(address) })
    }

    /// Page-locked memory with an owner.
    #[derive(Clone)]
    struct Pinned(Arc<Memory>);

    struct Memory {
        memory: *mut u8,
        len: usize,
    }

    // SAFETY: plain memory, which is written before it is shared.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Pinned {
        fn new(len: usize) -> Result<Self, Box<dyn Error>> {
            // SAFETY: flags are none; initialised next, freed with the process.
            let memory: *mut u8 = unsafe { result::malloc_host(len, 0) }?.cast();
            // SAFETY: the memory is that long and ours alone.
            unsafe { memory.write_bytes(1, len) };
            Ok(Self(Arc::new(Memory { memory, len })))
        }

        fn address(&self) -> u64 {
            self.0.memory.expose_provenance() as u64
        }

        fn bytes(&self) -> &[u8] {
            // SAFETY: initialised, and that long. Where `write` is used nobody reads it on the host.
            unsafe { core::slice::from_raw_parts(self.0.memory, self.0.len) }
        }

        /// Writes in place, be it that the device reads meanwhile: that is what "by hand" is about.
        fn write(&self, offset: usize, bytes: &[u8]) {
            assert!(offset + bytes.len() <= self.0.len);
            // SAFETY: the range lies inside, as checked, and nobody borrows it.
            unsafe { self.0.memory.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: from `malloc_host`, freed once; the stream was waited for.
            let _ = unsafe { result::free_host(self.memory.cast()) };
        }
    }

    /// A part of page-locked memory, by value.
    struct Part(Pinned, usize, usize);

    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            &self.0.bytes()[self.1..self.1 + self.2]
        }
    }

    /// The three lists that the raw call takes.
    struct Lists {
        destinations: Vec<u64>,
        sources: Vec<u64>,
        sizes: Vec<usize>,
    }

    impl Lists {
        fn new(copies: usize, size: usize, destination: impl Fn(usize) -> u64, source: impl Fn(usize) -> u64) -> Self {
            Self {
                destinations: (0..copies).map(destination).collect(),
                sources: (0..copies).map(source).collect(),
                sizes: vec![size; copies],
            }
        }

        fn batch(&mut self, call: Option<BatchCall>, stream: &CudaStream) {
            let Some(call) = call else { return };
            let (mut attributes, mut failed) = (STREAM_ORDER, usize::MAX);
            // As `marshal` does: calls of 50,000 copies have crashed drivers.
            let chunks = self.destinations.chunks_mut(1024).zip(self.sources.chunks_mut(1024));
            for ((destinations, sources), sizes) in chunks.zip(self.sizes.chunks_mut(1024)) {
                let mut indices = [0; 1];
                // SAFETY: the lists are equally long, the ranges live until the stream has been waited for.
                let submitted = unsafe {
                    call(
                        destinations.as_mut_ptr(),
                        sources.as_mut_ptr(),
                        sizes.as_mut_ptr(),
                        sizes.len(),
                        &raw mut attributes,
                        indices.as_mut_ptr(),
                        1,
                        &raw mut failed,
                        stream.cu_stream(),
                    )
                };
                submitted.result().expect("the batch is submitted");
            }
        }

        fn each(&self, mut copy: impl FnMut(u64, u64, usize) -> sys::CUresult) {
            for ((&destination, &source), &size) in self.destinations.iter().zip(&self.sources).zip(&self.sizes) {
                copy(destination, source, size).result().expect("the copy is submitted");
            }
        }
    }

    fn host(address: u64) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("a host address"))
    }

    fn pointer(address: u64) -> DevicePointer<u8> {
        DevicePointer::from_raw(address).expect("not null")
    }

    /// What all ways of one direction and shape work on.
    struct Setting {
        stream: Arc<CudaStream>,
        staging: CopyStaging<Cuda>,
        call: Option<BatchCall>,
        copies: usize,
        size: usize,
        // Device memory, of which every other `size` bytes are used.
        device: u64,
        other: u64,
    }

    impl Setting {
        fn at(&self, index: usize) -> u64 {
            self.device + (2 * index * self.size) as u64
        }

        fn other(&self, index: usize) -> u64 {
            self.other + (2 * index * self.size) as u64
        }

        fn up(&self) -> Result<Medians, Box<dyn Error>> {
            let (stream, copies, size) = (&*self.stream, self.copies, self.size);
            let raw = stream.cu_stream();
            let pinned = Pinned::new(copies * size)?;
            let gathered = Pinned::new(copies * size)?;
            // Everywhere on the heap, as arguments are.
            let pageable: Vec<Vec<u8>> = (0..copies).map(|_| vec![1; size]).collect();
            let from = |address: u64| move |index: usize| address + (index * size) as u64;
            let to = |index| self.at(index);
            let page_locked = Lists::new(copies, size, to, from(pinned.address()));
            let scattered = Lists::new(copies, size, to, |index| pageable[index].as_ptr().expose_provenance() as u64);
            let mut batched = Lists::new(copies, size, to, from(pinned.address()));
            let mut batched_later = Lists::new(copies, size, to, from(pinned.address()));
            let mut batched_pageable =
                Lists::new(copies, size, to, |index| pageable[index].as_ptr().expose_provenance() as u64);
            let mut by_hand = Lists::new(copies, size, to, from(gathered.address()));
            let one = |destination, source, size| {
                // SAFETY: the ranges live until the stream has been waited for.
                unsafe { sys::cuMemcpyHtoDAsync_v2(destination, host(source), size, raw) }
            };
            // SAFETY: the device memory is this setting's, and used on this stream.
            let range = |index| unsafe { DeviceRangeMut::from_raw(pointer(self.at(index)), size) };
            let mut ways: Vec<Way<'_>> = vec![
                ("loop, page-locked", Box::new(|| page_locked.each(one))),
                ("batch, page-locked", Box::new(|| batched.batch(self.call, stream))),
                (
                    "page-locked, 5 us after the last, then batch",
                    Box::new(|| {
                        pause();
                        batched_later.batch(self.call, stream);
                    }),
                ),
                ("loop, pageable", Box::new(|| scattered.each(one))),
                ("batch, pageable", Box::new(|| batched_pageable.batch(self.call, stream))),
                (
                    "contiguous, page-locked",
                    Box::new(|| one(self.device, pinned.address(), copies * size).result().expect("submitted")),
                ),
                (
                    "gathered by hand, batch",
                    Box::new(|| {
                        for (index, source) in pageable.iter().enumerate() {
                            gathered.write(index * size, black_box(source));
                        }
                        by_hand.batch(self.call, stream);
                    }),
                ),
                (
                    "marshal, borrowed",
                    Box::new(|| {
                        let mut batch = CopyBatch::new(&self.staging);
                        for (index, source) in pageable.iter().enumerate() {
                            batch.htod(black_box(source), range(index)).expect("of one length");
                        }
                        drop(batch.submit().expect("submitted"));
                    }),
                ),
                (
                    "marshal, page-locked by value",
                    Box::new(|| {
                        let mut batch = CopyBatch::new(&self.staging);
                        for index in 0..copies {
                            let part = Part(pinned.clone(), index * size, size);
                            batch.htod_owned(part, range(index)).expect("of one length");
                        }
                        drop(batch.submit().expect("submitted"));
                    }),
                ),
            ];
            Ok(self.measure(&mut ways))
        }

        fn down(&self) -> Result<Medians, Box<dyn Error>> {
            let (stream, copies, size) = (&*self.stream, self.copies, self.size);
            let raw = stream.cu_stream();
            let pinned = Pinned::new(copies * size)?;
            let mut pageable: Vec<Vec<u8>> = (0..copies).map(|_| vec![1; size]).collect();
            let mut targets: Vec<Vec<u8>> = pageable.clone();
            let into = |index: usize| pinned.address() + (index * size) as u64;
            let page_locked = Lists::new(copies, size, into, |index| self.at(index));
            let addresses: Vec<u64> =
                pageable.iter_mut().map(|target| target.as_mut_ptr().expose_provenance() as u64).collect();
            let scattered = Lists::new(copies, size, |index| addresses[index], |index| self.at(index));
            let mut batched = Lists::new(copies, size, into, |index| self.at(index));
            let one = |destination, source, size| {
                // SAFETY: the ranges live until the stream has been waited for.
                unsafe { sys::cuMemcpyDtoHAsync_v2(host(destination), source, size, raw) }
            };
            // SAFETY: the device memory is this setting's, and used on this stream.
            let range = |index| unsafe { DeviceRange::from_raw(pointer(self.at(index)), size) };
            let mut ways: Vec<Way<'_>> = vec![
                ("loop, page-locked", Box::new(|| page_locked.each(one))),
                ("batch, page-locked", Box::new(|| batched.batch(self.call, stream))),
                ("loop, pageable", Box::new(|| scattered.each(one))),
                (
                    "contiguous, page-locked",
                    Box::new(|| one(pinned.address(), self.device, copies * size).result().expect("submitted")),
                ),
                (
                    "marshal, tickets, not waited for",
                    Box::new(|| {
                        let mut batch = CopyBatch::new(&self.staging);
                        for index in 0..copies {
                            let _ = black_box(batch.dtoh_owned(range(index)).expect("it fits"));
                        }
                        drop(batch.submit().expect("submitted"));
                    }),
                ),
                (
                    "marshal, borrowed, waited for",
                    Box::new(|| {
                        let mut batch = CopyBatch::new(&self.staging);
                        for (index, target) in targets.iter_mut().enumerate() {
                            batch.dtoh(range(index), target).expect("of one length");
                        }
                        drop(batch.submit().expect("submitted").wait().expect("they ran"));
                    }),
                ),
            ];
            Ok(self.measure(&mut ways))
        }

        fn across(&self) -> Medians {
            let (stream, copies, size) = (&*self.stream, self.copies, self.size);
            let raw = stream.cu_stream();
            let lists = Lists::new(copies, size, |index| self.at(index), |index| self.other(index));
            let mut batched = Lists::new(copies, size, |index| self.at(index), |index| self.other(index));
            let one = |destination, source, size| {
                // SAFETY: the ranges live until the stream has been waited for.
                unsafe { sys::cuMemcpyDtoDAsync_v2(destination, source, size, raw) }
            };
            let mut ways: Vec<Way<'_>> = vec![
                ("loop", Box::new(|| lists.each(one))),
                ("batch", Box::new(|| batched.batch(self.call, stream))),
                ("contiguous", Box::new(|| one(self.device, self.other, copies * size).result().expect("submitted"))),
                (
                    "marshal",
                    Box::new(|| {
                        let mut batch = CopyBatch::new(&self.staging);
                        for index in 0..copies {
                            // SAFETY: the device memory is this setting's, and used on this stream.
                            let (from, to) = unsafe {
                                (
                                    DeviceRange::from_raw(pointer(self.other(index)), size),
                                    DeviceRangeMut::from_raw(pointer(self.at(index)), size),
                                )
                            };
                            batch.dtod(from, to).expect("of one length");
                        }
                        drop(batch.submit().expect("submitted"));
                    }),
                ),
            ];
            self.measure(&mut ways)
        }

        /// Medians over the rounds in which all ways take turns: microseconds a call, and until the stream is idle.
        fn measure(&self, ways: &mut [Way<'_>]) -> Medians {
            let calls = (400 / self.copies).clamp(1, 40).min((MOST_BYTES / (self.copies * self.size)).max(1));
            let mut times = vec![(Vec::new(), Vec::new()); ways.len()];
            let settle = || self.stream.synchronize().expect("the work was right");
            for round in 0..=ROUNDS {
                for ((_, way), (returned, idle)) in ways.iter_mut().zip(&mut times) {
                    settle();
                    let start = Instant::now();
                    (0..calls).for_each(|_| way());
                    let elapsed = start.elapsed();
                    settle();
                    // The first round warms up.
                    if round != 0 {
                        returned.push(elapsed.as_secs_f64() * 1e6 / calls as f64);
                        idle.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
                    }
                }
            }
            let median = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            };
            let medians = |((name, _), (returned, idle)): (&Way<'_>, &mut (Vec<f64>, Vec<f64>))| {
                (*name, median(returned), median(idle))
            };
            ways.iter().zip(&mut times).map(medians).collect()
        }
    }

    /// What a host does between two batches.
    fn pause() {
        let start = Instant::now();
        while start.elapsed().as_micros() < 5 {}
    }

    /// The ways that do the same job without `marshal`: from or to pageable memory, or page-locked.
    fn is_peer_of(ours: &str, other: &str) -> bool {
        let is_pageable = |name: &str| name.contains("pageable") || name.contains("borrowed");
        (other.starts_with("loop") || other.starts_with("batch")) && is_pageable(ours) == is_pageable(other)
    }

    /// Each way beside the better of loop and batch that do the same job, in host time and until the stream is idle. Gives the first
    /// ratio of each way of `marshal`.
    fn print(title: &str, results: &[(&'static str, f64, f64)]) -> Vec<(&'static str, f64)> {
        println!("{title}");
        let mut ours = Vec::new();
        for &(name, returned, to_idle) in results {
            let peers = || results.iter().filter(|(other, ..)| is_peer_of(name, other));
            let host = peers().map(|&(_, returned, _)| returned).fold(f64::INFINITY, f64::min);
            let idle = peers().map(|&(.., to_idle)| to_idle).fold(f64::INFINITY, f64::min);
            println!(
                "    {name:42} {returned:10.2} us {:7.3} x   to idle {to_idle:10.2} us {:7.3} x",
                returned / host,
                to_idle / idle
            );
            if name.starts_with("marshal") {
                ours.push((name, returned / host));
            }
        }
        ours
    }

    /// The sum of it: where `marshal` costs more than 1.05 of the better of loop and batch, and how much at worst.
    fn print_sum(ratios: &[(&'static str, &'static str, String, f64)]) {
        println!("\n| direction | way | settings | above 1.05 x | median | worst |\n|---|---|---|---|---|---|");
        let mut jobs: Vec<_> = ratios.iter().map(|(direction, name, ..)| (*direction, *name)).collect();
        jobs.dedup();
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            let mut of_job: Vec<_> = ratios.iter().filter(|ratio| (ratio.0, ratio.1) == job).collect();
            of_job.sort_by(|a, b| a.3.total_cmp(&b.3));
            let above = of_job.iter().filter(|ratio| ratio.3 > 1.05).count();
            let (median, worst) = (of_job[of_job.len() / 2].3, of_job[of_job.len() - 1]);
            println!(
                "| {} | {} | {} | {above} | {median:.2} x | {:.2} x: {} |",
                job.0,
                job.1,
                of_job.len(),
                worst.3,
                worst.2
            );
        }
    }

    pub(super) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let call = batch_call();
        println!("{}", Cuda::device_name(&stream));
        if call.is_none() {
            println!("this driver has no cuMemcpyBatchAsync: its lines are empty calls");
        }
        // Twice: every other piece is used.
        // SAFETY: copied to before it matters; freed with the process.
        let [device, other] =
            [unsafe { result::malloc_sync(2 * MOST_BYTES) }?, unsafe { result::malloc_sync(2 * MOST_BYTES) }?];
        let (shapes, directions): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.contains('x'));
        let wanted = |direction: &str| directions.is_empty() || directions.iter().any(|wanted| *wanted == direction);
        let is_wanted_shape =
            |copies, size| shapes.is_empty() || shapes.iter().any(|wanted| **wanted == format!("{copies}x{size}"));
        let mut ratios = Vec::new();
        for size in SIZES {
            let is_possible = |&copies: &usize| copies * size <= MOST_BYTES && is_wanted_shape(copies, size);
            for copies in COPIES.into_iter().filter(is_possible) {
                let (stream, staging) = (stream.clone(), CopyStaging::new(&stream));
                let setting = Setting { stream, staging, call, copies, size, device, other };
                let title = format!("{copies} copies of {size} bytes");
                let mut add = |direction: &'static str, results: &[(&'static str, f64, f64)]| {
                    let ours = print(&format!("{direction}, {title}"), results);
                    ratios.extend(ours.into_iter().map(|(name, ratio)| (direction, name, title.clone(), ratio)));
                };
                if wanted("htod") {
                    add("htod", &setting.up()?);
                }
                if wanted("dtoh") {
                    add("dtoh", &setting.down()?);
                }
                if wanted("dtod") {
                    add("dtod", &setting.across());
                }
                setting.stream.synchronize()?;
            }
        }
        print_sum(&ratios);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() {
        // Cargo's own arguments begin with dashes.
        let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        return gpu::run(&words);
    }
    println!("not run: no CUDA device");
    Ok(())
}
