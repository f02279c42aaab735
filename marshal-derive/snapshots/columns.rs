/// The device pointers of [`GroupedGemm`]: one a column, in declared order.
#[repr(C)]
pub struct GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
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
impl ::marshal::__private::Clone for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    #[inline]
    fn clone(&self) -> Self {
        GroupedGemmPointers {
            problem_sizes: self.problem_sizes,
            r#type: self.r#type,
            alpha: self.alpha,
            names: self.names,
        }
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{}
#[automatically_derived]
impl ::marshal::__private::Debug for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
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
impl ::marshal::KernelStruct for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    const NAME: &'static str = "GroupedGemmPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            <[GemmCoord] as ::marshal::Column>::MEMBER,
            ::marshal::__private::aligned(<Vec<u8> as ::marshal::Column>::MEMBER, 64u64),
            <[f32] as ::marshal::Column>::MEMBER,
            <Cow<'static, [u32]> as ::marshal::Column>::MEMBER,
        ],
        ["problem_sizes", "type", "alpha", "names"],
    );
}
#[automatically_derived]
impl<'a> ::marshal::DeviceArgs for GroupedGemm<'a>
where
    Cow<'static, [u32]>: ::marshal::Column,
{
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
            <::marshal::__private::Probe<[GemmCoord]>>::column(&self.problem_sizes),
            &self.r#type,
            ::marshal::__private::from_ref(&self.alpha),
            <::marshal::__private::Probe<Cow<'a, [u32]>>>::column(&self.names),
        ) {
            ::marshal::__private::Ok(__columns0) => {
                ::marshal::__private::Ok(GroupedGemmPointers {
                    problem_sizes: __columns0.0,
                    r#type: __columns0.1,
                    alpha: __columns0.2,
                    names: __columns0.3,
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
const _: () = {
    use ::marshal::__private::Otherwise as _;
    ::marshal::__private::is_element(
        <::marshal::__private::Probe<Vec<u8>>>::MEMBER,
        <::marshal::__private::Probe<Vec<u8>>>::IS_HOST_WORD,
    );
    let _ = ::marshal::__private::is_aligned(
        <::marshal::__private::Probe<Vec<u8>>>::MEMBER,
        64u64,
        "column `type`: `align = 64` is below the element's own alignment: ask for that or more, or remove `align`",
    );
};
const _: () = {
    use ::marshal::__private::Otherwise as _;
    ::marshal::__private::is_element(
        <::marshal::__private::Probe<Cow<'static, [u32]>>>::MEMBER,
        <::marshal::__private::Probe<Cow<'static, [u32]>>>::IS_HOST_WORD,
    );
};
