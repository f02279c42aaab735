//! A refreshed replay beside the raw launch of the same two nodes: a copy of the arguments and a kernel that reads them. All in one
//! run, in turns: medians and ratios.
//!
//! - raw: the arguments are packed into the graph's one page-locked buffer, and the graph is launched. It asks nobody whether the last
//!   replay has read the buffer: wrong as soon as the host runs ahead, and no more than the driver's own cost.
//! - refresh and launch: the same graph, captured by `ArgCache::capture`.
//! - eager: the same bytes uploaded to the cache, and the kernel launched.
//!
//! Without a GPU nothing is measured, and it says so. `cargo bench --bench graph`

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() {
        return on_cuda::run();
    }
    println!("not run: no CUDA device");
    Ok(())
}

#[cfg(feature = "cuda")]
mod on_cuda {
    use std::error::Error;
    use std::hint::black_box;
    use std::sync::Arc;
    use std::time::Instant;

    use cudarc::driver::sys::{CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode};
    use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg, result};
    use marshal::{ArgCache, DeviceArgs, DevicePointer};

    const KERNEL: &str = r#"
extern "C" __global__ void consume(const unsigned* words, unsigned len, unsigned* out) {
    unsigned sum = 0;
    for (unsigned i = threadIdx.x; i < len; i += blockDim.x) sum += words[i];
    atomicAdd(out, sum);
}
"#;
    const ROUNDS: usize = 60;
    const CALLS: usize = 50;

    #[derive(DeviceArgs)]
    struct Args {
        words: Vec<u32>,
    }

    fn consume(
        stream: &Arc<CudaStream>,
        kernel: &CudaFunction,
        words: u64,
        len: usize,
        out: DevicePointer<u32>,
    ) -> Result<(), marshal::Error> {
        let len = len as u64;
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&words).arg(&len).arg(&out);
        let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel takes a pointer, 4 bytes and a pointer, on 8 bytes each; the memory lives until the stream is idle.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// The graph as it is captured by hand.
    struct Raw {
        exec: CUgraphExec,
        staging: *mut u8,
    }

    fn raw(
        stream: &Arc<CudaStream>,
        kernel: &CudaFunction,
        bytes: usize,
        out: DevicePointer<u32>,
    ) -> Result<Raw, Box<dyn Error>> {
        // SAFETY: initialised next; never freed: the program ends with it.
        let staging: *mut u8 = unsafe { result::malloc_host(bytes, 0) }?.cast();
        // SAFETY: allocated above with that many bytes.
        unsafe { staging.write_bytes(0, bytes) };
        // SAFETY: written by the graph's copy before its kernel reads it; never freed.
        let block = unsafe { result::malloc_sync(bytes) }?;
        // SAFETY: the stream is live.
        unsafe {
            result::stream::begin_capture(stream.cu_stream(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        }?;
        // SAFETY: the staging is never freed, and written by this thread alone.
        let source = unsafe { std::slice::from_raw_parts(staging, bytes) };
        // SAFETY: both ranges are `bytes` long, and neither is freed.
        unsafe { result::memcpy_htod_async(block, source, stream.cu_stream()) }?;
        consume(stream, kernel, block, bytes / 4, out)?;
        // SAFETY: the stream is live, and captures.
        let graph = unsafe { result::stream::end_capture(stream.cu_stream()) }?;
        // SAFETY: the graph is live.
        let exec = unsafe { result::graph::instantiate(graph, CUgraphInstantiate_flags(0)) }?;
        Ok(Raw { exec, staging })
    }

    type Way<'a> = (&'static str, Box<dyn FnMut(u32) + 'a>);

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        println!("{}", context.name()?);
        let kernel = context.load_module(cudarc::nvrtc::compile_ptx(KERNEL)?)?.load_function("consume")?;
        let out_slice = stream.alloc_zeros::<u32>(1)?;
        let out = marshal::cuda::pointer_to(&out_slice, &stream)?;
        for bytes in [608, 4864, 77_824, 622_592] {
            compare(&stream, &kernel, bytes, out)?;
        }
        Ok(())
    }

    fn compare(
        stream: &Arc<CudaStream>,
        kernel: &CudaFunction,
        bytes: usize,
        out: DevicePointer<u32>,
    ) -> Result<(), Box<dyn Error>> {
        let words = bytes / 4;
        let raw = raw(stream, kernel, bytes, out)?;
        let cache = ArgCache::new(stream)?;
        let first = Args { words: vec![0; words] };
        cache.reserve(&first.layout()?)?;
        let graph = cache.capture(|stream| {
            let dev = first.upload(&cache)?;
            consume(stream, kernel, dev.base().address(), words, out)?;
            Ok(dev)
        })?;
        let (mut a, mut b, mut c) =
            (Args { words: vec![0; words] }, Args { words: vec![0; words] }, Args { words: vec![0; words] });
        let mut ways: Vec<Way<'_>> = vec![
            ("raw: pack and launch", {
                let args = &mut a;
                Box::new(move |n| {
                    args.words[0] = n;
                    let image: &[u8] = bytemuck::cast_slice(&args.words);
                    // SAFETY: the staging has so many bytes. A replay may be reading them: the bytes are nobody's, and the race is
                    // the point of this way.
                    unsafe { raw.staging.copy_from_nonoverlapping(image.as_ptr(), image.len()) };
                    // SAFETY: graph and stream are live.
                    unsafe { result::graph::launch(raw.exec, stream.cu_stream()) }.expect("launch");
                })
            }),
            ("refresh and launch", {
                let args = &mut b;
                let graph = &graph;
                Box::new(move |n| {
                    args.words[0] = n;
                    graph.refresh(|dev| dev, args).expect("refresh");
                    graph.launch().expect("launch");
                })
            }),
            ("eager: cached upload and kernel", {
                let args = &mut c;
                let cache = &cache;
                Box::new(move |n| {
                    args.words[0] = n;
                    let dev = args.upload(cache).expect("upload");
                    consume(stream, kernel, black_box(dev.base().address()), words, out).expect("launch");
                })
            }),
        ];
        let mut times = vec![(Vec::new(), Vec::new(), Vec::new()); ways.len()];
        let mut number = 1;
        for round in 0..ROUNDS {
            for ((_, call), (host, piped, idle)) in ways.iter_mut().zip(&mut times) {
                stream.synchronize()?;
                let start = Instant::now();
                for _ in 0..CALLS {
                    number += 1;
                    call(number);
                }
                let submitted = start.elapsed();
                stream.synchronize()?;
                let done = start.elapsed();
                if round >= ROUNDS / 10 {
                    host.push(submitted.as_secs_f64() * 1e6 / CALLS as f64);
                    piped.push(done.as_secs_f64() * 1e6 / CALLS as f64);
                }
                for _ in 0..CALLS {
                    number += 1;
                    let start = Instant::now();
                    call(number);
                    stream.synchronize()?;
                    if round >= ROUNDS / 10 {
                        idle.push(start.elapsed().as_secs_f64() * 1e6);
                    }
                }
            }
        }
        println!(
            "{bytes} bytes, microseconds a step: on the host | until all are done | alone, to idle; medians, and the ratio to raw"
        );
        let mut first: Option<[f64; 3]> = None;
        for ((name, _), (host, piped, idle)) in ways.iter().zip(&mut times) {
            let of = [median(host), median(piped), median(idle)];
            let base = *first.get_or_insert(of);
            let column = |i: usize| format!("{:8.2} ({:5.3} x)", of[i], of[i] / base[i]);
            println!("    {name:32} {} | {} | {}", column(0), column(1), column(2));
        }
        Ok(())
    }

    fn median(times: &mut [f64]) -> f64 {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}
