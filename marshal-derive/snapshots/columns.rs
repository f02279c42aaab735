/// The device pointers of [`GroupedGemm`]: one a column, in declared order.
#[repr(C)]
pub struct GroupedGemmPointers {
    /// m, n and k of each product.
    pub problem_sizes: <[GemmCoord] as ::marshal::Column>::Pointers,
    /// The column `type`.
    pub(crate) r#type: <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `alpha`.
    alpha: ::marshal::DeviceColumn<f32>,
    /// The column `names`.
    names: <Cow<'static, [u32]> as ::marshal::Column>::Pointers,
}
#[automatically_derived]
impl ::marshal::__private::Clone for GroupedGemmPointers {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for GroupedGemmPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for GroupedGemmPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "GroupedGemmPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[&self.problem_sizes, &self.r#type, &self.alpha, &self.names],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for GroupedGemmPointers {
    const NAME: &'static str = "GroupedGemmPointers";
    const MEMBERS: &'static [::marshal::Member] = &[
        ::marshal::__private::column::<[GemmCoord]>("problem_sizes"),
        ::marshal::__private::aligned(
            ::marshal::__private::is_aligned::<
                Vec<u8>,
            >(
                ::marshal::__private::column::<Vec<u8>>("type"),
                64u64,
                "column `type`: `align = 64` is below the element's own alignment: ask for that or more, or remove `align`",
            ),
            64u64,
        ),
        ::marshal::__private::column::<[f32]>("alpha"),
        ::marshal::__private::column::<Cow<'static, [u32]>>("names"),
    ];
}
#[automatically_derived]
impl<'a> ::marshal::DeviceArgs for GroupedGemm<'a> {
    type Pointers = GroupedGemmPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<GroupedGemmPointers, ::marshal::Error> {
        use ::marshal::__private::Otherwise as _;
        let Self {
            problem_sizes: _,
            r#type: _,
            alpha: _,
            label: _,
            seen: _,
            names: _,
        } = self;
        match ::marshal::__private::columns4(
            __visitor,
            <GroupedGemmPointers as ::marshal::KernelStruct>::MEMBERS,
            0usize,
            &self.problem_sizes,
            &self.r#type,
            ::marshal::__private::from_ref(&self.alpha),
            <::marshal::__private::Probe<Cow<'a, [u32]>>>::column(&self.names),
        ) {
            ::marshal::__private::Ok(
                (__column_0, __column_1, __column_2, __column_3),
            ) => {
                ::marshal::__private::Ok(GroupedGemmPointers {
                    problem_sizes: __column_0,
                    r#type: __column_1,
                    alpha: __column_2,
                    names: __column_3,
                })
            }
            ::marshal::__private::Err(__error) => ::marshal::__private::Err(__error),
        }
    }
}
const _: &[::marshal::Member] = {
    use ::marshal::__private::Otherwise as _;
    let () = <::marshal::__private::Probe<
        <[GemmCoord] as ::marshal::Column>::Pointers,
    >>::WORD;
    <GroupedGemmPointers as ::marshal::KernelStruct>::MEMBERS
};
