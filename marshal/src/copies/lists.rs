//! What a batch is collected in. The lists are kept from batch to batch, so that one allocates no more than the last.

use std::sync::Arc;

use super::plan::Plan;
use crate::backend::HostMemory;

/// The lists of one batch.
#[derive(Default)]
pub(crate) struct Lists<'a> {
    pub(crate) plan: Plan,
    pub(crate) sources: Vec<Source<'a>>,
    pub(crate) targets: Vec<Target<'a>>,
    pub(crate) owned: Vec<Arc<dyn HostMemory>>,
}

/// A borrowed source, and the copy that it is for.
pub(crate) struct Source<'a> {
    pub(crate) entry: usize,
    pub(crate) bytes: &'a [u8],
}

/// A borrowed destination, and the copy whose bytes it is for.
pub(crate) struct Target<'a> {
    pub(crate) entry: usize,
    pub(crate) bytes: &'a mut [u8],
}

/// Lists of more copies than this are not kept.
pub(crate) const MOST_KEPT: usize = 16 << 10;

impl Lists<'_> {
    /// Empty, for a batch to come.
    pub(crate) fn emptied<'b>(mut self) -> Lists<'b> {
        self.plan.requests.clear();
        self.owned.clear();
        Lists { plan: self.plan, sources: emptied(self.sources), targets: emptied(self.targets), owned: self.owned }
    }

    /// Whether there is anything to keep, and not too much.
    pub(crate) fn are_worth_keeping(&self) -> bool {
        (1..=MOST_KEPT).contains(&self.plan.requests.capacity())
    }
}

/// The list's memory, for elements of the same size: collected in place.
pub(crate) fn emptied<T, U>(mut list: Vec<T>) -> Vec<U> {
    list.clear();
    list.into_iter().filter_map(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_list_keeps_its_memory() {
        let bytes = vec![1; 3];
        let mut lists = Lists::default();
        lists.sources.extend((0..100).map(|entry| Source { entry, bytes: &bytes }));
        let capacity = lists.sources.capacity();
        let lists: Lists<'static> = lists.emptied();
        assert_eq!((lists.sources.len(), lists.sources.capacity()), (0, capacity));
    }
}
