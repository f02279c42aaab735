::core::compile_error! {
    "unknown attribute `scaler`: a field takes `scalar`, `skip` or `align = 64`"
}
::core::compile_error! {
    "24 is no alignment, which is a power of two: the nearest are 16 and 32"
}
/// The device pointers of [`Mistakes`]: one a column, in declared order.
#[repr(C)]
struct MistakesPointers
where
    Vec<u32>: ::marshal::Column,
{
    /// The column `x`.
    x: ::marshal::__private::Malformed,
    /// The column `y`.
    y: <Vec<u32> as ::marshal::Column>::Pointers,
}
#[automatically_derived]
impl ::marshal::__private::Clone for MistakesPointers
where
    Vec<u32>: ::marshal::Column,
{
    #[inline]
    fn clone(&self) -> Self {
        MistakesPointers {
            x: self.x,
            y: self.y,
        }
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for MistakesPointers
where
    Vec<u32>: ::marshal::Column,
{}
#[automatically_derived]
impl ::marshal::__private::Debug for MistakesPointers
where
    Vec<u32>: ::marshal::Column,
{
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "MistakesPointers",
        );
        ::marshal::__private::DebugStruct::field(&mut __debug, "x", &self.x);
        ::marshal::__private::DebugStruct::field(&mut __debug, "y", &self.y);
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Mistakes
where
    Vec<u32>: ::marshal::Column,
{
    type Pointers = MistakesPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        let Self { x: _, y: __column_y } = self;
        ::marshal::__private::Ok(MistakesPointers {
            x: ::marshal::__private::malformed(),
            y: <Vec<
                u32,
            > as ::marshal::Column>::visit(
                __column_y,
                ::marshal::ColumnSpec::new("y"),
                __visitor,
            )?,
        })
    }
}
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::has_bytes(<::marshal::__private::Probe<Vec<u32>>>::ELEMENT);
};
