/// The device pointers of [`Pair`]: one a column, in declared order.
#[repr(C)]
pub(crate) struct PairPointers(
    /// The column `0`.
    pub <Vec<u8> as facade::da::Column>::Pointers,
    /// The column `2`.
    <Box<[u32]> as facade::da::Column>::Pointers,
)
where
    Box<[u32]>: facade::da::Column;
#[automatically_derived]
impl facade::da::__private::Clone for PairPointers
where
    Box<[u32]>: facade::da::Column,
{
    #[inline]
    fn clone(&self) -> Self {
        PairPointers {
            0: self.0,
            1: self.1,
        }
    }
}
#[automatically_derived]
impl facade::da::__private::Copy for PairPointers
where
    Box<[u32]>: facade::da::Column,
{}
#[automatically_derived]
impl facade::da::__private::Debug for PairPointers
where
    Box<[u32]>: facade::da::Column,
{
    fn fmt(
        &self,
        __formatter: &mut facade::da::__private::Formatter<'_>,
    ) -> facade::da::__private::FmtResult {
        let mut __debug = facade::da::__private::Formatter::debug_tuple(
            __formatter,
            "PairPointers",
        );
        facade::da::__private::DebugTuple::field(&mut __debug, &self.0);
        facade::da::__private::DebugTuple::field(&mut __debug, &self.1);
        facade::da::__private::DebugTuple::finish(&mut __debug)
    }
}
#[automatically_derived]
impl facade::da::DeviceArgs for Pair
where
    Box<[u32]>: facade::da::Column,
{
    type Pointers = PairPointers;
    #[inline]
    fn walk<__V: facade::da::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> facade::da::__private::Result<Self::Pointers, facade::da::Error> {
        let Self { 0: __column_0, 1: _, 2: __column_2 } = self;
        facade::da::__private::Ok(PairPointers {
            0: <Vec<
                u8,
            > as facade::da::Column>::visit(
                __column_0,
                facade::da::ColumnSpec::new("0"),
                __visitor,
            )?,
            1: <Box<
                [u32],
            > as facade::da::Column>::visit(
                __column_2,
                facade::da::ColumnSpec::new("2"),
                __visitor,
            )?,
        })
    }
}
const _: () = {
    use facade::da::__private::NoColumn as _;
    facade::da::__private::has_bytes(<facade::da::__private::Probe<Vec<u8>>>::ELEMENT);
};
const _: () = {
    use facade::da::__private::NoColumn as _;
    facade::da::__private::has_bytes(
        <facade::da::__private::Probe<Box<[u32]>>>::ELEMENT,
    );
};
