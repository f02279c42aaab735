/// The device pointers of [`Composed`]: one a column, in declared order.
#[repr(C)]
struct ComposedPointers<'a, T: Pod>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{
    /// The column `problems`.
    problems: <Vec<Problem> as ::marshal::__private::Set>::Pointers,
    /// The column `weights`.
    weights: <&'a Buffers<'a, T> as ::marshal::Column>::Pointers,
    /// The column `sizes`.
    sizes: <[GemmCoord] as ::marshal::Column>::Pointers,
    /// The column `inner`.
    inner: <&'static Inner<'static> as ::marshal::__private::Set>::Pointers,
}
#[automatically_derived]
impl<'a, T: Pod> ::marshal::__private::Clone for ComposedPointers<'a, T>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{
    #[inline]
    fn clone(&self) -> Self {
        ComposedPointers {
            problems: self.problems,
            weights: self.weights,
            sizes: self.sizes,
            inner: self.inner,
        }
    }
}
#[automatically_derived]
impl<'a, T: Pod> ::marshal::__private::Copy for ComposedPointers<'a, T>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{}
#[automatically_derived]
impl<'a, T: Pod> ::marshal::__private::Debug for ComposedPointers<'a, T>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "ComposedPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[&self.problems, &self.weights, &self.sizes, &self.inner],
        )
    }
}
#[automatically_derived]
impl<'a, T: Pod> ::marshal::KernelStruct for ComposedPointers<'a, T>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{
    const NAME: &'static str = "Layer";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            <Vec<Problem> as ::marshal::__private::Set>::MEMBER,
            ::marshal::__private::has_bytes(
                <&'a Buffers<'a, T> as ::marshal::Column>::MEMBER,
            ),
            ::marshal::Member::with_c_type(
                <[GemmCoord] as ::marshal::Column>::MEMBER,
                "cutlass::gemm::GemmCoord",
            ),
            <&'static Inner<'static> as ::marshal::__private::Set>::MEMBER,
        ],
        ["problems", "weights", "sizes", "inner"],
    );
}
#[automatically_derived]
impl<'a, 'b, T: Pod> ::marshal::DeviceArgs for Composed<'a, 'b, T>
where
    &'static Inner<'static>: ::marshal::__private::Set,
{
    type Pointers = ComposedPointers<'a, T>;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<ComposedPointers<'a, T>, ::marshal::Error> {
        use ::marshal::__private::Otherwise as _;
        let Self { problems: _, weights: _, sizes: _, inner: _ } = self;
        match ::marshal::__private::columns4(
            __visitor,
            <ComposedPointers<'a, T> as ::marshal::KernelStruct>::MEMBERS,
            0usize,
            &<::marshal::__private::Probe<Vec<Problem>>>::nested(&self.problems),
            <::marshal::__private::Probe<&'a Buffers<'a, T>>>::column(&self.weights),
            <::marshal::__private::Probe<[GemmCoord]>>::column(&self.sizes),
            &<::marshal::__private::Probe<&'b Inner<'b>>>::nested(&self.inner),
        ) {
            ::marshal::__private::Ok(__columns0) => {
                ::marshal::__private::Ok(ComposedPointers {
                    problems: __columns0.0,
                    weights: __columns0.1,
                    sizes: __columns0.2,
                    inner: __columns0.3,
                })
            }
            ::marshal::__private::Err(__error) => ::marshal::__private::Err(__error),
        }
    }
}
const _: () = {
    use ::marshal::__private::Otherwise as _;
    ::marshal::__private::is_element(
        <::marshal::__private::Probe<[GemmCoord]>>::MEMBER,
        <::marshal::__private::Probe<[GemmCoord]>>::IS_HOST_WORD,
    );
};
