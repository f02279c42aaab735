//! The part of a program that is about graphs.

use std::rc::Rc;
use std::sync::Arc;

use marshal::host::{Host, HostGraph};
use marshal::{Alignment, CapturedGraph, DeviceArgs, Error, ErrorKind, Layout, Uploaded};

use super::ops::{Args, Capture, Meanwhile};
use super::run::{Content, Held, Run, Set, index};
use crate::columns::{Columns, Pointers};
use crate::oracle::{self, Image};

/// A graph, and what its next launch brings.
pub(crate) struct Replay {
    graph: Captured,
    pub(crate) nodes: Vec<Node>,
}

enum Captured {
    ByCache(CapturedGraph<Vec<Set>, Host>),
    ByHand(HostGraph, Vec<Set>),
}

/// A set of a graph.
pub(crate) struct Node {
    pub(crate) layout: Layout,
    pub(crate) base: u64,
    pub(crate) generation: u64,
    /// What the next launch sends.
    pub(crate) next: Vec<u8>,
    shape: usize,
    on_device: Content,
    // None for a set without bytes.
    kernel: Option<usize>,
    // None for a set without zeroed scratch, which is of so many bytes.
    zero_kernel: Option<usize>,
    zeroed_bytes: usize,
}

impl Replay {
    fn sets(&self) -> &[Set] {
        match &self.graph {
            Captured::ByCache(graph) => graph.sets(),
            Captured::ByHand(_, sets) => sets,
        }
    }
}

impl Run<'_> {
    pub(crate) fn capture(&mut self, capture: &Capture) {
        let mut is_reserved = capture.reserve;
        if capture.reserve {
            let all: Vec<Columns> = capture.sets.iter().map(|&args| self.case.columns(args)).collect();
            let layouts: Vec<Layout> = all.iter().map(|columns| columns.layout().unwrap()).collect();
            for (columns, layout) in all.iter().zip(&layouts) {
                let sets = layouts.iter().filter(|other| *other == layout).count();
                is_reserved &= self.reserve(columns, sets);
            }
        }
        let must_succeed = is_reserved && self.model.is_calm() && !matches!(capture.meanwhile, Meanwhile::Clear);
        let (cache, mut nodes) = (Rc::clone(&self.cache), Vec::new());
        let captured = if capture.by_hand {
            self.home.begin_capture().unwrap();
            let sets = self.give(capture, must_succeed, &mut nodes);
            self.home.end_capture().and_then(|graph| {
                let sets = if capture.strict { sets? } else { sets.map(|_| Vec::new())? };
                Ok(Captured::ByHand(graph, sets))
            })
        } else {
            cache.capture(|_| self.give(capture, must_succeed, &mut nodes)).map(Captured::ByCache)
        };
        assert!(!self.home.is_capturing());
        match captured {
            Ok(graph) => self.graphs.push(Replay { graph, nodes }),
            Err(error) => {
                self.knows_blocks &= !capture.by_hand;
                assert!(!must_succeed || matches!(capture.meanwhile, Meanwhile::GiveUp), "it was reserved: {error}");
                match error.kind() {
                    ErrorKind::NotReserved { .. } => assert!(capture.strict),
                    ErrorKind::NotAnAlignment { bytes: 3 } => {
                        assert!(matches!(capture.meanwhile, Meanwhile::GiveUp));
                    }
                    ErrorKind::Driver { .. } => self.model.expect_failure(&error),
                    _ => panic!("unexpected: {error}"),
                }
            }
        }
    }

    /// What is given to the stream while it is captured.
    fn give(&mut self, capture: &Capture, must_succeed: bool, nodes: &mut Vec<Node>) -> Result<Vec<Set>, Error> {
        let mut sets = Vec::new();
        for (index, &args) in capture.sets.iter().enumerate() {
            let columns = self.case.columns(args);
            match columns.upload(&*self.cache) {
                Ok(set) => {
                    let is_own = nodes.iter().all(|node: &Node| node.base != set.base().address()) && self.is_new(&set);
                    assert!(set.layout().size_bytes() == 0 || is_own, "a graph shares a block");
                    let node = self.node(args, columns, &set)?;
                    nodes.push(node);
                    sets.push(Arc::new(set));
                }
                Err(error) => {
                    assert!(!must_succeed, "it was reserved: {error}");
                    if capture.strict {
                        return Err(error);
                    }
                    if !matches!(error.kind(), ErrorKind::NotReserved { .. }) {
                        // The graph keeps the block: the copy that failed may be in it.
                        self.knows_blocks = false;
                        self.model.expect_failure(&error);
                    }
                }
            }
            if index == 0 {
                self.meanwhile(capture.meanwhile)?;
            }
        }
        Ok(sets)
    }

    /// A kernel for the set, and what the model has to know of it.
    fn node(&mut self, args: Args, columns: Columns, set: &Uploaded<Pointers, Host>) -> Result<Node, Error> {
        self.model.uploads += 1;
        let Image { bytes: next, zeroed, .. } = oracle::image(&columns.0);
        let mut node = Node {
            layout: set.layout(),
            base: set.base().address(),
            generation: self.model.generation,
            next,
            shape: args.shape,
            on_device: Content::default(),
            kernel: None,
            zero_kernel: None,
            zeroed_bytes: zeroed.len(),
        };
        assert_eq!(node.layout, columns.layout().unwrap());
        if !node.next.is_empty() {
            let (kernel, read) = self.model.kernel(set.base(), node.next.len());
            self.home.launch(read)?;
            node.kernel = Some(kernel);
        }
        // Each launch finds it zero, and leaves it otherwise.
        node.zero_kernel = self.use_scratch(set, zeroed)?;
        Ok(node)
    }

    fn meanwhile(&mut self, meanwhile: Meanwhile) -> Result<(), Error> {
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Drop(set) => {
                if let Some(index) = index(set, &self.held) {
                    self.held.swap_remove(index);
                }
            }
            Meanwhile::DropGraph(graph) => self.drop_graph(graph),
            Meanwhile::Clear => self.clear(),
            Meanwhile::Refused(number) => self.try_what_is_refused(number),
            Meanwhile::GiveUp => return Err(Alignment::try_from(3).unwrap_err()),
        }
        Ok(())
    }

    /// Calls that have no place in a capture leave it valid.
    fn try_what_is_refused(&mut self, number: usize) {
        fn is_refused<T>(tried: Result<T, Error>) -> bool {
            tried.is_err_and(|error| matches!(error.kind(), ErrorKind::NotInCapture { .. }))
        }
        assert!(is_refused(self.cache.capture(|_| Ok(()))));
        if let Some(Held { set, .. }) = index(number, &self.held).map(|index| &self.held[index]) {
            let (layout, other) = (set.layout(), &self.others[number % 2]);
            assert!(is_refused(set.on(other)));
            assert_eq!(set.read_back().is_err(), layout.size_bytes() != 0);
            assert_eq!(is_refused(self.cache.reserve(&layout)), layout.size_bytes() != 0);
        }
        if let Some(index) = index(number, &self.graphs)
            && let Captured::ByCache(graph) = &self.graphs[index].graph
        {
            assert!(is_refused(graph.launch()));
        }
        for shape in 0..self.case.shapes.len() {
            let columns = self.case.columns(Args { shape, fill: 3 });
            let needed = columns.layout().unwrap().size_bytes();
            let uploaded = columns.upload(&self.home).map_err(|error| error.kind().clone());
            assert_eq!(uploaded.err(), (needed != 0).then_some(ErrorKind::Capturing { needed }));
        }
    }

    pub(crate) fn launch(&mut self, graph: usize) {
        let Some(index) = index(graph, &self.graphs) else { return };
        let Replay { graph, nodes } = &mut self.graphs[index];
        let (launched, is_counted) = match graph {
            Captured::ByCache(graph) => (graph.launch(), true),
            Captured::ByHand(graph, _) => (graph.launch(&self.home), false),
        };
        if let Err(error) = launched {
            return self.model.expect_failure(&error);
        }
        for node in nodes {
            if let Some(kernel) = node.zero_kernel {
                self.model.expect(kernel, &vec![0; node.zeroed_bytes]);
            }
            let Some(kernel) = node.kernel else { continue };
            self.model.expect(kernel, &node.next);
            *node.on_device.borrow_mut() = Some(node.next.clone());
            if is_counted {
                self.model.launched += 1;
                self.model.launched_bytes += node.next.len() as u64;
            }
        }
    }

    pub(crate) fn refresh(&mut self, graph: usize, set: usize, args: Args, any_shape: bool) {
        let Some(graph) = index(graph, &self.graphs) else { return };
        let Replay { graph: Captured::ByCache(graph), nodes } = &mut self.graphs[graph] else { return };
        let Some(index) = index(set, nodes) else { return };
        let node = &mut nodes[index];
        let columns = self.case.columns(if any_shape { args } else { Args { shape: node.shape, ..args } });
        let (image, is_same_shape) = (oracle::image(&columns.0).bytes, columns.layout().unwrap() == node.layout);
        match graph.refresh(|sets| &*sets[index], &columns) {
            Ok(()) => {
                assert!(is_same_shape, "another shape was taken");
                node.next = image;
            }
            Err(error) if is_same_shape => {
                assert_ne!(image, node.next, "equal bytes need no call: {error}");
                self.model.expect_refusal(&error, None);
            }
            Err(error) => match error.kind() {
                ErrorKind::OtherShape { .. } => {}
                ErrorKind::NotInGraph { .. } => assert!(node.next.is_empty(), "{error}"),
                _ => panic!("unexpected: {error}"),
            },
        }
    }

    pub(crate) fn share(&mut self, graph: usize, set: usize) {
        let Some(index_of_graph) = index(graph, &self.graphs) else { return };
        let replay = &self.graphs[index_of_graph];
        let Some(index) = index(set, replay.sets()) else { return };
        let (set, node) = (Arc::clone(&replay.sets()[index]), &replay.nodes[index]);
        let (content, generation) = (Rc::clone(&node.on_device), Some(node.generation));
        self.held.push(Held { set, content, zeroed: 0..0, generation, is_eager: false });
    }

    pub(crate) fn drop_graph(&mut self, graph: usize) {
        if let Some(index) = index(graph, &self.graphs) {
            let gone = self.graphs.swap_remove(index);
            self.knows_blocks &= !matches!(gone.graph, Captured::ByHand(..));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.cache.clear();
        self.model.generation += 1;
    }
}
