/// The device pointers of [`Pair`]: one a column, in declared order.
#[repr(C)]
pub(crate) struct PairPointers(
    /// The column `0`.
    pub <Vec<u8> as facade::da::Column>::Pointers,
    /// The column `2`.
    <Box<[u32]> as facade::da::Column>::Pointers,
);
#[automatically_derived]
impl facade::da::__private::Clone for PairPointers {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
#[automatically_derived]
impl facade::da::__private::Copy for PairPointers {}
#[automatically_derived]
impl facade::da::__private::Debug for PairPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut facade::da::__private::Formatter<'_>,
    ) -> facade::da::__private::FmtResult {
        facade::da::__private::debug(
            __formatter,
            "PairPointers",
            <Self as facade::da::KernelStruct>::MEMBERS,
            &[&self.0, &self.1],
        )
    }
}
#[automatically_derived]
impl facade::da::KernelStruct for PairPointers {
    const NAME: &'static str = "PairPointers";
    const MEMBERS: &'static [facade::da::Member] = &facade::da::__private::named(
        [
            <Vec<u8> as facade::da::Column>::MEMBER,
            <Box<[u32]> as facade::da::Column>::MEMBER,
        ],
        ["0", "2"],
    );
}
#[automatically_derived]
impl facade::da::DeviceArgs for Pair {
    type Pointers = PairPointers;
    #[inline]
    fn walk<__V: facade::da::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> facade::da::__private::Result<PairPointers, facade::da::Error> {
        let Self { 0: _, 1: _, 2: _ } = self;
        match facade::da::__private::columns2(
            __visitor,
            <PairPointers as facade::da::KernelStruct>::MEMBERS,
            0usize,
            &self.0,
            &self.2,
        ) {
            facade::da::__private::Ok(__columns0) => {
                facade::da::__private::Ok(PairPointers {
                    0: __columns0.0,
                    1: __columns0.1,
                })
            }
            facade::da::__private::Err(__error) => facade::da::__private::Err(__error),
        }
    }
}
