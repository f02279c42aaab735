//! One program, on the host backend and in the model at once.

use core::ops::Range;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use marshal::host::{Host, HostDevice, HostOptions, HostStream};
use marshal::{ArgCache, CacheOptions, Content as Purpose, DeviceArgs, Error, Uploaded};

use super::batch::Batches;
use super::capture::Replay;
use super::model::Model;
use super::ops::{Args, Case, Op};
use crate::columns::{Columns, Pointers};
use crate::oracle::{self, Image};

pub(crate) type Set = Arc<Uploaded<Pointers, Host>>;

/// What stands in a block behind the work that was given so far; `None` where nobody knows.
pub(crate) type Content = Rc<RefCell<Option<Vec<u8>>>>;

/// A set that the program holds.
pub(crate) struct Held {
    pub(crate) set: Set,
    pub(crate) content: Content,
    /// Of its block, for the upload to zero.
    pub(crate) zeroed: Range<usize>,
    /// Of the cache's blocks; `None` for one that is not of the cache.
    pub(crate) generation: Option<u64>,
    /// An upload of equal bytes has to find it.
    pub(crate) is_eager: bool,
}

pub(crate) struct Run<'c> {
    pub(crate) case: &'c Case,
    device: HostDevice,
    pub(crate) home: HostStream,
    pub(crate) others: [HostStream; 2],
    pub(crate) cache: Rc<ArgCache<Host>>,
    pub(crate) held: Vec<Held>,
    pub(crate) graphs: Vec<Replay>,
    pub(crate) batches: Batches,
    pub(crate) model: Model,
    /// Whether it is known which blocks are in use: what a graph of the user's own has left, comes back when it likes.
    pub(crate) knows_blocks: bool,
}

/// The alignment that a block of the host backend has by itself.
const BLOCK_ALIGNMENT: u64 = 512;

/// Plays the whole program, and looks at what it leaves behind.
pub(crate) fn check(case: &Case) {
    let mut run = Run::new(case);
    for op in &case.ops {
        run.step(op);
        run.model.compare();
        if case.options.watched {
            run.model.check_stats(&run.cache.stats());
        }
    }
    run.finish();
}

impl<'c> Run<'c> {
    fn new(case: &'c Case) -> Self {
        let patience = if case.options.polls.is_some() { Duration::from_secs(60) } else { Duration::ZERO };
        let polls = case.options.polls.unwrap_or(1);
        let device = HostDevice::with_options(HostOptions { patience, polls, ..HostOptions::default() });
        let (home, others) = (device.stream(), [device.stream(), device.stream()]);
        let default = CacheOptions::default();
        let options = CacheOptions {
            device_bytes: case.options.device_bytes.unwrap_or(default.device_bytes),
            staging_bytes: case.options.staging_bytes.unwrap_or(default.staging_bytes),
            when_exhausted: case.options.when_exhausted,
        };
        let cache = Rc::new(ArgCache::with_options(&home, options).unwrap());
        let model = Model::new(case.options.clone());
        let batches = Batches::new(&home);
        let (held, graphs, knows_blocks) = (Vec::new(), Vec::new(), true);
        Self { case, device, home, others, cache, held, graphs, batches, model, knows_blocks }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Upload { args, hold } => {
                let uploaded = self.upload(args);
                self.look_and_hold(uploaded, hold);
            }
            Op::OneShot { args, hold } => {
                let uploaded = self.upload_one_shot(args);
                self.look_and_hold(uploaded, hold);
            }
            Op::Drop { set } => {
                if let Some(index) = index(set, &self.held) {
                    self.held.swap_remove(index);
                }
            }
            Op::Look { set } => {
                if let Some(index) = index(set, &self.held) {
                    look(&mut self.model, &self.home, &self.held[index]);
                }
            }
            Op::ReadBack { set } => self.read_back(set),
            Op::Synchronize => self.synchronize(),
            Op::Busy => {
                let busy = |_: &marshal::host::DeviceMemory| std::thread::sleep(Duration::from_micros(200));
                self.home.launch(busy).unwrap_or_else(|error| self.model.expect_failure(&error));
            }
            Op::Clear => self.clear(),
            Op::On { set, stream, meanwhile } => self.on(set, stream, meanwhile),
            Op::Reserve { shape, sets } => {
                self.reserve(&self.case.columns(Args { shape, fill: 0 }), sets);
            }
            Op::Capture(ref capture) => self.capture(capture),
            Op::Launch { graph } => self.launch(graph),
            Op::Refresh { graph, set, args, any_shape } => self.refresh(graph, set, args, any_shape),
            Op::Share { graph, set } => self.share(graph, set),
            Op::DropGraph { graph } => self.drop_graph(graph),
            Op::Fail { call, nth } => {
                self.device.fail(call, nth);
                self.model.arm(call);
            }
            Op::Batch { set, sets, byte } => {
                self.batches.submit(&self.home, &mut self.model, &self.held, [set, sets], byte)
            }
            Op::Settle { batch, wait } => self.batches.settle(&mut self.model, batch, wait),
        }
    }

    fn look_and_hold(&mut self, uploaded: Option<Held>, hold: bool) {
        if let Some(held) = uploaded {
            look(&mut self.model, &self.home, &held);
            let zeroed = held.zeroed.clone();
            if let Err(error) = self.use_scratch(&held.set, zeroed) {
                self.model.expect_failure(&error);
            }
            if hold {
                self.held.push(held);
            }
        }
    }

    /// What is to be zero is, and is not any more when the next upload gets the block. Gives the kernel that looks, if any.
    pub(crate) fn use_scratch(
        &mut self,
        set: &Uploaded<Pointers, Host>,
        zeroed: Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let at = |offset: usize| set.base().checked_add(offset).unwrap();
        let mut looks = None;
        if !zeroed.is_empty() {
            let (kernel, read) = self.model.kernel(at(zeroed.start), zeroed.len());
            self.home.launch(read)?;
            looks = Some(kernel);
            if !self.home.is_capturing() {
                self.model.expect(kernel, &vec![0; zeroed.len()]);
            }
        }
        let layout = set.layout();
        let has_scratch = layout.columns().iter().any(|column| column.content != Purpose::Copied && column.len != 0);
        let (copied, size) = (layout.copy_bytes(), layout.size_bytes());
        // A block without scratch may be shared, and other streams read it.
        if has_scratch {
            let [copied, size] = [copied, size].map(|bytes| usize::try_from(bytes).unwrap());
            self.home.launch(Model::dirt(at(copied), size - copied))?;
        }
        Ok(looks)
    }

    fn upload(&mut self, args: Args) -> Option<Held> {
        let columns = self.case.columns(args);
        let (Image { bytes: image, zeroed, size, .. }, layout) = (oracle::image(&columns.0), columns.layout().unwrap());
        // Kernels write into scratch: no two sets share it.
        let has_scratch = columns.0.iter().any(|column| column.content != Purpose::Copied && column.len != 0);
        let before = self.case.options.watched.then(|| self.cache.stats());
        let uploaded = columns.upload(&*self.cache);
        let is_twin = |held: &&Held| {
            held.is_eager
                && held.generation == Some(self.model.generation)
                && held.set.layout() == layout
                && held.content.borrow().as_ref() == Some(&image)
        };
        let twin = self.held.iter().find(is_twin).filter(|_| !image.is_empty() && !has_scratch);
        let set = match uploaded {
            Ok(set) => set,
            Err(error) => {
                assert!(twin.is_none(), "equal bytes are held, and no call is needed: {error}");
                let held_bytes = self.held_bytes();
                self.model.expect_refusal(&error, held_bytes);
                return None;
            }
        };
        assert_eq!(set.layout(), layout);
        assert_eq!((layout.copy_bytes(), layout.size_bytes()), (image.len() as u64, size as u64));
        if let Some(twin) = twin {
            assert_eq!(set.base(), twin.set.base(), "equal bytes are held: they are shared");
        } else if !image.is_empty() {
            assert!(self.is_new(&set), "a block that is held was written");
        }
        self.model.uploads += 1;
        self.model.eager += u64::from(!image.is_empty());
        if let Some(before) = before {
            let after = self.cache.stats();
            let (copies, hits) = (after.copies - before.copies, after.byte_hits - before.byte_hits);
            assert_eq!(after.copied_bytes - before.copied_bytes, copies * image.len() as u64);
            assert!(twin.is_none() || hits == 1, "equal bytes are held, and were copied");
            assert_eq!(copies + hits, u64::from(!image.is_empty()));
        }
        let content = Rc::new(RefCell::new(Some(image)));
        Some(Held { set: Arc::new(set), content, zeroed, generation: Some(self.model.generation), is_eager: true })
    }

    /// Whether nothing that is alive stands in the set's block.
    pub(crate) fn is_new(&self, set: &Uploaded<Pointers, Host>) -> bool {
        let is_other = |other: &Set| other.layout().size_bytes() == 0 || other.base() != set.base();
        self.held.iter().all(|held| is_other(&held.set))
            && self.graphs.iter().all(|graph| graph.nodes.iter().all(|node| node.base != set.base().address()))
    }

    fn upload_one_shot(&mut self, args: Args) -> Option<Held> {
        let columns = self.case.columns(args);
        match columns.upload(&self.home) {
            Ok(set) => {
                let Image { bytes, zeroed, .. } = oracle::image(&columns.0);
                let content = Rc::new(RefCell::new(Some(bytes)));
                Some(Held { set: Arc::new(set), content, zeroed, generation: None, is_eager: false })
            }
            Err(error) => {
                self.model.expect_failure(&error);
                None
            }
        }
    }

    /// Bytes of the blocks that may not go.
    pub(crate) fn held_bytes(&self) -> Option<u64> {
        let room = |size: u64, alignment: u64| size + alignment.saturating_sub(BLOCK_ALIGNMENT);
        let mut blocks = BTreeMap::new();
        let held = self.held.iter().map(|held| (&held.set, held.generation));
        let kept = self.batches.sets().map(|(set, generation)| (set, *generation));
        for (set, _) in held.chain(kept).filter(|(_, generation)| *generation == Some(self.model.generation)) {
            let layout = set.layout();
            if layout.size_bytes() != 0 {
                blocks.insert(set.base().address(), room(layout.size_bytes(), layout.alignment()));
            }
        }
        for node in self.graphs.iter().flat_map(|graph| &graph.nodes) {
            if node.generation == self.model.generation && !node.next.is_empty() {
                blocks.insert(node.base, room(node.layout.size_bytes(), node.layout.alignment()));
            }
        }
        self.knows_blocks.then(|| blocks.values().sum())
    }

    fn read_back(&mut self, set: usize) {
        let Some(held) = index(set, &self.held).map(|index| &self.held[index]) else { return };
        match (held.set.read_back(), &*held.content.borrow()) {
            (Ok(bytes), Some(right)) => assert_eq!(bytes, *right),
            (Ok(bytes), None) => assert_eq!(bytes.len() as u64, held.set.layout().copy_bytes()),
            (Err(error), _) => self.model.expect_failure(&error),
        }
    }

    fn on(&mut self, set: usize, stream: usize, meanwhile: Args) {
        let Some(index) = index(set, &self.held) else { return };
        let (set, content) = (Arc::clone(&self.held[index].set), Rc::clone(&self.held[index].content));
        let streams = [&self.home, &self.others[0], &self.others[1]];
        let other = streams[stream % streams.len()].clone();
        let lent = match set.on(&other) {
            Ok(lent) => lent,
            Err(error) => return self.model.expect_failure(&error),
        };
        let held = Held { set: Arc::clone(&set), content, zeroed: 0..0, generation: None, is_eager: false };
        look(&mut self.model, &other, &held);
        let uploaded = self.upload(meanwhile);
        self.look_and_hold(uploaded, false);
        look(&mut self.model, &other, &held);
        drop(lent);
    }

    /// Whether the memory is there now.
    pub(crate) fn reserve(&mut self, columns: &Columns, sets: usize) -> bool {
        match self.cache.reserve_sets(&columns.layout().unwrap(), sets) {
            Ok(()) => true,
            Err(error) => {
                let held_bytes = self.held_bytes();
                self.model.expect_refusal(&error, held_bytes);
                false
            }
        }
    }

    pub(crate) fn synchronize(&mut self) {
        for stream in [&self.home, &self.others[0], &self.others[1]] {
            stream.synchronize().unwrap();
        }
        self.model.finish();
    }

    /// Lets every call fail now that was told to.
    fn disarm(&mut self) {
        for _ in 0..8 {
            let memory = self.home.alloc::<u8>(1);
            drop(self.device.alloc_staging(1));
            if let Ok(memory) = memory {
                drop(self.home.clone_htod(&[1_u8]));
                drop(memory);
            }
            drop(self.home.launch(|_| {}));
            if let Ok(fence) = self.home.record() {
                drop(fence.query());
                drop(self.home.wait(&fence));
            }
        }
        self.model.disarm();
    }

    fn finish(mut self) {
        self.disarm();
        self.batches.settle_all(&mut self.model);
        // Whatever happened, sets that are held have their bytes, and graphs their arguments.
        for graph in 0..self.graphs.len() {
            self.launch(graph);
        }
        for held in &self.held {
            look(&mut self.model, &self.home, held);
        }
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][self.case.options.ending % 6];
        if order[2] == 2 {
            self.model.check_stats(&self.cache.stats());
            self.held.clear();
            self.graphs.clear();
            self.synchronize();
            self.check_room();
        }
        let Self { device, home, others, cache, mut held, mut graphs, batches, mut model, .. } = self;
        drop(batches);
        let mut cache = Some(cache);
        for gone in order {
            match gone {
                0 => held.clear(),
                1 => graphs.clear(),
                _ => drop(cache.take()),
            }
        }
        // Twice: what a graph of the user's own kept goes when the first has passed.
        for stream in [&home, &home, &others[0], &others[1], &home] {
            stream.synchronize().unwrap();
        }
        model.finish();
        let counters = device.counters();
        assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0), "memory is left");
    }

    /// With nothing held and nothing under way, all that the caps have room for is uploaded.
    fn check_room(&mut self) {
        let case = self.case;
        for shape in 0..case.shapes.len() {
            let columns = case.columns(Args { shape, fill: 1 });
            let image = oracle::image(&columns.0);
            let size = image.bytes.len() as u64;
            let fits_device = case.options.device_bytes.is_none_or(|cap| image.size as u64 + image.alignment <= cap);
            // A region is larger than its image by a quarter, or by its unit.
            let fits_staging = case.options.staging_bytes.is_none_or(|cap| size + size / 4 + 512 <= cap);
            if fits_device && fits_staging {
                let set = columns.upload(&*self.cache).unwrap();
                let content = Rc::new(RefCell::new(Some(image.bytes)));
                let held =
                    Held { set: Arc::new(set), content, zeroed: image.zeroed, generation: None, is_eager: false };
                look(&mut self.model, &self.home, &held);
                drop(held);
                self.synchronize();
            }
        }
    }
}

/// Lets a kernel on `stream` read all of the set's bytes.
pub(crate) fn look(model: &mut Model, stream: &HostStream, held: &Held) {
    let content = held.content.borrow();
    let Some(right) = content.as_ref().filter(|content| !content.is_empty()) else { return };
    let (kernel, read) = model.kernel(held.set.base(), right.len());
    match stream.launch(read) {
        Ok(()) => model.expect(kernel, right),
        Err(error) => model.expect_failure(&error),
    }
}

/// The number modulo how many there are.
pub(crate) fn index<T>(number: usize, of: &[T]) -> Option<usize> {
    number.checked_rem(of.len())
}
